// Defines plans: how every op is split and every tensor kept. A search returns a plan; a person can read, pin, edit and
// diff it.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "partita/cluster/cluster.h"
#include "partita/graph/graph.h"
#include "partita/graph/optimizer.h"
#include "partita/plan/schedule.h"
#include "partita/sharding/layout.h"

namespace partita {

// One op: its mesh, on each mesh axis a strategy, and its stage of the pipeline.
struct OpChoice {
  Mesh mesh;
  std::vector<tdl::AxisStrategy> strategies;  // one a mesh axis
  int stage = 0;                              // 0 .. stages x virtual - 1
  bool operator==(const OpChoice&) const = default;
};

// Where a tensor is kept.
struct Placement {
  Mesh mesh;
  NdSbp sbp;                   // one a mesh axis
  std::vector<Shape> radices;  // of a factored tensor, per stored axis; empty: not factored
  bool operator==(const Placement&) const = default;
};

// The model that the plan was made for: enough to build its graph again, and to notice another one.
struct ModelReference {
  std::string model;  // path or zoo:NAME?options
  std::map<std::string, std::string> bindings;
  std::string config;  // the text of the Hugging Face configuration that the model is built from; else empty
  std::string tdl;     // the user's descriptions of operations, as text; mostly empty
  std::string loss;    // "cross_entropy"
  Optimizer optimizer;
  DType dtype = DType::kFloat32;
  double loss_scale = 1;
  int64_t batch_norm_groups = 1;   // of consecutive samples, each with its own statistics
  std::string recompute = "none";  // results not kept for the backward pass: recompute_kinds() (graph/autodiff.h)
  int micro_batches = 1;           // of a step, one after another (graph/micro_batches.h)
  std::string sha256;  // of the printed training graph of the whole batch without initial values, before recomputation
  bool operator==(const ModelReference&) const = default;
};

// The schedule of micro-batches over the stages of a pipeline.
struct Pipeline {
  Schedule schedule = Schedule::kDefault;
  int virtual_stages = 1;  // of the model on each device (interleaved)
  bool operator==(const Pipeline&) const = default;
};

// The transfer of a tensor's conversion to a device over links, for an op and all others there that read the same. Host
// devices are numbered behind the compute devices.
struct PlannedTransfer {
  TensorId tensor;
  DeviceId to;
  OpId reader;  // the first of the graph's; none: a load, an output, or a result that is kept elsewhere than it is made
  auto operator<=>(const PlannedTransfer&) const = default;
};

struct Plan {
  ModelReference model;
  std::string cluster;                        // its name
  std::string cluster_text;                   // its YAML
  std::optional<int64_t> memory_limit_bytes;  // a device, that it was made for; none: the cluster's
  std::string measured_on;                    // the profile by which it was made: Profile::measured_on(); empty: none
  std::string search;                         // "soybean?tilings=all"
  std::string objective = "comm";
  Pipeline pipeline;
  // Gradients and other small tensors of parameters are exchanged together until a bucket holds this many bytes
  // (partita/physical/bundle.h). 0: each by itself.
  int64_t bucket_bytes = 0;
  std::vector<OpChoice> ops;  // by OpId
  // Inputs, constants, parameters and state always; another tensor if it differs from its producer's layout.
  std::map<TensorId, Placement> kept;
  // Tensors that are resharded after forward. They are converted once more for their readers in the backward pass, so
  // that the forward pass's copy need not be kept.
  std::set<TensorId> resharded;
  // Every op once, each after those whose results it reads, and after the readers of the tensor that it replaces.
  // Empty: the graph's own order, with an update as soon as its gradient is whole.
  std::vector<OpId> order;
  // If set, the schedule is kept: each device runs its tasks in `order`, and each link sends in this one, whatever is
  // ready first. It has all transfers over links, each once. None: a device takes a ready task, the earliest in `order`
  // first.
  std::optional<std::vector<PlannedTransfer>> transfers;
  std::optional<double> paper_cost;  // in the search's own measure
  bool operator==(const Plan&) const = default;
};

constexpr int64_t kBucketBytes = int64_t{25} << 20;  // as DistributedDataParallel's bucket_cap_mb

// Prints JSON with schema_version; docs/reference/plan.md is the schema. The same plan gives the same bytes.
std::string print(const Plan& plan, const Graph& graph);
// Parses it. Bad input names the place: another model, an op that the graph lacks, an unknown field.
Plan parse_plan(std::string_view json, const Graph& graph);
ModelReference parse_model_reference(std::string_view json);  // of a plan, before its graph is built

}  // namespace partita
