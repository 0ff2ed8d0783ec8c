// Divides the time limit between a search and the steps before and after it.
#include "partita/pipeline/time_budget.h"

#include <algorithm>
#include <map>
#include <string>

namespace partita {

namespace {

using Seconds = std::chrono::duration<double>;

// Returns the seconds in which the training graph was made, on this machine and as busy as it is now. A graph made for
// several numbers of micro-batches counts once: the last.
double graph_seconds(const Runner& runner) {
  std::map<std::string, double> last;
  for (const Runner::Timing& t : runner.timings())
    if (t.name == "autodiff" || t.name == "factor" || t.name == "recompute")
      last[t.name] = t.seconds + t.verify_seconds;
  double sum = 0;
  for (const auto& [name, seconds] : last) sum += seconds;
  return sum;
}

// Estimates the seconds after the search: a last look at memory, check, lowering, verification and simulation. For each
// device they take as long as making the training graph took (measured: 0.4 to 1.4 times as long). At most a fraction
// of the `left` seconds: the machine may have been busier then.
double finish_seconds(const Runner& runner, const Cluster& cluster, double left) {
  constexpr double kAtLeast = 0.05, kTimes = 1.5, kPart = 0.4;
  return std::min(kAtLeast + kTimes * cluster.compute_count * graph_seconds(runner), kPart * left);
}

}  // namespace

Budget with_deadline(Budget budget) {
  budget.deadline = budget.watch().deadline;
  return budget;
}

double firings_per_second(const Runner& runner, const Graph& graph) {
  constexpr double kMost = 25'000, kTimes = 0.7;
  return std::min(kMost, static_cast<double>(graph.ops.size()) / std::max(1e-6, kTimes * graph_seconds(runner)));
}

Budget for_search(const Budget& whole, const Runner& runner, const Cluster& cluster) {
  Budget search_budget = whole;
  const Watch watch = whole.watch();
  watch.poll("before the search began");
  if (!watch.deadline) return search_budget;
  const double left = Seconds(*watch.deadline - Watch::Clock::now()).count();
  search_budget.deadline = *watch.deadline - std::chrono::duration_cast<Watch::Clock::duration>(
                                                 Seconds(finish_seconds(runner, cluster, left)));
  return search_budget;
}

}  // namespace partita
