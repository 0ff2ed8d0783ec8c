// Builds LeNet-5 (LeCun et al. 1998) as it is usually written today: ReLU and max pooling, a full second convolution.
#include <cmath>

#include "partita/models/family.h"

namespace partita {
namespace {

Model build(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  const int64_t batch = options.integer("batch"), image = options.integer("image", 16),
                channels = options.integer("channels"), classes = options.integer("classes");
  const DType dtype = options.dtype();
  GraphBuilder b("lenet", std::move(registry));
  TensorId x = b.input("x", {batch, channels, image, image}, dtype);

  auto parameter = [&](const std::string& name, const Shape& shape, int64_t fan_in) {
    return b.parameter(name, shape, 1 / std::sqrt(static_cast<double>(fan_in)), 0, dtype);
  };
  auto convolution = [&](const std::string& name, int64_t outputs, double padding) {
    const int64_t inputs = b.shape(x)[1];
    b.set_source({name, ""});
    const TensorId w = parameter(name + ".weight", {outputs, inputs, 5, 5}, inputs * 25),
                   bias = parameter(name + ".bias", {outputs}, inputs * 25);
    x = b.op("conv2d", {x, w, bias}, {{"pt", padding}, {"pl", padding}, {"pb", padding}, {"pr", padding}}, name);
    x = b.op("relu", {x}, {}, name + ".relu");
    x = b.op("max_pool", {x}, {{"kh", 2}, {"kw", 2}, {"sh", 2}, {"sw", 2}}, name + ".pool");
  };
  auto full = [&](const std::string& name, int64_t outputs, bool relu) {
    const int64_t inputs = b.shape(x)[1];
    b.set_source({name, ""});
    x = b.op("linear",
             {x, parameter(name + ".weight", {outputs, inputs}, inputs), parameter(name + ".bias", {outputs}, inputs)},
             {{"transposed", 1}}, name);
    if (relu) x = b.op("relu", {x}, {}, name + ".relu");
  };
  // 28x28 images are padded to the paper's 32x32.
  convolution("conv1", 6, image == 28 ? 2 : 0);
  convolution("conv2", 16, 0);
  x = b.op("flatten", {x}, {}, "flatten");
  full("fc1", 120, true);
  full("fc2", 84, true);
  full("fc3", classes, false);
  return {b.finish({x}), Loss{.kind = "cross_entropy"}};
}

}  // namespace

ModelFamily lenet_family() {
  return {{"lenet",
           "LeNet-5: two convolutions, three fully connected layers; 61,706 parameters as it stands",
           {{"batch", "32", "samples a step"},
            {"image", "28", "rows and columns; 28 is padded to 32"},
            {"channels", "1", "of the image"},
            {"classes", "10", "columns of the output"}}},
          build};
}

}  // namespace partita
