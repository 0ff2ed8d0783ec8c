// Resolves a plan's choices to layouts: every op derived, every tensor's kept layout, every conversion. Checks,
// lowering, costs and explanations read the result.
//
//     Plan --> check_choices --> resolve --> Resolved --> check, lower, serial_ns (cost), Explainer
//
// It is made once a plan and handed on. resolve() is a pure function of the plan: it derives strategies (tdl/) and
// converts layouts (sharding/), and it takes nothing from a search. The conversions of a tensor depend only on the
// choices of its writer and its readers.
//
// Example: h = matmul(x, w) on the mesh [2] with strategy [k], then y = relu(h) with strategy [i]:
//     ops[matmul].layouts         x S(1), w S(0) -> h P(sum)
//     kept_layouts[h]             P(sum), as its producer leaves it
//     conversions                 {h, P(sum) -> S(0): one reduce-scatter, readers {relu, operand 0}}
//     operand_conversion[relu][0] 0
#pragma once
#include <memory>
#include <vector>

#include "partita/plan/plan.h"
#include "partita/sharding/boxing.h"

namespace partita {

struct ResolvedOp {
  Mesh mesh;
  std::shared_ptr<const tdl::Derived> derived;
  OpLayouts layouts;  // those that its operands must have, those of its results
  int stage = 0;      // of the pipeline
};

// One conversion of a tensor, made once for all readers that want the same layout. A resharded tensor (Plan::resharded)
// is converted once for its readers in the backward pass and once for all others.
struct ResolvedConversion {
  TensorId tensor;
  Conversion conversion;
  std::vector<Reader> readers;  // empty: into the tensor's kept layout
  int firings = 1;              // how often it is made in a step
};

struct Resolved {
  std::vector<ResolvedOp> ops;                            // by OpId
  std::vector<Layout> kept_layouts;                       // by TensorId: the layout that is kept
  std::vector<ResolvedConversion> conversions;            // in tensor order; the one into the kept layout first
  std::vector<std::vector<int>> operand_conversion;       // [op][operand]: position in conversions, -1: read as kept
  std::vector<OpId> order;                                // the plan's own; empty: none
  std::optional<std::vector<PlannedTransfer>> transfers;  // the plan's own
  Pipeline pipeline;
  int64_t bucket_bytes = 0;  // the plan's
  // If micro-batches are of two sizes: the same for the smaller one.
  std::shared_ptr<const struct ResolvedStep> smaller;
  DeviceMask device_mask;  // devices whose shards the steps list, and that can be lowered; null: all

  int64_t conversion_bytes() const;  // between compute devices
};

struct ResolvedStep {
  Graph graph;
  Resolved resolved;
};

// Returns the same plan's for fewer micro-batches (graph/micro_batches.h).
Resolved with_fewer_micro_batches(Resolved resolved, int micro_batches);

// Returns how often a tensor is converted in a step. A tensor that comes in micro-batches, and sums that are passed on,
// are converted once a micro-batch. A tensor that is there once, and sums when they are added up, are converted once. A
// resharded tensor is converted once a micro-batch if readers fire so often.
int conversion_firings(const Graph& graph, const Plan& plan, TensorId id, const std::vector<Reader>& readers);
// The same for readers of a tensor that is not resharded.
int reads_a_step(const Graph& graph, TensorId id);

// Derives every op of a plan and lays out its tensors: the first step of resolve(). Throws bad input, naming the op, if
// a strategy does not exist.
std::vector<ResolvedOp> resolve_ops(const Graph& graph, const Plan& plan);

// Resolves a plan that check_choices() (plan/check.h) has accepted. Throws bad input, naming op or tensor and the rule,
// if a choice does not exist. Steps list only the shards of the devices in `device_mask`; bytes are those of all.
Resolved resolve(const Graph& graph, const Plan& plan, const Cluster& cluster, const DeviceMask& device_mask = nullptr);

// Returns the dtype of an op's inner stages: that of its first floating result, else of its first floating operand,
// else of its first result.
DType inner_dtype(const Graph& graph, const Op& op);
// Returns the dtype of a tensor of the op's formula: its own for an operand or a result, else inner_dtype().
DType tensor_dtype(const Graph& graph, const Op& op, int tensor);

// Converts a placement of a tensor of this shape to a layout, and a layout with this name to a placement.
Layout layout_of(const Placement& placement, const Shape& shape);
Placement placement_of(const Layout& layout, NdSbp name);

// Words the error of strategies that do not exist: "op 'fc1' (linear): the strategy [n] does not exist: ..".
std::string why_not_derived(const Op& op, const OpChoice& choice);

// Derived strategies by (bound, mesh extents, strategies): many ops share them. Not thread-safe.
class DerivationCache {
 public:
  // Null: the strategies do not exist.
  std::shared_ptr<const tdl::Derived> get(const std::shared_ptr<const tdl::Bound>& bound, const std::vector<int>& mesh,
                                          const std::vector<tdl::AxisStrategy>& strategies);

 private:
  std::map<std::tuple<const tdl::Bound*, std::vector<int>, std::vector<tdl::AxisStrategy>>,
           std::shared_ptr<const tdl::Derived>>
      known_;
};

}  // namespace partita
