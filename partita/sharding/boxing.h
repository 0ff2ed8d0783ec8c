// Boxing: conversions of a tensor from one Layout to another, as steps, with their bytes counted from the boxes
// (DESIGN section 4's table and rules).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "partita/cluster/cluster.h"
#include "partita/sharding/layout.h"

namespace partita {

enum class StepKind {
  kLocal,          // each position makes its new box from its own old one: slice, or P's identity; no bytes
  kAllReduce,      // P -> B
  kReduceScatter,  // P -> S
  kAllGather,      // S -> B
  kAllToAll,       // S -> S
  kFetch,          // exactly the missing boxes, point to point (Tofu's MultiFetch)
};
std::string_view name_of(StepKind kind);  // "all-reduce"

// One box moved, or one local piece used, by a fetch. From a partial layout, the reader combines, with the reducer, the
// pieces that cover the same elements: one from each member of a partial group.
struct Piece {
  int source = 0;  // position in `from`
  int target = 0;  // position in `to`
  Box box;         // over the factored axes of the step (from.radices == to.radices)
  bool operator==(const Piece&) const = default;
};

struct Step {
  StepKind kind = StepKind::kLocal;
  Layout from, to;
  // Collectives: the positions of each group, in ring order; each group runs by itself. Position r holds the shard that
  // the layouts say.
  std::vector<std::vector<int>> groups;
  std::vector<Piece> pieces;  // kFetch: also those that are local to a device (source and target on one device: no bytes)
  int64_t bytes = 0;          // moved between devices, all together
};

struct Conversion {
  Layout from, to;
  std::vector<Step> steps;  // empty: nothing to do
  int64_t bytes = 0;
};

// The cheapest conversion in bytes, then in number of steps, then collectives before fetches. On one mesh: a path of
// steps over its axes; between two: steps on the first, one fetch, steps on the second, whichever is cheapest.
Conversion convert(const Layout& from, const Layout& to, int64_t element_bytes, const Cluster& cluster);
// One fetch, whatever the layouts: over one mesh, disjoint or overlapping ones. A box comes from the holder with the
// fastest route; ties are spread by the reader's position modulo the number tied.
Step fetch(const Layout& from, const Layout& to, int64_t element_bytes, const Cluster& cluster);
// What convert() would move, without building the steps; for searches.
int64_t conversion_bytes(const Layout& from, const Layout& to, int64_t element_bytes, const Cluster& cluster);

// Bytes that a strategy's own inner steps move: its stages made whole (all-reduce), and inner halos.
int64_t inner_bytes(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh, int64_t element_bytes,
                    const Cluster& cluster);

}  // namespace partita
