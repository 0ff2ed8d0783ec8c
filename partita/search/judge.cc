#include "partita/search/judge.h"

#include <fmt/format.h>

#include "partita/physical/lower.h"
#include "partita/plan/check.h"
#include "partita/sim/simulate.h"

namespace partita {

int64_t cost_of(const Problem& problem, const Plan& plan) {
  if (!problem.in_time()) return check(problem.graph, plan, problem.cluster).comm_bytes;
  return simulate(lower(problem.graph, plan, problem.cluster), CostModel(problem.cluster)).step_time_ns;
}

std::string cost_text(const Problem& problem, int64_t cost) {
  return problem.in_time() ? fmt::format("{:.3f} us", static_cast<double>(cost) / 1e3) : fmt::format("{} bytes", cost);
}

}  // namespace partita
