// Judges plans by the checker, or by the simulator where the objective is time.
#include "partita/search/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "partita/base/units.h"
#include "partita/physical/for_stages.h"
#include "partita/physical/lower.h"
#include "partita/plan/check.h"
#include "partita/sim/choose_order.h"

namespace partita {

namespace {

Judgement judged(const Problem& problem, const Graph& graph, const Plan& plan, const Telling& from,
                 const Resolved& resolved, const Watch& watch) {
  const ChosenOrder chosen = choose_order(graph, plan, resolved, from, problem.cluster,
                                          {.unfit = Unfit::kSimulate, .watch = watch, .patience = {}, .known = {}});
  int64_t missing = std::numeric_limits<int64_t>::min();
  for (int d = 0; d < problem.cluster.compute_count; ++d)
    missing = std::max(missing, chosen.peak_bytes[d] - problem.cluster.devices[d].memory_bytes);
  return {chosen.breakdown->step_ns(), missing};
}

}  // namespace

Judgement judge(const Problem& problem, const Plan& plan, const Watch& watch) {
  watch.poll("before a plan was judged");
  if (!problem.in_time()) return {check(problem.graph, plan, problem.cluster).comm_bytes, std::nullopt};
  const Graph graph = for_stages(problem.graph, plan);
  const Telling from = telling(graph, plan, problem.cluster);
  const Listed listed = from.devices.empty() ? nullptr : with_hosts(from.devices, problem.cluster);
  Resolved resolved = resolve(graph, plan, problem.cluster, listed);
  resolved.bucket_bytes = problem.bucket_bytes;
  const Judgement with_buckets = judged(problem, graph, plan, from, resolved, watch);
  if (problem.bucket_bytes == 0 || *with_buckets.missing_bytes <= 0) return with_buckets;
  resolved.bucket_bytes = 0;
  return judged(problem, graph, plan, from, resolved, watch);
}

Judgement judge_in_time(const Problem& problem, const Plan& plan, const Watch& watch) {
  Problem in_time = problem;
  in_time.objective = Objective::kTime;
  return judge(in_time, plan, watch);
}

int64_t cost_of(const Problem& problem, const Plan& plan, const Watch& watch) {
  return judge(problem, plan, watch).cost;
}

bool is_end(const Error& error) {
  return error.code() == ExitCode::kTimeLimit || error.code() == ExitCode::kInterrupted;
}

std::string cost_text(const Problem& problem, int64_t cost) {
  return problem.in_time() ? time_text(static_cast<double>(cost)) : megabytes(static_cast<double>(cost));
}

}  // namespace partita
