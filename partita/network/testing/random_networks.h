// Makes random cost networks of several shapes, for tests and benchmarks.
#pragma once
#include <string_view>

#include "partita/base/rng.h"
#include "partita/network/certificate.h"

namespace partita::solver {

enum class Family {
  kChain,           // each variable beside the next; now and then beside the one after that
  kGrid,            // `size` variables, as square as can be
  kTreeOfBlocks,    // cliques of three or four that hang together at one variable each
  kSeriesParallel,  // an edge, of which parts are put in series or doubled
  kLayered,  // blocks of a transformer with residual edges; tables are shared by the kinds of their ends, costs by kind
};
inline constexpr Family kFamilies[] = {Family::kChain, Family::kGrid, Family::kTreeOfBlocks, Family::kSeriesParallel,
                                       Family::kLayered};
std::string_view name_of(Family family);

struct Recipe {
  Family family = Family::kChain;
  int size = 8;           // variables, about
  int values = 3;         // per variable, at most
  double forbidden = 0;   // share of entries
  int64_t largest = 100;  // of costs
  bool limited = false;   // each variable uses something for a while: the limit is roughly half of the largest use
};
// Makes the same network for the same recipe and seed.
Network random_network(const Recipe& recipe, uint64_t seed);

// Makes a leaf without decisions, with messages on all pairs of different variables of edges.
Certificate::Leaf random_messages(Rng& rng, const Network& network);

}  // namespace partita::solver
