// Counts a model's FLOPs, by which parallel runs of it are compared. Model FLOPs utilisation (Chowdhery et al., PaLM,
// 2022, appendix B) is these FLOPs over the devices' peak FLOPs in the time of a step.
#pragma once
#include "partita/graph/graph.h"

namespace partita {

// The FLOPs of a step on the whole batch. Each multiply-add of the forward pass's matrix products, convolutions and
// both products of attention (tdl/products.h) counts two. Masks and padding take nothing off. Experts count tokens x
// choices, whatever the places. A backward pass, if there is one, takes twice as much as the forward pass.
// Recomputation does not count.
//
// Example: matmul of [8, 4] and [4, 6] is 2 * 8 * 4 * 6 = 384; trained, 3 * 384.
double model_flops(const Graph& step);
// The FLOPs of the products of one formula.
double product_flops(const tdl::Bound& bound);

}  // namespace partita
