// Makes a training run from its options to its report: data and weights in, steps, weights out, comparison and test.
#include "partita/train/train.h"

#include "partita/base/error.h"
#include "partita/base/writes.h"
#include "partita/graph/places.h"
#include "partita/runtime/safetensors.h"
#include "partita/train/accuracy.h"
#include "partita/train/inputs.h"
#include "partita/train/serial.h"
#include "partita/train/steps.h"
#include "partita/train/weights_of_model.h"

namespace partita {

TrainReport train(const Planned& planned, const TrainOptions& options, Kernels& kernels,
                  const std::function<void(const TrainReport&)>& keep) {
  if (has_planned_places(planned.forward)) {
    Runner runner;
    return train(runnable(planned, runner), options, kernels, keep);
  }
  ensure(planned.is_whole(), "'{}' was lowered for figures alone: follow_whole() first", planned.training.name);
  const Graph& graph = planned.training.whole_graph();
  const Dataset data = training_data(graph, options);
  const Arrays start = starting_weights(graph, planned.weight_names, options);
  const std::optional<Dataset> test = test_data(graph, planned.plan.model.loss, options);

  if (options.before_steps) options.before_steps();
  StepsReport run = run_steps(graph, planned.physical, data, start, options, kernels, true);
  TrainReport report;
  report.steps = static_cast<int64_t>(run.losses.size());
  report.losses = std::move(run.losses);
  report.interrupted = run.interrupted;
  report.samples_per_second = run.seconds > 0 ? static_cast<double>(report.steps * batch_of(graph)) / run.seconds : 0;
  report.peak_bytes.assign(run.peak_bytes.begin(), run.peak_bytes.begin() + planned.cluster.compute_count);
  report.trace = std::move(run.trace);
  report.weights = std::move(run.weights);
  Writes writes;
  if (!options.save.empty())
    writes.add([&] { write_safetensors(options.save, to_file_layout(report.weights, planned.weight_names)); });
  if (keep) writes.add([&] { keep(report); });
  writes.end();
  if (options.stop && *options.stop && (options.verify_serial || test)) report.interrupted = true;
  if (report.interrupted) return report;
  if (options.verify_serial) verify_serial(graph, data, start, planned.plan.model.dtype, options, kernels, report);
  if (test) report.test_accuracy = accuracy(planned, *test, report.weights, options.seed, kernels);
  return report;
}

}  // namespace partita
