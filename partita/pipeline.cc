// The table of contents: what Partita does with a model, step by step.
#include "partita/pipeline.h"

#include <nettle/sha2.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "partita/base/error.h"
#include "partita/graph/batch.h"
#include "partita/graph/factors.h"
#include "partita/models/huggingface.h"
#include "partita/models/models.h"
#include "partita/onnx/onnx.h"
#include "partita/ops/ops.h"
#include "partita/physical/registered.h"
#include "partita/physical/shortage.h"
#include "partita/plan/resolve.h"
#include "partita/plan/rules.h"
#include "partita/runtime/array_file.h"
#include "partita/sim/simulate.h"

namespace partita {

namespace {

// Bad input inside `read` names the file.
template <typename Read>
auto in_file(const std::string& path, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    fail("{}: {}", path, error.what());
  }
}

// A kernel of its own knows an op's indices by name.
bool may_factor(const Op& op) { return !is_registered(op.definition); }

void limit_memory(Cluster& cluster, std::optional<int64_t> bytes) {
  if (!bytes) return;
  for (int d = 0; d < cluster.compute_count; ++d) cluster.devices[d].memory_bytes = *bytes;
}

// float16 and bfloat16 mean mixed precision.
LoadedModel in_dtype(const LoadedModel& model, DType dtype) {
  LoadedModel result = model;
  if (!is_low(dtype)) {
    result.forward = with_dtype(model.forward, dtype);
    return result;
  }
  result.forward = mixed_precision(model.forward, dtype);
  auto same_name = [&](TensorId id) {
    return id.valid() ? result.forward.find_tensor(model.forward.tensor(id).name) : id;
  };
  result.loss.output = same_name(model.loss.output);
  for (Loss::Auxiliary& further : result.loss.auxiliary) further.output = same_name(further.output);
  for (auto& [penalty, weight] : result.loss.penalties) penalty = same_name(penalty);
  return result;
}

Plan plan_to_begin_with(const std::string& text, const Graph& graph, const Cluster& cluster) {
  const ModelReference model = parse_model_reference(text);
  if (model.sha256 != fingerprint(graph))
    fail(
        "a plan to begin with is of the same model with the same settings; this one was made for '{}' and its SHA-256 "
        "differs",
        model.model);
  const Plan plan = parse_plan(text, graph);
  if (const int devices = parse_cluster(plan.cluster_text, "cluster").compute_count; devices != cluster.compute_count)
    fail("a plan to begin with is for as many devices; this one is for {}, '{}' has {}", devices, cluster.name,
         cluster.compute_count);
  check(graph, plan, cluster);
  return plan;
}

}  // namespace

SearchChoice search_of(const Request& request) {
  SearchChoice choice = parse_search(request.search);
  auto expect = [&](bool can, bool SearchEntry::*those, const char* what) {
    if (can) return;
    std::vector<std::string> names;
    for (const SearchEntry& entry : searches())
      if (entry.*those) names.push_back(entry.name);
    throw Error(ExitCode::kUsage,
                fmt::format("search '{}' {}; those that can: {}", choice.entry->name, what, fmt::join(names, ", ")));
  };
  expect(request.from_file.empty() || choice.entry->warm, &SearchEntry::warm, "cannot begin with a plan (--from)");
  expect(!request.prove || choice.entry->proves, &SearchEntry::proves, "cannot prove a lower bound (--write-bound)");
  return choice;
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

std::string config_file(const std::string& model) {
  if (model.starts_with("zoo:")) return "";
  if (model.ends_with(".json")) return model;
  if (!std::filesystem::is_directory(model)) return "";
  const std::filesystem::path file = std::filesystem::path(model) / "config.json";
  if (!std::filesystem::exists(file)) fail("{}: the folder has no config.json", model);
  return file.string();
}

std::shared_ptr<const OpRegistry> registry_for(const Request& request) {
  if (request.tdl.empty()) return standard_ops();
  return in_file(request.tdl_file, [&] { return ops_with(request.tdl); });
}

namespace {

// Where images come out nobody has said where the classes lie: PyTorch has them on axis 1, cross_entropy here on the
// last.
std::string assumed_loss(const Graph& forward, const std::string& loss) {
  if (loss != "cross_entropy" || forward.outputs.empty() || forward.tensor(forward.outputs[0]).shape.size() < 4)
    return "";
  const Tensor& output = forward.tensor(forward.outputs[0]);
  return fmt::format(
      "the loss is cross_entropy, since none is given: the last axis of '{}' [{}] has the classes; if they lie on "
      "another, transpose the output, or give --loss",
      output.name, fmt::join(output.shape, ", "));
}

}  // namespace

LoadedModel load_model(const Request& request, Runner& runner) {
  auto registry = registry_for(request);
  LoadedModel model;
  model.forward = runner.step(
      "load",
      [&] {
        if (request.model.ends_with(".onnx")) {
          std::optional<Graph> own;
          Graph graph = import_onnx(request.model, onnx_options(request), registry, &own, &model.findings);
          if (own) model.other_batch = {std::move(*own), graph};
          return graph;
        }
        const std::string config = config_file(request.model);
        Model built = config.empty() ? build_model(request.model, request.bindings, registry)
                                     : build_huggingface(config, read_file(config), request.bindings, registry);
        model.loss = built.loss;
        model.weight_names = std::move(built.weight_names);
        return std::move(built.graph);
      },
      [](const Graph& g) { verify(g); });
  if (request.loss) model.loss.kind = *request.loss;
  else if (request.model.ends_with(".onnx")) model.findings.assumed_loss = assumed_loss(model.forward, model.loss.kind);
  model.loss.scale = request.loss_scale.value_or(default_loss_scale(request.dtype));
  if (request.dtype != DType::kFloat32)
    model = runner.step(
        "dtype", [&] { return in_dtype(model, request.dtype); }, [](const LoadedModel& m) { verify(m.forward); });
  return model;
}

Graph training_graph(const LoadedModel& model, const Request& request, Runner& runner) {
  Graph graph = runner.step(
      "autodiff",
      [&] { return add_backward(cut_parts_alike(model.forward, may_factor), model.loss, request.optimizer); },
      [](const Graph& g) { verify(g); });
  graph = runner.step(
      "factor", [&] { return carry_factors(std::move(graph), may_factor); }, [](const Graph& g) { verify(g); });
  if (request.recompute == "none") return graph;
  return runner.step(
      "recompute", [&] { return recomputed(graph, request.recompute); }, [](const Graph& g) { verify(g); });
}

namespace {

Graph factored_evaluation(const Graph& forward) {
  return carry_factors(evaluation_graph(cut_parts_alike(forward, may_factor)), may_factor);
}

}  // namespace

StepGraph step_graph(const LoadedModel& model, const Request& request, Runner& runner) {
  try {
    return {training_graph(model, request, runner), ""};
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    return {runner.step(
                "evaluation", [&] { return factored_evaluation(model.forward); }, [](const Graph& g) { verify(g); }),
            error.what()};
  }
}

Graph evaluation_of(const Planned& planned) { return factored_evaluation(planned.forward); }

void finish(Planned& p, std::optional<int64_t> memory_limit_bytes, Runner& runner) {
  limit_memory(p.cluster, memory_limit_bytes);
  p.report = runner.step(
      "check", [&] { return check(p.training, p.plan, p.cluster); }, [](const CheckReport&) {});
  if (is_too_large_to_lower(p.training, p.cluster)) {
    p.typical = typical_devices(p.cluster);
    const PhysicalGraph some = runner.step(
        "memory", [&] { return planned_memory(p.training, p.plan, p.cluster, p.typical); },
        [](const PhysicalGraph&) {});
    check_capacity(p.training, some, p.cluster);
    for (DeviceId d : p.typical) p.typical_peak_bytes = std::max(p.typical_peak_bytes, some.peak_bytes[d.index()]);
    return;
  }
  p.physical = runner.step(
      "lower", [&] { return lower(p.training, p.plan, p.cluster); },
      [&](const PhysicalGraph& g) {
        verify(g);
        check_capacity(p.training, g, p.cluster);
      });
  p.predicted = runner.step(
      "simulate", [&] { return simulate(p.physical, CostModel(p.cluster)); }, [](const Trace&) {});
}

namespace {

using WithBatch = decltype(Problem::with_batch);

// Seconds that the last look at memory, and check, lowering, verification and simulation of a plan take after the
// search, about: on this machine, as busy as it is now, for each device as long as making the training graph took.
// (Measured: 0.4 to 1.4 times as long.) No more than a part of the seconds that are left: the machine may have been
// busier then.
double finish_seconds(const Runner& runner, const Cluster& cluster, double left) {
  constexpr double kAtLeast = 0.05, kTimes = 1.5, kPart = 0.4;
  double graph_seconds = 0;
  for (const Runner::Timing& t : runner.timings())
    if (t.name == "autodiff" || t.name == "factor" || t.name == "recompute")
      graph_seconds += t.seconds + t.verify_seconds;
  return std::min(kAtLeast + kTimes * cluster.compute_count * graph_seconds, kPart * left);
}

// The search's part of the time: what comes after it is kept.
Budget for_search(const Budget& whole, const Runner& runner, const Cluster& cluster) {
  Budget part = whole;
  const Watch watch = whole.watch();
  watch.poll("before the search began");
  if (!watch.deadline) return part;
  using Seconds = std::chrono::duration<double>;
  const double left = Seconds(*watch.deadline - Watch::Clock::now()).count();
  part.deadline = *watch.deadline -
                  std::chrono::duration_cast<Watch::Clock::duration>(Seconds(finish_seconds(runner, cluster, left)));
  return part;
}

// The request's training graph, of another number of samples.
WithBatch with_batch(const Request& request) {
  return [request](int64_t samples) {
    Request other = request;
    other.bindings["batch"] = std::to_string(samples);
    Runner runner;
    const LoadedModel model = load_model(other, runner);
    return other.forward_will_do ? step_graph(model, other, runner).graph : training_graph(model, other, runner);
  };
}

Planned plan_loaded(LoadedModel model, const Request& request, const Budget& budget, WithBatch with_batch,
                    Runner& runner) {
  Planned p;
  p.forward = model.forward;
  p.weight_names = model.weight_names;
  p.other_batch = model.other_batch;
  p.findings = model.findings;
  p.training =
      request.forward_will_do ? step_graph(model, request, runner).graph : training_graph(model, request, runner);
  p.cluster = runner.step(
      "cluster", [&] { return load_cluster(request.cluster, request.devices); }, [](const Cluster&) {});
  limit_memory(p.cluster, request.memory_limit_bytes);
  const SearchChoice choice = search_of(request);
  Problem problem{p.training,    p.cluster,        request.objective,     {},          choice.options, nullptr,
                  request.prove, request.progress, std::move(with_batch), request.tell};
  if (!request.pin_file.empty()) {
    std::string text = read_file(request.pin_file);
    problem.pins = in_file(request.pin_file, [&] { return parse_pins(text, p.training); });
  }
  std::optional<Plan> from;
  if (!request.from_file.empty())
    problem.from = &from.emplace(in_file(
        request.from_file, [&] { return plan_to_begin_with(read_file(request.from_file), p.training, p.cluster); }));
  Rng rng(request.seed);
  if (request.before_search) request.before_search();
  const Budget part = for_search(budget, runner, p.cluster);
  p.search = runner.step(
      "search", [&] { return choice.entry->make()->search(problem, part, rng); }, [](const SearchResult&) {});
  p.search_seconds = runner.timings().back().seconds;
  if (!p.search.plan && !p.search.estimate)
    throw Error(ExitCode::kInfeasible, fmt::format("search '{}' found no plan: {}", request.search, p.search.reason));
  if (p.search.plan) p.plan = *p.search.plan;
  p.plan.search = request.search;
  p.plan.objective = request.objective;
  p.plan.cluster = p.cluster.name;
  p.plan.cluster_text = p.cluster.text;
  p.plan.model = {request.model, request.bindings, request.tdl,       model.loss.kind,        request.optimizer,
                  request.dtype, model.loss.scale, request.recompute, fingerprint(p.training)};
  if (p.search.plan) finish(p, request.memory_limit_bytes, runner);
  return p;
}

}  // namespace

namespace {

// Its time runs from now on.
Budget begun(Budget budget) {
  budget.deadline = budget.watch().deadline;
  return budget;
}

}  // namespace

Planned plan_model(const Request& request, Runner& runner) {
  const Budget budget = begun(request.budget);
  return plan_loaded(load_model(request, runner), request, budget, with_batch(request), runner);
}

Planned plan_graph(LoadedModel model, const Request& request, Runner& runner) {
  return plan_loaded(std::move(model), request, begun(request.budget), {}, runner);
}

Request request_of(const ModelReference& model) {
  Request request;
  request.model = model.model;
  request.bindings = model.bindings;
  request.tdl = model.tdl;
  request.loss = model.loss;
  request.optimizer = model.optimizer;
  request.dtype = model.dtype;
  request.loss_scale = model.loss_scale;
  request.recompute = model.recompute;
  return request;
}

Planned open_plan(const std::string& path, Runner& runner, Follow follow) {
  std::string text = read_file(path);
  if (is_huggingface_config(text))
    fail("{}: a model's configuration, not a plan; `partita plan {} -o plan.json` makes one", path, path);
  return in_file(path, [&] {
    Request request = request_of(parse_model_reference(text));
    Planned p;
    LoadedModel model = load_model(request, runner);
    p.forward = model.forward;
    p.weight_names = model.weight_names;
    p.other_batch = model.other_batch;
    p.findings = model.findings;
    p.training = training_graph(model, request, runner);
    p.plan = runner.step(
        "read plan", [&] { return parse_plan(text, p.training); }, [](const Plan&) {});
    if (fingerprint(p.training) != p.plan.model.sha256)
      fail("model '{}' is not the one that this plan was made for (its SHA-256 differs); plan again", request.model);
    p.cluster = runner.step(
        "cluster", [&] { return parse_cluster(p.plan.cluster_text, "cluster"); }, [](const Cluster&) {});
    if (follow == Follow::kAll) finish(p, std::nullopt, runner);
    else
      p.report = runner.step(
          "check", [&] { return check(p.training, p.plan, p.cluster); }, [](const CheckReport&) {});
    return p;
  });
}

std::optional<int64_t> Planned::batch() const {
  return search.estimate ? search.estimate->batch : find_batch(training);
}

int64_t Planned::step_time_ns() const {
  return search.estimate ? search.estimate->step_time_ns : predicted.step_time_ns;
}

std::optional<double> Planned::samples_per_second() const {
  if (!batch() || step_time_ns() == 0) return std::nullopt;
  return static_cast<double>(*batch()) / (static_cast<double>(step_time_ns()) / 1e9);
}

int64_t Planned::peak_memory_bytes() const {
  if (search.estimate) return search.estimate->peak_memory_bytes;
  if (!typical.empty()) return typical_peak_bytes;
  return *std::max_element(physical.peak_bytes.begin(), physical.peak_bytes.begin() + physical.compute_count);
}

int64_t Planned::compute_time_ns() const {
  std::vector<int64_t> busy_ns(physical.queues.size(), 0);
  for (const Event& e : predicted.events) {
    const QueueId queue = physical.task(e.task).queue;
    if (physical.queues[queue.index()].kind == QueueKind::kCompute) busy_ns[queue.index()] += e.end_ns - e.start_ns;
  }
  return *std::max_element(busy_ns.begin(), busy_ns.end());
}

Plan evaluation_plan(const Graph& evaluation, const Planned& training) {
  Pins pins;
  DerivationCache cache;
  for (size_t i = 0; i < evaluation.ops.size(); ++i) {
    OpId same = training.training.find_op(evaluation.ops[i].name);
    if (!same.valid()) continue;
    const OpChoice& choice = training.plan.ops[same.index()];
    // Running statistics stand for batch statistics: an index that the evaluation form lacks can't be split.
    if (cache.get(evaluation.ops[i].bound, choice.mesh.extents, choice.strategies)) pins.ops[OpId(i)] = choice;
  }
  for (size_t t = 0; t < evaluation.tensors.size(); ++t) {
    TensorId same = training.training.find_tensor(evaluation.tensors[t].name);
    if (!same.valid()) continue;
    auto kept = training.plan.kept.find(same);
    if (kept != training.plan.kept.end()) pins.kept[TensorId(t)] = kept->second;
  }
  return filled_in_plan(evaluation, training.cluster, pins);
}

std::string fingerprint(const Graph& graph) {
  Graph bare = graph;
  for (Tensor& t : bare.tensors)
    if (t.role == Role::kParameter || t.role == Role::kState) t.values = nullptr;
  std::string text = print(bare);
  sha256_ctx context;
  sha256_init(&context);
  sha256_update(&context, text.size(), reinterpret_cast<const uint8_t*>(text.data()));
  uint8_t digest[SHA256_DIGEST_SIZE];
  sha256_digest(&context, sizeof digest, digest);
  std::string hex;
  for (uint8_t byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace partita
