// Finds gradients whose buffers are kept until the step's last update, as in frameworks that update all parameters in a
// call of their own (MXNet, PyTorch). Otherwise a gradient's buffer is free when its own parameter is updated.
//
// Example: parameters v and w of 100 bytes each, whose gradients are made in the order w, v. w is updated before v's
// gradient exists. So v's may lie where w's was: 100 bytes. Kept, they take 200.
#pragma once
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

constexpr const char* kKeepGradients = "keep_gradients";  // an option of every optimizer
// If the option is set, every update has this attribute (OpDefinition::Update). No formula has an attribute of this
// name, so the kernel is the same. No operator that a user describes has it.
constexpr const char* kKeptGradient = "gradient.kept";
// The operand of an update that is the gradient, clipped and unscaled.
constexpr int kGradientOperand = 1;

bool keeps_gradient(const tdl::Attributes& attributes);
// True, by TensorId, for gradients that updates keep.
std::vector<char> kept_gradients(const Graph& graph);

}  // namespace partita
