// ResNet-18 (He et al. 2015) as torchvision builds it, with torchvision's parameter names and layouts.
#include <cmath>

#include "partita/models/family.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

class Builder {
 public:
  Builder(GraphBuilder& b, DType dtype) : b_(b), dtype_(dtype) {}

  TensorId convolution(TensorId x, const std::string& name, int64_t outputs, int64_t kernel, double stride) {
    const int64_t inputs = b_.shape(x)[1];
    const double padding = static_cast<double>(kernel / 2);
    // Kaiming's, fan out, as torchvision: the same deviation from a uniform distribution.
    const double bound = std::sqrt(6.0 / static_cast<double>(outputs * kernel * kernel));
    b_.set_source({name, ""});
    const TensorId w = b_.parameter(name + ".weight", {outputs, inputs, kernel, kernel}, bound, 0, dtype_);
    return b_.op("conv2d", {x, w},
                 {{"sh", stride}, {"sw", stride}, {"pt", padding}, {"pl", padding}, {"pb", padding}, {"pr", padding}},
                 name);
  }

  TensorId norm(TensorId x, const std::string& name) {
    const int64_t c = b_.shape(x)[1];
    b_.set_source({name, ""});
    const TensorId w = b_.parameter(name + ".weight", {c}, 0, 1, dtype_),
                   bias = b_.parameter(name + ".bias", {c}, 0, 0, dtype_);
    const TensorId mean = b_.state(name + ".running_mean", {c}, 0, dtype_),
                   variance = b_.state(name + ".running_var", {c}, 1, dtype_);
    return batch_norm_training(b_, x, w, bias, mean, variance, 1e-5, 0.1, name);
  }

  TensorId block(TensorId x, const std::string& name, int64_t outputs, double stride) {
    TensorId y =
        b_.op("relu", {norm(convolution(x, name + ".conv1", outputs, 3, stride), name + ".bn1")}, {}, name + ".relu1");
    y = norm(convolution(y, name + ".conv2", outputs, 3, 1), name + ".bn2");
    if (stride != 1 || b_.shape(x)[1] != outputs)
      x = norm(convolution(x, name + ".downsample.0", outputs, 1, stride), name + ".downsample.1");
    return b_.op("relu", {b_.op("add", {y, x}, {}, name + ".add")}, {}, name + ".relu2");
  }

 private:
  GraphBuilder& b_;
  DType dtype_;
};

Model build(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  const int64_t batch = options.integer("batch"), image = options.integer("image", 32),
                width = options.integer("width"), classes = options.integer("classes");
  const DType dtype = options.dtype();
  GraphBuilder b("resnet-18", std::move(registry));
  Builder layer(b, dtype);
  TensorId x = b.input("x", {batch, 3, image, image}, dtype);
  if (options.choice("stem", {"imagenet", "cifar"}) == "imagenet") {
    x = b.op("relu", {layer.norm(layer.convolution(x, "conv1", width, 7, 2), "bn1")}, {}, "relu");
    x = b.op("max_pool", {x}, {{"kh", 3}, {"kw", 3}, {"sh", 2}, {"sw", 2}, {"pt", 1}, {"pl", 1}, {"pb", 1}, {"pr", 1}},
             "maxpool");
  } else {
    x = b.op("relu", {layer.norm(layer.convolution(x, "conv1", width, 3, 1), "bn1")}, {}, "relu");
  }
  for (int64_t stage = 0; stage < 4; ++stage)
    for (int64_t i = 0; i < 2; ++i)
      x = layer.block(x, fmt::format("layer{}.{}", stage + 1, i), width << stage, i == 0 && stage > 0 ? 2 : 1);
  b.set_source({"fc", ""});
  x = b.op("flatten", {b.op("global_average_pool", {x}, {}, "avgpool")}, {}, "flatten");
  const int64_t features = b.shape(x)[1];
  const double bound = 1 / std::sqrt(static_cast<double>(features));
  const TensorId w = b.parameter("fc.weight", {classes, features}, bound, 0, dtype),
                 bias = b.parameter("fc.bias", {classes}, bound, 0, dtype);
  x = b.op("linear", {x, w, bias}, {{"transposed", 1}}, "fc");
  return {b.finish({x}), Loss{.kind = "cross_entropy"}};
}

}  // namespace

ModelFamily resnet18_family() {
  return {{"resnet-18",
           "ResNet-18 with batch norm in training form; 11,689,512 parameters as it stands",
           {{"batch", "32", "samples a step"},
            {"image", "224", "rows and columns, at least 32"},
            {"width", "64", "channels of the first stage"},
            {"classes", "1000", "columns of the output"},
            {"stem", "imagenet",
             "imagenet: torchvision's 7x7 convolution and pooling at every image size | cifar: one 3x3 convolution"}}},
          build};
}

}  // namespace partita
