// Orders ops by their begin in the local task graph.
#include "partita/search/soap/op_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "partita/physical/inter_op_parallelism.h"
#include "partita/schedule/choose_order.h"
#include "partita/search/evaluate.h"
#include "partita/search/soap/walk.h"
#include "partita/task_graph/first_come.h"
#include "partita/task_graph/local_tasks.h"

namespace partita {

namespace {

// By op: when its first task begins.
std::vector<int64_t> begins(const TaskGraph& tasks) {
  const FlatTasks flat = flatten(tasks);
  Timeline timeline;
  simulate_first_come(flat, timeline);
  std::vector<int64_t> out(static_cast<size_t>(tasks.op_count), 0);
  for (size_t op = 0; op < out.size(); ++op) {
    const auto of = timeline.of.begin();
    const auto first =
        std::min_element(of + flat.first[op], of + flat.first[op + 1],
                         [](const Timeline::Times& a, const Timeline::Times& b) { return a.start_ns < b.start_ns; });
    if (flat.first[op] < flat.first[op + 1]) out[op] = first->start_ns;
  }
  return out;
}

// By op: the ops that come before it. Each as often as there are reasons.
std::vector<std::vector<OpId>> after(const Graph& graph) {
  std::vector<std::vector<OpId>> out(graph.ops.size());
  const auto add = [&](OpId first, OpId then) {
    if (first.valid() && then.valid() && first != then) out[first.index()].push_back(then);
  };
  for (size_t i = 0; i < graph.ops.size(); ++i)
    for (const TensorId t : graph.ops[i].operands) {
      add(graph.tensor(t).producer, OpId(i));
      if (const TensorId next = graph.replacement_of(t); next.valid()) add(OpId(i), graph.tensor(next).producer);
    }
  return out;
}

}  // namespace

std::vector<OpId> first_come_order(const Graph& graph, const TaskGraph& tasks) {
  const std::vector<int64_t> begin = begins(tasks);
  const std::vector<std::vector<OpId>> then = after(graph);
  std::vector<int> waits(graph.ops.size(), 0);
  for (const auto& list : then)
    for (const OpId op : list) ++waits[op.index()];
  using Entry = std::pair<int64_t, size_t>;  // when it begins, and the op
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (size_t op = 0; op < waits.size(); ++op)
    if (waits[op] == 0) ready.push({begin[op], op});
  std::vector<OpId> order;
  while (!ready.empty()) {
    const size_t op = ready.top().second;
    ready.pop();
    order.emplace_back(op);
    for (const OpId next : then[op])
      if (--waits[next.index()] == 0) ready.push({begin[next.index()], next.index()});
  }
  return order;
}

OrderedPlan with_better_order(const Problem& problem, Plan plan, const TaskGraph& tasks, bool fits_in_any,
                              const Watch& watch) {
  Plan ordered = plan;
  ordered.order = first_come_order(problem.graph, tasks);
  try {
    const PlanEvaluation as_it_is = evaluate_in_time(problem, plan, watch),
                         in_order = evaluate_in_time(problem, ordered, watch);
    const double limit = (1 - kAboutAsFast) * static_cast<double>(as_it_is.cost());
    if (in_order.fits() && static_cast<double>(in_order.cost()) < limit) return {std::move(ordered), in_order.cost()};
    return {std::move(plan), as_it_is.cost()};
  } catch (const Error& e) {
    if (!is_end(e)) throw;
    return {fits_in_any && has_inter_op_parallelism(problem.graph, plan.ops) ? std::move(ordered) : std::move(plan),
            {}};
  }
}

void take_better_order(const Problem& problem, const Watch& watch, SearchResult& result) {
  if (!result.plan || !problem.in_time() || watch.ended() || !is_for_a_walk(problem)) return;
  if (!has_inter_op_parallelism(problem.graph, result.plan->ops)) return;
  const CostModel cost(problem.cluster);
  LocalTasks tasks(problem.graph, cost);
  const TaskGraph graph = local_task_graph(problem.graph, *result.plan, tasks);
  result.plan = with_better_order(problem, *std::move(result.plan), graph, false, watch).plan;
}

}  // namespace partita
