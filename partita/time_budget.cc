// How the time limit is divided between a search and what comes before and after it.
#include "partita/time_budget.h"

#include <algorithm>

namespace partita {

namespace {

using Seconds = std::chrono::duration<double>;

// About how many seconds come after the search: a last look at memory, check, lowering, verification and simulation.
// For each device they take as long as making the training graph took (measured: 0.4 to 1.4 times as long), on this
// machine and as busy as it is now. At most a part of the `left` seconds: the machine may have been busier then.
double finish_seconds(const Runner& runner, const Cluster& cluster, double left) {
  constexpr double kAtLeast = 0.05, kTimes = 1.5, kPart = 0.4;
  double graph_seconds = 0;
  for (const Runner::Timing& t : runner.timings())
    if (t.name == "autodiff" || t.name == "factor" || t.name == "recompute")
      graph_seconds += t.seconds + t.verify_seconds;
  return std::min(kAtLeast + kTimes * cluster.compute_count * graph_seconds, kPart * left);
}

}  // namespace

Budget begun(Budget budget) {
  budget.deadline = budget.watch().deadline;
  return budget;
}

Budget for_search(const Budget& whole, const Runner& runner, const Cluster& cluster) {
  Budget part = whole;
  const Watch watch = whole.watch();
  watch.poll("before the search began");
  if (!watch.deadline) return part;
  const double left = Seconds(*watch.deadline - Watch::Clock::now()).count();
  part.deadline = *watch.deadline -
                  std::chrono::duration_cast<Watch::Clock::duration>(Seconds(finish_seconds(runner, cluster, left)));
  return part;
}

}  // namespace partita
