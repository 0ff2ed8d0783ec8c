// A placement problem of fewer vertices, each of which stands for several operations (Pesto, section 3.3).
//
// Batches of edges (batch.h) are merged, heaviest edges first (by the time that what the two would exchange takes to
// cross), until the target is reached or a batch takes few. Then vertices of one height are merged in a batch of their
// own: no path goes between two of them, and each edge of the merged graph still goes up. Edges follow again. The paper
// prints batches of edges alone, and no caps on what a vertex has.
// Two vertices merge only if they can run on the same devices. Where they are of different groups, the groups become
// one. Neither a vertex nor a group grows beyond its share of all time and memory; an operation or a given group that
// is beyond it stays as it is.
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
  // Of the whole problem's: the sum over operations of the time on the device where each is fastest, and of the bytes.
  double time_share = 0.08, memory_share = 0.12;
  // As the paper prints it: batches of edges until the target is reached or none can be merged. Where many vertices
  // have one neighbour in common, a batch takes one of them, so there may be thousands of batches.
  bool edges_alone = false;
  // Makes one value of those with the same producer and the same readers: fewer transfers, the same bytes; the latency
  // is counted once. Results are then left out, as they are not one value's any more.
  bool join_values = false;
  // Merges only where a limit of the longest path leaves room (slack.h), also vertices of different heights without an
  // edge. The limit grows while few have room. Without it nearly all is on one path in the end: what the paper says of
  // merging, edges that are heaviest first, does not look at what could run at once.
  bool keep_parallel = false;
  // By operation; none where it is empty. Only what it has on one device is merged, so that it is a placement of the
  // coarse problem too, from which a search there goes on.
  std::vector<int> placement = {};
  // By operation; none where it is empty. Only what has the same is merged: a part of a schedule that is to be kept.
  std::vector<int> window = {};
  // What values weigh as edges is drawn by this seed, up to twice as much: other merges each time.
  std::optional<uint64_t> seed = std::nullopt;
};

struct Coarse {
  // Vertices are named after their first operation, `a+2` where there are two more. A group is of those that have to
  // stay together and are at least two. Results that no other vertex reads are a vertex's scratch.
  PlacementProblem problem;
  std::vector<int> vertex;  // by operation of the fine problem
  std::vector<int> value;   // by value of the fine problem: what it is, or is part of; -1: it stays inside a vertex
  std::vector<int> inside;  // by vertex of the level before (coarsen: by operation): the vertex that it is part of
};

// Down to so many vertices, or as few as the above allows.
Coarse coarsen(const PlacementProblem& fine, int target, const CoarsenOptions& options);

// By target, from the highest to the lowest: each made from the one before, the first from the problem. A target that
// the level before has reached already has none.
std::vector<Coarse> coarsen_levels(const PlacementProblem& fine, const std::vector<int>& targets,
                                   const CoarsenOptions& options);

// By vertex: the device of its operations, where these have one (CoarsenOptions::placement).
std::vector<int> coarse_placement(const Coarse& coarse, const std::vector<int>& placement);
// By operation: its vertex's device.
std::vector<int> expanded_placement(const Coarse& coarse, const std::vector<int>& device);
// The operations of a vertex one after another in the framework's order, vertices in theirs, which is topological.
std::vector<int> expanded_order(const Coarse& coarse, const std::vector<int>& order);
// Operations by start.
std::vector<int> order_of(const PlacedSchedule& schedule);

}  // namespace partita
