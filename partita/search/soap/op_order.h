// The order in which devices take the ops of a plan, as its local task graph has it.
//
// A plan without an order has its ops in the graph's, on all devices. Where these do different things at the same time,
// a device then may wait for an op while a later one is ready. Here ops are in the order in which they begin where
// tasks are served as they come (partita/task_graph/first_come.h), so that the lowered plan takes about as long as its
// local task graph says. It need not be the better order: what is ready first can keep waiting what is more urgent.
//
// Example: the graph has a, b, c and d; b reads a, d reads c. a is on gpu0, the others on gpu1, and take 2 ns each.
// gpu1 waits for a, then takes b, c, d: 8 ns. In the order a, c, d, b it begins with c and d: 6 ns.
#pragma once
#include <optional>
#include <vector>

#include "partita/search/search.h"
#include "partita/task_graph/task_graph.h"

namespace partita {

constexpr double kBeforeOrder = 0.85;  // of a search's time, what is left being for the order

// Plan::order: all ops of `graph`, by when the first task of each begins; an op comes after those whose results it
// reads, and after the readers of what it replaces.
std::vector<OpId> first_come_order(const Graph& graph, const TaskGraph& tasks);

// The plan, whose tasks these are, in this order, if the lowered step then is shorter by more than kAboutAsFast
// (choose_order.h) than in the graph's order, and fits. Where the watch ends before that is known, a plan whose ops are
// on different devices is in this order if it fits in any.
struct OrderedPlan {
  Plan plan;
  std::optional<int64_t> step_ns;  // of the lowered plan; none: the watch has ended
};
OrderedPlan with_better_order(const Problem& problem, Plan plan, const TaskGraph& tasks, bool fits_in_any,
                              const Watch& watch);
// The same of a result whose plan has ops on different devices and whose tasks are not at hand; in time, and where the
// local task graph is small (walk.h). A plan is left as it is where the watch ends.
void take_better_order(const Problem& problem, const Watch& watch, SearchResult& result);

}  // namespace partita
