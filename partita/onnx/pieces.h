// Recognizes functions that PyTorch has as one and files in pieces. The pieces' gradients together differ from the
// function's: at 0, at a bound, where a piece has no finite derivative.
#pragma once
#include <optional>

#include "partita/onnx/converter.h"

namespace partita::onnx_model {

// Returns the square root of operand 0: the last step of a norm or a deviation if that is a sum of squares, else plain.
Value square_root(NodeContext& n);
// Returns the norm of x if operand 0 is a sum of p-th powers of |x| and `exponent` is 1/p.
std::optional<Value> norm_of_powers(NodeContext& n, double exponent);
// log(sigmoid(x)), finite for every x; none if operand 0 is no sigmoid.
std::optional<Value> logarithm_of_sigmoid(NodeContext& n);
// Where(x == 0, x, Where(IsNaN(y), y, x log(y))), as the exporter writes xlogy.
std::optional<Value> product_with_logarithm(NodeContext& n);
// (t - 1) max(log(1 - y), -100) - t max(log y, -100), as the exporter writes binary_cross_entropy, at the node's last
// step, Sub.
std::optional<Value> binary_cross_entropy(NodeContext& n);
// Returns the larger, or the smaller, of x and a constant: a bound of x. The gradient is that of PyTorch's clamp (all
// of it if x is the bound), or of relu6 after a relu (none of it there). None if neither is a constant, or if the node
// was PyTorch's maximum or minimum.
std::optional<Value> clamp_of_bound(NodeContext& n, bool from_below, std::size_t x, std::size_t bound);

}  // namespace partita::onnx_model
