// Orders a plan's ops as devices take them in its local task graph, so that its lowered step is about as fast.
//
// A plan without an order has its ops in the graph's, on all devices. If these do different things at the same time, a
// device may wait for an op while a later one is ready. Here ops are in the order in which they begin if tasks are
// served as they come (partita/task_graph/first_come.h). So the lowered plan takes about as long as its local task
// graph says. It need not be the better order: a ready op can delay a more urgent one.
//
// Example: the graph has a, b, c and d; b reads a, d reads c. a is on gpu0, the others on gpu1, and take 2 ns each.
// gpu1 waits for a, then takes b, c, d: 8 ns. In the order a, c, d, b it begins with c and d: 6 ns.
#pragma once
#include <optional>
#include <vector>

#include "partita/search/search.h"
#include "partita/task_graph/task_graph.h"

namespace partita {

constexpr double kBeforeOrder = 0.85;  // of a search's time; the rest is for the order

// Returns Plan::order: all ops of `graph`, by the begin of each one's first task. An op comes after the producers of
// its inputs, and after the readers of the tensor that it replaces.
std::vector<OpId> first_come_order(const Graph& graph, const TaskGraph& tasks);

// The plan, in the order of these tasks if its lowered step then fits and is shorter than in the graph's order. It has
// to be shorter by more than kAboutAsFast (choose_order.h). If the watch ends before that is known, a plan whose ops
// are on different devices is in this order if it fits in any.
struct OrderedPlan {
  Plan plan;
  std::optional<int64_t> step_ns;  // of the lowered plan; none: the watch has ended
};
OrderedPlan with_better_order(const Problem& problem, Plan plan, const TaskGraph& tasks, bool fits_in_any,
                              const Watch& watch);
// Does the same for a result whose plan has ops on different devices and has no tasks yet. The objective has to be
// time, and the local task graph small (walk.h). Leaves the plan as it is if the watch ends.
void take_better_order(const Problem& problem, const Watch& watch, SearchResult& result);

}  // namespace partita
