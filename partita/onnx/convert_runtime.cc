// Converts ONNX Runtime's own operators that its optimizer writes to compositions; attention is in
// convert_attention.cc. Their meaning is in ONNX Runtime's docs/ContribOperators.md.
#include <algorithm>
#include <numeric>

#include "partita/base/error.h"
#include "partita/onnx/converter.h"

namespace partita::onnx_model {
namespace {

double d(int64_t v) { return static_cast<double>(v); }

// ---------------------------------------------------------------- norms

// 1/sqrt(mean of x^2 + eps) over the last axes from `axis` on, which stay with extent 1.
TensorId reciprocal_root(NodeContext& n, TensorId x, std::size_t axis, double eps) {
  std::vector<int64_t> axes(n.build.shape(x).size() - axis);
  std::iota(axes.begin(), axes.end(), static_cast<int64_t>(axis));
  tdl::Attributes over = list_attributes("axes", axes);
  over["keepdims"] = 1;
  const TensorId mean = n.before("reduce_mean", {n.before("square", {x})}, over);
  return n.before("rsqrt", {n.before("add", {mean, n.scalar(eps, n.dtype_of(x))})});
}

Results simplified_layer_norm(NodeContext& n) {
  const Shape& x = n.shape(0);
  const std::size_t axis = n.axis("axis", -1, x.size());
  const Shape last(x.begin() + static_cast<std::ptrdiff_t>(axis), x.end());
  const double eps = n.real("epsilon", 1e-5);
  if (n.present(2)) fail("its operand 2, a bias, is not one of the operator's");
  Results results{n.op("rms_norm", {n.tensor(0), over_last_axes(n, 1, last)},
                       {{"eps", eps}, {"axes", d(static_cast<int64_t>(last.size()))}})};
  if (is_read(n, 1)) results.push_back(n.made(reciprocal_root(n, n.tensor(0), axis, eps)));
  return results;
}

// The norm of input + skip + bias over the last axis: operands input, skip, scale, [offset,] bias; results the norm,
// its mean and reciprocal deviation, and the sum.
Results skip_norm(NodeContext& n, bool simplified) {
  const Shape x = n.shape(0), last{x.back()};
  const std::size_t bias = simplified ? 3 : 4;
  if (broadcast(x, n.shape(1)) != x) fail("input {} and skip {}", shape_text(x), shape_text(n.shape(1)));
  TensorId sum = n.before("add", {n.tensor(0), n.tensor(1)});
  if (n.present(bias)) sum = n.before("add", {sum, n.tensor(bias)});
  const double eps = n.real("epsilon", 1e-12);
  std::vector<TensorId> operands{sum, over_last_axes(n, 2, last)};
  if (!simplified && n.present(3)) operands.push_back(over_last_axes(n, 3, last));
  const Results norm = n.ops(simplified ? "rms_norm" : "layer_norm", std::move(operands), {{"eps", eps}, {"axes", 1}});
  Shape kept = x;
  kept.back() = 1;
  if (simplified && is_read(n, 1)) fail("its result 1 (the mean) is read, which ONNX Runtime does not compute either");
  Results results{norm[0], norm[0], norm[0], n.made(sum)};
  for (std::size_t r = simplified ? 2 : 1; r < 3; ++r)
    if (is_read(n, r)) results[r] = n.made(n.reshaped_before(norm[simplified ? 1 : r].tensor, kept));
  return results;
}

// ---------------------------------------------------------------- activations

TensorId with_bias(NodeContext& n) {
  if (!n.present(1)) return n.tensor(0);
  if (broadcast(n.shape(0), n.shape(1)) != n.shape(0))
    fail("a bias {} for {}", shape_text(n.shape(1)), shape_text(n.shape(0)));
  return n.before("add", {n.tensor(0), n.tensor(1)});
}

// x sigmoid(alpha x).
Results quick_gelu(NodeContext& n) {
  const TensorId x = n.tensor(0), scaled = n.before("mul", {x, n.scalar(n.real("alpha", 1.702), n.dtype(0))});
  return {n.op("mul", {x, n.before("sigmoid", {scaled})})};
}

// ---------------------------------------------------------------- products

// `batch`: axis 0 goes before the last one; `last`: the last two axes change places.
TensorId turned(NodeContext& n, std::size_t operand, bool batch, bool last) {
  std::vector<int64_t> order(n.rank(operand));
  std::iota(order.begin(), order.end(), 0);
  if (order.size() < 2 && (batch || last)) return n.tensor(operand);
  if (batch) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (last) std::swap(order[order.size() - 1], order[order.size() - 2]);
  return n.transposed_before(n.tensor(operand), order);
}

// alpha a b, with operands transposed.
Results fused_matmul(NodeContext& n) {
  if (n.rank(0) < 2 || n.rank(1) < 2) fail("operands {} and {}", shape_text(n.shape(0)), shape_text(n.shape(1)));
  const double alpha = n.real("alpha", 1);
  const bool transposed = n.integer("transB", 0) != 0, batch_b = n.integer("transBatchB", 0) != 0;
  const TensorId a = turned(n, 0, n.integer("transBatchA", 0) != 0, n.integer("transA", 0) != 0);
  const bool linear = n.rank(1) == 2 && !batch_b && n.build.graph().tensor(n.tensor(1)).role == Role::kParameter;
  const TensorId b = linear ? n.tensor(1) : turned(n, 1, batch_b, transposed);
  const char* definition = linear ? "linear" : "matmul";
  const tdl::Attributes attributes =
      linear ? tdl::Attributes{{"transposed", transposed ? 1.0 : 0.0}} : tdl::Attributes{};
  if (alpha == 1) return {n.op(definition, {a, b}, attributes)};
  const TensorId y = n.before(definition, {a, b}, attributes);
  return {n.op("mul", {y, n.scalar(alpha, n.dtype_of(y))})};
}

}  // namespace

void add_runtime_converters(Converters& table) {
  Converters standard;
  add_layer_converters(standard);
  table["LayerNormalization"] = standard.at("LayerNormalization");
  table["SimplifiedLayerNormalization"] = simplified_layer_norm;
  table["SkipLayerNormalization"] = [](NodeContext& n) { return skip_norm(n, false); };
  table["SkipSimplifiedLayerNormalization"] = [](NodeContext& n) { return skip_norm(n, true); };
  table["Gelu"] = [](NodeContext& n) -> Results { return {n.op("gelu", {n.tensor(0)})}; };
  table["BiasGelu"] = [](NodeContext& n) -> Results { return {n.op("gelu", {with_bias(n)})}; };
  table["FastGelu"] = [](NodeContext& n) -> Results { return {n.op("gelu_tanh", {with_bias(n)})}; };
  table["QuickGelu"] = quick_gelu;
  table["FusedMatMul"] = fused_matmul;
  add_runtime_attention_converters(table);
}

}  // namespace partita::onnx_model
