// Converts reductions, and the places of the largest.
#include <algorithm>
#include <string_view>

#include "partita/base/error.h"
#include "partita/onnx/converter.h"

namespace partita::onnx_model {
namespace {

double d(int64_t v) { return static_cast<double>(v); }

// ---------------------------------------------------------------- over axes

struct Over {
  std::vector<int64_t> axes;  // empty: all
  bool nothing = false;       // each element is alone
  tdl::Attributes attributes(bool keepdims) const {
    tdl::Attributes attributes = list_attributes("axes", axes);
    attributes["keepdims"] = keepdims;
    return attributes;
  }
};

// A scalar has nothing to reduce, with no axes or as PyTorch writes it, along axis 0 or -1.
Over over(NodeContext& n) {
  Over o{.axes = n.list("axes", 1)};
  if (n.rank(0) == 0) {
    for (int64_t axis : o.axes)
      if (axis != 0 && axis != -1) axis_of(axis, 0);
    return {{}, true};
  }
  o.nothing = o.axes.empty() && n.integer("noop_with_empty_axes", 0);
  for (int64_t& axis : o.axes) axis = axis_of(axis, n.rank(0));
  std::sort(o.axes.begin(), o.axes.end());
  return o;
}

bool keeps_dims(const NodeContext& n) { return n.integer("keepdims", 1) != 0; }

// `before` is applied to each value first; `after` to the result; `alone` to each value if nothing is reduced. Null:
// nothing.
struct Steps {
  const char *before = nullptr, *after = nullptr, *alone = nullptr;
};

Converter reduction(const char* definition, Steps steps = {}) {
  return [=](NodeContext& n) -> Results {
    const Over o = over(n);
    if (o.nothing) return {steps.alone ? n.op(steps.alone, {n.tensor(0)}) : n.same(0)};
    const bool mean = std::string_view(definition) == "reduce_mean";
    if (mean && n.rank(0) == 4 && o.axes == std::vector<int64_t>{2, 3} && keeps_dims(n))
      return {n.op("global_average_pool", {n.tensor(0)})};
    TensorId x = n.tensor(0);
    if (steps.before) x = n.before(steps.before, {x});
    if (!steps.after) return {n.op(definition, {x}, o.attributes(keeps_dims(n)))};
    return {n.op(steps.after, {n.before(definition, {x}, o.attributes(keeps_dims(n)))})};
  };
}

// Takes the largest out first, so that nothing overflows. If that is infinite, the largest number stands for it:
// infinity less infinity is NaN.
Results log_sum_exp(NodeContext& n) {
  const Over o = over(n);
  if (!is_float(n.dtype(0)))
    fail("of {}: its results lie between integers; cast it to FLOAT before", name_of(n.dtype(0)));
  if (o.nothing) return {n.same(0)};
  const double most = n.dtype(0) == DType::kFloat64 ? 1e308 : 3e38;
  const TensorId x = n.tensor(0), top = n.before("reduce_max", {x}, o.attributes(true)),
                 largest = n.before("clip", {top}, {{"lo", -most}, {"hi", most}});
  const TensorId sum =
      n.before("reduce_sum", {n.before("exp", {n.before("sub", {x, largest})})}, o.attributes(keeps_dims(n)));
  const TensorId log = n.before("log", {sum});
  return {n.op("add", {log, n.reshaped_before(largest, n.build.shape(log))})};
}

// Roots and logarithms of integers are computed in floating point; the fraction is cut off.
Converter through_real(Converter converter) {
  return [converter = std::move(converter)](NodeContext& n) -> Results {
    if (is_float(n.dtype(0))) return converter(n);
    Value real = n.made(n.before("cast", {n.tensor(0)}, {{"to", static_cast<double>(DType::kFloat64)}}));
    std::vector<std::string> names;
    std::vector<Value*> operands;
    Value axes = n.present(1) ? n.value(1) : Value{};
    for (std::size_t i = 0; i < n.count(); ++i) {
      names.push_back(n.name(i));
      operands.push_back(i == 0 ? &real : n.present(i) ? &axes : nullptr);
    }
    NodeContext inner(n.state, n.node, n.build, std::move(names), std::move(operands), n.op_name() + ".real");
    const TensorId y = converter(inner).front().tensor;
    return {n.op("cast", {y}, {{"to", static_cast<double>(n.dtype(0))}})};
  };
}

// ---------------------------------------------------------------- the largest along an axis

// The place of the largest (smallest) along the axis, which is put last; `last`: among equals the last one, by reading
// backwards.
TensorId largest_at(NodeContext& n, std::size_t axis, bool largest, bool last) {
  const Shape& x = n.shape(0);
  std::vector<int64_t> order;
  for (std::size_t a = 0; a < x.size(); ++a)
    if (a != axis) order.push_back(static_cast<int64_t>(a));
  order.push_back(static_cast<int64_t>(axis));
  TensorId y = n.transposed_before(n.tensor(0), order);
  if (last) {
    const Shape sizes = n.build.shape(y);
    std::vector<int64_t> starts(sizes.size()), steps(sizes.size(), 1);
    starts.back() = sizes.back() - 1, steps.back() = -1;
    tdl::Attributes attributes = list_attributes("starts", starts);
    attributes.merge(list_attributes("sizes", sizes));
    attributes.merge(list_attributes("steps", steps));
    y = n.before("slice", {y}, std::move(attributes));
  }
  if (!largest) y = n.before("neg", {y});
  y = n.before("argmax", {y});
  return last ? n.before("sub", {n.scalar(d(x[axis] - 1), DType::kInt64), y}) : y;
}

Results arg(NodeContext& n, bool largest) {
  Shape shape = n.shape(0);
  const std::size_t axis = n.axis("axis", 0, shape.size());
  const TensorId y = largest_at(n, axis, largest, n.integer("select_last_index", 0) != 0);
  shape[axis] = 1;
  if (n.integer("keepdims", 1)) return {n.reshaped(y, shape)};
  return {n.made(y)};
}

// 1 at the first of the largest along the axis, else 0.
Results hardmax(NodeContext& n) {
  Shape shape = n.shape(0);
  if (n.opset() < 13) fail("opset {}; export the model with opset 13 or newer", n.opset());
  const std::size_t axis = n.axis("axis", -1, shape.size());
  Values counted{.dtype = DType::kInt64, .shape = Shape(shape.size(), 1)};
  counted.shape[axis] = shape[axis];
  check_room(counted.shape);
  for (int64_t i = 0; i < shape[axis]; ++i) counted.integer.push_back(i);
  shape[axis] = 1;
  const TensorId hit = n.before("equal", {n.reshaped_before(largest_at(n, axis, true, false), shape),
                                          n.constant_tensor(std::move(counted), "places")});
  return {n.op("cast", {hit}, {{"to", static_cast<double>(n.dtype(0))}})};
}

}  // namespace

void add_reduce_converters(Converters& table) {
  table["ReduceSum"] = reduction("reduce_sum");
  table["ReduceMean"] = reduction("reduce_mean");
  table["ReduceMax"] = reduction("reduce_max");
  table["ReduceMin"] = reduction("reduce_min");
  table["ReduceProd"] = reduction("reduce_prod");
  table["ReduceL1"] = reduction("reduce_sum", {.before = "abs", .alone = "abs"});
  table["ReduceL2"] = through_real(reduction("reduce_sum", {.before = "square", .after = "norm_root", .alone = "abs"}));
  table["ReduceSumSquare"] = reduction("reduce_sum", {.before = "square", .alone = "square"});
  table["ReduceLogSum"] = through_real(reduction("reduce_sum", {.after = "log", .alone = "log"}));
  table["ReduceLogSumExp"] = log_sum_exp;
  table["ArgMax"] = [](NodeContext& n) { return arg(n, true); };
  table["ArgMin"] = [](NodeContext& n) { return arg(n, false); };
  table["Hardmax"] = hardmax;
}

}  // namespace partita::onnx_model
