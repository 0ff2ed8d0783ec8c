// Builds SoyBean's convolutional network (section 6.2): equal convolutions one after another. The paper leaves the
// kernel open.
#include "partita/models/family.h"
#include "partita/models/layers.h"

namespace partita {
namespace {

Model build(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  const int64_t count = options.integer("layers"), filters = options.integer("filters"),
                kernel = options.integer("kernel"), image = options.integer("image", kernel);
  GraphBuilder b("cnn", std::move(registry));
  Layers layers(b, options.dtype());
  TensorId x = b.input("x", {options.integer("batch"), filters, image, image}, options.dtype());
  for (int64_t i = 1; i <= count; ++i) {
    x = layers.convolution(x, fmt::format("conv{}", i), {.outputs = filters, .kernel = kernel, .padding = kernel / 2});
    if (i < count) x = layers.relu(x, fmt::format("relu{}", i));
  }
  const std::string& loss = options.choice("loss", {"elementwise", "cross_entropy"});
  if (loss == "cross_entropy") x = layers.global_average(x, "pool");
  return {b.finish({x}), Loss{.kind = loss}};
}

}  // namespace

ModelFamily cnn_family() {
  return {{"cnn",
           "SoyBean's CNN: equal convolutions of as many channels as filters",
           {{"batch", "256", "samples a step"},
            {"layers", "5", "convolutions"},
            {"image", "6", "rows and columns (the paper: 6 with 2048 filters, 24 with 512)"},
            {"filters", "2048", "channels of the input and of every layer"},
            {"kernel", "3", "rows and columns"},
            {"loss", "elementwise", "elementwise: nothing behind the last convolution|cross_entropy over its mean"}}},
          build};
}

}  // namespace partita
