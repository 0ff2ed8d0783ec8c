// Gradients whose buffers are kept until the step's last update, as frameworks keep them that update all parameters in
// a call of their own (MXNet, PyTorch). Without it a buffer is free when its own parameter is updated.
//
// Example: parameters v and w of 100 bytes each, gradients made in the order of w, v. w is updated before v's gradient
// is there, so that v's may lie where w's was: 100 bytes. Kept, they take 200.
#pragma once
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

constexpr const char* kKeepGradients = "keep_gradients";  // an option of every optimizer
// With it, an attribute of every update (OpDefinition::Update). A formula has none with such a name, so that the kernel
// is the same, and no operator that a user describes has it.
constexpr const char* kKeptGradient = "gradient.kept";
// The operand of an update that is the gradient: what clipping and unscaling have left of it.
constexpr int kGradientOperand = 1;

bool keeps_gradient(const tdl::Attributes& attributes);
// By TensorId.
std::vector<char> kept_gradients(const Graph& graph);

}  // namespace partita
