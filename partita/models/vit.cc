// Builds ViT-B/16 (Dosovitskiy et al. 2020), as torchvision has it.
#include "partita/models/family.h"
#include "partita/models/network.h"

namespace partita {
namespace {

Model build_vit(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  constexpr int64_t kPatch = 16;
  Network net(options.model(), options.dtype(), std::move(registry));
  GraphBuilder& b = net.b;
  const int64_t hidden = options.integer("hidden"), heads = options.integer("heads"),
                image = options.integer("image", kPatch), batch = options.integer("batch"),
                count = options.integer("layers");
  const double dropout = options.number("dropout", 0, 1);
  TensorId x = b.input("x", {batch, 3, image, image}, options.dtype());
  x = net.layers.convolution(x, "conv_proj", {.outputs = hidden, .kernel = kPatch, .stride = kPatch, .bias = true});
  const int64_t patches = b.shape(x)[2] * b.shape(x)[3];
  auto extents = [](const Shape& shape) {
    tdl::Attributes attributes;
    for (size_t a = 0; a < shape.size(); ++a) attributes[fmt::format("shape.{}", a)] = static_cast<double>(shape[a]);
    return attributes;
  };
  x = b.op("reshape", {x}, extents({batch, hidden, patches}), "patches.flat");
  x = b.op("transpose", {x}, {{"perm.0", 0}, {"perm.1", 2}, {"perm.2", 1}}, "patches");
  const TensorId token =
      b.op("expand", {net.table("class_token", {1, 1, hidden})}, extents({batch, 1, hidden}), "class_token.expand");
  x = net.layers.concat({token, x}, "tokens");
  x = net.add(x, net.table("encoder.pos_embedding", {1, patches + 1, hidden}), "encoder.positions");
  x = net.layers.dropout(x, "encoder.dropout", dropout);
  for (int64_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("encoder.layers.encoder_layer_{}", i), self = name + ".self_attention";
    TensorId y = net.layers.linear(net.norm(x, name + ".ln_1", 1e-6), self + ".in_proj", 3 * hidden);
    y = net.layers.linear(net.packed_attention(y, self, heads, {}), self + ".out_proj", hidden);
    x = net.add(x, net.layers.dropout(y, name + ".dropout", dropout), name + ".add1");
    y = net.layers.linear(net.norm(x, name + ".ln_2", 1e-6), name + ".mlp.0", 4 * hidden);
    y = net.layers.linear(b.op("gelu", {y}, {}, name + ".mlp.1"), name + ".mlp.3", hidden);
    x = net.add(x, net.layers.dropout(y, name + ".mlp.4", dropout), name + ".add2");
  }
  x = b.op("select", {net.norm(x, "encoder.ln", 1e-6)}, {{"axis", 1}, {"index", 0}}, "class");
  return {b.finish({net.layers.linear(x, "heads.head", options.integer("classes"))}), Loss{.kind = "cross_entropy"}};
}

}  // namespace

ModelFamily vit_family() {
  return {{"vit-b16",
           "ViT-B/16: patches of 16 x 16 pixels through an encoder",
           {{"batch", "32", "samples a step"},
            {"image", "224", "rows and columns"},
            {"layers", "12", "encoder layers"},
            {"hidden", "768", "columns of the residual stream"},
            {"heads", "12", "attention heads"},
            {"classes", "1000", "columns of the output"},
            {"dropout", "0", "probability"}}},
          build_vit};
}

}  // namespace partita
