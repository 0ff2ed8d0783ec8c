// Defines the single-device training step: tensors and ops in one topological order. A value: copy, print or parse it.
//
// Every later representation speaks of ops and tensors by these ids and names.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partita/base/box.h"
#include "partita/base/dtype.h"
#include "partita/base/ids.h"
#include "partita/graph/registry.h"
#include "partita/tdl/tdl.h"

namespace partita {

enum class Role { kInput, kParameter, kActivation, kGradient, kState, kConstant };
enum class Phase { kForward, kBackward, kUpdate };
// The devices that can run an op (Pesto, section 3.2): any compute device, or a host alone. Small work ahead of another
// op (kLaunch) runs on that op's compute device; both are in one colocation group.
enum class DeviceType { kGpu, kCpu, kLaunch };
std::string_view name_of(Role role);        // "parameter"
std::string_view name_of(Phase phase);      // "backward"
std::string_view name_of(DeviceType type);  // "cpu"
std::optional<DeviceType> device_type_of(std::string_view name);

// Values of a constant tensor, row-major. Integers and booleans are exact.
struct Values {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<double> real;      // floating dtypes
  std::vector<int64_t> integer;  // kInt64, kBool
  bool operator==(const Values&) const = default;
};

// How often a tensor exists in a step whose batch comes in micro-batches (graph/micro_batches.h).
enum class MicroBatchScope {
  kStep,        // once a step: weights, states, updates, and all that no sample reaches
  kMicroBatch,  // one micro-batch of it at a time, split along samples
  kSum,         // each micro-batch adds to it
};

struct Tensor {
  std::string name;  // unique in the graph
  Shape shape;
  DType dtype = DType::kFloat32;
  Role role = Role::kActivation;
  OpId producer;      // none for inputs, parameters, state and constants
  TensorId replaces;  // w' := w: this result is written into w's buffer and read as w by the next step; its own role is
                      // kActivation
  // Another input, whose data this input is fed too. This one comes whole once a step, even if the other comes in
  // micro-batches.
  TensorId same_as;
  int sample_axis = -1;  // the axis along which samples lie, propagated from axis 0 of the inputs; -1: none
  MicroBatchScope scope = MicroBatchScope::kStep;
  // kMicroBatch: the axis along which the micro-batches follow each other, and elements along it for each sample.
  // Samples are the outermost digit.
  int micro_batch_axis = -1;
  int64_t micro_batch_inner = 1;
  bool accumulated = false;              // kSum: the terms are added up here. false: every reader passes them on
  std::shared_ptr<const Values> values;  // constants, and parameters or state with an initial value from the model file
  // A parameter or state without `values` starts uniform in [-bound, bound], by counter-based random numbers keyed by
  // (seed, name, element), plus `fill`.
  double initial_bound = 0, initial_fill = 0;

  int64_t bytes() const { return volume(shape) * bytes_of(dtype); }
};

// The origin of an op, for messages: "model.layers.3.conv1", "train.py:41".
struct Source {
  std::string module, location;
  bool operator==(const Source&) const = default;
};

struct Op {
  std::string name;        // unique in the graph
  std::string definition;  // a name in the registry; for a derived gradient without one, "FORWARD.grad.OPERAND"
  tdl::Attributes attributes;
  std::vector<TensorId> operands, results;
  Phase phase = Phase::kForward;
  OpId forward;                   // the forward op that a backward op belongs to
  int time_step = -1, cell = -1;  // of an unrolled recurrence
  DeviceType device_type = DeviceType::kGpu;
  std::string colocation;  // ops of one group run whole on one device; empty: no group
  Source source;
  // TDL text of a derived gradient, with the forward's index names. If the registry has `definition` as well, the two
  // formulas are equal, and the definition's kernel runs.
  std::string formula;
  // Indices of the formula that are mixed-radix numbers of others, by name. The axes along them are factored (TDL.md
  // rule 4).
  std::map<std::string, Shape> factors;
  // The formula bound to the operands' shapes, its factors applied; shared by all ops with the same one.
  std::shared_ptr<const tdl::Bound> bound;
  // True if the op has micro-batch scope. Then this is the index of the formula along which it works on one micro-batch
  // at a time, and that index's values for each sample. With `per_micro_batch` and -1, the op works on each
  // micro-batch's terms. See graph/micro_batches.h.
  bool per_micro_batch = false;
  int micro_batch_index = -1;
  int64_t micro_batch_inner = 1;
};

struct Graph {
  std::string name;
  std::shared_ptr<const OpRegistry> registry;
  std::vector<Tensor> tensors;
  std::vector<Op> ops;  // every op after the producers of its operands, and after the readers of what it replaces
  std::vector<TensorId> inputs;   // fed every step: data, labels, and inputs that are the same as one of these
  std::vector<TensorId> outputs;  // returned every step; the loss first in a training graph
  TensorId loss;                  // none in a forward graph
  // The samples of each micro-batch, the largest first, and the graph of the whole batch, with the same ops and
  // tensors. Shapes and formulas here are then those of the largest micro-batch (graph/micro_batches.h).
  std::vector<int64_t> micro_batch_samples;
  std::shared_ptr<const Graph> whole;

  int micro_batches() const { return micro_batch_samples.empty() ? 1 : static_cast<int>(micro_batch_samples.size()); }
  // How often an op runs in a step.
  int firings(const Op& op) const { return op.per_micro_batch ? micro_batches() : 1; }
  const Graph& whole_graph() const { return whole ? *whole : *this; }
  Tensor& tensor(TensorId id) { return tensors[id.index()]; }
  const Tensor& tensor(TensorId id) const { return tensors[id.index()]; }
  Op& op(OpId id) { return ops[id.index()]; }
  const Op& op(OpId id) const { return ops[id.index()]; }
  TensorId find_tensor(std::string_view name) const;  // invalid if there is none
  OpId find_op(std::string_view name) const;          // invalid if there is none
  // The tensor that replaces w this step (w'), or none.
  TensorId replacement_of(TensorId w) const;
};

// Tells whether some op is a cpu or launch op, or in a group.
bool has_device_types(const Graph& graph);

// One operand of one op.
struct Reader {
  OpId op;
  int operand;
};
// Lists the readers of every tensor, in op order. Reading w' (a replacement) is reading the new value.
std::vector<std::vector<Reader>> readers_by_tensor(const Graph& graph);

std::string print(const Graph& graph);
// Parses the text that `print` writes; bad input names the line.
Graph parse_graph(std::string_view text, std::shared_ptr<const OpRegistry> registry);
// Verifies colocation groups alone. Throws if a launch op has no gpu op in its group, or a group has a cpu op and a gpu
// op.
void verify_groups(const Graph& graph);
// Verifies every invariant above, and each op's shapes and dtypes against its formula. Throws, naming op and rule.
void verify(const Graph& graph);

}  // namespace partita
