// Judges plans by the checker, or by the simulator where the objective is time.
#include "partita/search/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "partita/base/units.h"
#include "partita/graph/parts.h"
#include "partita/physical/breakdown.h"
#include "partita/physical/lower.h"
#include "partita/plan/check.h"
#include "partita/sim/simulate.h"

namespace partita {

namespace {

struct Simulated {
  StepBreakdown breakdown;
  std::vector<int64_t> peak_bytes;  // by device
};
// Of the first `parts` micro-batches, or all.
Simulated simulated(const Problem& problem, const Resolved& resolved, int parts, const Watch& watch) {
  LowerOptions options;
  options.watch = watch;
  const bool all = parts == problem.graph.micro_batches();
  const PhysicalGraph physical =
      all ? lower(problem.graph, resolved, problem.cluster, options)
          : lower(with_fewer_parts(problem.graph, parts), with_fewer_parts(resolved, parts), problem.cluster, options);
  return {breakdown_of(simulate(physical, CostModel(problem.cluster), 1, watch), physical), physical.peak_bytes};
}

Judgement judged(const Problem& problem, const Plan& plan, const Telling& from, const Resolved& resolved,
                 const Watch& watch) {
  Simulated few = simulated(problem, resolved, from.micro_batches, watch);
  if (const int more = (problem.graph.micro_batches() - from.micro_batches) / from.period; more > 0) {
    const Simulated fewer = simulated(problem, resolved, from.micro_batches - from.period, watch);
    few.breakdown = extended(std::move(few.breakdown), fewer.breakdown, more);
    if (grows_with_parts(plan)) {
      const std::vector<int64_t> beyond = bytes_beyond(few.peak_bytes, fewer.peak_bytes, more);
      for (size_t d = 0; d < beyond.size(); ++d) few.peak_bytes[d] += beyond[d];
    }
  }
  int64_t missing = std::numeric_limits<int64_t>::min();
  for (int d = 0; d < problem.cluster.compute_count; ++d)
    missing = std::max(missing, few.peak_bytes[d] - problem.cluster.devices[d].memory_bytes);
  return {few.breakdown.step_ns(), missing};
}

}  // namespace

Judgement judge(const Problem& problem, const Plan& plan, const Watch& watch) {
  watch.poll("before a plan was judged");
  if (!problem.in_time()) return {check(problem.graph, plan, problem.cluster).comm_bytes, std::nullopt};
  const Telling from = telling(problem.graph, plan, problem.cluster);
  const Listed listed = from.devices.empty() ? nullptr : with_hosts(from.devices, problem.cluster);
  Resolved resolved = resolve(problem.graph, plan, problem.cluster, listed);
  resolved.bucket_bytes = problem.bucket_bytes;
  const Judgement with_buckets = judged(problem, plan, from, resolved, watch);
  if (problem.bucket_bytes == 0 || *with_buckets.missing_bytes <= 0) return with_buckets;
  resolved.bucket_bytes = 0;
  return judged(problem, plan, from, resolved, watch);
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
