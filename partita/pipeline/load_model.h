// A model as a request names it: from a file, a configuration or the zoo to a forward graph.
#pragma once
#include <optional>

#include "partita/graph/autodiff.h"
#include "partita/models/models.h"
#include "partita/onnx/onnx.h"
#include "partita/pipeline/request.h"

namespace partita {

// The forward graph of a file with a fixed batch, before it was made for another, and after.
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

// In float32, with the loss that the request or the model has.
LoadedModel read_model(const Request& request);

// The request with the text of the configuration that its model means; as it is for another kind of model.
Request with_config(Request request);

// The same model, its batch norms with statistics of each of so many groups of consecutive samples. Bad input: it has
// none, or its batch is no such groups.
LoadedModel in_batch_norm_groups(const LoadedModel& model, int64_t groups);

// The same model in another dtype; float16 and bfloat16 mean mixed precision.
LoadedModel in_dtype(const LoadedModel& model, DType dtype);

void verify(const LoadedModel& model);

}  // namespace partita
