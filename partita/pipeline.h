// From a model and a cluster to a plan, a prediction and a run: the steps of docs/ARCHITECTURE.md, in their order.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "partita/cluster/cluster.h"
#include "partita/graph/autodiff.h"
#include "partita/models/models.h"
#include "partita/onnx/onnx.h"
#include "partita/physical/lower.h"
#include "partita/physical/trace.h"
#include "partita/plan/check.h"
#include "partita/search/search.h"

namespace partita {

// Runs each step under its name: how long it took, and whether what it made is sound.
class Runner {
 public:
  struct Timing {
    std::string name;
    double seconds = 0, verify_seconds = 0;
  };
  explicit Runner(bool verify = true) : verify_(verify) {}

  // `verify` throws where the result breaks an invariant.
  template <typename Make, typename Verify>
  auto step(const char* name, Make make, Verify verify) {
    auto start = Clock::now();
    auto result = make();
    auto made = Clock::now();
    if (verify_) verify(result);
    timings_.push_back({name, seconds(start, made), seconds(made, Clock::now())});
    return result;
  }
  const std::vector<Timing>& timings() const { return timings_; }

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds(Clock::time_point a, Clock::time_point b) {
    return std::chrono::duration<double>(b - a).count();
  }
  bool verify_;
  std::vector<Timing> timings_;
};

// What a user asks for.
struct Request {
  std::string model;  // path of an .onnx file, of a config.json or its folder, or zoo:NAME?options
  std::map<std::string, std::string> bindings;  // --bind k=v, and --batch
  std::string tdl;                              // the user's descriptions of operations, as text
  std::string tdl_file = "tdl";                 // what messages call them
  std::optional<std::string> loss;              // none: the model's own
  Optimizer optimizer;
  DType dtype = DType::kFloat32;     // float16, bfloat16: mixed precision with float32 weights
  std::optional<double> loss_scale;  // none: default_loss_scale(dtype)
  std::string recompute = "none";    // of recompute_kinds()
  std::string cluster = "local:1";
  int devices = 0;  // 0: all of the cluster
  std::string search = "auto";
  std::string objective = "comm";
  std::string pin_file;
  std::string from_file;                      // a plan to begin the search with
  std::optional<int64_t> memory_limit_bytes;  // per device; none: the cluster's
  bool prove = false;                         // the lower bound too
  bool forward_will_do = false;  // a model of which no training step can be made is planned as it is evaluated
  Budget budget;  // its time is that of plan_model() or plan_graph() as a whole, from `deadline` or their beginning
  std::function<void(const SearchProgress&)> progress;
  std::function<void(const std::string&)> tell;  // Problem::tell
  std::function<void()> before_search;           // when the model is there, and a search begins that can be stopped
  uint64_t seed = 1;
};

// The forward graph of a file with a fixed batch, before it was made for another, and after.
struct OtherBatch {
  Graph own, other;
};

struct LoadedModel {
  Graph forward;
  Loss loss;
  WeightNames weight_names;
  std::optional<OtherBatch> other_batch;
  OnnxFindings findings;  // of an .onnx file
};

// A model, planned, checked, lowered and simulated. With `search.estimate`, by a search that estimates, plan, report,
// physical and predicted are empty but for what the plan was asked of. Where the plan is too large to be lowered,
// physical and predicted are empty, and the memory is that of typical devices.
struct Planned {
  Graph forward;   // as loaded
  Graph training;  // one step
  WeightNames weight_names;
  std::optional<OtherBatch> other_batch;
  OnnxFindings findings;
  Cluster cluster;
  Plan plan;
  CheckReport report;
  PhysicalGraph physical;
  Trace predicted;
  std::vector<DeviceId> typical;  // that were lowered alone; empty: all were
  int64_t typical_peak_bytes = 0;
  SearchResult search;  // counters and notes
  double search_seconds = 0;

  // Of the estimate, where there is one; predicted otherwise.
  std::optional<int64_t> batch()
      const;  // samples a step, all devices together; none: no input has samples along axis 0
  bool is_timed() const { return search.estimate || typical.empty(); }
  int64_t step_time_ns() const;  // 0 where it is not timed
  std::optional<double> samples_per_second() const;
  int64_t peak_memory_bytes() const;  // of the compute device that needs most
  int64_t compute_time_ns() const;  // of a step, while the compute queue is busy of the device where it is busy longest
};

// What `search` says. Usage error where it is none, or cannot do what is asked of it.
SearchChoice search_of(const Request& request);
// The standard operations, and those that the request describes.
std::shared_ptr<const OpRegistry> registry_for(const Request& request);
// How a request's bindings are read for an .onnx file.
OnnxOptions onnx_options(const Request& request);
// The config.json that a model's reference means, itself or its folder; empty: another kind of reference.
std::string config_file(const std::string& model);
LoadedModel load_model(const Request& request, Runner& runner);
Graph training_graph(const LoadedModel& model, const Request& request, Runner& runner);
// The same; where no training step can be made (no parameter, no floating output, an operation without a gradient), the
// graph for evaluation, and why.
struct StepGraph {
  Graph graph;
  std::string why_not_trained;
};
StepGraph step_graph(const LoadedModel& model, const Request& request, Runner& runner);
Planned plan_model(const Request& request, Runner& runner);
// The same for a graph made in C++; of the request, what names and changes a model is not used. The plan can be written
// and read, but `open_plan` cannot build the model again.
Planned plan_graph(LoadedModel model, const Request& request, Runner& runner);
// A plan file needs nothing else: its model is built again, its cluster is in it. Bad input if the model has changed
// since.
enum class Follow { kAll, kCheck };  // kCheck: it is checked, and neither lowered nor simulated
Planned open_plan(const std::string& path, Runner& runner, Follow follow = Follow::kAll);
Request request_of(const ModelReference& model);

// The forward graph for evaluation, its axes factored as the training graph's are.
Graph evaluation_of(const Planned& planned);

// What follows a plan's choices: check, lower, simulate. Fills in the rest of `planned`.
void finish(Planned& planned, std::optional<int64_t> memory_limit_bytes, Runner& runner);

// The evaluation graph under a training plan: each op takes the choice of the training op of its name, each weight its
// layout.
Plan evaluation_plan(const Graph& evaluation, const Planned& training);

// Of the graph's text without initial values: hexadecimal SHA-256.
std::string fingerprint(const Graph& graph);

}  // namespace partita
