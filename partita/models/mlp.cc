// Builds fully connected layers of one width, as in SoyBean section 2.2.
#include <cmath>

#include "partita/models/family.h"

namespace partita {
namespace {

Model build(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  const int64_t layers = options.integer("layers"), width = options.integer("width"), batch = options.integer("batch");
  const int64_t inputs = options.text("input").empty() ? width : options.integer("input");
  const int64_t classes = options.text("classes").empty() ? width : options.integer("classes");
  const std::string activation = options.choice("activation", {"tanh", "relu", "sigmoid"});
  const DType dtype = options.dtype();

  GraphBuilder b("mlp", std::move(registry));
  TensorId x = b.input("x", {batch, inputs}, dtype);
  for (int64_t layer = 1; layer <= layers; ++layer) {
    const std::string name = fmt::format("fc{}", layer);
    const int64_t in = layer == 1 ? inputs : width, out = layer == layers ? classes : width;
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    b.set_source({name, ""});
    const TensorId w = b.parameter(name + ".weight", {in, out}, bound, 0, dtype);
    if (options.flag("bias")) x = b.op("linear", {x, w, b.parameter(name + ".bias", {out}, bound, 0, dtype)}, {}, name);
    else x = b.op("matmul", {x, w}, {}, name);
    if (layer < layers) x = b.op(activation, {x}, {}, fmt::format("{}{}", activation, layer));
  }
  return {b.finish({x}), Loss{.kind = options.choice("loss", loss_names())}};
}

}  // namespace

ModelFamily mlp_family() {
  return {{"mlp",
           "fully connected layers with an activation between them",
           {{"layers", "4", "matrix products"},
            {"width", "64", "columns of every layer"},
            {"batch", "32", "samples a step"},
            {"input", "", "columns of the input; empty: width"},
            {"classes", "", "columns of the output; empty: width"},
            {"bias", "1", "0: matrix products alone"},
            {"activation", "tanh", "between layers: tanh|relu|sigmoid"},
            {"loss", "cross_entropy", "the default of --loss"}}},
          build};
}

}  // namespace partita
