// Defines a user's request to the pipeline, and resolves its names and files.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "partita/cluster/cluster.h"
#include "partita/graph/autodiff.h"
#include "partita/onnx/onnx.h"
#include "partita/plan/plan.h"
#include "partita/search/all/search_text.h"

namespace partita {

struct Request {
  std::string model;  // path of an .onnx file, of a config.json or its folder, or zoo:NAME?options
  std::map<std::string, std::string> bindings;  // --bind k=v, and --batch
  std::string config;                           // the text of that config.json, if it is at hand; else it is read
  std::string tdl;                              // the user's descriptions of operations, as text
  std::string tdl_file = "tdl";                 // their name in messages
  std::optional<std::string> loss;              // none: the model's own
  Optimizer optimizer;
  DType dtype = DType::kFloat32;     // float16, bfloat16: mixed precision with float32 weights
  std::optional<double> loss_scale;  // none: default_loss_scale(dtype)
  std::string batch_norm_groups;     // a number, "replica" or "micro"; empty: statistics are over the whole batch
  std::string recompute = "none";    // of recompute_kinds()
  // Micro-batches of a step: their number, or the samples of each on a replica. Neither: micro_batches_to_try()
  // (micro_batches.h) chooses.
  std::optional<int> micro_batches;
  std::optional<int64_t> micro_batch_size;
  std::string cluster = "local:1";
  std::string profile_file;  // measurements of its devices (profile/profile.h); empty: none
  int devices = 0;           // 0: all of the cluster
  std::string search = "auto";
  Objective objective = Objective::kComm;
  std::string pin_file;
  std::string from_file;                      // the search's initial plan
  std::optional<int64_t> memory_limit_bytes;  // per device; none: the cluster's
  std::optional<int64_t> bucket_bytes;        // Plan::bucket_bytes; none: our choice (pipeline.cc)
  bool prove = false;                         // the lower bound too
  bool inference_only = false;  // a model that cannot be trained is planned as it is evaluated (StepGraph)
  Budget budget;  // its time is that of plan_model() or plan_graph() as a whole, from `deadline` or their beginning
  std::function<void(const SearchProgress&)> progress;
  std::function<void(const std::string&)> tell;  // Problem::tell
  std::function<void()> before_search;           // when the model is there, and a search begins that can be stopped
  // Called with true when reading of files that any search needs (pins) begins again, and with false when it is over;
  // the first time when model and cluster are there. Errors after false are of this search.
  std::function<void(bool)> reads_for_all;
  uint64_t seed = 1;
};

// Returns the request that a plan was made for, as far as it determines the model.
Request request_of(const ModelReference& model);
// Returns the plan with the fields of its request: the model (request_of is the inverse) with its fingerprint, cluster,
// search, objective and buckets.
Plan made_for(Plan plan, const Request& request, const Loss& loss, const std::string& sha256, const Cluster& cluster);

// Returns the number of groups of samples that a request's batch norms have statistics of: as many as it says. `micro`:
// one a micro-batch. `replica`: one a micro-batch on each replica. Replicas are all devices of the cluster over those
// of one, which are the product of the search's options `tensor`, and `stages` or `pipeline`. 1: the whole batch. Usage
// error if the search has no replicas, or an option that counts devices is left to it.
int64_t batch_norm_groups_of(const Request& request);

// Returns the request with its search's own options in place of --micro-batches, --micro-batch-size, --recompute and
// --bucket. Usage error if both of the first two are given, or the search cannot do what they say.
Request with_search_options(Request request);
// Returns the search that `search` names. Usage error if there is none, or it cannot do what is asked of it.
SearchChoice search_of(const Request& request);
// Throws a usage error if the search does not keep device types and colocation groups of ops.
void validate_device_placement(const SearchChoice& choice);
// Throws bad input if pins name stages of a pipeline that the search's plans do not have. Pins of all operations are a
// plan's, and may have stages of their own, except in device placement.
void validate_stages(const SearchChoice& choice, const Constraints& constraints, const Graph& graph,
                     const Cluster& cluster);
// Returns the standard operations, and those that the request describes.
std::shared_ptr<const OpRegistry> registry_for(const Request& request);
// Returns a request's bindings as options for an .onnx file.
OnnxOptions onnx_options(const Request& request);
// Returns the request's cluster, with the memory that the request allows and the times of its profile.
Cluster cluster_of(const Request& request);
// Returns the cluster with so much memory a compute device; none: as it is.
Cluster with_memory_limit(Cluster cluster, std::optional<int64_t> bytes);
// Returns the cluster with the profile in this file; as it is if the name is empty. Bad input if no device is of the
// type that was profiled.
Cluster with_profile(Cluster cluster, const std::string& profile_file);
// The hardware that a plan is evaluated on. `profile_file`: measured times; empty: none. `cluster`: a preset or a file
// that takes the place of the plan's own cluster, with its memory in place of the plan's limit. If empty, the plan's
// own. `devices`: the first so many of `cluster`; 0: all. Bad input if the plan is for another number of devices.
struct Hardware {
  std::string profile_file, cluster;
  int devices = 0;
};
// Returns the cluster on which the plan is evaluated. Another cluster than the plan's own becomes the plan's.
Cluster cluster_of(Plan& plan, const Hardware& hardware);
// The graph with what the request's file of pins fixes (constrain()). Bad input names the file.
Constrained constrained(const Request& request, Graph graph, const Cluster& cluster);
// Returns the search's initial plan, if there is one. Bad input if it is of another step, recomputation and
// micro-batches included, or for another number of devices. `sha256`: of the step on the whole batch (ModelReference).
std::optional<Plan> plan_to_begin_with(const Request& request, const Graph& graph, const std::string& sha256,
                                       const Cluster& cluster);

}  // namespace partita
