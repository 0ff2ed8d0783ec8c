// `small-batch` of Tofu's comparison (section 7.1): the model whole on every device, its batch so small that it fits.
//
// A device takes at most its share of the given batch. The largest batch wins for which one training step on one device
// fits in memory, by the lowered graph and its memory planner. As in the paper nothing is exchanged, not even
// gradients. The estimate counts the samples of all devices and the time of one: an upper bound for such training. With
// memory enough (--memory-limit) this is the paper's ideal.
#include <algorithm>
#include <functional>
#include <set>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/physical/passes.h"
#include "partita/schedule/lower.h"
#include "partita/search/entry.h"
#include "partita/search/estimates/replicas.h"
#include "partita/search/evaluate.h"
#include "partita/sim/simulate.h"

namespace partita {

namespace {

// One step of so many samples a device, on each representative.
struct Step {
  int64_t samples = 0, peak_memory_bytes = 0;
  int64_t deficit_bytes = 0;  // on the device with the largest deficit; at most 0: it fits
  std::vector<PhysicalGraph> lowered;
};

Step lower_step(const Problem& problem, const Cluster& share, int64_t samples, const Watch& watch) {
  LowerOptions options;
  options.watch = watch;
  const Graph graph = step_of(problem, samples);
  Step step{samples, 0, INT64_MIN, {}};
  const std::vector<DeviceId> alike = representatives(share);
  for (DeviceId device : std::set(alike.begin(), alike.end())) {
    step.lowered.push_back(lower(graph, plan_on(graph, share, device), share, options));
    const int64_t peak = step.lowered.back().peak_bytes[device.index()];
    step.peak_memory_bytes = std::max(step.peak_memory_bytes, peak);
    step.deficit_bytes = std::max(step.deficit_bytes, memory_deficit(step.lowered.back().peak_bytes, share).bytes);
  }
  return step;
}

// The step of as many samples as fit, up to `most`; `lowered` makes one. If one sample does not fit, that step.
Step largest_step(int64_t most, const std::function<Step(int64_t)>& lowered) {
  Step best = lowered(most);
  if (best.deficit_bytes <= 0) return best;
  int64_t too_many = most;
  best = most == 1 ? std::move(best) : lowered(1);
  if (best.deficit_bytes > 0) return best;
  // `best` fits, `too_many` does not. Samples are doubled until they are too many, then halved between the two.
  while (best.samples + 1 < too_many) {
    const bool doubling = too_many == most && 2 * best.samples < most;
    Step next;
    try {
      next = lowered(doubling ? 2 * best.samples : (best.samples + too_many) / 2);
    } catch (const Error& error) {
      if (!is_end(error)) throw;
      break;
    }
    if (next.deficit_bytes > 0) too_many = next.samples;
    else best = std::move(next);
  }
  return best;
}

SearchResult search(const Problem& problem, const Budget& budget, Rng&) {
  const int64_t most = samples_a_device(problem);
  const Cluster share = own_share(problem.cluster);
  SearchResult result;
  const Watch watch = budget.watch();
  int tried = 0;
  const Step best = largest_step(most, [&](int64_t samples) {
    ++tried;
    return lower_step(problem, share, samples, watch);
  });
  if (best.deficit_bytes > 0) {
    result.reason = fmt::format("one sample a device needs {} of memory, {} more than a device has",
                                megabytes(static_cast<double>(best.peak_memory_bytes)),
                                megabytes(static_cast<double>(best.deficit_bytes)));
    return result;
  }
  Estimate estimate{best.samples * problem.cluster.compute_count, 0, best.peak_memory_bytes, 0};
  for (const PhysicalGraph& physical : best.lowered)
    estimate.step_time_ns = std::max(estimate.step_time_ns, simulate(physical, CostModel(share)).step_time_ns);
  result.estimate = estimate;
  result.counters["batches_tried"] = tried;
  result.notes.push_back(fmt::format("{} of {} samples a device fit", best.samples, most));
  return result;
}

}  // namespace

SearchEntry small_batch_search() {
  return {.name = "small-batch",
          .source = "Tofu section 7.1",
          .summary =
              "every device has the model to itself, at the largest batch that fits there; nothing is exchanged, "
              "so this bounds from above what such training could reach",
          .search = search,
          .estimates = true};
}

}  // namespace partita
