// Resolves the names and files in a request: search, operations, cluster, pins, initial plan.
#include "partita/pipeline/request.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "partita/base/error.h"
#include "partita/base/input_file.h"
#include "partita/ops/ops.h"
#include "partita/pipeline/fingerprint.h"
#include "partita/pipeline/in_file.h"
#include "partita/plan/check.h"
#include "partita/plan/pin_error.h"
#include "partita/profile/profile.h"
#include "partita/search/pipelines/pipeline.h"

namespace partita {

Request request_of(const ModelReference& model) {
  Request request;
  request.model = model.model;
  request.bindings = model.bindings;
  request.config = model.config;
  request.tdl = model.tdl;
  request.loss = model.loss;
  request.optimizer = model.optimizer;
  request.dtype = model.dtype;
  request.loss_scale = model.loss_scale;
  if (model.batch_norm_groups > 1) request.batch_norm_groups = std::to_string(model.batch_norm_groups);
  request.recompute = model.recompute;
  request.micro_batches = model.micro_batches;
  return request;
}

Plan made_for(Plan plan, const Request& request, const Loss& loss, const std::string& sha256, const Cluster& cluster) {
  plan.search = request.search;
  plan.objective = text_of(request.objective);
  plan.bucket_bytes = request.bucket_bytes.value_or(kBucketBytes);
  plan.cluster = cluster.name;
  plan.cluster_text = cluster.text;
  plan.memory_limit_bytes = request.memory_limit_bytes;
  plan.measured_on = cluster.profile ? cluster.profile->measured_on() : "";
  plan.model = {request.model,
                request.bindings,
                request.config,
                request.tdl,
                loss.kind,
                request.optimizer,
                request.dtype,
                loss.scale,
                batch_norm_groups_of(request),
                request.recompute,
                request.micro_batches.value_or(1),
                sha256};
  return plan;
}

namespace {

// Counts the copies of the whole model among the devices.
int64_t replicas_of(const Request& request) {
  const SearchChoice choice = parse_search(request.search);
  const auto unknown = [&](const std::string& why) {
    throw Error(ExitCode::kUsage, fmt::format("--batch-norm-groups replica: {}, or give a number", why));
  };
  if (!choice.entry->may_have_replicas())
    unknown(fmt::format("'{}' has no replicas; take another search", choice.entry->name));
  int64_t devices = load_cluster(request.cluster, request.devices).compute_count;
  for (const char* of_one : {"tensor", "context", "stages", "pipeline"}) {
    const auto option = choice.options.find(of_one);
    if (option == choice.options.end()) continue;
    int64_t count = 0;
    const auto [end, error] =
        std::from_chars(option->second.data(), option->second.data() + option->second.size(), count);
    if (error != std::errc() || count < 1)
      unknown(fmt::format("say how many devices one has with {}?{}=N", choice.entry->name, of_one));
    devices = std::max<int64_t>(1, devices / count);
  }
  return devices;
}

}  // namespace

int64_t batch_norm_groups_of(const Request& request) {
  const std::string& asked = request.batch_norm_groups;
  if (asked.empty()) return 1;
  if (asked == "micro") return request.micro_batches.value_or(1);
  if (asked == "replica") return replicas_of(request) * request.micro_batches.value_or(1);
  int64_t groups = 0;
  const auto [end, error] = std::from_chars(asked.data(), asked.data() + asked.size(), groups);
  if (error != std::errc() || end != asked.data() + asked.size() || groups < 1)
    throw Error(ExitCode::kUsage,
                fmt::format("--batch-norm-groups takes a positive number, replica or micro, not '{}'", asked));
  return groups;
}

namespace {

void validate_micro_batches(const SearchChoice& choice, const Request& request) {
  if (request.micro_batches.value_or(1) > 1 && choice.entry->whole_batch)
    throw Error(ExitCode::kUsage, fmt::format("search '{}' plans a step on the whole batch, not in {} micro-batches; "
                                              "leave micro-batches out, or take another search, such as auto",
                                              choice.entry->name, *request.micro_batches));
  if (!request.micro_batch_size || choice.entry->sharing) return;
  std::vector<std::string> names;
  for (const SearchEntry& entry : searches())
    if (entry.sharing) names.push_back(entry.name);
  throw Error(
      ExitCode::kUsage,
      fmt::format("--micro-batch-size: the options of search '{}' do not say among how many replicas a batch is "
                  "shared; give --micro-batches, or one of these searches: {}",
                  choice.entry->name, fmt::join(names, ", ")));
}

}  // namespace

Request with_search_options(Request request) {
  const SearchChoice choice = parse_search(request.search);
  if (request.micro_batches && request.micro_batch_size)
    throw Error(ExitCode::kUsage,
                "--micro-batches and --micro-batch-size both say how many parts a batch has; give one of them");
  if (choice.micro_batches || choice.micro_batch_size) {
    request.micro_batches = choice.micro_batches;
    request.micro_batch_size = choice.micro_batch_size;
  }
  if (choice.recompute) request.recompute = *choice.recompute;
  if (choice.bucket_bytes) request.bucket_bytes = choice.bucket_bytes;
  validate_micro_batches(choice, request);
  return request;
}

namespace {

void validate_capability(const SearchChoice& choice, bool SearchEntry::*those, const char* what) {
  if (choice.entry->*those) return;
  std::vector<std::string> names;
  for (const SearchEntry& entry : searches())
    if (entry.*those) names.push_back(entry.name);
  throw Error(ExitCode::kUsage,
              fmt::format("search '{}' {}; those that can: {}", choice.entry->name, what, fmt::join(names, ", ")));
}

}  // namespace

SearchChoice search_of(const Request& request) {
  SearchChoice choice = parse_search(request.search);
  if (!request.from_file.empty()) validate_capability(choice, &SearchEntry::warm, "cannot begin with a plan (--from)");
  if (request.prove) validate_capability(choice, &SearchEntry::proves, "cannot prove a lower bound (--write-bound)");
  return choice;
}

void validate_device_placement(const SearchChoice& choice) {
  validate_capability(choice, &SearchEntry::places,
                      "has no way to keep device types and colocation groups (--pin), which are of ops that run whole");
}

void validate_stages(const SearchChoice& choice, const Constraints& constraints, const Graph& graph,
                     const Cluster& cluster) {
  std::set<int> stages;
  for (const auto& [id, fixed] : constraints.ops) stages.insert(fixed.stage);
  if (stages.empty() || *stages.rbegin() == 0) return;
  const int last = *stages.rbegin();
  const SearchEntry& entry = *choice.entry;
  const bool is_plan = constraints.ops.size() == graph.ops.size() && last + 1 == static_cast<int>(stages.size());
  if (!entry.only_device_placement() && is_plan) return;
  const int ranks =
      entry.sharing ? entry.sharing({.graph = graph, .cluster = cluster, .options = choice.options}).stages : 1;
  const int count = ranks > 1 ? ranks * pipeline_of(choice.options).virtual_stages : 1;
  if (last < count) return;
  fail_pin("op '{}' is pinned to stage {}, and plans of search '{}' have {}; {}",
           graph.op(constraints.op_of_last_stage()).name, last, text_of(choice),
           count == 1 ? "no stages" : fmt::format("stages 0 to {}", count - 1),
           count == 1 ? "leave 'stage' out, or take a search that makes stages, such as pipeline"
                      : "pin it to one of these, or take a search with more");
}

std::shared_ptr<const OpRegistry> registry_for(const Request& request) {
  if (request.tdl.empty()) return standard_ops();
  return in_file(request.tdl_file, [&] { return ops_with(request.tdl); });
}

OnnxOptions onnx_options(const Request& request) {
  OnnxOptions options;
  for (const auto& [name, value] : request.bindings) {
    int64_t extent = 0;
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), extent);
    if (error != std::errc() || end != value.data() + value.size() || extent < 1)
      fail("--bind {}={}: a dimension is bound to a positive integer", name, value);
    if (name == "batch") options.batch = extent;
    else options.bindings[name] = extent;
  }
  return options;
}

Cluster cluster_of(const Request& request) {
  Cluster cluster = load_cluster(request.cluster, request.devices);
  return with_profile(with_memory_limit(std::move(cluster), request.memory_limit_bytes), request.profile_file);
}

Cluster with_memory_limit(Cluster cluster, std::optional<int64_t> bytes) {
  for (int d = 0; bytes && d < cluster.compute_count; ++d) cluster.devices[d].memory_bytes = *bytes;
  return cluster;
}

Cluster with_profile(Cluster cluster, const std::string& profile_file) {
  if (profile_file.empty()) return cluster;
  cluster.profile = std::make_shared<const Profile>(parse_profile(read_file(profile_file), profile_file));
  std::set<std::string> types;
  for (int d = 0; d < cluster.compute_count; ++d) types.insert(cluster.devices[d].model);
  if (!types.contains(cluster.profile->device))
    fail("{}: this profile is of devices of type '{}'; cluster '{}' has: {}", profile_file, cluster.profile->device,
         cluster.name, fmt::join(types, ", "));
  return cluster;
}

Cluster cluster_of(Plan& plan, const Hardware& hardware) {
  const Cluster own = parse_cluster(plan.cluster_text, "cluster");
  if (hardware.cluster.empty())
    return with_profile(with_memory_limit(own, plan.memory_limit_bytes), hardware.profile_file);
  Cluster other = load_cluster(hardware.cluster, hardware.devices);
  if (other.compute_count != own.compute_count)
    fail("the plan is for {} devices, and cluster '{}' has {}; {}", own.compute_count, other.name, other.compute_count,
         other.compute_count > own.compute_count
             ? fmt::format("--devices {} takes the first {} of it", own.compute_count, own.compute_count)
             : std::string("plan again for it"));
  plan.cluster = other.name;
  plan.cluster_text = other.text;
  plan.memory_limit_bytes.reset();
  plan.measured_on.clear();
  return with_profile(std::move(other), hardware.profile_file);
}

Constrained constrained(const Request& request, Graph graph, const Cluster& cluster) {
  if (request.pin_file.empty()) return {std::move(graph), {}};
  const std::string text = read_file(request.pin_file);
  return in_file(request.pin_file, [&] {
    const Pins pins = parse_pins(text, graph);
    return constrain(std::move(graph), pins, cluster);
  });
}

std::optional<Plan> plan_to_begin_with(const Request& request, const Graph& graph, const std::string& sha256,
                                       const Cluster& cluster) {
  if (request.from_file.empty()) return std::nullopt;
  const std::string text = read_file(request.from_file);
  return in_file(request.from_file, [&] {
    const ModelReference model = parse_model_reference(text);
    if (model.sha256 != sha256)
      fail(
          "a plan to begin with is of the same model with the same settings; this one was made for '{}' and its "
          "SHA-256 differs",
          model.model);
    if (model.recompute != request.recompute)
      fail(
          "a plan to begin with is of the same model with the same settings; this one was made with --recompute {}, "
          "which here is {}",
          model.recompute, request.recompute);
    if (const int parts = request.micro_batches.value_or(1); model.micro_batches != parts)
      fail("a plan to begin with works on its batch in as many micro-batches; this one in {}, and here it is {}",
           model.micro_batches, parts);
    Plan plan = parse_plan(text, graph);
    if (const int devices = parse_cluster(plan.cluster_text, "cluster").compute_count; devices != cluster.compute_count)
      fail("a plan to begin with is for as many devices; this one is for {}, '{}' has {}", devices, cluster.name,
           cluster.compute_count);
    check(graph, plan, cluster);
    return plan;
  });
}

}  // namespace partita
