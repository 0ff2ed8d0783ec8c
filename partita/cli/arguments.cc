// Reads the command line: CLI11 takes it apart, and the other checks are here.
#include "partita/cli/arguments.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "partita/base/error.h"
#include "partita/base/input_file.h"
#include "partita/base/tell.h"
#include "partita/base/units.h"
#include "partita/cli/options.h"
#include "partita/cli/progress.h"
#include "partita/graph/optimizer_checks.h"
#include "partita/models/huggingface.h"
#include "partita/ops/ops.h"

namespace partita {

namespace {

[[noreturn]] void usage(const std::string& message) { throw Error(ExitCode::kUsage, message); }

std::pair<std::string, std::string> key_value(const std::string& text, const char* option) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) usage(fmt::format("{} takes NAME=VALUE, not '{}'", option, text));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

bool is_given(const CLI::App& command, const char* option) {
  const CLI::Option* o = command.get_option_no_throw(option);
  return o && o->count() > 0;
}

// The files that a command reads. Each file that it writes is another, and none is one that it reads, but weights,
// which training may bring up to date.
std::vector<std::string> read_by(const Arguments& a) {
  std::vector<std::string> files = {
      a.target, a.data, a.test_data, a.inputs, a.request.tdl_file, a.request.pin_file, a.request.profile_file};
  files.insert(files.end(), a.targets.begin(), a.targets.end());
  return files;
}

void validate_distinct_files(const Arguments& a) {
  std::vector<std::pair<const char*, std::string>> files;
  for (const auto& [option, path] : {std::pair<const char*, std::string>{"-o", a.output},
                                     {"--write-bound", a.write_bound},
                                     {"--worklist", a.worklist},
                                     {"--save", a.save},
                                     {"--log", a.log},
                                     {"--trace", a.trace}})
    if (!path.empty()) files.emplace_back(option, path);
  const auto is_same = [](const std::string& x, const std::string& y) {
    std::error_code ignored;
    const std::filesystem::path a = std::filesystem::weakly_canonical(x, ignored),
                                b = std::filesystem::weakly_canonical(y, ignored);
    return !a.empty() && a == b &&
           (!std::filesystem::exists(a, ignored) || std::filesystem::is_regular_file(a, ignored));
  };
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto& [option, path] = files[i];
    for (std::size_t k = 0; k < i; ++k)
      if (is_same(path, files[k].second))
        usage(fmt::format("{} and {} are one file, {}; give each its own", files[k].first, option, path));
    for (const std::string& read : read_by(a))
      if (!read.empty() && is_same(path, read))
        usage(fmt::format("{} {} is what the command reads; give another file", option, path));
  }
}

DType dtype_of(std::string name) {
  static const std::map<std::string, std::string> kShort = {
      {"fp32", "float32"}, {"fp64", "float64"}, {"bf16", "bfloat16"}, {"fp16", "float16"}};
  if (const auto whole = kShort.find(name); whole != kShort.end()) name = whole->second;
  if (name != "float32" && name != "float64" && name != "bfloat16" && name != "float16")
    usage(fmt::format("--dtype is float32, float64, bfloat16 or float16 (fp32, fp64, bf16, fp16), not '{}'", name));
  return parse_dtype(name);
}

// A bare number below a megabyte is hardly meant as bytes.
int64_t memory_limit_of(const std::string& text) {
  const std::optional<Bytes> bytes = parse_bytes(text);
  if (!bytes)
    usage(fmt::format("--memory-limit takes an amount of memory, as 80GB, 80GiB or 80000000000, not '{}'", text));
  if (bytes->bare && bytes->bytes < 1'000'000)
    usage(fmt::format("--memory-limit {0} is {0} bytes a device; is {0}{1} meant? {0}B stands for bytes", text,
                      bytes->bytes < 4096 ? "GB" : "MB"));
  return bytes->bytes;
}

// compare takes one model with searches, or plans; a plan may be evaluated on another cluster than its own.
void take_compared(Arguments& a, const CLI::App& command) {
  const auto plans = std::count_if(a.targets.begin(), a.targets.end(), is_plan_file);
  const bool searches = is_given(command, "--search");
  if (plans == 0 && a.targets.size() > 1)
    usage(fmt::format("compare takes one model with --search, or plans; '{}' and '{}' are two models", a.targets[0],
                      a.targets[1]));
  if (plans == 0 && !searches) usage("compare: --search names what makes the plans; see `partita searches`");
  if (plans == 0) {
    a.target = a.targets[0];
    return;
  }
  if (static_cast<size_t>(plans) < a.targets.size()) usage("compare takes one model with --search, or plans, not both");
  if (searches) usage("compare: --search makes plans of a model; of plans leave it out");
  a.is_plan = true;
}

bool is_hardware(std::string_view option) { return option == "--cluster" || option == "--devices"; }

// A plan file holds its model's settings and its request; another choice is another plan.
void validate_options_for_plans(const Arguments& a, const CLI::App& command) {
  for (const char* fixed : {"--bind",
                            "--batch",
                            "--tdl",
                            "--loss",
                            "--optimizer",
                            "--lr",
                            "--momentum",
                            "--weight-decay",
                            "--clip-norm",
                            "--schedule",
                            "--dtype",
                            "--loss-scale",
                            "--cluster",
                            "--devices",
                            "--search",
                            "--objective",
                            "--pin",
                            "--memory-limit",
                            "--bucket",
                            "--time-limit",
                            "--max-steps",
                            "--gap",
                            "--batch-norm-groups",
                            "--recompute",
                            "--micro-batches",
                            "--micro-batch-size",
                            "--from"})
    if (is_given(command, fixed) && !(a.command == "compare" && is_hardware(fixed)))
      usage(fmt::format("{} is fixed in the plan {}; plan again with it, or give the model", fixed,
                        a.target.empty() ? a.targets[0] : a.target));
}

// A profile is of this machine, a work list of a cluster's devices: of the first plan's if none is named.
void take_profile(Arguments& a, const CLI::App& command) {
  if (a.output.empty() && a.worklist.empty())
    usage("profile: -o FILE measures on this machine; --worklist FILE writes what to measure elsewhere");
  constexpr double kMostSeconds = 60;  // of one kernel
  if (a.measure_seconds.value_or(0) > kMostSeconds)
    usage(fmt::format("profile --seconds: at most {} for each kernel, not {}", kMostSeconds, *a.measure_seconds));
  const bool plans = std::all_of(a.targets.begin(), a.targets.end(), is_plan_file);
  if (!a.worklist.empty() && !plans && !is_given(command, "--cluster"))
    usage("--worklist: --cluster says for which devices; see `partita clusters`");
  if (!a.worklist.empty() && !is_given(command, "--cluster")) a.request.cluster.clear();
}

void take_bindings(Arguments& a, const RawOptions& raw) {
  for (const std::string& b : raw.bind) {
    auto [key, value] = key_value(b, "--bind");
    if (!a.request.bindings.emplace(key, value).second) usage(fmt::format("--bind names '{}' twice", key));
  }
  if (!raw.batch.empty() && !a.request.bindings.emplace("batch", raw.batch).second)
    usage("--batch and --bind batch=.. say the same twice");
}

void validate_positive(const char* option, double value) {
  if (!(value > 0 && std::isfinite(value))) fail("{} takes a finite number above 0, not {}", option, value);
}

// Takes the objective of training, and its settings.
void take_training(Arguments& a, const RawOptions& raw, const CLI::App& command, const OpRegistry& registry) {
  Optimizer& optimizer = a.request.optimizer;
  a.request.loss = raw.loss;
  if (raw.loss)
    if (auto names = loss_names(); std::find(names.begin(), names.end(), *raw.loss) == names.end())
      usage(fmt::format("unknown loss '{}'; there are: {}", *raw.loss, fmt::join(names, ", ")));
  try {
    if (a.command == "train" && a.steps) optimizer = with_steps(optimizer, *a.steps, registry);
    check_optimizer_names(optimizer, registry);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    usage(error.what());
  }
  if (is_given(command, "--clip-norm")) validate_positive("--clip-norm", optimizer.clip_norm);
  check_optimizer(optimizer, registry);
  if (const std::string doubt = optimizer_warning(optimizer, registry); !doubt.empty()) tell("{}", doubt);
  if (a.request.loss_scale) validate_positive("--loss-scale", *a.request.loss_scale);
  a.request.dtype = dtype_of(raw.dtype);
  if (const std::string& groups = a.request.batch_norm_groups; groups != "replica") batch_norm_groups_of(a.request);
  else if (a.command == "show") usage("--batch-norm-groups replica: show has no replicas; give a number");
}

void take_budget(Arguments& a, const RawOptions& raw) {
  a.request.objective = *objective_of(raw.objective);
  a.request.budget.seconds = raw.time_limit;
  a.request.budget.deadline = deadline_of_process(raw.time_limit);
  a.request.budget.steps = raw.max_steps;
  if (raw.memory_limit) a.request.memory_limit_bytes = memory_limit_of(*raw.memory_limit);
  if (raw.bucket) a.request.bucket_bytes = bucket_bytes_of("--bucket", *raw.bucket);
}

std::string without_spaces(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

void take_searches(Arguments& a, const RawOptions& raw) {
  if (a.command == "compare" && a.is_plan) return;
  if (a.command == "compare") {
    size_t from = 0;
    while (from <= raw.searches.size()) {
      const size_t comma = std::min(raw.searches.find(',', from), raw.searches.size());
      const std::string item = without_spaces(raw.searches.substr(from, comma - from));
      from = comma + 1;
      // "option=value" goes on with the options of the search before: a search has no '=' ahead of its '?'.
      const bool option = item.find('=') < item.find('?') && !a.searches.empty();
      if (!option) a.searches.push_back(item);
      else a.searches.back() += (a.searches.back().find('?') == std::string::npos ? "?" : ",") + item;
    }
    for (const std::string& s : a.searches) parse_search(s);
    return;
  }
  a.request.prove = a.command == "plan" && !a.write_bound.empty();
  const bool estimates = search_of(a.request).entry->estimates;
  if (estimates && (a.command != "plan" || !a.output.empty()))
    usage(
        fmt::format("search '{}' is evaluated by the simulator and has no plan that could be written or run; "
                    "`partita plan` and `partita compare` print its figures",
                    a.request.search));
}

}  // namespace

bool is_plan_file(const std::string& target) {
  return target.ends_with(".json") && (!is_regular_file(target) || !is_huggingface_config(read_file(target)));
}

Hardware hardware_of(const Arguments& a) { return {a.request.profile_file, a.request.cluster, a.request.devices}; }

Arguments parse_arguments(int argc, const char* const* argv) {
  Arguments a;
  RawOptions raw;
  const auto registry = standard_ops();
  CLI::App app("Partita turns one single-device model into one parallel training run.", "partita");
  app.require_subcommand(1);
  app.fallthrough(false);
  add_commands(app, a, raw, *registry);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    app.exit(e, std::cout, std::cerr);
    return {};
  } catch (const CLI::ParseError& e) {
    usage(fmt::format("{}\nRun with --help for the options.", e.what()));
  }
  const CLI::App& command = *app.get_subcommands()[0];
  a.command = command.get_name();
  if (a.command == "compare") take_compared(a, command);
  a.request.model = a.target;
  if (!is_given(command, "--cluster") && a.request.devices > 0)
    a.request.cluster = fmt::format("local:{}", a.request.devices);
  else if (!is_given(command, "--cluster") && (a.command == "simulate" || (a.command == "compare" && a.is_plan)))
    a.request.cluster.clear();  // the plan's own
  if (is_given(command, "--devices") && a.request.devices < 1) usage("--devices takes a positive number");
  if (a.command == "train" || a.command == "run") a.is_plan = is_plan_file(a.target);
  if (a.is_plan) validate_options_for_plans(a, command);
  validate_distinct_files(a);
  if (is_given(command, "--tdl"))
    a.request.tdl = read_file(a.request.tdl_file, "descriptions of operators", kMostOfDescription);
  if (a.epochs && !(*a.epochs > 0 && std::isfinite(*a.epochs))) usage("--epochs takes a positive number");
  take_bindings(a, raw);
  take_training(a, raw, command, *registry);
  take_budget(a, raw);
  take_searches(a, raw);
  if (a.command == "profile") take_profile(a, command);
  if (a.command == "place") {
    const bool latency = a.place_objective == "latency";
    if (latency && a.contiguous) usage("--contiguous is of max-load; subgraphs of a latency are contiguous always");
    if (!latency && is_given(command, "--subgraphs")) usage("--subgraphs is of latency; with max-load leave it out");
  }
  if (a.command == "train" && a.steps && a.epochs) usage("--steps and --epochs: give one");
  if (a.steps && *a.steps < 1) usage("--steps takes a positive number");
  return a;
}

}  // namespace partita
