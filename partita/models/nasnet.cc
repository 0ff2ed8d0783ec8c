// Builds NASNet-A (Zoph et al. 2018), N cells a stage and P filters before the classifier, "N @ P": as in TensorFlow's
// slim and Keras, whose padding ("same": with an odd one, more behind) and parameter counts it has. Without scheduled
// drop-path and without slim's auxiliary head, which the published counts leave out.
#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/models/family.h"
#include "partita/models/layers.h"

namespace partita {
namespace {

class Network {
 public:
  Network(GraphBuilder& b, DType dtype, bool fine) : layers(b, dtype), b_(b), fine_(fine) {}

  // The results of two cells in a row: a cell takes the last, x, and the one before, p. The first cell has no p.
  struct Cells {
    TensorId x, p;
  };

  TensorId norm(TensorId x, const std::string& name) { return layers.batch_norm(x, name, 1e-3, 3e-4, fine_); }

  // Figure 4, left. Halves nothing; 6 x filters channels.
  Cells normal(Cells in, const std::string& name, int64_t filters) {
    const TensorId p = adjusted(in, name, filters), h = squeezed(in.x, name, filters);
    const TensorId x1 =
        add(separable(h, name + ".left1", filters, 5), separable(p, name + ".right1", filters, 3), name + ".add1");
    const TensorId x2 =
        add(separable(p, name + ".left2", filters, 5), separable(p, name + ".right2", filters, 3), name + ".add2");
    const TensorId x3 = add(average(h, name + ".left3"), p, name + ".add3");
    const TensorId x4 = add(average(p, name + ".left4"), average(p, name + ".right4"), name + ".add4");
    const TensorId x5 = add(separable(h, name + ".left5", filters, 3), h, name + ".add5");
    return {layers.concat({p, x1, x2, x3, x4, x5}, name), in.x};
  }

  // Figure 4, right. Half the rows and columns; 4 x filters channels.
  Cells reduction(Cells in, const std::string& name, int64_t filters) {
    const TensorId p = adjusted(in, name, filters), h = squeezed(in.x, name, filters);
    const TensorId x1 = add(separable(h, name + ".left1", filters, 5, 2), separable(p, name + ".right1", filters, 7, 2),
                            name + ".add1");
    const TensorId x2 = add(largest(h, name + ".left2"), separable(p, name + ".right2", filters, 7, 2), name + ".add2");
    const TensorId x3 =
        add(average(h, name + ".left3", 2), separable(p, name + ".right3", filters, 5, 2), name + ".add3");
    const TensorId x4 = add(x2, average(x1, name + ".left4"), name + ".add4");
    const TensorId x5 = add(separable(x1, name + ".left5", filters, 3), largest(h, name + ".right5"), name + ".add5");
    return {layers.concat({x2, x3, x4, x5}, name), in.x};
  }

  Layers layers;

 private:
  TensorId add(TensorId x, TensorId y, const std::string& name) { return b_.op("add", {x, y}, {}, name); }

  // Strides and the padding with which ceil(extent / stride) windows fit.
  tdl::Attributes same(TensorId x, int64_t kernel, int64_t stride) const {
    const Shape& shape = b_.shape(x);
    tdl::Attributes attributes{{"sh", static_cast<double>(stride)}, {"sw", static_cast<double>(stride)}};
    for (const auto& [extent, before, after] : {std::tuple{shape[2], "pt", "pb"}, std::tuple{shape[3], "pl", "pr"}}) {
      const int64_t windows = (extent + stride - 1) / stride,
                    padding = std::max<int64_t>((windows - 1) * stride + kernel - extent, 0);
      const int64_t first = padding / 2, last = padding - first;
      attributes[before] = static_cast<double>(first);
      attributes[after] = static_cast<double>(last);
    }
    return attributes;
  }
  tdl::Attributes window(TensorId x, int64_t stride) const {
    tdl::Attributes attributes = same(x, 3, stride);
    attributes["kh"] = attributes["kw"] = 3;
    return attributes;
  }
  // 3 x 3, over pixels inside the image.
  TensorId average(TensorId x, const std::string& name, int64_t stride = 1) {
    tdl::Attributes attributes = window(x, stride);
    attributes["count_padding"] = 0;
    return b_.op("average_pool", {x}, attributes, name);
  }
  TensorId largest(TensorId x, const std::string& name) { return b_.op("max_pool", {x}, window(x, 2), name); }

  TensorId pointwise(TensorId x, const std::string& name, int64_t filters, int64_t stride = 1) {
    return layers.convolution(x, name, {.outputs = filters, .kernel = 1, .stride = stride});
  }

  // Twice ReLU, a convolution of each channel by itself and one across channels, and batch norm; the first time with
  // the stride.
  TensorId separable(TensorId x, const std::string& name, int64_t filters, int64_t kernel, int64_t stride = 1) {
    for (int time : {1, 2}) {
      const std::string at = fmt::format("{}.separable{}", name, time);
      const int64_t channels = b_.shape(x)[1];
      x = layers.relu(x, at + ".relu");
      b_.set_source({at, ""});
      const double bound = std::sqrt(6.0 / static_cast<double>(kernel * kernel));
      const TensorId w = layers.parameter(at + ".depthwise.weight", {channels, 1, kernel, kernel}, bound);
      tdl::Attributes attributes = same(x, kernel, time == 1 ? stride : 1);
      if (channels > 1) attributes["groups"] = static_cast<double>(channels);
      x = b_.op("conv2d", {x, w}, attributes, at + ".depthwise");
      x = norm(pointwise(x, at + ".pointwise", filters), at + ".bn");
    }
    return x;
  }

  TensorId squeezed(TensorId x, const std::string& name, int64_t filters) {
    return norm(pointwise(layers.relu(x, name + ".relu"), name + ".conv", filters), name + ".bn");
  }

  // The cell before the last in the last one's rows, columns and channels. If it has more rows: every second pixel from
  // the first, and from the second on, half of the channels each.
  TensorId adjusted(Cells in, const std::string& name, int64_t filters) {
    if (!in.p.valid()) return in.x;
    const Shape p = b_.shape(in.p), x = b_.shape(in.x);
    const std::string at = name + ".adjust";
    if (p[2] != x[2]) {
      const TensorId y = layers.relu(in.p, at + ".relu");
      const TensorId first = pointwise(y, at + ".conv1", filters / 2, 2);
      const auto d = [](int64_t v) { return static_cast<double>(v); };
      const TensorId shifted = b_.op("slice", {y},
                                     {{"starts.0", 0},
                                      {"starts.1", 0},
                                      {"starts.2", 1},
                                      {"starts.3", 1},
                                      {"sizes.0", d(p[0])},
                                      {"sizes.1", d(p[1])},
                                      {"sizes.2", d(p[2] - 1)},
                                      {"sizes.3", d(p[3] - 1)}},
                                     at + ".shifted");
      b_.set_source({at + ".conv2", ""});
      const TensorId w =
          layers.parameter(at + ".conv2.weight", {filters / 2, p[1], 1, 1}, std::sqrt(6.0 / d(filters / 2)));
      const TensorId second =
          b_.op("conv2d", {shifted, w}, {{"sh", 2}, {"sw", 2}, {"pb", 1}, {"pr", 1}}, at + ".conv2");
      return norm(layers.concat({first, second}, at + ".concat"), at + ".bn");
    }
    if (p[1] == filters) return in.p;
    return norm(pointwise(layers.relu(in.p, at + ".relu"), at + ".conv", filters), at + ".bn");
  }

  GraphBuilder& b_;
  bool fine_;
};

Model build(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  const int64_t cells = options.integer("cells"), penultimate = options.integer("filters"),
                image = options.integer("image", 32);
  // 24 for the last normal cell, which is 4 times as wide as the first, which is 4 times as wide as the stem's first
  // cell.
  if (penultimate % 96) fail("zoo:{}: filters={} is not a multiple of 96", options.model(), penultimate);
  const int64_t filters = penultimate / 24;
  const bool skip = options.flag("skip");
  GraphBuilder b(options.model(), std::move(registry));
  Network net(b, options.dtype(), options.flag("fine"));
  TensorId x = b.input("x", {options.integer("batch"), 3, image, image}, options.dtype());
  x = net.layers.convolution(x, "stem.conv", {.outputs = options.integer("stem"), .kernel = 3, .stride = 2});
  Network::Cells now{net.norm(x, "stem.bn"), {}};
  now = net.reduction(now, "stem1", filters / 4);
  now = net.reduction(now, "stem2", filters / 2);
  int64_t number = 0;
  for (int stage : {0, 1, 2}) {
    const int64_t wide = filters << stage;
    if (stage > 0) {
      const Network::Cells reduced = net.reduction(now, fmt::format("reduce{}", stage), wide);
      now = {reduced.x, skip ? now.p : reduced.p};
    }
    for (int64_t i = 0; i < cells; ++i) now = net.normal(now, fmt::format("cells.{}", number++), wide);
  }
  x = net.layers.global_average(net.layers.relu(now.x, "relu"), "average");
  x = net.layers.dropout(x, "dropout", options.number("dropout", 0, 1));
  return {b.finish({net.layers.linear(x, "classifier", options.integer("classes"))}), Loss{.kind = "cross_entropy"}};
}

ModelFamily family(const char* name, const char* summary, int cells, int filters, int image, int stem, bool skip) {
  return {{name,
           summary,
           {{"batch", "32", "samples a step"},
            {"cells", std::to_string(cells), "normal cells of each of three stages"},
            {"filters", std::to_string(filters), "channels before the classifier, a multiple of 96"},
            {"image", std::to_string(image), "rows and columns"},
            {"stem", std::to_string(stem), "channels of the first convolution"},
            {"skip", skip ? "1" : "0", "1: a stage's first normal cell takes what the reduction's last but one did"},
            {"classes", "1000", "columns of the output"},
            {"dropout", "0.5", "before the output"},
            {"fine", "false", "true: batch norms in elementary operations"}}},
          build};
}

}  // namespace

std::vector<ModelFamily> nasnet_families() {
  return {family("nasnet", "NASNet-A (6 @ 4032), the large one for ImageNet", 6, 4032, 331, 96, true),
          family("nasnet-mobile", "NASNet-A (4 @ 1056)", 4, 1056, 224, 32, false)};
}

}  // namespace partita
