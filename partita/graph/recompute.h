// Chooses which forward results the backward pass recomputes, for each kind of `recomputed` (autodiff.h).
#pragma once
#include <string>
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

// A backward op, or a clone for it, reads a clone of a tensor on two conditions. The tensor's op is of the reader's
// block, and the tensor is not kept. Else it reads the forward pass's tensor. Example: blocks {0, 0, 1, -1, -1, 1, 0}
// of the ops f0 f1 f2 loss, and loss.grad f2.grad f1.grad: f2.grad reads a clone of f2's result, and the forward pass's
// result of f1.
struct RecomputeSet {
  std::vector<int> block;  // by op; -1: no block
  std::vector<char> kept;  // by tensor
};

// Does `recomputed` with the choice made on another graph of the same ops and tensors, by number, whose extents may
// differ.
Graph recomputed_as_on(const Graph& chosen_on, const Graph& training, const std::string& kind, bool in_micro_batches);

RecomputeSet cheap_recompute_set(const Graph& training, bool reducing);  // `reducing`: also ops that reduce something
RecomputeSet layer_recompute_set(const Graph& training);
RecomputeSet attention_recompute_set(const Graph& training);

// By op: whether it can be recomputed. It is a forward op whose results are no outputs and replace nothing. Its
// operands still exist in the backward pass: nothing has replaced them.
std::vector<char> can_be_recomputed(const Graph& training);
// By tensor: whether a backward op reads it.
std::vector<char> read_backward(const Graph& training);
// By tensor: whether it depends on a tensor of this role.
std::vector<char> depends_on(const Graph& training, Role role);

}  // namespace partita
