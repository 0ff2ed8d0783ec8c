// Runs the training loop: a few steps at a time, with a look at the stop flag between them.
#include "partita/train/steps.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>

#include "partita/base/error.h"
#include "partita/graph/infer.h"
#include "partita/runtime/weights.h"
#include "partita/train/feed.h"
#include "partita/train/not_finite.h"

namespace partita {

namespace {

// Steps that run together overlap, without a look at the stop flag: one at first, then about as many as a second holds,
// and at most ten. A trace is of the first ten.
constexpr int64_t kStepsAtOnce = 10;
constexpr double kSecondsAtOnce = 1;

// Steps for a time alone: at least so many sets of them, and at most so many steps.
constexpr size_t kLeastTimedSets = 4;
constexpr int64_t kMostTimedSteps = 100'000;

int64_t steps_asked(const TrainOptions& options, const Batches& batches) {
  if (options.seconds) return kMostTimedSteps;
  if (options.steps > 0) return options.steps;
  return static_cast<int64_t>(std::clamp(options.epochs * static_cast<double>(batches.per_epoch()), 1.0, 1e15));
}

int64_t steps_at_once(int64_t done, double seconds) {
  const double steps_a_second = static_cast<double>(done) / std::max(seconds, 1e-9);
  return static_cast<int64_t>(std::clamp(kSecondsAtOnce * steps_a_second, 1.0, static_cast<double>(kStepsAtOnce)));
}

[[noreturn]] void refuse_overflow(const Graph& graph, int64_t step, const WatchingKernels& kernels) {
  const std::optional<OpId> first = step == 0 ? kernels.first() : std::nullopt;
  fail(
      "model '{}': the gradients of step {} are not finite, so the weights are lost{}; use a smaller --loss-scale{}, "
      "or bfloat16 in place of float16, whose largest number is 65504",
      graph.name, step + 1,
      first ? fmt::format(": {} is the first with a result that is not", describe(graph, graph.op(*first))) : "",
      step == 0 ? "" : " or learning rate");
}

// Losses by step, and the first step whose gradients are not finite.
struct Results {
  std::vector<double> losses;
  int64_t overflowed = INT64_MAX;
};

Hooks training_hooks(const Graph& graph, const Dataset& data, Batches& batches, const TrainOptions& options,
                     Kernels& kernels, Results& results) {
  // The second output, if there is one, is finite if all gradients are (Loss::scale).
  const TensorId gradients = graph.outputs.size() > 1 ? graph.outputs[1] : TensorId();
  Feed feed;
  feed.load = [&graph, &data, &batches, mutex = std::make_shared<std::mutex>()](TensorId input, int64_t step,
                                                                                Interval elements) {
    std::unique_lock<std::mutex> lock(*mutex);
    const std::vector<int64_t> items = batches.at(step);
    lock.unlock();
    return data.take(graph, input, items, elements);
  };
  feed.keep = [&graph, &results, gradients](TensorId output, int64_t step, const Values& value) {
    if (output == graph.loss) results.losses[static_cast<size_t>(step)] = value.real.at(0);
    else if (output == gradients && !std::isfinite(value.real.at(0)))
      results.overflowed = std::min(results.overflowed, step);
  };
  return hooks_of(graph, std::move(feed), kernels, options.seed);
}

// Reports once the first numbers that are not finite: after the first step, if that was watched, or with the first such
// loss.
class Notes {
 public:
  Notes(const Graph& graph, const WatchingKernels& kernels, const TrainOptions& options, bool watched)
      : graph_(graph), kernels_(kernels), options_(options), watched_(watched) {}

  void look(const std::vector<double>& losses, int64_t step) {
    if (said_ || !options_.note) return;
    const double loss = losses[static_cast<size_t>(step)];
    std::string note = step == 0 && watched_ ? first_step_report(graph_, kernels_, loss) : "";
    if (note.empty() && !std::isfinite(loss))
      note = later_step_report(step, step > 0 ? losses[static_cast<size_t>(step - 1)] : loss, losses[0], watched_);
    said_ = !note.empty();
    if (said_) options_.note(note);
  }

 private:
  const Graph& graph_;
  const WatchingKernels& kernels_;
  const TrainOptions& options_;
  bool watched_;
  bool said_ = false;
};

}  // namespace

StepsReport run_steps(const Graph& graph, const PhysicalGraph& physical, const Dataset& data,
                      const std::map<std::string, Values>& start, const TrainOptions& options, Kernels& kernels,
                      bool observed) {
  Memory memory(physical);
  write_initial(memory, graph, options.seed, start);
  Batches batches(data.items(), data.items_a_step(), options.seed, options.shuffle);
  const int64_t steps = steps_asked(options, batches);
  Results results;
  results.losses.assign(static_cast<size_t>(steps), NAN);
  WatchingKernels watching(kernels);
  watching.watch = observed && !options.trace && !options.seconds;  // the first step, which runs by itself
  Notes notes(graph, watching, options, watching.watch);
  Hooks hooks = training_hooks(graph, data, batches, options, watching, results);
  const Firings firings = prepare_firings(memory, &watching);
  StepsReport out;
  const auto began = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(); };
  int64_t done = 0, at_once = options.trace ? kStepsAtOnce : 1;
  while (done < steps && !out.interrupted) {
    const int64_t now = std::min(at_once, steps - done);
    const double from = seconds();
    hooks.first_step = done;
    RunReport report = run_threads(firings, hooks, {now, observed && options.trace && done == 0});
    validate_indices(graph, report);
    out.step_seconds.push_back((seconds() - from) / static_cast<double>(now));
    if (done == 0) out.trace = report.trace;
    out.peak_bytes.resize(report.peak_bytes.size());
    for (size_t d = 0; d < report.peak_bytes.size(); ++d)
      out.peak_bytes[d] = std::max(out.peak_bytes[d], report.peak_bytes[d]);
    watching.watch = false;
    for (int64_t s = done; s < std::min(done + now, results.overflowed) && observed; ++s) {
      if (options.progress) options.progress(s, steps, results.losses[static_cast<size_t>(s)]);
      notes.look(results.losses, s);
    }
    if (results.overflowed < INT64_MAX) refuse_overflow(graph, results.overflowed, watching);
    done += now;
    at_once = steps_at_once(done, seconds());
    out.interrupted = observed && options.stop && options.stop->load() && done < steps;
    if (options.seconds && seconds() >= *options.seconds && out.step_seconds.size() > kLeastTimedSets) break;
  }
  out.losses = std::move(results.losses);
  out.losses.resize(static_cast<size_t>(done));
  out.seconds = seconds();
  out.weights = read_weights(memory, graph);
  return out;
}

}  // namespace partita
