// Declares every command and its options: a function a command.
#include "partita/cli/options.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "partita/base/error.h"
#include "partita/ops/ops.h"

namespace partita {

namespace {

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

CLI::Validator positive_seconds() {
  return CLI::Validator(
      [](std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        if (!text.empty() && *end == 0 && std::isfinite(value) && value > 0) return std::string();
        return fmt::format("takes a positive number of seconds, not '{}'", text);
      },
      "");
}

// `what`: "a file's path".
CLI::Validator not_empty(const char* what) {
  return CLI::Validator(
      [what](std::string& text) {
        return text.empty() ? fmt::format("takes {}, not an empty one", what) : std::string();
      },
      "");
}
CLI::Validator path() { return not_empty("a file's path"); }

// ---------------------------------------------------------------- options of several commands

void add_model_options(CLI::App& c, Arguments& a, RawOptions& raw, const OpRegistry& registry) {
  c.add_option("--bind", raw.bind, "bind a symbolic dimension or a model option: k=v")->allow_extra_args(false);
  c.add_option("--batch", raw.batch, "samples a step, all devices together")->check(not_empty("a number of samples"));
  c.add_option("--tdl", a.request.tdl_file, "descriptions of operations that the model has and Partita has not")
      ->check(path());
  c.add_option("--loss", raw.loss, fmt::format("{}", fmt::join(loss_names(), ", ")));
  c.add_option("--optimizer", a.request.optimizer.kind,
               fmt::format("{}; NAME?option=value: see `partita ops NAME`; fine=1: in elementary operations; "
                           "keep_gradients=1: gradients stay until the step's last update",
                           fmt::join(optimizer_names(registry), ", ")));
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
  c.add_option(
       "--batch-norm-groups", a.request.batch_norm_groups,
       "statistics of so many groups of consecutive samples: a number; micro: one a micro-batch; replica: one a "
       "micro-batch on each replica")
      ->check(not_empty("a number, replica or micro"));
  c.add_option("--recompute", a.request.recompute,
               "what is not kept for the backward pass, but made again in it: results of operations without products "
               "(cheap; pointwise: that reduce nothing either), the core of attention, or all but the inputs of each "
               "layer")
      ->check(CLI::IsMember(recompute_kinds()));
  c.add_option("--micro-batches", a.request.micro_batches, "parts of the batch that a step works on one after another")
      ->check(CLI::Range(1, 1 << 20));
  c.add_option("--micro-batch-size", a.request.micro_batch_size,
               "samples of each such part on each replica, in place of --micro-batches")
      ->check(CLI::Range(1, 1 << 30));
}

// Adds the limits of a search, and its seed.
void add_budget_options(CLI::App& c, Arguments& a, RawOptions& raw, const char* limit) {
  c.add_option("--time-limit", raw.time_limit, limit)->check(positive_seconds());
  c.add_option("--max-steps", raw.max_steps, "steps for the search")->check(count());
  c.add_option("--gap", a.request.budget.gap, "stop once this near to the proved bound: 0.0001 of the cost")
      ->check(CLI::Range(0.0, 1.0))
      ->check(finite());
  c.add_option("--seed", a.request.seed, "of everything random")->check(count());
}

void add_profile_option(CLI::App& c, Arguments& a) {
  c.add_option("--profile", a.request.profile_file, "times that were measured: what `partita profile` wrote")
      ->check(path());
}

void add_plan_options(CLI::App& c, Arguments& a, RawOptions& raw) {
  c.add_option("--cluster", a.request.cluster, "preset or YAML file; see `partita clusters`");
  c.add_option("--devices", a.request.devices, "the first N devices of the cluster; without --cluster: local:N");
  c.add_option("--objective", raw.objective, "comm: bytes moved; time: of the simulated step")
      ->check(CLI::IsMember({text_of(Objective::kComm), text_of(Objective::kTime)}));
  add_profile_option(c, a);
  c.add_option("--pin", a.request.pin_file, "a part of a plan that stays as it is")->check(path());
  c.add_option("--memory-limit", raw.memory_limit, "what a device may use: 80GB (10^9), 80GiB (2^30), or bytes");
  c.add_option("--bucket", raw.bucket,
               "small gradients are exchanged together until they are so much: 25MiB if not given; 0: each by itself");
  add_budget_options(c, a, raw, "seconds from the start of the program, of compare for each search");
}

void add_search_option(CLI::App& c, Arguments& a) {
  c.add_option("--search", a.request.search, "NAME or NAME?option=value; see `partita searches`");
}

void add_from_option(CLI::App& c, Arguments& a) {
  c.add_option("--from", a.request.from_file, "a plan of the same model to begin the search with")->check(path());
}

void add_dump_option(CLI::App& c, Arguments& a) {
  c.add_option("--dump", a.dump, "a folder for what each step makes: 00-load.txt, 01-autodiff.txt, ..")
      ->check(not_empty("a folder's path"));
}

void add_bound_output(CLI::App& c, Arguments& a) {
  c.add_option("--write-bound", a.write_bound,
               "write the lower bound's proof here: .json or .json.gz; see `check --bound`")
      ->check(path());
}

CLI::App& add_command(CLI::App& app, Arguments& a, const char* name, const char* what) {
  CLI::App* c = app.add_subcommand(name, what);
  c->add_flag("--json", a.json, "print one JSON object");
  c->add_flag("--verbose", a.verbose, "how long each step took");
  return *c;
}

// ---------------------------------------------------------------- the commands

void add_show(CLI::App& app, Arguments& a, RawOptions& raw, const OpRegistry& registry) {
  CLI::App& c = add_command(app, a, "show", "what a model is");
  c.add_option("MODEL", a.target)->required();
  c.add_flag("--nodes", a.nodes, "every node of the file: imported, folded, or not");
  add_model_options(c, a, raw, registry);
}

void add_plan(CLI::App& app, Arguments& a, RawOptions& raw, const OpRegistry& registry) {
  CLI::App& c = add_command(app, a, "plan", "find how to split a model over a cluster");
  c.add_option("MODEL", a.target)->required();
  add_model_options(c, a, raw, registry);
  add_plan_options(c, a, raw);
  add_search_option(c, a);
  add_from_option(c, a);
  c.add_option("-o", a.output, "write the plan here")->check(path());
  add_bound_output(c, a);
  add_dump_option(c, a);
}

void add_simulate(CLI::App& app, Arguments& a) {
  CLI::App& c = add_command(app, a, "simulate", "predict a plan's step time and memory");
  c.add_option("PLAN", a.target)->required();
  CLI::Option* trace = c.add_option("--trace", a.trace, "write a Chrome trace here")->check(path());
  c.add_option("--trace-devices", a.trace_devices,
               "all; representatives: some devices and micro-batches for all, as a trace that would be too large has")
      ->check(CLI::IsMember({"all", "representatives"}))
      ->needs(trace);
  c.add_option("--cluster", a.request.cluster, "in place of the plan's own: preset or YAML file");
  c.add_option("--devices", a.request.devices, "the first N devices of --cluster");
  add_profile_option(c, a);
  add_dump_option(c, a);
}

void add_compare(CLI::App& app, Arguments& a, RawOptions& raw, const OpRegistry& registry) {
  CLI::App& c = add_command(app, a, "compare", "several searches on one model, or plans");
  c.add_option("MODEL|PLAN", a.targets, "a model, with --search; or one or more plans")->required();
  c.add_option("--search", raw.searches, "names with commas between");
  add_model_options(c, a, raw, registry);
  add_plan_options(c, a, raw);
  add_from_option(c, a);
  c.add_flag("--measure", a.measure, "run each plan on this machine, and print what a step took beside the prediction");
  c.add_option("--seconds", a.measure_seconds, "of each measurement, 2 if not given")->check(positive_seconds());
  c.add_option("--trace", a.trace, "with --measure: predicted and measured steps in one Chrome trace")->check(path());
}

void add_predict(CLI::App& app, Arguments& a) {
  CLI::App& c = add_command(app, a, "predict", "what the cost model says of measurements, and how far off it is");
  c.add_option("TABLE", a.target, ".csv (docs/reference/predict.md), or the printed output of nccl-tests")->required();
  c.add_option("--cluster", a.request.cluster, "preset or YAML file; see `partita clusters`")->required();
  c.add_option("--devices", a.request.devices, "the first N devices of the cluster");
  c.add_option("--only", a.only, "rows whose column is so, * for any text: system=HGX*")->allow_extra_args(false);
  c.add_option("--collective", a.collective, "what nccl-tests measured, where its output does not say")
      ->check(not_empty("a name"));
  c.add_option("-o", a.output, "write the table with predicted_us, algorithm, error and note here")->check(path());
}

void add_profile(CLI::App& app, Arguments& a, RawOptions& raw, const OpRegistry& registry) {
  CLI::App& c = add_command(app, a, "profile", "measure kernels, collectives and copies on this machine");
  c.add_option("MODEL|PLAN", a.targets, "whose kernels: of all plans of a model, or of one plan")->required();
  c.add_option("--devices", a.request.devices,
               "plans have up to so many; default: one for each core, with --worklist all of the cluster's, up to 8");
  CLI::Option* output =
      c.add_option("-o", a.output, "write the profile here; what it has already is not measured again")->check(path());
  CLI::Option* worklist = c.add_option("--worklist", a.worklist,
                                       "measure nothing; write the list of kernels here, for tools/profile_torch.py")
                              ->check(path())
                              ->excludes(output);
  c.add_option("--cluster", a.request.cluster, "with --worklist: whose devices the kernels are for")->needs(worklist);
  c.add_option("--seconds", a.measure_seconds, "of each kernel, 0.02 if not given")
      ->check(positive_seconds())
      ->excludes(worklist);
  add_model_options(c, a, raw, registry);
}

void add_clusters(CLI::App& app, Arguments& a) {
  CLI::App& c = add_command(app, a, "clusters", "cluster presets; with a name: its file");
  c.add_option("NAME", a.target)->check(not_empty("a name"));
}

void add_run(CLI::App& app, Arguments& a, RawOptions& raw, const OpRegistry& registry) {
  CLI::App& c = add_command(app, a, "run", "one forward pass");
  c.add_option("MODEL|PLAN", a.target)->required();
  c.add_option("--inputs", a.inputs, ".npz of arrays named as the inputs")->required()->check(path());
  c.add_option("--weights", a.weights, ".safetensors, an index of several, or their folder")->check(path());
  c.add_option("-o", a.output, "write the outputs here (.npz)")->check(path());
  add_model_options(c, a, raw, registry);
  add_plan_options(c, a, raw);
  add_search_option(c, a);
  add_dump_option(c, a);
}

void add_train(CLI::App& app, Arguments& a, RawOptions& raw, const OpRegistry& registry) {
  CLI::App& c = add_command(app, a, "train", "train on this machine");
  c.add_option("MODEL|PLAN", a.target)->required();
  add_model_options(c, a, raw, registry);
  add_plan_options(c, a, raw);
  add_search_option(c, a);
  c.add_option("--data", a.data, ".npz: arrays named as the inputs; none: synthetic samples")->check(path());
  c.add_option("--test-data", a.test_data, ".npz")->check(path());
  c.add_option("--steps", a.steps, "training steps");
  c.add_option("--epochs", a.epochs, "passes over the data");
  c.add_flag("--no-shuffle", a.no_shuffle, "samples in file order");
  c.add_option("--weights", a.weights, "start from these: .safetensors, an index of several, or their folder")
      ->check(path());
  c.add_option("--save", a.save, "write the weights here (.safetensors)")->check(path());
  c.add_option("--verify", a.verify, "serial: run unsharded too, and compare")->check(CLI::IsMember({"serial"}));
  c.add_option("--log", a.log, "one JSON object a step")->check(path());
  c.add_option("--trace", a.trace, "Chrome trace of the first steps")->check(path());
  add_dump_option(c, a);
}

void add_check(CLI::App& app, Arguments& a) {
  CLI::App& c = add_command(app, a, "check", "judge a plan, or the proof of a bound, independently of what made it");
  c.add_option("PLAN|PROBLEM", a.target)->required();
  c.add_option("--bound", a.bound, "a proof that `plan` or `solve` wrote with --write-bound")->check(path());
  add_dump_option(c, a);
}

void add_explain(CLI::App& app, Arguments& a) {
  CLI::App& c = add_command(app, a, "explain", "why a plan is as it is, and what the alternatives would move");
  c.add_option("PLAN", a.target)->required();
  c.add_option("OP|TENSOR", a.name, "of the training graph; none: the dearest of the plan")->check(not_empty("a name"));
  add_profile_option(c, a);
  add_dump_option(c, a);
}

void add_solve(CLI::App& app, Arguments& a, RawOptions& raw) {
  CLI::App& c = add_command(app, a, "solve", "a sharding problem in the public IOPDDL format");
  c.add_option("PROBLEM", a.target, ".json or .json.gz")->required();
  add_budget_options(c, a, raw, "seconds from the start of the program");
  c.add_option("-o", a.output, "write the list of choices here")->check(path());
  add_bound_output(c, a);
}

void add_place(CLI::App& app, Arguments& a, RawOptions& raw) {
  CLI::App& c = add_command(app, a, "place", "an operator graph on accelerators and CPUs, each operator whole");
  c.add_option("GRAPH", a.target, ".json")->required();
  c.add_option("--format", a.format, "dnn-partitioning: of Tarnawski et al. 2020")
      ->required()
      ->check(CLI::IsMember({"dnn-partitioning"}));
  c.add_option("--objective", a.place_objective,
               "max-load: of the device that is busy longest; latency: of one sample through all of the graph")
      ->required()
      ->check(CLI::IsMember({"max-load", "latency"}));
  c.add_flag("--contiguous", a.contiguous, "with max-load: no path between two forward nodes of a device leaves it");
  c.add_option("--subgraphs", a.subgraphs,
               "with latency: contiguous subgraphs that an accelerator runs, 1 if not given")
      ->check(CLI::Range(1, 1000));
  add_budget_options(c, a, raw, "seconds from the start of the program");
  c.add_option("-o", a.output, "write the placement here")->check(path());
}

void add_workers_option(CLI::App& c, Arguments& a) {
  c.add_option("--workers", a.workers, "parts of a split")->check(CLI::Range(1, 64));
}

void add_tdl(CLI::App& app, Arguments& a) {
  CLI::App& c = add_command(app, a, "tdl", "analyse a description");
  c.add_option("TEXT", a.target)->required();
  c.add_option("--shape", a.shapes, "an operand's shape: a=8,4 (else small extents are chosen)")
      ->allow_extra_args(false);
  c.add_option("--attribute", a.attributes, "p=1")->allow_extra_args(false);
  add_workers_option(c, a);
}

void add_ops(CLI::App& app, Arguments& a) {
  CLI::App& c = add_command(app, a, "ops", "the operations; with a name: formula, strategies, signatures");
  c.add_option("NAME", a.target)->check(not_empty("a name"));
  add_workers_option(c, a);
}

}  // namespace

void add_commands(CLI::App& app, Arguments& a, RawOptions& raw, const OpRegistry& registry) {
  add_show(app, a, raw, registry);
  add_plan(app, a, raw, registry);
  add_simulate(app, a);
  add_compare(app, a, raw, registry);
  add_predict(app, a);
  add_profile(app, a, raw, registry);
  add_run(app, a, raw, registry);
  add_train(app, a, raw, registry);
  add_check(app, a);
  add_explain(app, a);
  add_solve(app, a, raw);
  add_place(app, a, raw);
  add_tdl(app, a);
  add_command(app, a, "models", "the zoo");
  add_clusters(app, a);
  add_command(app, a, "searches", "what can make a plan");
  add_ops(app, a);
}

}  // namespace partita
