// Reads the files that the options of a training run name: samples to train on, samples to test on, initial weights.
#pragma once
#include <optional>

#include "partita/models/models.h"
#include "partita/train/dataset.h"
#include "partita/train/train.h"

namespace partita {

// Returns synthetic samples if the options name no file.
Dataset training_data(const Graph& training, const TrainOptions& options);

// None if the options name no file. Bad input if the model's loss is not cross-entropy, masked or not, or no label
// counts.
std::optional<Dataset> test_data(const Graph& training, const std::string& loss, const TrainOptions& options);

// Returns weights by the graph's names; empty if the options name no file. Notes go to options.note.
Arrays starting_weights(const Graph& training, const WeightNames& names, const TrainOptions& options);

}  // namespace partita
