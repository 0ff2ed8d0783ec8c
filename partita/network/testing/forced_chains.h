// Problems as large models of a compiler's operations make them: long chains that must be laid out alike, joined here
// and there where a change of layout costs or is forbidden, with one hub that thousands of them read, and memory that
// is scarce.
#pragma once
#include "partita/base/rng.h"
#include "partita/network/network.h"

namespace partita::solver {

struct ForcedChains {
  int variables = 57'000, edges = 91'000, hub_degree = 7'800;  // with room for those within chains, which come first
  double loose = 0.2;  // share of the edges within chains that allow some steps between layouts, too
  double room = 1.1;   // the limit, over the peak of the least use
};
// The same for the same recipe and seed. There is a solution.
Network forced_chains(const ForcedChains& recipe, uint64_t seed);

}  // namespace partita::solver
