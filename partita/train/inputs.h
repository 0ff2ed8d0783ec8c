// What the options of a training run name: samples to train on, samples to test on, weights to start from.
#pragma once
#include <optional>

#include "partita/models/models.h"
#include "partita/train/dataset.h"
#include "partita/train/train.h"

namespace partita {

// Synthetic samples where the options name no file.
Dataset training_data(const Graph& training, const TrainOptions& options);

// None where the options name no file. Bad input where the model's loss is not cross-entropy, masked or not,
// or no label counts.
std::optional<Dataset> test_data(const Graph& training, const std::string& loss, const TrainOptions& options);

// By the graph's names; empty where the options name no file. Notes go to options.note.
Arrays starting_weights(const Graph& training, const WeightNames& names, const TrainOptions& options);

}  // namespace partita
