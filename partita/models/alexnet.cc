// Builds AlexNet (Krizhevsky et al. 2012) and VGG-16 (Simonyan and Zisserman 2014, configuration D) as torchvision
// does: runs of convolutions, then three fully connected layers with dropout.
#include "partita/models/family.h"
#include "partita/models/layers.h"

namespace partita {
namespace {

class Network {
 public:
  Network(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry, int64_t least_image)
      : options_(options), b_(options.model(), std::move(registry)), layers_(b_, options.dtype()) {
    const int64_t image = options.integer("image", least_image);
    x_ = b_.input("x", {options.integer("batch"), 3, image, image}, options.dtype());
  }

  // Each layer of `features` has its number there, as in torch.nn.Sequential.
  void convolution(int64_t outputs, int64_t kernel, int64_t stride, int64_t padding) {
    x_ =
        layers_.convolution(x_, next("features"),
                            {.outputs = outputs, .kernel = kernel, .stride = stride, .padding = padding, .bias = true});
    x_ = layers_.relu(x_, next("features"));
  }
  void pool(int64_t kernel, int64_t stride) { x_ = layers_.max_pool(x_, next("features"), kernel, stride); }

  Model classify(bool dropout_first) {
    number_ = 0;
    x_ = b_.op("flatten", {x_}, {{"axis", 1}}, "flatten");
    const int64_t hidden = options_.integer("hidden");
    if (dropout_first) dropout();
    full(hidden);
    dropout();
    full(hidden);
    if (!dropout_first) dropout();
    x_ = layers_.linear(x_, next("classifier"), options_.integer("classes"));
    return {b_.finish({x_}), Loss{.kind = "cross_entropy"}};
  }

 private:
  std::string next(const char* sequence) { return fmt::format("{}.{}", sequence, number_++); }
  void full(int64_t outputs) {
    x_ = layers_.linear(x_, next("classifier"), outputs);
    x_ = layers_.relu(x_, next("classifier"));
  }
  void dropout() { x_ = layers_.dropout(x_, next("classifier"), options_.number("dropout", 0, 1)); }

  const ModelOptions& options_;
  GraphBuilder b_;
  Layers layers_;
  TensorId x_;
  int number_ = 0;
};

Model build_alexnet(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  Network network(options, std::move(registry), 63);
  network.convolution(64, 11, 4, 2);
  network.pool(3, 2);
  network.convolution(192, 5, 1, 2);
  network.pool(3, 2);
  network.convolution(384, 3, 1, 1);
  network.convolution(256, 3, 1, 1);
  network.convolution(256, 3, 1, 1);
  network.pool(3, 2);
  return network.classify(true);
}

Model build_vgg16(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  Network network(options, std::move(registry), 32);
  for (const auto& [outputs, convolutions] : {std::pair{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
    for (int i = 0; i < convolutions; ++i) network.convolution(outputs, 3, 1, 1);
    network.pool(2, 2);
  }
  return network.classify(false);
}

std::vector<ModelOption> common_options(int64_t batch, int64_t least_image) {
  return {{"batch", std::to_string(batch), "samples a step"},
          {"image", "224", fmt::format("rows and columns, at least {}", least_image)},
          {"classes", "1000", "columns of the output"},
          {"hidden", "4096", "columns of the two hidden layers"},
          {"dropout", "0.5", "probability of a dropped value in the classifier"}};
}

}  // namespace

std::vector<ModelFamily> alexnet_families() {
  return {
      {{"alexnet", "AlexNet: five convolutions, three fully connected layers", common_options(256, 63)}, build_alexnet},
      {{"vgg-16", "VGG-16: thirteen convolutions, three fully connected layers", common_options(64, 32)}, build_vgg16}};
}

}  // namespace partita
