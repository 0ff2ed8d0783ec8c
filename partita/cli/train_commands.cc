// train, run: run a planned model, or a plan file, on this machine.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/interrupt.h"
#include "partita/base/output_file.h"
#include "partita/base/tell.h"
#include "partita/base/writes.h"
#include "partita/cli/commands.h"
#include "partita/cli/plan_figures.h"
#include "partita/graph/places.h"
#include "partita/runtime/npz.h"
#include "partita/train/batch_check.h"
#include "partita/train/dataset.h"
#include "partita/train/engine.h"
#include "partita/train/forward.h"
#include "partita/train/serial.h"
#include "partita/train/train.h"
#include "partita/train/weights_of_model.h"

namespace partita {

using Json = nlohmann::ordered_json;

namespace {

void print_note(const std::string& note) {
  tell_raw(fmt::format("{}{}\n", isatty(STDERR_FILENO) ? "\r" : "", readable(note)));
}

// The plan as it runs, with the differences from its figures.
Planned as_it_runs(Planned p, Runner& runner) {
  if (has_planned_places(p.forward))
    print_note(
        "experts: while it runs here each has a place for every token, so that none is dropped; `plan` counts on an "
        "even load, and on less time and memory");
  return runnable(std::move(p), runner);
}

// A signal during planning ends the command: a search that ends early has a plan, but the run has not begun.
Planned planned_for(const Arguments& a, Runner& runner, bool inference_only) {
  if (a.is_plan) return as_it_runs(open_plan(a.target, runner, Follow::kWhole, {a.request.profile_file}), runner);
  Request request = a.request;
  request.inference_only = inference_only;
  Planned p = plan_watched(request, runner);
  if (interrupted) throw Error(ExitCode::kInterrupted, "interrupted while it was planned, and nothing ran");
  return as_it_runs(std::move(p), runner);
}

TrainOptions options_of(const Arguments& a) {
  TrainOptions options;
  options.data = a.data;
  options.test_data = a.test_data;
  options.weights = a.weights;
  options.save = a.save;
  options.shuffle = !a.no_shuffle;
  options.verify_serial = a.verify == "serial";
  options.trace = !a.trace.empty();
  options.seed = a.request.seed;
  options.stop = &interrupted;
  options.note = print_note;
  options.steps = a.steps.value_or(0);
  options.epochs = a.epochs.value_or(1);
  return options;
}

// A line each few moments on standard error, and every step in the log.
struct StepLines {
  std::string& log;
  bool terminal = isatty(STDERR_FILENO);
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();

  void operator()(int64_t step, int64_t steps, double loss) {
    log += without_missing({{"step", step}, {"loss", loss}}).dump() + "\n";
    const auto now = std::chrono::steady_clock::now();
    const bool end = step + 1 == steps;
    if (!end && now - last < std::chrono::milliseconds(terminal ? 200 : 2000)) return;
    last = now;
    tell_raw(fmt::format("{}step {}/{}  loss {:.6f}{}", terminal ? "\r" : "", step + 1, steps, loss,
                         terminal && !end ? "   " : "\n"));
  }
};

int64_t peak_of(const TrainReport& r) { return *std::max_element(r.peak_bytes.begin(), r.peak_bytes.end()); }

Json train_json(const TrainReport& r) {
  Json json = {{"steps", r.steps}, {"loss_first", r.losses.front()}, {"loss_last", r.losses.back()}};
  if (r.test_accuracy) json["test_accuracy"] = *r.test_accuracy;
  json["samples_per_second"] = r.samples_per_second;
  json["peak_memory_bytes"] = peak_of(r);
  if (!r.max_error_vs_serial) return json;
  json["max_error_vs_serial"] = *r.max_error_vs_serial;
  json["max_loss_error_vs_serial"] = *r.max_loss_error_vs_serial;
  if (const auto rounding = r.rounding_error ? r.rounding_error : r.loss_rounding_error)
    json["rounding_error"] = *rounding;
  return json;
}

void print_train(const TrainReport& r, const Planned& p) {
  fmt::print("trained        {} steps of {} samples on {} devices, {:.0f} samples/s\n", r.steps,
             batch_of(p.training.whole_graph()), p.cluster.compute_count, r.samples_per_second);
  if (p.plan.model.micro_batches > 1) fmt::print("micro-batches  {}\n", p.plan.model.micro_batches);
  if (const std::string groups = batch_norm_groups_text(p); !groups.empty()) fmt::print("batch norm     {}\n", groups);
  fmt::print("loss           {:.6f} -> {:.6f}\n", r.losses.front(), r.losses.back());
  if (r.test_accuracy) fmt::print("test accuracy  {:.2f}%\n", 100 * *r.test_accuracy);
  fmt::print("peak memory    {} measured, {} planned\n", megabytes(static_cast<double>(peak_of(r))),
             megabytes(static_cast<double>(p.peak_memory_bytes())));
  if (!r.max_error_vs_serial) return;
  fmt::print("against serial largest weight difference {:.3g}, largest loss difference {:.3g}", *r.max_error_vs_serial,
             *r.max_loss_error_vs_serial);
  if (r.rounding_error) fmt::print("; other roundings of the serial run differ by {:.3g}", *r.rounding_error);
  else if (r.loss_rounding_error)
    fmt::print("; other roundings of the serial run's first loss differ by {:.3g}", *r.loss_rounding_error);
  fmt::print("\n");
}

// For a run that check_matches_serial() accepts.
std::string verdict_text(const TrainReport& r, DType dtype) {
  if (dtype != DType::kFloat64)
    return fmt::format("as the serial run: the first step's loss differs by {:.3g}, {:.1e} is allowed in {}",
                       *r.first_loss_error_vs_serial, allowed_first_loss(r, dtype), name_of(dtype));
  const std::string tolerance = fmt::format("{:.0e}", kFloat64Tolerance);
  if (r.rounding_error) return "as the serial run: rounding explains what differs by more than " + tolerance;
  return fmt::format("as the serial run: {} is allowed in float64", tolerance);
}

// With all its files. The log is written also of a run that ends with an error.
TrainReport trained(const Arguments& a, const Planned& p, TrainOptions options, const std::string& log) {
  std::optional<CatchInterrupt> caught;
  bool kept = false;
  options.before_steps = [&] { caught.emplace(); };
  const auto write_log = [&] {
    kept = true;
    if (!a.log.empty()) write_file(a.log, log);
  };
  const auto keep = [&](const TrainReport& r) {
    Writes writes;
    writes.add(write_log);
    if (!a.trace.empty()) writes.add([&] { write_file(a.trace, chrome_trace(r.trace, p.physical, p.cluster)); });
    caught.reset();
    writes.end();
  };
  try {
    return train(p, options, load_kernels(), keep);
  } catch (const Error&) {
    if (!kept && !log.empty()) write_log();
    throw;
  }
}

}  // namespace

int train_command(const Arguments& a) {
  for (const std::string& path : {a.save, a.log, a.trace}) validate_writable(path);
  Runner runner(true, a.dump);
  const Planned p = planned_for(a, runner, false);
  warn_of_profile(p.cluster);
  print_training_notes(p.findings);
  batch_of(p.training.whole_graph());  // refused before anything runs
  std::string log;
  TrainOptions options = options_of(a);
  options.progress = StepLines{log};
  if (p.other_batch) check_other_batch(*p.other_batch, load_kernels());
  const TrainReport r = trained(a, p, std::move(options), log);
  if (a.json) print_json(train_json(r));
  else print_train(r, p);
  print_timings(runner, a);
  if (r.interrupted) {
    tell("interrupted after step {}", r.steps);
    return static_cast<int>(ExitCode::kInterrupted);
  }
  if (!r.max_error_vs_serial) return 0;
  check_matches_serial(r, p.plan.model.dtype);
  if (!a.json) fmt::print("verified       {}\n", verdict_text(r, p.plan.model.dtype));
  return 0;
}

int run_command(const Arguments& a) {
  validate_writable(a.output);
  Runner runner(true, a.dump);
  const Arrays inputs = read_arrays(a.inputs);
  const Planned p = planned_for(a, runner, true);
  warn_of_profile(p.cluster);
  print_shape_notes(p.findings);
  ModelWeights weights;
  if (!a.weights.empty()) weights = load_weights(a.weights, p.forward, p.weight_names);
  for (const std::string& note : p.findings.batch) print_note(note);
  for (const std::string& note : weights.notes) print_note(note);
  if (p.other_batch) check_other_batch(*p.other_batch, load_kernels());
  const Evaluation e = evaluation(p, runner);
  const Arrays outputs =
      run_forward(e.graph, e.plan, p.cluster, inputs, weights.values, a.request.seed, load_kernels());
  if (!a.output.empty()) write_npz(a.output, outputs);
  Json json = Json::object();
  for (const auto& [name, values] : outputs)
    json[name] = {{"shape", values.shape}, {"dtype", std::string(name_of(values.dtype))}};
  if (a.json) print_json({{"outputs", json}});
  else
    for (const auto& [name, values] : outputs)
      fmt::print("{}: {} [{}]\n", name, name_of(values.dtype), fmt::join(values.shape, ", "));
  return 0;
}

}  // namespace partita
