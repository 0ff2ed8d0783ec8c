// A training run from its options to its report: data and weights in, steps, weights out, comparison and test.
#include "partita/train/train.h"

#include "partita/base/error.h"
#include "partita/graph/places.h"
#include "partita/runtime/safetensors.h"
#include "partita/train/accuracy.h"
#include "partita/train/inputs.h"
#include "partita/train/serial.h"
#include "partita/train/steps.h"
#include "partita/train/weights_of_model.h"

namespace partita {

TrainReport train(const Planned& planned, const TrainOptions& options, Kernels& kernels) {
  if (has_planned_places(planned.forward)) {
    Runner runner;
    return train(runnable(planned, runner), options, kernels);
  }
  ensure(planned.is_whole(), "'{}' was lowered for figures alone: follow_whole() first", planned.training.name);
  const Graph& graph = planned.training.whole_graph();
  const Dataset data = training_data(graph, options);
  const Arrays start = starting_weights(graph, planned.weight_names, options);
  const std::optional<Dataset> test = test_data(graph, planned.plan.model.loss, options);

  StepsReport run = run_steps(graph, planned.physical, data, start, options, kernels, true);
  TrainReport report;
  report.steps = static_cast<int64_t>(run.losses.size());
  report.losses = std::move(run.losses);
  report.interrupted = run.interrupted;
  report.samples_per_second = run.seconds > 0 ? static_cast<double>(report.steps * batch_of(graph)) / run.seconds : 0;
  report.peak_bytes.assign(run.peak_bytes.begin(), run.peak_bytes.begin() + planned.cluster.compute_count);
  report.trace = std::move(run.trace);
  report.weights = std::move(run.weights);
  if (!options.save.empty()) write_safetensors(options.save, as_in_files(report.weights, planned.weight_names));
  if (report.interrupted) return report;
  if (options.verify_serial) verify_serial(graph, start, planned.plan.model.dtype, options, kernels, report);
  if (test) report.test_accuracy = accuracy(planned, *test, report.weights, options.seed, kernels);
  return report;
}

}  // namespace partita
