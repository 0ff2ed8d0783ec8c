// Declares the parts of the latency solver: starts, annealing, branch and bound, and a bound from paths.
#pragma once
#include <functional>
#include <limits>
#include <optional>

#include "partita/base/watch.h"
#include "partita/partitioning/cost.h"

namespace partita::partitioning {

// Returns the authors' greedy assignment (appendix F): units of an order (order.h) one after another; each accelerator
// in turn takes as many as its memory holds, the CPUs the rest.
Subgraphs greedy_subgraphs(const Instance& instance, int q, uint64_t seed);

// Returns the best cut of an order of units, drawn by `seed`: up to accelerators * q intervals on accelerators, and
// units on CPUs between them. Its value is as if all ran one after another: for chains the latency, else more. With
// `shared` each interval has an accelerator's memory over q and there are q to an accelerator; without, one to an
// accelerator. All on CPUs if `watch` ends before.
Subgraphs best_intervals(const Instance& instance, int q, bool shared, uint64_t seed, const Watch& watch);

struct LatencySearch {
  int subgraphs = 1;
  uint64_t seed = 0;
  int moves = 0;
  double hot = 0.02, cold = 1e-7;  // temperatures, as parts of the latency
};
// Anneals over moves of a color class to another subgraph or to the CPUs, and of a node to another subgraph of its
// accelerator. Never worse than `place`.
Subgraphs annealed_latency(const Instance& instance, Subgraphs place, const LatencySearch& options, const Watch& watch);

struct LatencyBranch {
  std::optional<Subgraphs> place;  // better than `below`
  bool complete = false;           // nothing else is
};
// Branches over nodes in topological order, each on all places it may have; `most` evaluations.
LatencyBranch branch_latency(const Instance& instance, int q, double below, long long most, const Watch& watch);

// Returns a lower bound on the latency of any assignment. Along a path v1 -> .. -> vm, each run of its nodes is on CPUs
// or on one subgraph. The run holds the subgraph for its least load (cut.h) with the units it must have and without
// those it cannot have. A program over the path takes the best such cut into at most accelerators * q runs. The largest
// over several long paths counts.
double path_bound(const Instance& instance, int q, const Watch& watch);

}  // namespace partita::partitioning
