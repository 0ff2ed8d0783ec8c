// Makes a placement problem of fewer vertices, each of several operations, for searches on large graphs (Pesto, section
// 3.3).
//
// Batches of edges (batch.h) are merged until the target is reached or a batch takes few. The heaviest go first, by the
// time that their values take to cross. Then vertices of one height are merged in a batch of their own: no path goes
// between two of them, and each edge of the merged graph still goes up. Edges follow again. The paper prints batches of
// edges alone, and no caps. Two vertices merge only if they can run on the same devices. If they are of different
// groups, the groups become one. Neither a vertex nor a group grows beyond its share of all time and memory. An
// operation or a given group that is beyond it stays as it is.
//
// Example (Figure 6): a and b, each read by c and by d; all take 1 ns, a value has 100 bytes. Down to 3 vertices: {a,
// c}, b, d, since {a, c} and {b, d} at once would need each other. Down to 2: {a, c, d} and b, whose value crosses
// once.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "partita/device_placement/problem.h"

namespace partita {

struct CoarsenOptions {
  // Shares of the whole problem's time and bytes: the time sums each operation's on its fastest device.
  double time_share = 0.08, memory_share = 0.12;
  // As the paper prints it: batches of edges until the target is reached or none can be merged. If many vertices have
  // one neighbour in common, a batch takes one of them, so there may be thousands of batches.
  bool edges_alone = false;
  // Makes one value of those with the same producer and the same readers: fewer transfers, the same bytes; the latency
  // is counted once. Results are then left out, as they are not one value's any more.
  bool join_values = false;
  // Merges only if a limit of the longest path leaves time (slack.h), also vertices of different heights without an
  // edge. The limit grows while few merge. Otherwise nearly all ends on one path: the paper's rule, heaviest edges
  // first, does not look at operations that could run at once.
  bool keep_parallel = false;
  // A device by operation; empty: none. Only operations of one device merge, so that it is a placement of the coarse
  // problem too, from which a search there goes on.
  std::vector<int> placement = {};
  // A window by operation; empty: none. Only operations of one window merge: it keeps a part of a schedule.
  std::vector<int> window = {};
  // Draws the values' weights as edges by this seed, up to twice as much: other merges each time.
  std::optional<uint64_t> seed = std::nullopt;
};

struct Coarse {
  // Vertices are named after their first operation, `a+2` if there are two more. A group has those that have to stay
  // together, at least two. Results that no other vertex reads are a vertex's scratch.
  PlacementProblem problem;
  std::vector<int> vertex;  // by operation of the fine problem
  std::vector<int> value;   // by value of the fine problem: its coarse value, whole or part; -1: it stays inside a
                            // vertex
  std::vector<int> inside;  // by vertex of the level before (coarsen: by operation): its vertex here
};

// Coarsens to `target` vertices, or to as few as the above allows.
Coarse coarsen(const PlacementProblem& fine, int target, const CoarsenOptions& options);

// Returns a level by target, from the highest to the lowest. Each is made from the one before, the first from the
// problem. A target that the level before has reached has none.
std::vector<Coarse> coarsen_levels(const PlacementProblem& fine, const std::vector<int>& targets,
                                   const CoarsenOptions& options);

// Returns each operation's device: that of its vertex.
std::vector<int> expanded_placement(const Coarse& coarse, const std::vector<int>& device);
// Returns an order of operations: those of a vertex one after another in the framework's order, vertices in `order`,
// which is topological.
std::vector<int> expanded_order(const Coarse& coarse, const std::vector<int>& order);
// Returns the operations by start.
std::vector<int> order_of(const PlacedSchedule& schedule);

}  // namespace partita
