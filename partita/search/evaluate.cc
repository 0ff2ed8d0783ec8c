// Evaluates plans by a problem's objective.
#include "partita/search/evaluate.h"

#include <algorithm>

#include "partita/base/attempt.h"
#include "partita/base/units.h"

namespace partita {

PlanEvaluation evaluate(const Problem& problem, const Plan& plan, const Watch& watch) {
  if (problem.in_time()) return evaluate_in_time(problem, plan, watch);
  watch.poll("before a plan was evaluated");
  return evaluate_bytes(problem.graph, plan, problem.cluster);
}

PlanEvaluation evaluate_in_time(const Problem& problem, const Plan& plan, const Watch& watch) {
  watch.poll("before a plan was evaluated");
  return evaluate_step(problem.graph, plan, problem.cluster, problem.bucket_bytes, watch);
}

int64_t memory_deficit(const Problem& problem, const Plan& plan, const Watch& watch) {
  return *evaluate_memory(problem.graph, plan, problem.cluster, watch).memory_deficit;
}

bool holds_any_plan(const Problem& problem) {
  constexpr double kTimes = 16;
  double bytes = 0;
  for (const Tensor& t : problem.graph.tensors) bytes += static_cast<double>(t.bytes());
  for (const Op& op : problem.graph.ops)
    for (TensorId t : op.operands) bytes += static_cast<double>(problem.graph.tensor(t).bytes());
  bytes *= kTimes * problem.cluster.compute_count;
  const auto begin = problem.cluster.devices.begin();
  return std::all_of(begin, begin + problem.cluster.compute_count,
                     [&](const Device& d) { return static_cast<double>(d.memory_bytes) > bytes; });
}

int64_t cost_of(const Problem& problem, const Plan& plan, const Watch& watch) {
  return evaluate(problem, plan, watch).cost();
}

bool is_end(const Error& error) { return failure_of(error) == Failure::kEnded; }

std::string cost_text(const Problem& problem, int64_t cost) {
  return problem.in_time() ? time_text(static_cast<double>(cost)) : megabytes(static_cast<double>(cost));
}

}  // namespace partita
