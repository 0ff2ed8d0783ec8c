// Builds ResNets (He et al. 2015) as torchvision does, with torchvision's parameter names and layouts, and the wide
// ones of Tofu section 7.1: `widen` times the channels of every convolution, those of the stem and of the blocks'
// outputs included.
#include <algorithm>
#include <charconv>
#include <limits>

#include "partita/models/family.h"
#include "partita/models/layers.h"

namespace partita {
namespace {

constexpr int kStages = 4;
struct Depth {
  int layers;
  int blocks[kStages];
  bool bottleneck;
};
constexpr Depth kDepths[] = {{18, {2, 2, 2, 2}, false},
                             {34, {3, 4, 6, 3}, false},
                             {50, {3, 4, 6, 3}, true},
                             {101, {3, 4, 23, 3}, true},
                             {152, {3, 8, 36, 3}, true}};

class Network {
 public:
  Network(GraphBuilder& b, DType dtype) : b_(b), layers_(b, dtype) {}

  TensorId convolution_norm(TensorId x, const std::string& convolution, const std::string& norm, int64_t outputs,
                            int64_t kernel, int64_t stride) {
    return layers_.batch_norm(
        layers_.convolution(x, convolution,
                            {.outputs = outputs, .kernel = kernel, .stride = stride, .padding = kernel / 2}),
        norm);
  }

  // The stride of a bottleneck lies in its 3x3 convolution (torchvision's "v1.5").
  TensorId block(TensorId x, const std::string& name, int64_t width, int64_t stride, bool bottleneck) {
    struct Convolution {
      int64_t outputs, kernel, stride;
    };
    const std::vector<Convolution> plain{{width, 3, stride}, {width, 3, 1}},
        narrowed{{width, 1, 1}, {width, 3, stride}, {4 * width, 1, 1}};
    const std::vector<Convolution>& convolutions = bottleneck ? narrowed : plain;
    TensorId y = x;
    for (size_t i = 0; i < convolutions.size(); ++i) {
      const auto& [outputs, kernel, step] = convolutions[i];
      if (i) y = layers_.relu(y, fmt::format("{}.relu{}", name, i));
      y = convolution_norm(y, fmt::format("{}.conv{}", name, i + 1), fmt::format("{}.bn{}", name, i + 1), outputs,
                           kernel, step);
    }
    const int64_t outputs = convolutions.back().outputs;
    if (stride != 1 || b_.shape(x)[1] != outputs)
      x = convolution_norm(x, name + ".downsample.0", name + ".downsample.1", outputs, 1, stride);
    return layers_.relu(b_.op("add", {y, x}, {}, name + ".add"), fmt::format("{}.relu{}", name, convolutions.size()));
  }

  // [n, 3, image, image] -> features [n, c]; each stage has at most so many blocks.
  TensorId features(TensorId x, const Depth& depth, int64_t most_blocks, int64_t width, bool imagenet_stem) {
    x = layers_.relu(convolution_norm(x, "conv1", "bn1", width, imagenet_stem ? 7 : 3, imagenet_stem ? 2 : 1), "relu");
    if (imagenet_stem) x = layers_.max_pool(x, "maxpool", 3, 2, 1);
    for (int stage = 0; stage < kStages; ++stage)
      for (int64_t i = 0; i < std::min<int64_t>(depth.blocks[stage], most_blocks); ++i)
        x = block(x, fmt::format("layer{}.{}", stage + 1, i), width << stage, i == 0 && stage > 0 ? 2 : 1,
                  depth.bottleneck);
    return layers_.global_average(x, "avgpool");
  }

  TensorId linear(TensorId x, const std::string& name, int64_t outputs) { return layers_.linear(x, name, outputs); }

 private:
  GraphBuilder& b_;
  Layers layers_;
};

// The number after the n-th '-' of a model's name.
int64_t number_in(const std::string& name, int n) {
  size_t at = 0;
  for (int i = 0; i < n; ++i) at = name.find('-', at) + 1;
  int64_t value = 0;
  std::from_chars(name.data() + at, name.data() + name.size(), value);
  return value;
}

const Depth& depth_of(const std::string& name) {
  const int64_t layers = number_in(name, 1);
  for (const Depth& depth : kDepths)
    if (depth.layers == layers) return depth;
  fail("zoo:{}: no residual network of {} layers", name, layers);
}

int64_t most_blocks(const ModelOptions& options) {
  return options.text("blocks").empty() ? std::numeric_limits<int64_t>::max() : options.integer("blocks");
}

Model build_with(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry, int64_t width) {
  const int64_t batch = options.integer("batch"), image = options.integer("image", 32),
                classes = options.integer("classes");
  const bool imagenet_stem = options.choice("stem", {"imagenet", "cifar"}) == "imagenet";
  GraphBuilder b(options.model(), std::move(registry));
  Network network(b, options.dtype());
  const TensorId x = b.input("x", {batch, 3, image, image}, options.dtype());
  const TensorId features = network.features(x, depth_of(options.model()), most_blocks(options), width, imagenet_stem);
  return {b.finish({network.linear(features, "fc", classes)}), Loss{.kind = "cross_entropy"}};
}

Model build(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  return build_with(options, std::move(registry), options.integer("width"));
}

Model build_wide(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  return build_with(options, std::move(registry), 64 * number_in(options.model(), 2));
}

// Face recognition as OneFlow section 6.3.1 splits it: the classes may be millions. Logits are `scale` times the cosine
// of the angle between an embedding and a class's weights (normalised softmax; no margin).
Model build_insightface(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  const int64_t batch = options.integer("batch"), image = options.integer("image", 32),
                classes = options.integer("classes"), embedding = options.integer("embedding");
  GraphBuilder b("insightface", std::move(registry));
  Network network(b, options.dtype());
  TensorId x = b.input("x", {batch, 3, image, image}, options.dtype());
  x = network.linear(network.features(x, depth_of("resnet-50"), most_blocks(options), options.integer("width"), true),
                     "embedding", embedding);
  const TensorId w = b.parameter("classes.weight", {classes, embedding}, 0.01, 0, options.dtype());
  auto normalised = [&](TensorId rows, const std::string& name) {
    const TensorId squares = b.op("reduce_sum", {b.op("square", {rows}, {}, name + ".square")},
                                  {{"axes.0", 1}, {"keepdims", 1}}, name + ".squares");
    return b.op("mul", {rows, b.op("rsqrt", {squares}, {}, name + ".rsqrt")}, {}, name);
  };
  b.set_source({"classes", ""});
  const TensorId cosine =
      b.op("matmul_nt", {normalised(x, "embedding.unit"), normalised(w, "classes.unit")}, {}, "cosine");
  const TensorId scale = b.scalar("scale", options.number("scale", 1, 1000), options.dtype());
  return {b.finish({b.op("mul", {cosine, scale}, {}, "logits")}), Loss{.kind = "cross_entropy"}};
}

ModelOption blocks_option() { return {"blocks", "", "residual blocks of a stage, at most; empty: all"}; }

std::vector<ModelOption> common_options(int64_t batch) {
  return {{"batch", std::to_string(batch), "samples a step"},
          {"image", "224", "rows and columns, at least 32"},
          {"classes", "1000", "columns of the output"},
          {"stem", "imagenet",
           "imagenet: torchvision's 7x7 convolution and pooling at every image size | cifar: one 3x3 convolution"},
          blocks_option()};
}

}  // namespace

std::vector<ModelFamily> resnet_families() {
  std::vector<ModelFamily> families;
  for (const Depth& depth : kDepths) {
    std::vector<ModelOption> options = common_options(depth.layers == 18 ? 32 : 64);
    options.push_back({"width", "64", "channels of the first stage"});
    families.push_back({{fmt::format("resnet-{}", depth.layers),
                         fmt::format("ResNet of {} layers with batch norm in training form", depth.layers), options},
                        build});
  }
  for (int layers : {50, 101, 152})
    for (int widen : {4, 6, 8, 10})
      families.push_back({{fmt::format("wresnet-{}-{}", layers, widen),
                           fmt::format("ResNet of {} layers, every convolution {} times as wide (Tofu)", layers, widen),
                           common_options(32)},
                          build_wide});
  families.push_back({{"insightface",
                       "face recognition: ResNet-50 and a normalised softmax over many classes (OneFlow)",
                       {{"batch", "128", "samples a step"},
                        {"image", "112", "rows and columns, at least 32"},
                        {"classes", "85742", "columns of the output (MS1MV2's)"},
                        {"embedding", "512", "numbers a face"},
                        {"width", "64", "channels of the first stage"},
                        {"scale", "64", "of the cosines"},
                        blocks_option()}},
                      build_insightface});
  return families;
}

}  // namespace partita
