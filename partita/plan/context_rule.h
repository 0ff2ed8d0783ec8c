// Finds context parallelism in a graph (Llama 3: Dubey et al., arXiv:2407.21783, section 3.3.2): activations are split
// along the sequence over a group of devices, in all layers and the loss.
//
// The split starts at the queries of attention. Everything on the way to them and from them that can is split with
// them. Attention reads the keys and values that its queries see from the other devices: all of them by an all-gather,
// those of causal attention by a fetch. Their gradients are partial sums over the group. Weights are whole, and their
// gradients too are sums over the group.
//
// Experts' places in a group of tokens are split too: tokens on their way there are partial sums over the devices, and
// are reduce-scattered. What comes back is gathered.
//
// Example: 8 steps over 4 devices, causal. Device 1 has queries 2 and 3, and fetches keys 0 and 1 from device 0. It
// computes 7 of all 36 pairs, device 3 has 15.
#pragma once
#include <string>
#include <vector>

#include "partita/plan/sequence_split.h"

namespace partita {

// The queries of one attention.
struct Queries {
  std::string op;
  TensorId tensor;  // the tensor that is split first
  AxisLayout part;
  int64_t length = 0;
};
std::vector<Queries> queries_of(const Graph& graph);

SequenceSplit context_split(const Graph& graph, int degree);
// Returns a product that `split` leaves whole, so that the whole group would compute it: the first of attention, or the
// first of all if these are over half of the model's. None otherwise.
OpId whole_product(const Graph& graph, const SequenceSplit& split);

}  // namespace partita
