// Builds Inception-v3 (Szegedy et al. 2015) as torchvision does, with its parameter names; in training with the
// auxiliary head, whose loss counts 0.4.
#include <functional>

#include "partita/models/family.h"
#include "partita/models/layers.h"

namespace partita {
namespace {

class Network {
 public:
  Network(GraphBuilder& b, DType dtype) : layers_(b, dtype) {}

  // A convolution without bias, batch norm and ReLU.
  TensorId basic(TensorId x, const std::string& name, int64_t outputs, Extent2 kernel, int64_t stride = 1,
                 Extent2 padding = 0) {
    x = layers_.convolution(x, name + ".conv",
                            {.outputs = outputs, .kernel = kernel, .stride = stride, .padding = padding});
    return layers_.relu(layers_.batch_norm(x, name + ".bn", 1e-3), name + ".relu");
  }

  // 35 x 35: 1x1, 5x5, twice 3x3, and pooling.
  TensorId block_a(TensorId x, const std::string& name, int64_t pool_outputs) {
    const TensorId one = basic(x, name + ".branch1x1", 64, 1);
    const TensorId five = basic(basic(x, name + ".branch5x5_1", 48, 1), name + ".branch5x5_2", 64, 5, 1, 2);
    TensorId three = basic(x, name + ".branch3x3dbl_1", 64, 1);
    three = basic(three, name + ".branch3x3dbl_2", 96, 3, 1, 1);
    three = basic(three, name + ".branch3x3dbl_3", 96, 3, 1, 1);
    return layers_.concat({one, five, three, pooled(x, name, pool_outputs)}, name + ".concat");
  }

  // 35 x 35 to 17 x 17.
  TensorId block_b(TensorId x, const std::string& name) {
    const TensorId three = basic(x, name + ".branch3x3", 384, 3, 2);
    TensorId twice = basic(x, name + ".branch3x3dbl_1", 64, 1);
    twice = basic(twice, name + ".branch3x3dbl_2", 96, 3, 1, 1);
    twice = basic(twice, name + ".branch3x3dbl_3", 96, 3, 2);
    return layers_.concat({three, twice, layers_.max_pool(x, name + ".pool", 3, 2)}, name + ".concat");
  }

  // 17 x 17: 7x7 as 1x7 and 7x1.
  TensorId block_c(TensorId x, const std::string& name, int64_t inner) {
    const Extent2 row{1, 7}, column{7, 1}, row_padding{0, 3}, column_padding{3, 0};
    const TensorId one = basic(x, name + ".branch1x1", 192, 1);
    TensorId seven = basic(x, name + ".branch7x7_1", inner, 1);
    seven = basic(seven, name + ".branch7x7_2", inner, row, 1, row_padding);
    seven = basic(seven, name + ".branch7x7_3", 192, column, 1, column_padding);
    TensorId twice = basic(x, name + ".branch7x7dbl_1", inner, 1);
    twice = basic(twice, name + ".branch7x7dbl_2", inner, column, 1, column_padding);
    twice = basic(twice, name + ".branch7x7dbl_3", inner, row, 1, row_padding);
    twice = basic(twice, name + ".branch7x7dbl_4", inner, column, 1, column_padding);
    twice = basic(twice, name + ".branch7x7dbl_5", 192, row, 1, row_padding);
    return layers_.concat({one, seven, twice, pooled(x, name, 192)}, name + ".concat");
  }

  // 17 x 17 to 8 x 8.
  TensorId block_d(TensorId x, const std::string& name) {
    const TensorId three = basic(basic(x, name + ".branch3x3_1", 192, 1), name + ".branch3x3_2", 320, 3, 2);
    TensorId seven = basic(x, name + ".branch7x7x3_1", 192, 1);
    seven = basic(seven, name + ".branch7x7x3_2", 192, {1, 7}, 1, {0, 3});
    seven = basic(seven, name + ".branch7x7x3_3", 192, {7, 1}, 1, {3, 0});
    seven = basic(seven, name + ".branch7x7x3_4", 192, 3, 2);
    return layers_.concat({three, seven, layers_.max_pool(x, name + ".pool", 3, 2)}, name + ".concat");
  }

  // 8 x 8: 3x3 as 1x3 beside 3x1.
  TensorId block_e(TensorId x, const std::string& name) {
    auto beside = [&](TensorId y, const std::string& row, const std::string& column) {
      return layers_.concat({basic(y, row, 384, {1, 3}, 1, {0, 1}), basic(y, column, 384, {3, 1}, 1, {1, 0})},
                            row + ".concat");
    };
    const TensorId one = basic(x, name + ".branch1x1", 320, 1);
    const TensorId three =
        beside(basic(x, name + ".branch3x3_1", 384, 1), name + ".branch3x3_2a", name + ".branch3x3_2b");
    const TensorId twice =
        beside(basic(basic(x, name + ".branch3x3dbl_1", 448, 1), name + ".branch3x3dbl_2", 384, 3, 1, 1),
               name + ".branch3x3dbl_3a", name + ".branch3x3dbl_3b");
    return layers_.concat({one, three, twice, pooled(x, name, 192)}, name + ".concat");
  }

  TensorId auxiliary(TensorId x, int64_t classes) {
    x = layers_.average_pool(x, "AuxLogits.pool", 5, 3);
    x = basic(x, "AuxLogits.conv0", 128, 1);
    x = basic(x, "AuxLogits.conv1", 768, 5);
    return layers_.linear(layers_.global_average(x, "AuxLogits.average"), "AuxLogits.fc", classes);
  }

  Layers& layers() { return layers_; }

 private:
  TensorId pooled(TensorId x, const std::string& name, int64_t outputs) {
    return basic(layers_.average_pool(x, name + ".pool", 3, 1, 1), name + ".branch_pool", outputs, 1);
  }

  Layers layers_;
};

Model build(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  const int64_t image = options.integer("image", 75), blocks = options.integer("blocks", 0),
                classes = options.integer("classes");
  using Block = std::function<TensorId(TensorId)>;
  GraphBuilder b("inception-v3", std::move(registry));
  Network network(b, options.dtype());
  Layers& layers = network.layers();
  const std::vector<Block> all{
      [&](TensorId x) { return network.block_a(x, "Mixed_5b", 32); },
      [&](TensorId x) { return network.block_a(x, "Mixed_5c", 64); },
      [&](TensorId x) { return network.block_a(x, "Mixed_5d", 64); },
      [&](TensorId x) { return network.block_b(x, "Mixed_6a"); },
      [&](TensorId x) { return network.block_c(x, "Mixed_6b", 128); },
      [&](TensorId x) { return network.block_c(x, "Mixed_6c", 160); },
      [&](TensorId x) { return network.block_c(x, "Mixed_6d", 160); },
      [&](TensorId x) { return network.block_c(x, "Mixed_6e", 192); },
      [&](TensorId x) { return network.block_d(x, "Mixed_7a"); },
      [&](TensorId x) { return network.block_e(x, "Mixed_7b"); },
      [&](TensorId x) { return network.block_e(x, "Mixed_7c"); },
  };
  constexpr int64_t kBeforeAuxiliary = 8;
  const int64_t count = static_cast<int64_t>(all.size());
  if (blocks > count) fail("zoo:inception-v3: blocks={}, there are {}", blocks, count);

  TensorId x = b.input("x", {options.integer("batch"), 3, image, image}, options.dtype());
  x = network.basic(x, "Conv2d_1a_3x3", 32, 3, 2);
  x = network.basic(x, "Conv2d_2a_3x3", 32, 3);
  x = network.basic(x, "Conv2d_2b_3x3", 64, 3, 1, 1);
  x = layers.max_pool(x, "maxpool1", 3, 2);
  x = network.basic(x, "Conv2d_3b_1x1", 80, 1);
  x = network.basic(x, "Conv2d_4a_3x3", 192, 3);
  x = layers.max_pool(x, "maxpool2", 3, 2);
  TensorId before_auxiliary;
  for (int64_t i = 0; i < blocks; ++i) {
    x = all[static_cast<size_t>(i)](x);
    if (i + 1 == kBeforeAuxiliary) before_auxiliary = x;
  }
  x = layers.dropout(layers.global_average(x, "avgpool"), "dropout", options.number("dropout", 0, 1));
  std::vector<TensorId> outputs{layers.linear(x, "fc", classes)};
  Loss loss{.kind = "cross_entropy"};
  if (options.flag("auxiliary") && before_auxiliary.valid()) {
    if (b.shape(before_auxiliary)[2] < 17)
      fail("zoo:inception-v3: the auxiliary head needs images of at least 299 rows; image={} with auxiliary=0", image);
    outputs.push_back(network.auxiliary(before_auxiliary, classes));
    loss.auxiliary.push_back({outputs.back(), 0.4});
  }
  return {b.finish(outputs), loss};
}

}  // namespace

ModelFamily inception_family() {
  return {{"inception-v3",
           "Inception-v3 with its auxiliary head, whose loss counts 0.4",
           {{"batch", "64", "samples a step"},
            {"image", "299", "rows and columns, at least 75"},
            {"classes", "1000", "columns of the output"},
            {"blocks", "11", "the first so many of the Mixed blocks"},
            {"auxiliary", "1", "0: without the auxiliary head (none before block 8)"},
            {"dropout", "0.5", "before the output"}}},
          build};
}

}  // namespace partita
