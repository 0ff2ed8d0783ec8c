// Evaluates plans by a problem's objective.
#include "partita/search/evaluate.h"

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

int64_t cost_of(const Problem& problem, const Plan& plan, const Watch& watch) {
  return evaluate(problem, plan, watch).cost();
}

bool is_end(const Error& error) {
  return error.code() == ExitCode::kTimeLimit || error.code() == ExitCode::kInterrupted;
}

std::string cost_text(const Problem& problem, int64_t cost) {
  return problem.in_time() ? time_text(static_cast<double>(cost)) : megabytes(static_cast<double>(cost));
}

}  // namespace partita
