// Makes problems like those of large models of a compiler's operations. Long chains must be laid out alike. Here and
// there they meet at edges that make a change of layout cost something, or forbid it. Thousands of chains read one hub,
// and memory is scarce.
#pragma once
#include "partita/base/rng.h"
#include "partita/network/network.h"

namespace partita::solver {

struct ForcedChains {
  int variables = 57'000, edges = 91'000, hub_degree = 7'800;  // includes edges within chains, which come first
  double loose = 0.2;  // share of the edges within chains that allow some steps between layouts, too
  double room = 1.1;   // the limit, over the peak of the least use
};
// Makes the same network for the same recipe and seed. There is a solution.
Network forced_chains(const ForcedChains& recipe, uint64_t seed);

}  // namespace partita::solver
