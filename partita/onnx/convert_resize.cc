// Converts Resize and Upsample: a gather of the nearest places, or of two neighbours and a weighted sum.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "partita/base/error.h"
#include "partita/onnx/converter.h"

namespace partita::onnx_model {
namespace {

double d(int64_t v) { return static_cast<double>(v); }

// ---------------------------------------------------------------- places

// An axis of `from` places that gets `to`. `length` is `to` before it is rounded. A place of the result times `down`
// and through `up` is one of the operand. These are `from` and `to` if sizes are given, which makes whole places exact;
// otherwise 1 and the scale.
struct Axis {
  std::size_t number = 0;
  int64_t from = 0, to = 0;
  double length = 0, down = 1, up = 1;
  bool shrinks = false;
};

// The place of the operand for place `i` of the result, by ONNX's coordinate transformation. T is float if the nearest
// place of a scale is chosen, as ONNX Runtime and PyTorch compute it: 1 / (1/3 in float) is 3 so, and in double below.
template <typename T>
double source_place(const std::string& mode, int64_t i, const Axis& axis) {
  const T at = static_cast<T>(i), half = T(0.5), down = static_cast<T>(axis.down), up = static_cast<T>(axis.up),
          length = static_cast<T>(axis.length);
  if (mode == "asymmetric") return at * down / up;
  if (mode == "align_corners") return axis.to == 1 ? 0 : at * static_cast<T>(axis.from - 1) / (length - 1);
  if (mode == "pytorch_half_pixel") return length > 1 ? (at + half) * down / up - half : 0;
  if (mode == "half_pixel_symmetric")
    return static_cast<T>(axis.from) / 2 * (1 - static_cast<T>(axis.to) / length) + (at + half) * down / up - half;
  if (mode == "half_pixel") return (at + half) * down / up - half;
  fail("coordinate_transformation_mode {}", mode);
}

int64_t nearest(const std::string& mode, double place) {
  if (mode == "floor") return static_cast<int64_t>(std::floor(place));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(place));
  if (mode == "round_prefer_ceil") return static_cast<int64_t>(std::floor(place + 0.5));
  if (mode == "round_prefer_floor") return static_cast<int64_t>(std::ceil(place - 0.5));
  fail("nearest_mode {}", mode);
}

// How an operator's attributes and operands resize each axis, before ONNX had names for it as well.
struct Resizing {
  std::string mode, where, round;
  bool rounds_by_scale = false;  // of opset 10: up when an axis shrinks, else down
};

Resizing resizing_of(NodeContext& n) {
  const std::string mode = n.text("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && (mode != "bilinear" || n.opset() >= 11))
    fail("mode {}: only nearest and linear are supported", mode);
  if (n.opset() < 11) return {mode == "nearest" ? mode : "linear", "asymmetric", "floor", n.node.operation == "Resize"};
  if (n.integer("antialias", 0)) fail("antialias is not supported");
  if (n.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    fail("keep_aspect_ratio_policy {}", n.text("keep_aspect_ratio_policy", ""));
  return {mode, n.text("coordinate_transformation_mode", "half_pixel"), n.text("nearest_mode", "round_prefer_floor")};
}

// One axis of y: the nearest place by a gather, two neighbours by two and a weighted sum.
TensorId resized(NodeContext& n, TensorId y, const Axis& axis, const Resizing& how, DType dtype) {
  check_room({axis.to});
  const std::string round = how.rounds_by_scale && axis.shrinks ? "ceil" : how.round;
  const bool nearest_only = how.mode == "nearest";
  Values low{.dtype = DType::kInt64, .shape = {axis.to}}, high = low;
  Values part{.dtype = dtype, .shape = Shape(n.rank(0) - axis.number, 1)};
  part.shape[0] = axis.to;
  for (int64_t t = 0; t < axis.to; ++t) {
    const double place = nearest_only && axis.down == 1 ? source_place<float>(how.where, t, axis)
                                                        : source_place<double>(how.where, t, axis);
    const int64_t first = nearest_only ? nearest(round, place) : static_cast<int64_t>(std::floor(place));
    low.integer.push_back(std::clamp<int64_t>(first, 0, axis.from - 1));
    high.integer.push_back(std::clamp<int64_t>(first + 1, 0, axis.from - 1));
    part.real.push_back(place - std::floor(place));
  }
  const tdl::Attributes along{{"axis", d(static_cast<int64_t>(axis.number))}};
  const auto read = [&](Values places, const char* what) {
    return n.before("gather", {y, n.constant_tensor(std::move(places), fmt::format("{}{}", what, axis.number))}, along);
  };
  const TensorId lower = read(std::move(low), "places");
  if (nearest_only) return lower;
  const TensorId upper = read(std::move(high), "next"),
                 weight = n.constant_tensor(std::move(part), fmt::format("weights{}", axis.number));
  return n.before("add", {lower, n.before("mul", {n.before("sub", {upper, lower}), weight})});
}

// ---------------------------------------------------------------- extents

// The scales of an operator: an attribute, or an operand that stands second before opset 11 and third since. Each as
// the shortest decimal of its float: 0.7, not 0.699999988.
std::vector<double> scales_of(NodeContext& n) {
  if (has(n.node, "scales")) return onnx_model::reals(n.node, "scales");
  const Values* values = n.constant(n.opset() < 11 ? 1 : 2, "scales");
  std::vector<double> scales = values ? values->real : std::vector<double>();
  for (double& scale : scales) scale = shortest_decimal(static_cast<float>(scale));
  return scales;
}

// floor(scale * from). A scale that no float equals, such as 0.7, makes a product near a whole number uncertain:
// PyTorch multiplies in double, ONNX Runtime in float, the standard's own evaluator takes the float's exact value. The
// file's declared extent decides, else ONNX Runtime's product.
int64_t extent_by_scale(NodeContext& n, std::size_t axis, double scale) {
  const int64_t from = n.shape(0)[axis];
  const double exact = static_cast<float>(scale), product = exact * d(from), whole = std::round(product);
  if (exact == scale) return static_cast<int64_t>(std::floor(product));
  const auto taken = static_cast<int64_t>(std::floor(static_cast<float>(scale) * static_cast<float>(from)));
  if (std::abs(product - whole) > product * 0x1p-22) return taken;
  const auto most = static_cast<int64_t>(whole);
  const int64_t declared = n.declared_extent(axis, n.rank(0));
  if (declared == most || declared == most - 1) return declared;
  // In PyTorch's files a product that PyTorch and ONNX Runtime share is sure.
  const bool is_sure =
      n.state.model.producer == "pytorch" && taken == static_cast<int64_t>(std::floor(scale * d(from)));
  if (declared < 0 && !is_sure)
    n.state.rounded.push_back(fmt::format("{} of {} or {} places (node '{}', axis {}: {} times {})", taken, most - 1,
                                          most, n.node.name, axis, from, scale));
  return taken;
}

Axis axis_by_scale(NodeContext& n, std::size_t number, double scale) {
  const int64_t from = n.shape(0)[number];
  if (!(scale > 0 && scale < 1e6) || from < 1) fail("a scale of {} for {} places", scale, from);
  const int64_t to = extent_by_scale(n, number, scale);
  // PyTorch's corners are those of the rounded length.
  const double length = n.state.model.producer == "pytorch" ? d(to) : scale * d(from);
  return {number, from, to, length, 1, scale, scale < 1};
}

Axis axis_by_size(NodeContext& n, std::size_t number, int64_t to) {
  const int64_t from = n.shape(0)[number];
  if (to < 1 || from < 1 || to / 1'000'000 > from) fail("a size of {} for {} places", to, from);
  return {number, from, to, d(to), d(from), d(to), to < from};
}

std::vector<Axis> axes_of(NodeContext& n) {
  const Shape& x = n.shape(0);
  std::vector<int64_t> numbers = n.integers("axes");
  if (numbers.empty()) {
    numbers.resize(x.size());
    std::iota(numbers.begin(), numbers.end(), 0);
  }
  const std::vector<double> scales = scales_of(n);
  const std::vector<int64_t> sizes = n.opset() < 11 ? std::vector<int64_t>() : n.list("sizes", 3);
  const bool by_size = scales.empty();
  if ((by_size ? sizes.size() : scales.size()) != numbers.size())
    fail("scales or sizes for {} axes are needed", numbers.size());
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t number = static_cast<std::size_t>(axis_of(numbers[i], x.size()));
    const Axis axis = by_size ? axis_by_size(n, number, sizes[i]) : axis_by_scale(n, number, scales[i]);
    if (axis.to != axis.from || axis.down / axis.up != 1) axes.push_back(axis);
  }
  return axes;
}

// ---------------------------------------------------------------- the operator

// Values between integers of a file's narrow type, computed in float32 and cut off, as in ONNX Runtime. A value that is
// whole but for rounding stays so.
TensorId cut_off(NodeContext& n, TensorId y) {
  const TensorId sign = n.before("sign", {y}), little = n.scalar(0x1p-12, DType::kFloat32);
  return n.before("cast", {n.before("add", {y, n.before("mul", {sign, little})})},
                  {{"to", static_cast<double>(DType::kInt64)}});
}

Results resize(NodeContext& n) {
  const Resizing how = resizing_of(n);
  const std::vector<Axis> axes = axes_of(n);
  if (axes.empty()) return {n.same(0)};
  const bool between_integers = how.mode != "nearest" && !is_float(n.dtype(0));
  const auto type = integer_type_of(n.value(0).type);
  if (between_integers && (n.dtype(0) != DType::kInt64 || !type || type->bits > 8))
    fail("mode {} of {}: in float32, in which it would be computed, not all of its values are; cast it to FLOAT before",
         how.mode, n.dtype(0) == DType::kInt64 ? type_name(n.value(0).type) : std::string(name_of(n.dtype(0))));
  const DType dtype = between_integers ? DType::kFloat32 : n.dtype(0);
  TensorId y = n.tensor(0);
  if (between_integers) y = n.before("cast", {y}, {{"to", static_cast<double>(dtype)}});
  for (const Axis& axis : axes) y = resized(n, y, axis, how, dtype);
  return {n.made(between_integers ? cut_off(n, y) : y)};
}

}  // namespace

void add_resize_converters(Converters& table) {
  table["Resize"] = resize;
  table["Upsample"] = resize;
}

}  // namespace partita::onnx_model
