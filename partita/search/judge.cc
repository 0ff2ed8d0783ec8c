// Judges plans by the checker, or by the simulator where the objective is time.
#include "partita/search/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "partita/base/units.h"
#include "partita/physical/lower.h"
#include "partita/plan/check.h"
#include "partita/sim/simulate.h"

namespace partita {

Judgement judge(const Problem& problem, const Plan& plan, const Watch& watch) {
  watch.poll("before a plan was judged");
  if (!problem.in_time()) return {check(problem.graph, plan, problem.cluster).comm_bytes, std::nullopt};
  LowerOptions options;
  options.watch = watch;
  const PhysicalGraph physical = lower(problem.graph, plan, problem.cluster, options);
  int64_t missing = std::numeric_limits<int64_t>::min();
  for (int d = 0; d < problem.cluster.compute_count; ++d)
    missing = std::max(missing, physical.peak_bytes[d] - problem.cluster.devices[d].memory_bytes);
  return {simulate(physical, CostModel(problem.cluster), 1, watch).step_time_ns, missing};
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
