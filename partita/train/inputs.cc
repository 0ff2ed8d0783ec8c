// Reads the samples and weights that the options of a training run name.
#include "partita/train/inputs.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/train/weights_of_model.h"

namespace partita {

Dataset training_data(const Graph& graph, const TrainOptions& options) {
  return options.data.empty() ? Dataset::synthetic(graph, options.seed) : Dataset::read(options.data, graph);
}

std::optional<Dataset> test_data(const Graph& graph, const std::string& loss, const TrainOptions& options) {
  if (options.test_data.empty()) return std::nullopt;
  if (loss != "cross_entropy" && loss != "masked_cross_entropy")
    fail(
        "{}: the share of right classes is counted where the loss is cross_entropy or masked_cross_entropy; this "
        "model's is {}: train without --test-data",
        options.test_data, loss);
  Dataset data = Dataset::read(options.test_data, graph);
  const std::vector<int64_t>& labels = data.array("labels").integer;
  if (labels.size() == static_cast<size_t>(std::count(labels.begin(), labels.end(), kIgnoredLabel)))
    fail("{}: all of 'labels' are {}, and none is left to count", options.test_data, kIgnoredLabel);
  return data;
}

Arrays starting_weights(const Graph& graph, const WeightNames& names, const TrainOptions& options) {
  if (options.weights.empty()) return {};
  ModelWeights weights = load_weights(options.weights, graph, names);
  for (const std::string& note : weights.notes)
    if (options.note) options.note(note);
  return std::move(weights.values);
}

}  // namespace partita
