// Loads the model that a request names, from a file, a configuration or the zoo, as a forward graph.
#pragma once
#include <optional>

#include "partita/graph/autodiff.h"
#include "partita/models/models.h"
#include "partita/onnx/onnx.h"
#include "partita/pipeline/request.h"

namespace partita {

// The forward graph of a file with a fixed batch, before and after it was made for another batch.
struct OtherBatch {
  Graph own, other;
};

struct LoadedModel {
  Graph forward;
  Loss loss;
  WeightNames weight_names;
  std::optional<OtherBatch> other_batch;
  OnnxFindings findings;  // of an .onnx file
};

// Reads the model in float32, with the loss that the request or the model has.
LoadedModel read_model(const Request& request);

// Returns the request with the text of the configuration that its model means; as it is for another kind of model.
Request with_config(Request request);

// Returns the same model whose batch norms take statistics of each of `groups` groups of consecutive samples. Bad input
// if it has no batch norm, or its batch cannot be divided so.
LoadedModel in_batch_norm_groups(const LoadedModel& model, int64_t groups);

// Returns the same model in another dtype; float16 and bfloat16 mean mixed precision.
LoadedModel in_dtype(const LoadedModel& model, DType dtype);

void verify(const LoadedModel& model);

}  // namespace partita
