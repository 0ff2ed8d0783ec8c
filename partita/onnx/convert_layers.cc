// Converts products, convolutions, pooling, normalization and reductions; composite operators are decomposed.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "partita/base/error.h"
#include "partita/graph/recompute.h"
#include "partita/onnx/converter.h"
#include "partita/ops/ops.h"

namespace partita::onnx_model {
namespace {

double d(int64_t v) { return static_cast<double>(v); }

// ---------------------------------------------------------------- products

Results gemm(NodeContext& n) {
  const double alpha = n.real("alpha", 1), beta = n.real("beta", 1);
  if (n.rank(0) != 2 || n.rank(1) != 2) fail("operands {} and {}", shape_text(n.shape(0)), shape_text(n.shape(1)));
  const bool bias = n.present(2) && beta != 0 && !n.is_filled_with(2, 0), transposed = n.integer("transB", 0) != 0;
  TensorId x = n.tensor(0);
  if (n.integer("transA", 0)) x = n.before("transpose", {x}, list_attributes("perm", {1, 0}));
  const tdl::Attributes attributes{{"transposed", transposed ? 1.0 : 0.0}};
  const int64_t outputs = n.shape(1)[transposed ? 0 : 1];
  if (alpha == 1 && !bias) return {n.op("linear", {x, n.tensor(1)}, attributes)};
  if (alpha == 1 && beta == 1 && n.shape(2) == Shape{outputs})
    return {n.op("linear", {x, n.tensor(1), n.tensor(2)}, attributes)};
  TensorId y = n.before("linear", {x, n.tensor(1)}, attributes);
  const DType dtype = n.dtype_of(y);
  if (alpha != 1 && !bias) return {n.op("mul", {y, n.scalar(alpha, dtype)})};
  if (alpha != 1) y = n.before("mul", {y, n.scalar(alpha, dtype)});
  TensorId b = n.tensor(2);
  if (beta != 1) b = n.before("mul", {b, n.scalar(beta, dtype)});
  return {n.op("add", {y, b})};
}

Results matmul(NodeContext& n) {
  const Shape a = n.shape(0), b = n.shape(1);
  if (n.transposed_weight) {
    if (a.size() >= 2 && b.size() == 2) return {n.op("linear", {n.tensor(0), n.tensor(1)}, {{"transposed", 1}})};
    fail("operands {} and {} transposed", shape_text(a), shape_text(b));
  }
  if (a.empty() || b.empty()) fail("operands {} and {}", shape_text(a), shape_text(b));
  if (a.size() == 1 || b.size() == 1) {  // a vector is a matrix with one row, or one column
    const TensorId x = a.size() == 1 ? n.reshaped_before(n.tensor(0), {1, a[0]}) : n.tensor(0);
    const TensorId y = b.size() == 1 ? n.reshaped_before(n.tensor(1), {b[0], 1}) : n.tensor(1);
    const TensorId product = n.before("matmul", {x, y});
    Shape shape = n.build.shape(product);
    if (b.size() == 1) shape.pop_back();
    if (a.size() == 1) shape.erase(shape.end() - (b.size() == 1 ? 1 : 2));
    return {n.reshaped(product, shape)};
  }
  if (b.size() == 2 && n.build.graph().tensor(n.tensor(1)).role == Role::kParameter)
    return {n.op("linear", {n.tensor(0), n.tensor(1)})};
  return {n.op("matmul", {n.tensor(0), n.tensor(1)})};
}

// ---------------------------------------------------------------- windows

// Stride, dilation and padding of a window over the last two axes of x. A window over one axis is one of height 1.
tdl::Attributes windows(NodeContext& n, const Shape& x, const std::array<int64_t, 2>& kernel) {
  const bool flat = n.rank(0) == 3;
  auto pair = [&](const char* name) {
    std::vector<int64_t> values = n.integers(name);
    if (flat && values.size() == 1) values.insert(values.begin(), 1);
    if (!values.empty() && values.size() != 2)
      fail("{} of {} axes: only windows over one or two axes are supported", name, values.size());
    return values.empty() ? std::vector<int64_t>{1, 1} : values;
  };
  const std::vector<int64_t> stride = pair("strides"), dilation = pair("dilations");
  std::vector<int64_t> pads = n.integers("pads");
  if (flat && pads.size() == 2) pads = {0, pads[0], 0, pads[1]};
  if (pads.empty()) pads = {0, 0, 0, 0};
  if (pads.size() != 4) fail("pads of {} numbers", pads.size());
  const std::string automatic = n.text("auto_pad", "NOTSET");
  if (automatic == "VALID") pads = {0, 0, 0, 0};
  else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (std::size_t a = 0; a < 2; ++a) {
      if (stride[a] < 1) fail("a stride of {}", stride[a]);
      const int64_t count = (x[2 + a] + stride[a] - 1) / stride[a];
      const int64_t total =
          std::max<int64_t>(0, (count - 1) * stride[a] + dilation[a] * (kernel[a] - 1) + 1 - x[2 + a]);
      pads[a] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      pads[a + 2] = total - pads[a];
    }
  } else if (automatic != "NOTSET") {
    fail("auto_pad {}", automatic);
  }
  return {{"sh", d(stride[0])}, {"sw", d(stride[1])}, {"dh", d(dilation[0])}, {"dw", d(dilation[1])},
          {"pt", d(pads[0])},   {"pl", d(pads[1])},   {"pb", d(pads[2])},     {"pr", d(pads[3])}};
}

// [n, c, w] as [n, c, 1, w].
Shape with_height(const Shape& shape) { return shape.size() == 3 ? Shape{shape[0], shape[1], 1, shape[2]} : shape; }
Results without_height(NodeContext& n, TensorId y) {
  const Shape& s = n.build.shape(y);
  return {n.reshaped(y, {s[0], s[1], s[3]})};
}

Results convolution(NodeContext& n) {
  const Shape x = with_height(n.shape(0)), w = with_height(n.shape(1));
  if (x.size() != 4 || w.size() != 4 || n.rank(0) != n.rank(1))
    fail("a convolution of {} with {}: only those over one or two axes are supported", shape_text(n.shape(0)),
         shape_text(n.shape(1)));
  tdl::Attributes attributes = windows(n, x, {w[2], w[3]});
  attributes["groups"] = d(n.integer("group", 1));
  std::vector<TensorId> operands{n.reshaped_before(n.tensor(0), x), n.reshaped_before(n.tensor(1), w)};
  if (n.present(2) && !n.is_filled_with(2, 0)) operands.push_back(n.tensor(2));
  if (n.rank(0) == 3) return without_height(n, n.before("conv2d", std::move(operands), std::move(attributes)));
  return {n.op("conv2d", std::move(operands), std::move(attributes))};
}

// The gradient of a convolution with respect to its input, as an operation of its own: w is [inputs, outputs/groups, r,
// t].
Results transposed_convolution(NodeContext& n) {
  const Shape x = with_height(n.shape(0)), w = with_height(n.shape(1));
  if (x.size() != 4 || w.size() != 4 || n.rank(0) != n.rank(1))
    fail("a transposed convolution of {} with {}: only those over one or two axes are supported",
         shape_text(n.shape(0)), shape_text(n.shape(1)));
  tdl::Attributes attributes = windows(n, x, {w[2], w[3]});
  std::vector<int64_t> more = n.integers("output_padding");
  if (n.rank(0) == 3 && more.size() == 1) more.insert(more.begin(), 0);
  if (more.empty()) more = {0, 0};
  if (more.size() != 2) fail("output_padding of {} numbers", more.size());
  auto extent = [&](std::size_t a, const char* stride, const char* dilation, const char* before, const char* after) {
    return d(x[2 + a] - 1) * attributes.at(stride) + attributes.at(dilation) * d(w[2 + a] - 1) + 1 + d(more[a]) -
           attributes.at(before) - attributes.at(after);
  };
  // The extents follow from the pads. If they are given, the pads follow, the odd one behind only for SAME_UPPER.
  const std::string automatic = n.text("auto_pad", "NOTSET");
  const std::vector<int64_t> given = n.integers("output_shape");
  if (!given.empty() && given.size() + 2 != n.rank(0)) fail("output_shape of {} axes", given.size());
  auto fit = [&](std::size_t a, const char* stride, const char* dilation, const char* before, const char* after,
                 const char* result) {
    if (given.empty() && !automatic.starts_with("SAME")) {
      attributes[result] = extent(a, stride, dilation, before, after);
      return;
    }
    attributes[before] = attributes[after] = 0;
    attributes[result] = given.empty()    ? d(x[2 + a]) * attributes.at(stride)
                         : n.rank(0) == 3 ? (a == 0 ? 1 : d(given[0]))
                                          : d(given[a]);
    const double total = std::max(0.0, extent(a, stride, dilation, before, after) - attributes.at(result)),
                 half = std::floor(total / 2);
    attributes[before] = automatic == "SAME_UPPER" ? half : total - half;
    attributes[after] = total - attributes.at(before);
  };
  fit(0, "sh", "dh", "pt", "pb", "height");
  fit(1, "sw", "dw", "pl", "pr", "width");
  attributes["groups"] = d(n.integer("group", 1));
  TensorId y = n.before("conv2d_data_grad", {n.reshaped_before(n.tensor(0), x), n.reshaped_before(n.tensor(1), w)},
                        std::move(attributes));
  if (n.present(2) && !n.is_filled_with(2, 0))
    y = n.before("add", {y, n.reshaped_before(n.tensor(2), {n.build.shape(y)[1], 1, 1})});
  if (n.rank(0) == 3) return without_height(n, y);
  return {n.made(y)};
}

Results pool(NodeContext& n, const char* definition, tdl::Attributes more) {
  const Shape x = with_height(n.shape(0));
  std::vector<int64_t> kernel = n.integers("kernel_shape");
  if (n.rank(0) == 3 && kernel.size() == 1) kernel.insert(kernel.begin(), 1);
  if (x.size() != 4 || kernel.size() != 2)
    fail("pooling of {}: only pooling over one or two axes is supported", shape_text(n.shape(0)));
  tdl::Attributes attributes = windows(n, x, {kernel[0], kernel[1]});
  attributes["kh"] = d(kernel[0]);
  attributes["kw"] = d(kernel[1]);
  attributes["ceil"] = d(n.integer("ceil_mode", 0));
  // A window larger than the padded input, rounded up to one: it has the whole input.
  const auto fit = [&](std::size_t a, const char* extent, const char* stride, const char* dilation, const char* before,
                       const char* after) {
    const double all = d(x[2 + a]) + attributes.at(before) + attributes.at(after), beyond = attributes.at(extent) - all;
    if (!n.integer("ceil_mode", 0) || attributes.at(dilation) != 1 || beyond <= 0 || beyond >= attributes.at(stride) ||
        all < 1)
      return;
    attributes[extent] = attributes[stride] = all;
  };
  fit(0, "kh", "sh", "dh", "pt", "pb");
  fit(1, "kw", "sw", "dw", "pl", "pr");
  attributes.merge(more);
  if (n.rank(0) == 3)
    return without_height(n, n.before(definition, {n.reshaped_before(n.tensor(0), x)}, std::move(attributes)));
  return {n.op(definition, {n.tensor(0)}, std::move(attributes))};
}

Results max_pool(NodeContext& n) {
  if (n.integer("storage_order", 0)) fail("storage_order 1");
  return pool(n, "max_pool", {});
}
Results average_pool(NodeContext& n) {
  return pool(n, "average_pool", {{"count_padding", d(n.integer("count_include_pad", 0))}});
}

std::vector<int64_t> spatial_axes(NodeContext& n) {
  if (n.rank(0) < 3) fail("global pooling of {}", shape_text(n.shape(0)));
  std::vector<int64_t> axes(n.rank(0) - 2);
  std::iota(axes.begin(), axes.end(), 2);
  return axes;
}
Results global_pool(NodeContext& n, const char* definition) {
  tdl::Attributes attributes = list_attributes("axes", spatial_axes(n));
  if (n.rank(0) == 4 && std::string_view(definition) == "reduce_mean")
    return {n.op("global_average_pool", {n.tensor(0)})};
  attributes["keepdims"] = 1;
  return {n.op(definition, {n.tensor(0)}, std::move(attributes))};
}

// ---------------------------------------------------------------- normalization

constexpr std::string_view kNotTraining = "aten._native_batch_norm_legit_no_training.",
                           kTraining = "aten._native_batch_norm_legit_functional.";

bool is_trained_norm(const Node& o) {
  return o.operation == "BatchNormalization" &&
         (o.target.starts_with(kTraining) || onnx_model::integer(o, "training_mode", 0) == 1);
}
// Dropout of a module, which draws: the module is in training mode. A call of F.dropout draws by an argument of its
// own.
bool is_drawing_module(const Node& o) {
  return o.operation == "Dropout" && o.target.starts_with("aten.native_dropout.") &&
         o.owner.find(".Dropout") != std::string::npos;
}

// Tells whether a batch norm has the running statistics in training too. A file of a model in training mode marks those
// that have the batch's, by their function or by training_mode. Such a file has a norm that is trained, or a Dropout
// that draws.
bool keeps_running_statistics(const NodeContext& n) {
  return !is_trained_norm(n.node) && std::ranges::any_of(n.state.model.nodes, [](const Node& o) {
    return is_trained_norm(o) || is_drawing_module(o);
  });
}

// The older exporter does not say whether a Dropout that draws is a module's.
void note_drawing_dropout(NodeContext& n) {
  const auto draws = [&](const Node& o) {
    if (o.operation != "Dropout" || !o.target.empty() || o.inputs.size() < 3) return false;
    const auto mode = n.state.values.find(o.inputs[2]);
    return mode != n.state.values.end() && mode->second.constant &&
           mode->second.constant->integer == std::vector<int64_t>{1};
  };
  if (is_trained_norm(n.node) || std::ranges::none_of(n.state.model.nodes, draws)) return;
  n.state.notes.push_back(fmt::format(
      "node '{}' (BatchNormalization): it is trained with the statistics of the batch, though a Dropout of the file "
      "draws; if the model was in training mode and this norm in eval(), PyTorch trains with the running ones: export "
      "with dynamo=True, which says so",
      n.node.name));
}

// A module's own batch norm follows the module's mode. The file does not say how a function call behaves in training.
void note_batch_norm_of_a_function(NodeContext& n) {
  if (!n.node.target.starts_with(kNotTraining) || n.node.owner.empty() ||
      n.node.owner.find("BatchNorm") != std::string::npos)
    return;
  n.state.notes.push_back(fmt::format(
      "node '{}' (BatchNormalization): {} calls batch_norm as a function; it is trained with the statistics "
      "of the batch, as with training=self.training. With training=False PyTorch has the running ones, "
      "which a file of the model in training mode (model.train()) says if another batch norm is trained",
      n.node.name, n.node.owner));
}

Results batch_norm(NodeContext& n) {
  if (n.count() != 5) fail("{} operands instead of 5", n.count());
  const double eps = n.real("epsilon", 1e-5), momentum = 1 - n.real("momentum", 0.9);
  const TensorId x = n.tensor(0), scale = n.tensor(1), bias = n.tensor(2), mean = n.tensor(3), variance = n.tensor(4);
  const auto role = [&](TensorId id) { return n.build.graph().tensor(id).role; };
  if (role(mean) != Role::kState || role(variance) != Role::kState) {
    const std::vector<char> of_inputs = depends_on(n.build.graph(), Role::kInput);
    if (!of_inputs[mean.index()] || !of_inputs[variance.index()])
      fail(
          "its running mean and variance are computed from initializers of the file, as those of an InstanceNorm with "
          "track_running_stats are: it would be trained with other statistics; export the model in training mode, or "
          "with track_running_stats=False");
    return {n.op("batch_norm_inference", {x, scale, bias, mean, variance}, {{"eps", eps}})};  // of this batch, always
  }
  if (keeps_running_statistics(n))
    return {n.op("batch_norm_inference", {x, scale, bias, mean, variance}, {{"eps", eps}})};
  note_batch_norm_of_a_function(n);
  note_drawing_dropout(n);
  if (std::max(n.state.normalizations[n.name(3)], n.state.normalizations[n.name(4)]) > 1) {
    n.state.why_not_trained = fmt::format(
        "node '{}' (BatchNormalization): its running statistics ('{}') are shared with another: a batch norm that is "
        "called several times can be run, and not trained; give each call a module of its own",
        n.node.name, n.name(3));
    return {n.op("batch_norm_inference", {x, scale, bias, mean, variance}, {{"eps", eps}})};
  }
  if (momentum == 0)
    n.state.notes.push_back(fmt::format(
        "node '{}' (BatchNormalization): its momentum in the file is 1, so that its running statistics stay as they "
        "are; a BatchNorm with momentum=None, which averages all steps, is exported so: give it a momentum",
        n.node.name));
  // The result must have the node's name, and batch_norm has three.
  const auto& outputs = n.state.model.outputs;
  const bool is_output = std::find(outputs.begin(), outputs.end(), n.op_name()) != outputs.end();
  const auto make = n.state.other_batch ? batch_norm_of_any_batch : batch_norm_training;
  const std::string name = is_output ? n.op_name() + ".norm" : n.op_name();
  return {n.made(make(n.build, x, scale, bias, mean, variance, eps, momentum, name))};
}

}  // namespace

bool is_read(NodeContext& n, std::size_t result) {
  const auto& outputs = n.node.outputs;  // one that is left out has an empty name
  return result < outputs.size() && !outputs[result].empty() && n.state.readers.contains(outputs[result]);
}

TensorId over_last_axes(NodeContext& n, std::size_t operand, const Shape& last) {
  if (n.shape(operand) == last) return n.tensor(operand);
  if (broadcast(n.shape(operand), last) != last)
    fail("operand {} is {}, the normalized axes are {}", operand, shape_text(n.shape(operand)), shape_text(last));
  return n.before("expand", {n.tensor(operand)}, list_attributes("shape", last));
}

namespace {

Results layer_norm(NodeContext& n) {
  const Shape& x = n.shape(0);
  const std::size_t axis = n.axis("axis", -1, x.size());
  const Shape last(x.begin() + static_cast<std::ptrdiff_t>(axis), x.end());
  std::vector<TensorId> operands{n.tensor(0)};
  for (std::size_t i = 1; i < 3 && n.present(i); ++i) operands.push_back(over_last_axes(n, i, last));
  const Results results = n.ops("layer_norm", std::move(operands),
                                {{"eps", n.real("epsilon", 1e-5)}, {"axes", d(static_cast<int64_t>(last.size()))}});
  Results all{results[0]};
  Shape kept = x;
  std::fill(kept.begin() + static_cast<std::ptrdiff_t>(axis), kept.end(), 1);
  for (std::size_t r = 1; r < 3 && is_read(n, r); ++r)
    all.push_back(n.made(n.reshaped_before(results[r].tensor, kept)));
  return all;
}

Results rms_norm(NodeContext& n) {
  const Shape& x = n.shape(0);
  const std::size_t axis = n.axis("axis", -1, x.size());
  const Shape last(x.begin() + static_cast<std::ptrdiff_t>(axis), x.end());
  std::vector<TensorId> operands{n.tensor(0)};
  if (n.present(1)) operands.push_back(over_last_axes(n, 1, last));
  return {n.op("rms_norm", std::move(operands),
               {{"eps", n.real("epsilon", 1e-5)}, {"axes", d(static_cast<int64_t>(last.size()))}})};
}

// Before opset 21 scale and bias were given by group.
TensorId by_channel(NodeContext& n, std::size_t operand, int64_t channels, int64_t groups) {
  if (n.shape(operand) == Shape{channels}) return n.tensor(operand);
  if (n.shape(operand) != Shape{groups})
    fail("operand {} is {} for {} channels in {} groups", operand, shape_text(n.shape(operand)), channels, groups);
  const TensorId wide = n.before("expand", {n.reshaped_before(n.tensor(operand), {groups, 1})},
                                 list_attributes("shape", {groups, channels / groups}));
  return n.reshaped_before(wide, {channels});
}

Results group_norm(NodeContext& n, int64_t groups) {
  if (n.rank(0) < 2 || groups < 1) fail("{} groups of {}", groups, shape_text(n.shape(0)));
  const int64_t channels = n.shape(0)[1];
  return {n.op("group_norm", {n.tensor(0), by_channel(n, 1, channels, groups), by_channel(n, 2, channels, groups)},
               {{"eps", n.real("epsilon", 1e-5)}, {"groups", d(groups)}})};
}

// (x - mean) / sqrt(mean of squares) without an epsilon of its own; ONNX's function body has 1e-9.
Results mean_variance_norm(NodeContext& n) {
  std::vector<int64_t> axes = n.integers("axes");
  if (axes.empty()) axes = {0, 2, 3};
  tdl::Attributes over = list_attributes("axes", axes);
  over["keepdims"] = 1;
  const TensorId centred = n.before("sub", {n.tensor(0), n.before("reduce_mean", {n.tensor(0)}, over)});
  const TensorId deviation = n.before("norm_root", {n.before("reduce_mean", {n.before("square", {centred})}, over)});
  return {n.op("div", {centred, n.before("add", {deviation, n.scalar(1e-9, n.dtype(0))})})};
}

Results lp_norm(NodeContext& n) {
  const int64_t p = n.integer("p", 2);
  tdl::Attributes over = list_attributes("axes", {axis_of(n.integer("axis", -1), n.rank(0))});
  over["keepdims"] = 1;
  if (p != 1 && p != 2) fail("p={}", p);
  const TensorId x = n.tensor(0), sum = n.before("reduce_sum", {n.before(p == 1 ? "abs" : "square", {x})}, over);
  const DType dtype = n.dtype(0);  // a vector of norm 0 becomes 0
  const TensorId nonzero = n.before("where", {n.before("equal", {sum, n.scalar(0, dtype)}), n.scalar(1, dtype), sum});
  return {n.op("div", {x, p == 1 ? nonzero : n.before("sqrt", {nonzero})})};
}

// ---------------------------------------------------------------- softmax, dropout

Converter softmax(const char* definition) {
  return [definition](NodeContext& n) -> Results {
    const Shape x = n.shape(0);
    if (n.opset() >= 13)
      return {n.op(definition, {n.tensor(0)}, {{"axis", d(static_cast<int64_t>(n.axis("axis", -1, x.size())))}})};
    // Before opset 13 all axes from `axis` on are one.
    const std::size_t axis = n.axis("axis", 1, x.size());
    if (axis + 1 == x.size()) return {n.op(definition, {n.tensor(0)}, {{"axis", d(static_cast<int64_t>(axis))}})};
    Shape joined(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(axis));
    joined.push_back(volume(Shape(x.begin() + static_cast<std::ptrdiff_t>(axis), x.end())));
    return {n.reshaped(n.before(definition, {n.reshaped_before(n.tensor(0), joined)}, {{"axis", -1}}), x)};
  };
}

// In training mode an op that draws; otherwise nothing.
Results dropout(NodeContext& n) {
  const Values* training = n.constant(2, "mode");
  const double ratio = n.number(1, "ratio").value_or(0.5);
  if (!training || training->integer.empty() || !training->integer[0] || ratio == 0) {
    Results results{n.same(0)};
    if (is_read(n, 1)) check_room(n.shape(0));
    if (is_read(n, 1))
      results.push_back(
          constant_value({.dtype = DType::kBool,
                          .shape = n.shape(0),
                          .integer = std::vector<int64_t>(static_cast<std::size_t>(volume(n.shape(0))), 1)}));
    return results;
  }
  if (is_read(n, 1)) fail("its mask ('{}') is read, which is not supported", n.node.outputs[1]);
  return {n.op("dropout", {n.tensor(0)}, {{"p", ratio}})};
}

}  // namespace

void add_layer_converters(Converters& table) {
  table["Gemm"] = gemm;
  table["MatMul"] = matmul;
  table["Einsum"] = einsum;
  table["Conv"] = convolution;
  table["ConvTranspose"] = transposed_convolution;
  table["MaxPool"] = max_pool;
  table["AveragePool"] = average_pool;
  table["GlobalAveragePool"] = [](NodeContext& n) { return global_pool(n, "reduce_mean"); };
  table["GlobalMaxPool"] = [](NodeContext& n) { return global_pool(n, "reduce_max"); };
  table["BatchNormalization"] = batch_norm;
  table["LayerNormalization"] = layer_norm;
  table["RMSNormalization"] = rms_norm;
  table["GroupNormalization"] = [](NodeContext& n) { return group_norm(n, n.integer("num_groups", 0)); };
  table["InstanceNormalization"] = [](NodeContext& n) { return group_norm(n, n.rank(0) > 1 ? n.shape(0)[1] : 0); };
  table["MeanVarianceNormalization"] = mean_variance_norm;
  table["LpNormalization"] = lp_norm;
  table["Softmax"] = softmax("softmax");
  table["LogSoftmax"] = softmax("log_softmax");
  table["Dropout"] = dropout;
}

}  // namespace partita::onnx_model
