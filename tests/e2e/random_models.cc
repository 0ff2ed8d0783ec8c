// Plans and runs random models: the draws, and the expected results.
#include "tests/e2e/random_models.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "partita/base/error.h"
#include "partita/base/output_file.h"
#include "partita/base/rng.h"
#include "partita/graph/batch.h"
#include "partita/train/forward.h"
#include "partita/train/serial.h"
#include "partita/train/train.h"
#include "tests/e2e/runs.h"

namespace partita {

namespace {

constexpr double kForward =
    1e-6;  // of the largest value of an output: some operators of the reference evaluator compute in float32
constexpr double kTrained = 1e-10;  // docs/reference/cli.md
constexpr int64_t kSteps = 2, kBudget = 20;

// Every search with each of its options' listed values, one at a time.
std::vector<std::string> every_search() {
  std::vector<std::string> all;
  for (const SearchEntry& entry : searches()) {
    all.push_back(entry.name);
    for (const auto& [option, values] : entry.options)
      for (std::size_t i = 1; i < values.size(); ++i)
        if (values[i] != "N" && values[i] != "PxQ" && values[i] != "A-B")
          all.push_back(fmt::format("{}?{}={}", entry.name, option, values[i]));
  }
  return all;
}

template <typename T>
const T& drawn(Rng& rng, const std::vector<T>& from) {
  return from[rng.below(from.size())];
}

Request request_of_pair(const RandomPair& pair, const std::string& file) {
  Request request;
  request.model = file;  // of the zoo: its name
  request.search = pair.search;
  request.cluster = pair.cluster.substr(0, pair.cluster.find('/'));
  if (const auto at = pair.cluster.find('/'); at != std::string::npos)
    request.devices = std::stoi(pair.cluster.substr(at + 1));
  request.objective = *objective_of(pair.objective);
  request.dtype = parse_dtype(pair.dtype);
  if (!pair.loss.empty()) request.loss = pair.loss;
  if (pair.optimizer == "momentum") request.optimizer.momentum = 0.9;
  else if (pair.optimizer == "clipped") request.optimizer.clip_norm = 0.5;
  else request.optimizer.kind = pair.optimizer;
  request.budget.steps = kBudget;
  return request;
}

double difference(const Values& found, const Values& expected) {
  if (found.shape != expected.shape) return INFINITY;
  double largest = 0, scale = 1e-3;
  for (std::size_t i = 0; i < static_cast<std::size_t>(volume(expected.shape)); ++i) {
    const double a = is_float(found.dtype) ? found.real[i] : static_cast<double>(found.integer[i]);
    const double b = is_float(expected.dtype) ? expected.real[i] : static_cast<double>(expected.integer[i]);
    const double d = std::abs(a - b);
    largest = d == d ? std::max(largest, d) : INFINITY;
    scale = std::max(scale, std::abs(b));
  }
  return largest / scale;
}

std::string differences(const Arrays& found, const Arrays& expected, double allowed) {
  for (const auto& [name, values] : expected) {
    const auto at = found.find(name);
    if (at == found.end()) return fmt::format("there is no output '{}'", name);
    if (const double d = difference(at->second, values); !(d <= allowed))
      return fmt::format("output '{}' differs by {:.2e} of its largest value", name, d);
  }
  return "";
}

Arrays forward_of(const Planned& planned, const Arrays& in) {
  const Graph graph = evaluation_of(planned.forward);
  const Plan plan = evaluation_plan(graph, planned);
  check(graph, plan, planned.cluster);
  return run_forward(graph, plan, planned.cluster, in, {}, 1, kernels());
}

// The plan as a file is the same plan.
std::string written_and_read(const Planned& planned, const std::string& file) {
  const std::string path = file + ".plan.json";
  write_file(path, print(planned.plan, planned.training));
  Runner runner;
  const Planned read = open_plan(path, runner);
  if (read.report.comm_bytes != planned.report.comm_bytes)
    return fmt::format("written and read it moves {} bytes, not {}", read.report.comm_bytes, planned.report.comm_bytes);
  if (read.predicted.step_time_ns != planned.predicted.step_time_ns)
    return "written and read it is simulated otherwise";
  return "";
}

// Data are samples along axis 0: labels of another shape cannot be made up.
bool has_labels_a_sample(const Graph& training) {
  const TensorId labels = training.find_tensor("labels");
  if (!labels.valid()) return true;
  const Shape& shape = training.tensor(labels).shape;
  const std::optional<int64_t> batch = find_batch(training);
  return !shape.empty() && batch && shape[0] == *batch;
}

std::string trained(const Planned& planned, DType dtype) {
  TrainOptions options;
  options.steps = kSteps;
  options.verify_serial = true;
  const TrainReport report = train(planned, options, kernels());
  // Adaptive updates divide by gradients, some of which are only rounding (docs/reference/cli.md).
  const bool is_rounding = report.rounding_error && !report.beyond_rounding;
  if (dtype == DType::kFloat64 && !(*report.max_error_vs_serial <= kTrained) && !is_rounding)
    return fmt::format("weights differ from the serial run's by {:.2e}", *report.max_error_vs_serial);
  const double allowed = dtype == DType::kFloat64 ? kTrained : allowed_first_loss(report, dtype);
  if (!(*report.first_loss_error_vs_serial <= allowed))
    return fmt::format("the first loss differs from the serial run's by {:.2e}", *report.first_loss_error_vs_serial);
  return "";
}

}  // namespace

std::vector<RandomModel> read_random_models(const std::string& path) {
  std::map<int, RandomModel> models;
  for (auto& [key, values] : read_arrays(path)) {
    const std::size_t slash = key.find('/');
    RandomModel& model = models[std::stoi(key.substr(0, slash))];
    model.name = key.substr(0, slash);
    const std::string kind = key.substr(slash + 1);
    if (kind == "model")
      for (int64_t byte : values.integer) model.proto += static_cast<char>(byte);
    else (kind.starts_with("in/") ? model.in : model.out)[kind.substr(kind.find('/') + 1)] = std::move(values);
  }
  std::vector<RandomModel> list;
  for (auto& [number, model] : models) list.push_back(std::move(model));
  return list;
}

namespace {

void add_option(std::string& search, const std::string& option) {
  search += (search.find('?') == std::string::npos ? "?" : ",") + option;
}

// The solver of Pesto's program would take its minute.
void shorten(std::string& search) {
  if (search.starts_with("pesto") && search.find("seconds=") == std::string::npos) add_option(search, "seconds=2");
}

// On one host or a node of GPUs.
std::string drawn_cluster(Rng& rng) {
  const int64_t devices = rng.between(2, 7);
  return rng.below(5) == 0 ? fmt::format("dgx-1/{}", devices) : fmt::format("local:{}", devices);
}

const std::vector<std::string>& drawn_dtypes() {
  static const std::vector<std::string> dtypes{"float64", "float64", "float64", "float64",  "float64",
                                               "float64", "float32", "float32", "bfloat16", "float16"};
  return dtypes;
}

const std::vector<std::string> kOptimizers{"sgd", "momentum", "clipped"};

// `N` stands for a small number, which divides the devices, or not.
std::string drawn_value(Rng& rng, const std::vector<std::string>& values) {
  const std::string value = drawn(rng, values);
  if (value == "A-B") return fmt::format("{}-{}", rng.between(1, 2), rng.between(1, 2));
  return value == "N" ? std::to_string(rng.between(2, 3)) : value;
}

}  // namespace

RandomPair random_pair(uint64_t seed, std::size_t index, const std::vector<RandomModel>& models) {
  static const std::vector<std::string> searches = every_search();
  static const std::vector<std::string> losses{"mse", "mse", "mse", "elementwise", "bce_with_logits", "cross_entropy"};
  Rng rng(seed * 0x9E3779B97F4A7C15ull + index);
  RandomPair pair;
  pair.model = index % models.size();
  pair.search = drawn(rng, searches);
  pair.cluster = drawn_cluster(rng);
  pair.objective = rng.below(2) == 0 ? "comm" : "time";
  pair.dtype = drawn(rng, drawn_dtypes());
  pair.loss = drawn(rng, losses);
  pair.optimizer = drawn(rng, kOptimizers);
  static const std::vector<std::string> buckets{"", "bucket=0", "bucket=100B", "bucket=2kB"};  // "": all in one, mostly
  if (const std::string& bucket = drawn(rng, buckets); !bucket.empty()) add_option(pair.search, bucket);
  shorten(pair.search);
  return pair;
}

RandomPair random_zoo_pair(uint64_t seed, std::size_t index, const std::vector<RandomModel>& models) {
  Rng rng(seed * 0x9E3779B97F4A7C15ull + index);
  RandomPair pair;
  pair.model = index % models.size();
  const SearchEntry& entry = searches()[rng.below(searches().size())];
  pair.search = entry.name;
  for (const auto& [option, values] : entry.options)
    if (rng.below(5) < 2)
      if (const std::string value = drawn_value(rng, values); value != "PxQ")
        add_option(pair.search, option + "=" + value);
  pair.cluster = drawn_cluster(rng);
  pair.objective = rng.below(2) == 0 ? "comm" : "time";
  pair.dtype = drawn(rng, drawn_dtypes());
  static const std::vector<std::string> more{"",
                                             "bucket=0",
                                             "bucket=2kB",
                                             "micro-batches=2",
                                             "micro-batches=3",
                                             "micro-batches=4",
                                             "recompute=cheap",
                                             "recompute=attention",
                                             "recompute=layer"};
  for (int i = 0; i < 2; ++i)
    if (const std::string& option = drawn(rng, more);
        !option.empty() && pair.search.find(option.substr(0, option.find('='))) == std::string::npos)
      add_option(pair.search, option);
  shorten(pair.search);
  static const std::vector<std::string> optimizers{"sgd",   "momentum", "clipped",
                                                   "adamw", "adagrad",  "adagrad?keep_gradients=1"};
  pair.optimizer = drawn(rng, optimizers);
  return pair;
}

std::vector<RandomModel> small_zoo_models() {
  std::vector<RandomModel> models;
  for (const char* name : {
           "zoo:mlp?layers=3,width=12,batch=12",
           "zoo:lenet?batch=6,image=16,channels=2,classes=5",
           "zoo:resnet-18?image=32,batch=4",
           "zoo:rnnlm?steps=3,layers=2,hidden=10,vocabulary=7,batch=8",
           "zoo:nmt?steps=2,hidden=8,vocabulary=9,batch=6",
           "zoo:wide-deep?batch=6,vocabulary=9,fields=3,dense=4,embedding=6,layers=2,width=8",
           "zoo:transformer?layers=3,hidden=12,heads=2,steps=4,vocabulary=11,batch=8",
           "zoo:transformer?layers=2,hidden=12,heads=3,steps=4,vocabulary=11,batch=6,dropout=0.1,fine=true",
           "zoo:gpt2?layers=4,hidden=16,heads=4,steps=4,vocabulary=11,batch=8",
           "zoo:bert-base?layers=2,hidden=12,heads=2,steps=4,vocabulary=11,batch=6",
           "zoo:llama-3-8b?layers=2,hidden=16,heads=4,key_heads=2,inner=24,steps=4,vocabulary=11,batch=8",
           "zoo:moe?hidden=12,steps=5,vocabulary=11,experts=4,groups=2,batch=8",
       })
    models.push_back({name, "", {}, {}});
  return models;
}

std::string commands(const RandomPair& pair, const std::string& file) {
  const auto at = pair.cluster.find('/');
  const std::string cluster =
      at == std::string::npos ? pair.cluster
                              : fmt::format("{} --devices {}", pair.cluster.substr(0, at), pair.cluster.substr(at + 1));
  const std::string loss = pair.loss.empty() ? "" : " --loss " + pair.loss;
  const std::string optimizer = pair.optimizer == "momentum"  ? "sgd --momentum 0.9"
                                : pair.optimizer == "clipped" ? "sgd --clip-norm 0.5"
                                                              : pair.optimizer;
  const std::string run = file.starts_with("zoo:") ? ""
                                                   : fmt::format("partita run p.json --inputs {}.npz -o out.npz && ",
                                                                 file.substr(0, file.rfind('.')));
  return fmt::format(
      "partita plan '{0}' --cluster {1} --search '{2}' --objective {3} --dtype {4}{5} --optimizer {6} "
      "--max-steps {7} -o p.json && partita check p.json && "
      "partita simulate p.json && {8}partita train p.json --steps {9} --verify serial",
      file, cluster, pair.search, pair.objective, pair.dtype, loss, optimizer, kBudget, run, kSteps);
}

namespace {

// A graph of the pair's loss, or only of its output if that loss does not take it: then `refused` says why.
LoadedModel loaded_for(Request& request, Runner& runner, std::string& refused) {
  LoadedModel loaded = load_model(request, runner);
  try {
    training_graph(loaded, request, runner);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    refused = error.what();
    request.loss = "elementwise";
    loaded = load_model(request, runner);
    training_graph(loaded, request, runner);
  }
  return loaded;
}

std::string serial_difference(const RandomModel& model, Request request, Runner& runner) {
  request.search = "single";
  request.cluster = "local:1";
  request.devices = 0;
  request.dtype = DType::kFloat64;
  return differences(forward_of(plan_model(request, runner), model.in), model.out, kForward);
}

// The steps of try_pair; `at` is the one that it is in.
void try_steps(const RandomModel& model, Request request, const std::string& file, std::string& at,
               PairOutcome& outcome) {
  Runner runner;
  const bool has_reference = !model.proto.empty();
  const auto differs = [&outcome, &at](const std::string& difference) {
    if (!difference.empty()) outcome.fault = at + ": " + difference;
    return !difference.empty();
  };
  loaded_for(request, runner, outcome.refused);
  at = "serial";
  if (has_reference && differs(serial_difference(model, request, runner))) return;
  at = "plan";
  const Planned planned = plan_model(request, runner);
  if (planned.search.estimate) return;  // no plan
  at = "check and simulate";
  if (differs(written_and_read(planned, file))) return;
  at = "parallel";
  if (has_reference && request.dtype == DType::kFloat64 &&
      differs(differences(forward_of(planned, model.in), model.out, kForward)))
    return;
  at = "train";
  if (!outcome.refused.empty() || !has_labels_a_sample(planned.training)) return;
  outcome.trained = !differs(trained(planned, request.dtype));
}

// Tells whether a search, or the loss, may refuse a model or options that were drawn.
bool may_refuse(const Error& error, const std::string& at, const RandomModel& model, const RandomPair& pair) {
  if (error.code() == ExitCode::kInfeasible) return true;
  const bool drawn_options = model.proto.empty() && at == "plan";
  if (error.code() == ExitCode::kUsage) return drawn_options;
  const bool estimates = parse_search(pair.search).entry->estimates;  // not of every cluster, nor without a batch
  return error.code() == ExitCode::kBadInput && (at == "import" || at == "train" || estimates || drawn_options);
}

}  // namespace

PairOutcome try_pair(const RandomModel& model, const RandomPair& pair, const std::string& file) {
  PairOutcome outcome;
  std::string at = "import";
  try {
    if (!model.proto.empty()) write_file(file, model.proto);
    try_steps(model, request_of_pair(pair, model.proto.empty() ? model.name : file), file, at, outcome);
  } catch (const Error& error) {
    (may_refuse(error, at, model, pair) ? outcome.refused : outcome.fault) = fmt::format("{}: {}", at, error.what());
  } catch (const std::exception& error) {
    outcome.fault = fmt::format("{}: {}", at, error.what());
  }
  return outcome;
}

}  // namespace partita
