#include "partita/cli/arguments.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/cli/progress.h"
#include "partita/models/huggingface.h"
#include "partita/ops/ops.h"
#include "partita/runtime/array_file.h"

namespace partita {

namespace {

[[noreturn]] void usage(const std::string& message) { throw Error(ExitCode::kUsage, message); }

std::pair<std::string, std::string> key_value(const std::string& text, const char* option) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) usage(fmt::format("{} takes NAME=VALUE, not '{}'", option, text));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// Options whose values need more than CLI11's own reading.
struct Raw {
  std::vector<std::string> bind;
  std::string batch, dtype = "float32", searches;
  std::optional<double> time_limit;
  std::optional<int64_t> max_steps;
  std::optional<std::string> loss, memory_limit;
};

// A count: no sign, no fraction, within 64 bits; CLI11 would wrap it round or take the largest.
CLI::Validator count() {
  return CLI::Validator(
      [](std::string& text) {
        uint64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc() && end == text.data() + text.size()) return std::string();
        return fmt::format("takes a whole number from 0 to 2^64 - 1, not {}", text);
      },
      "");
}

// "nan" is in no range, and CLI11 would take it for any.
CLI::Validator finite() {
  return CLI::Validator(
      [](std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        return *end == 0 && !std::isfinite(value) ? fmt::format("takes a number, not {}", text) : std::string();
      },
      "");
}

CLI::Validator path() {
  return CLI::Validator(
      [](std::string& text) {
        return text.empty() ? std::string("takes a file's path, not an empty one") : std::string();
      },
      "");
}

// The files that a command writes: each is another, and none is what it reads, but weights, which training may bring up
// to date.
void expect_own_files(const Arguments& a) {
  std::vector<std::pair<const char*, std::string>> files;
  for (const auto& [option, path] : {std::pair<const char*, std::string>{"-o", a.output},
                                     {"--write-bound", a.write_bound},
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
    for (const std::string& read : {a.target, a.data, a.test_data, a.inputs, a.request.tdl_file, a.request.pin_file})
      if (!read.empty() && is_same(path, read))
        usage(fmt::format("{} {} is what the command reads; give another file", option, path));
  }
}

void add_model_options(CLI::App& c, Arguments& a, Raw& raw, const OpRegistry& registry) {
  c.add_option("--bind", raw.bind, "bind a symbolic dimension or a model option: k=v")->allow_extra_args(false);
  c.add_option("--batch", raw.batch, "samples a step, all devices together");
  c.add_option("--tdl", a.request.tdl_file, "descriptions of operations that the model has and Partita has not");
  c.add_option("--loss", raw.loss, fmt::format("{}", fmt::join(loss_names(), ", ")));
  c.add_option(
      "--optimizer", a.request.optimizer.kind,
      fmt::format("{}; NAME?option=value: see `partita ops NAME`", fmt::join(optimizer_names(registry), ", ")));
  c.add_option("--lr", a.request.optimizer.lr, "learning rate");
  c.add_option("--momentum", a.request.optimizer.momentum, "of sgd");
  c.add_option("--weight-decay", a.request.optimizer.weight_decay, "of the optimizer");
  c.add_option("--clip-norm", a.request.optimizer.clip_norm, "largest norm of all gradients together");
  c.add_option(
      "--schedule", a.request.optimizer.schedule,
      fmt::format("of the learning rate: {}; NAME?warmup=N,steps=N", fmt::join(schedule_names(registry), ", ")));
  c.add_option("--dtype", raw.dtype,
               "float32, float64 (fp32, fp64), or bfloat16 or float16 (bf16, fp16) with float32 weights");
  c.add_option("--loss-scale", a.request.loss_scale,
               "the backward pass starts from the loss times this (float16: 1024)");
  c.add_option("--recompute", a.request.recompute,
               "cheap: what takes no products is made again in the backward pass and not kept until then")
      ->check(CLI::IsMember(recompute_kinds()));
}

// When a search ends, and what it draws from.
void add_budget_options(CLI::App& c, Arguments& a, Raw& raw, const char* limit) {
  c.add_option("--time-limit", raw.time_limit, limit)->check(CLI::PositiveNumber)->check(finite());
  c.add_option("--max-steps", raw.max_steps, "steps for the search")->check(count());
  c.add_option("--gap", a.request.budget.gap, "stop once this near to the proved bound: 0.0001 of the cost")
      ->check(CLI::Range(0.0, 1.0))
      ->check(finite());
  c.add_option("--seed", a.request.seed, "of everything random")->check(count());
}

void add_plan_options(CLI::App& c, Arguments& a, Raw& raw, bool one_search) {
  c.add_option("--cluster", a.request.cluster, "preset or YAML file; see `partita clusters`");
  c.add_option("--devices", a.request.devices, "the first N devices of the cluster; without --cluster: local:N");
  if (c.get_name() == "plan" || c.get_name() == "compare")
    c.add_option("--from", a.request.from_file, "a plan of the same model to begin the search with");
  if (one_search) c.add_option("--search", a.request.search, "NAME or NAME?option=value; see `partita searches`");
  c.add_option("--objective", a.request.objective, "comm: bytes moved; time: of the simulated step")
      ->check(CLI::IsMember({"comm", "time"}));
  c.add_option("--pin", a.request.pin_file, "a part of a plan that stays as it is");
  c.add_option("--memory-limit", raw.memory_limit, "what a device may use: 80GB (10^9), 80GiB (2^30), or bytes");
  add_budget_options(c, a, raw, "seconds from the start of the program, of compare for each search");
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

// A MODEL|PLAN that is a plan.
bool is_plan_file(const std::string& target) {
  return target.ends_with(".json") &&
         (!std::filesystem::is_regular_file(target) || !is_huggingface_config(read_file(target)));
}

}  // namespace

Arguments parse_arguments(int argc, const char* const* argv) {
  Arguments a;
  Raw raw;
  const auto registry = standard_ops();
  CLI::App app("Partita turns one single-device model into one parallel training run.", "partita");
  app.require_subcommand(1);
  app.fallthrough(false);
  auto command = [&](const char* name, const char* what) {
    CLI::App* c = app.add_subcommand(name, what);
    c->add_flag("--json", a.json, "print one JSON object");
    c->add_flag("--verbose", a.verbose, "how long each step took");
    return c;
  };
  CLI::App* show = command("show", "what a model is");
  show->add_option("MODEL", a.target)->required();
  show->add_flag("--nodes", a.nodes, "every node of the file: imported, folded, or not");
  add_model_options(*show, a, raw, *registry);
  CLI::App* plan = command("plan", "find how to split a model over a cluster");
  plan->add_option("MODEL", a.target)->required();
  add_model_options(*plan, a, raw, *registry);
  add_plan_options(*plan, a, raw, true);
  plan->add_option("-o", a.output, "write the plan here")->check(path());
  plan->add_option("--write-bound", a.write_bound,
                   "write the lower bound's proof here: .json or .json.gz; see `check --bound`")
      ->check(path());
  CLI::App* simulate = command("simulate", "predict a plan's step time and memory");
  simulate->add_option("PLAN", a.target)->required();
  simulate->add_option("--trace", a.trace, "write a Chrome trace here")->check(path());
  CLI::App* compare = command("compare", "several searches on one model");
  compare->add_option("MODEL", a.target)->required();
  compare->add_option("--search", raw.searches, "names with commas between")->required();
  add_model_options(*compare, a, raw, *registry);
  add_plan_options(*compare, a, raw, false);
  CLI::App* run = command("run", "one forward pass");
  run->add_option("MODEL|PLAN", a.target)->required();
  run->add_option("--inputs", a.inputs, ".npz of arrays named as the inputs")->required();
  run->add_option("--weights", a.weights, ".safetensors, an index of several, or their folder");
  run->add_option("-o", a.output, "write the outputs here (.npz)")->check(path());
  add_model_options(*run, a, raw, *registry);
  add_plan_options(*run, a, raw, true);
  CLI::App* train = command("train", "train on this machine");
  train->add_option("MODEL|PLAN", a.target)->required();
  add_model_options(*train, a, raw, *registry);
  add_plan_options(*train, a, raw, true);
  train->add_option(
      "--engine", [](const CLI::results_t& r) { return r[0] == "threads"; }, "threads: N devices in this process");
  train->add_option("--data", a.data, ".npz: arrays named as the inputs; none: synthetic samples");
  train->add_option("--test-data", a.test_data, ".npz");
  train->add_option("--steps", a.steps, "training steps");
  train->add_option("--epochs", a.epochs, "passes over the data");
  train->add_flag("--no-shuffle", a.no_shuffle, "samples in file order");
  train->add_option("--weights", a.weights, "start from these: .safetensors, an index of several, or their folder");
  train->add_option("--save", a.save, "write the weights here (.safetensors)")->check(path());
  train->add_option("--verify", a.verify, "serial: run unsharded too, and compare")->check(CLI::IsMember({"serial"}));
  train->add_option("--log", a.log, "one JSON object a step")->check(path());
  train->add_option("--trace", a.trace, "Chrome trace of the first steps")->check(path());
  CLI::App* check = command("check", "judge a plan, or the proof of a bound, independently of what made it");
  check->add_option("PLAN|PROBLEM", a.target)->required();
  check->add_option("--bound", a.bound, "a proof that `plan` or `solve` wrote with --write-bound");
  CLI::App* explain = command("explain", "why a plan is as it is, and what the alternatives would move");
  explain->add_option("PLAN", a.target)->required();
  explain->add_option("OP|TENSOR", a.name, "of the training graph; none: the dearest of the plan");
  CLI::App* solve = command("solve", "a sharding problem in the public IOPDDL format");
  solve->add_option("PROBLEM", a.target, ".json or .json.gz")->required();
  add_budget_options(*solve, a, raw, "seconds from the start of the program");
  solve->add_option("-o", a.output, "write the list of choices here")->check(path());
  solve
      ->add_option("--write-bound", a.write_bound,
                   "write the lower bound's proof here: .json or .json.gz; see `check --bound`")
      ->check(path());
  CLI::App* tdl = command("tdl", "analyse a description");
  tdl->add_option("TEXT", a.target)->required();
  tdl->add_option("--shape", a.shapes, "an operand's shape: a=8,4 (else small extents are chosen)")
      ->allow_extra_args(false);
  tdl->add_option("--attribute", a.attributes, "p=1")->allow_extra_args(false);
  tdl->add_option("--workers", a.workers, "parts of a split")->check(CLI::Range(1, 64));
  command("models", "the zoo");
  command("clusters", "cluster presets");
  command("searches", "what can make a plan");
  CLI::App* ops = command("ops", "the operations; with a name: formula, strategies, signatures");
  ops->add_option("NAME", a.target);
  ops->add_option("--workers", a.workers, "parts of a split")->check(CLI::Range(1, 64));

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    app.exit(e, std::cout, std::cerr);
    return {};
  } catch (const CLI::ParseError& e) {
    usage(fmt::format("{}\nRun with --help for the options.", e.what()));
  }
  a.command = app.get_subcommands()[0]->get_name();
  a.request.model = a.target;
  CLI::App* chosen = app.get_subcommands()[0];
  auto given = [&](const char* option) {
    CLI::Option* o = chosen->get_option_no_throw(option);
    return o && o->count() > 0;
  };
  if (!given("--cluster") && a.request.devices > 0) a.request.cluster = fmt::format("local:{}", a.request.devices);
  if (given("--devices") && a.request.devices < 1) usage("--devices takes a positive number");
  // A plan file holds its model's settings and what it was planned for; another choice is another plan.
  a.is_plan = (a.command == "train" || a.command == "run") && is_plan_file(a.target);
  if (a.is_plan)
    for (const char* fixed :
         {"--bind",         "--batch",     "--tdl",      "--loss",         "--optimizer",  "--lr",        "--momentum",
          "--weight-decay", "--clip-norm", "--schedule", "--dtype",        "--loss-scale", "--cluster",   "--devices",
          "--search",       "--objective", "--pin",      "--memory-limit", "--time-limit", "--max-steps", "--gap"})
      if (given(fixed))
        usage(fmt::format("{} is fixed in the plan {}; plan again with it, or give the model", fixed, a.target));
  expect_own_files(a);
  if (given("--tdl")) a.request.tdl = read_file(a.request.tdl_file);
  const Optimizer& optimizer = a.request.optimizer;
  for (const auto& [name, value] : {std::pair{"--lr", optimizer.lr},
                                    {"--momentum", optimizer.momentum},
                                    {"--weight-decay", optimizer.weight_decay}})
    if (!std::isfinite(value)) usage(fmt::format("{} takes a finite number", name));
  if (a.epochs && !(*a.epochs > 0 && std::isfinite(*a.epochs))) usage("--epochs takes a positive number");
  for (const std::string& b : raw.bind) {
    auto [key, value] = key_value(b, "--bind");
    if (!a.request.bindings.emplace(key, value).second) usage(fmt::format("--bind names '{}' twice", key));
  }
  if (!raw.batch.empty() && !a.request.bindings.emplace("batch", raw.batch).second)
    usage("--batch and --bind batch=.. say the same twice");
  a.request.loss = raw.loss;
  if (raw.loss)
    if (auto names = loss_names(); std::find(names.begin(), names.end(), *raw.loss) == names.end())
      usage(fmt::format("unknown loss '{}'; there are: {}", *raw.loss, fmt::join(names, ", ")));
  if (given("--clip-norm") && !(optimizer.clip_norm > 0)) usage("--clip-norm takes a positive number");
  try {
    if (a.command == "train" && a.steps) a.request.optimizer = with_steps(a.request.optimizer, *a.steps, *registry);
    check_optimizer(a.request.optimizer, *registry);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    usage(error.what());
  }
  if (const auto& scale = a.request.loss_scale; scale && !(*scale > 0 && std::isfinite(*scale)))
    usage("--loss-scale takes a positive number");
  a.request.dtype = dtype_of(raw.dtype);
  a.request.budget.seconds = raw.time_limit;
  a.request.budget.deadline = deadline_of_process(raw.time_limit);
  a.request.budget.steps = raw.max_steps;
  if (raw.memory_limit) a.request.memory_limit_bytes = memory_limit_of(*raw.memory_limit);
  if (a.command == "compare") {
    size_t from = 0;
    while (from <= raw.searches.size()) {
      size_t comma = std::min(raw.searches.find(',', from), raw.searches.size());
      a.searches.push_back(raw.searches.substr(from, comma - from));
      from = comma + 1;
    }
    for (const std::string& s : a.searches) parse_search(s);
  } else {
    a.request.prove = a.command == "plan" && !a.write_bound.empty();
    const bool estimates = search_of(a.request).entry->estimates;
    if (estimates && (a.command != "plan" || !a.output.empty()))
      usage(
          fmt::format("search '{}' is evaluated by the simulator and has no plan that could be written or run; "
                      "`partita plan` and `partita compare` print its figures",
                      a.request.search));
  }
  if (a.command == "train" && a.steps && a.epochs) usage("--steps and --epochs: give one");
  if (a.steps && *a.steps < 1) usage("--steps takes a positive number");
  return a;
}

}  // namespace partita
