// Finds the edges that a path of other edges implies (docs/inside/PHYSICAL.md section 5.6).
//
// Two steps are unrolled: place p of the first step is vertex p, of the second size + p. A node reaches its own next
// firing without an edge. Each vertex has a row of bits: the sources that reach it. Vertices are visited in ascending
// order. A row gathers the rows of its predecessors, the latest first. An edge whose source is in the row already is
// implied.
//
// Example: edges 0 -> 1, 1 -> 2, 0 -> 2. Vertex 2 gathers 1's row {0, 1} first; 0 is in it, so that 0 -> 2 is implied.
#pragma once
#include <vector>

#include "partita/physical/passes.h"

namespace partita {

// An edge between places in `order`.
struct RawEdge {
  int from, to;
  bool next;  // into the next step
  EdgeKind kind;
};

// Returns, by edge, whether it is implied. The edges are sorted by their source; `size`: places.
std::vector<bool> implied_edges(const std::vector<RawEdge>& edges, int size, const Watch& watch);

}  // namespace partita
