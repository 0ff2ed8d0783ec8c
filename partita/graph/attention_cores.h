// Finds the core of attention in a graph, for recomputation and for rules.
//
// The core is the op `attention`, or in a graph that has it in pieces
//
//     product of two activations --> one-pass ops --> softmax over the last axis --> one-pass ops
//                                                                                --> product of two activations
//
// with the ends. One-pass ops (tdl::takes_one_pass) are scale, mask, dropout, casts, copies. An activation depends on
// an input; a product multiplies two as matrices (tdl::matrix_operands). Example: matmul_nt(q, k), mul by 1/sqrt(size),
// add of the mask, softmax, dropout, matmul with v. A softmax over the logits of a linear layer is none: its product
// reads a parameter.
#pragma once
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

// By op: whether it is in such a core.
std::vector<char> attention_cores(const Graph& graph);

}  // namespace partita
