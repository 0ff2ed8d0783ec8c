// Trains for a while, and takes the median step.
#include "partita/train/measured_step.h"

#include <algorithm>

#include "partita/base/cpu_use.h"
#include "partita/base/error.h"
#include "partita/graph/places.h"
#include "partita/train/inputs.h"
#include "partita/train/steps.h"
#include "partita/train/weights_of_model.h"

namespace partita {

MeasuredStep measure_step(const Planned& planned, double seconds, bool with_trace, Kernels& kernels,
                          std::atomic<bool>* stop) {
  if (has_planned_places(planned.forward)) {
    Runner runner;
    return measure_step(runnable(planned, runner), seconds, with_trace, kernels, stop);
  }
  ensure(planned.is_whole(), "'{}' was lowered for figures alone: follow_whole() first", planned.training.name);
  const Graph& graph = planned.training.whole_graph();
  TrainOptions options;
  options.seconds = seconds;
  options.stop = stop;
  const Dataset data = training_data(graph, options);
  const Arrays start = starting_weights(graph, planned.weight_names, options);
  const CpuUse use;
  StepsReport run = run_steps(graph, planned.physical, data, start, options, kernels, true);
  MeasuredStep measured;
  measured.others = use.others();
  measured.steps = static_cast<int64_t>(run.losses.size());
  std::vector<double>& times = run.step_seconds;
  if (times.size() > 1) times.erase(times.begin());
  std::sort(times.begin(), times.end());
  const auto quantile = [&](double part) {
    return times[static_cast<size_t>(part * static_cast<double>(times.size() - 1))];
  };
  measured.us = 1e6 * quantile(0.5);
  measured.spread_us = 1e6 * (quantile(0.75) - quantile(0.25));
  if (!with_trace) return measured;
  options.seconds.reset();
  options.steps = 10;
  options.trace = true;
  measured.trace = run_steps(graph, planned.physical, data, start, options, kernels, true).trace;
  return measured;
}

}  // namespace partita
