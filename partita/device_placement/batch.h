// Picks pairs of vertices that can be merged at once without making a cycle, for coarsening (Pesto, section 3.3).
//
// Height (Definition 3.4): of a vertex, how many vertices the longest path from a root to it has; a root's is 1. A
// batch has pairs (u_i, v_i), each an edge; d_i = H(v_i) - H(u_i). Theorem 3.5 asks:
// - (i) no vertex is in two pairs;
// - (ii) u_i has one successor, or v_i one predecessor, or d_i = 1, or all other successors of u_i are higher than v_i;
// - (iii), as printed: H(u_i) != H(v_j) + d_j, or there is no edge (u_i, v_j). An edge goes up, so that this excludes
//   nothing, and batches of (i) and (ii) alone have cycles. Here it is: draw an arc from i to j if (u_i, v_j) is an
//   edge, d_i = d_j = 1 and H(u_i) = H(u_j). Merged, the graph has no cycle if and only if the arcs have none.
//
// Why: a cycle of the merged graph goes through pairs. Height grows from each entry into a pair to the next entry,
// unless it enters at v_i and leaves at u_i. By (ii) it then goes to a vertex as high as v_i at least, and just as high
// only if d_i = 1. So height is the same all around, and each step is an arc.
//
// Pairs are taken heaviest first, each only if no arc goes from it to one that is taken: taking (u, v) with d = 1 bars
// v's other predecessors of u's height from being the u of a later pair with d = 1.
//
// Example (Figure 6): edges A-C, A-D, B-C, B-D. (A, C) and (B, D) satisfy the condition as printed; merged, AC needs BD
// (by B-C) and BD needs AC (by A-D). After (A, C), B is barred; in the next batch B's only successor is AC.
#pragma once
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace partita {

// Vertices are 0 .. vertices() - 1. Each pair of them has at most one edge.
struct MergeGraph {
  std::vector<int> first;      // by vertex, and one more: its first edge, an index of the next two
  std::vector<int> to;         // by edge
  std::vector<double> weight;  // by edge
  int vertices() const { return static_cast<int>(first.size()) - 1; }
};

// The predecessors of each vertex, as MergeGraph has successors.
struct Predecessors {
  std::vector<int> first, from;
  int count(int v) const { return first[static_cast<size_t>(v) + 1] - first[static_cast<size_t>(v)]; }
};
Predecessors predecessors(const MergeGraph& graph);

// Returns the vertices in a topological order. Throws if there is a cycle.
std::vector<int> topological_order(const MergeGraph& graph);

// Returns the height of each vertex (Definition 3.4).
std::vector<int> heights(const MergeGraph& graph);

// Says whether u and v may be merged, besides the pairs that it has allowed before. Cycles are not its concern.
using MayMerge = std::function<bool(int u, int v)>;

// Returns at most `most` pairs (u, v): heaviest edges first, among equal weights those of lower u and v. `may` is asked
// last: a pair that it allows is taken.
std::vector<std::pair<int, int>> edge_batch(const MergeGraph& graph, const std::vector<int>& height, size_t most,
                                            const MayMerge& may);

}  // namespace partita
