// Builds Wide & Deep (Cheng et al. 2016) as OneFlow section 6.3.2 has it: tables over a vocabulary of ids that may be
// far larger than one device, a linear part of one number an id beside fully connected layers on embeddings.
#include "partita/models/family.h"
#include "partita/models/layers.h"

namespace partita {
namespace {

Model build(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  const int64_t batch = options.integer("batch"), fields = options.integer("fields"),
                words = options.integer("vocabulary"), embedding = options.integer("embedding"),
                dense = options.integer("dense"), layers = options.integer("layers", 0),
                width = options.integer("width");
  GraphBuilder b("wide-deep", std::move(registry));
  Layers make(b, options.dtype());
  const TensorId ids = b.input("ids", {batch, fields}, DType::kInt64),
                 numbers = b.input("x", {batch, dense}, options.dtype());
  const TensorId wide = b.op("reduce_sum", {make.embedding(ids, "wide", words, 1)}, {{"axes.0", 1}}, "wide.sum");
  TensorId deep =
      b.op("flatten", {make.embedding(ids, "deep.embedding", words, embedding)}, {{"axis", 1}}, "deep.flatten");
  deep = make.concat({deep, numbers}, "deep.concat");
  for (int64_t i = 1; i <= layers; ++i)
    deep = make.relu(make.linear(deep, fmt::format("deep.fc{}", i), width), fmt::format("deep.relu{}", i));
  deep = make.linear(deep, "deep.output", 1);
  return {b.finish({b.op("add", {wide, deep}, {}, "logit")}), Loss{.kind = "bce_with_logits"}};
}

}  // namespace

ModelFamily wide_deep_family() {
  return {{"wide-deep",
           "Wide & Deep: tables over a large vocabulary (OneFlow)",
           {{"batch", "16384", "samples a step"},
            {"vocabulary", "2322444", "ids, of all fields together"},
            {"fields", "26", "ids a sample"},
            {"dense", "13", "numbers a sample"},
            {"embedding", "16", "numbers an id"},
            {"layers", "7", "hidden layers"},
            {"width", "1024", "columns of a hidden layer"}}},
          build};
}

}  // namespace partita
