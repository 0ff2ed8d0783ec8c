// Picks the task order of a lowered plan. It takes orders that fit and whose step is about as fast as the fastest's,
// and of these the one of the least memory. Its figures are the plan's, and a run follows it.
//
// Example: a step takes 8.10 s in the tightest order, which needs 28 GB. It takes 8.01 s with 30 GB, and 8.00 s in the
// fullest order, which needs 60 GB. The second is chosen. With 29 GB a device it is the first.
//
// If a graph is large, not all orders are simulated, and a little more memory does not count.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "partita/base/watch.h"
#include "partita/physical/breakdown.h"
#include "partita/schedule/representatives.h"

namespace partita {

// "About as fast": longer by no more than this fraction. The prediction is no more exact than that.
constexpr double kAboutAsFast = 0.005;

struct ChosenOrder {
  size_t order = 0;     // of Orders (orders.h)
  bool fits = false;    // false: no order fits, and this is the one of the least memory
  PhysicalGraph graph;  // of the devices and micro-batches that are simulated (choose_representatives())
  // Figures of all micro-batches. Peaks are by device, 0 for devices that are not lowered.
  std::optional<StepBreakdown> breakdown;  // none: not simulated
  std::vector<int64_t> peak_bytes;
  std::vector<int64_t> least_bytes;         // the peaks in the tightest order
  std::vector<int64_t> extrapolated_bytes;  // in `peak_bytes`, of micro-batches that are not lowered; empty: none
};

// Whether a plan that does not fit is left as planned(0) (orders.h), or simulated nevertheless.
enum class OutOfMemoryPolicy { kKeepTightest, kSimulate };

struct ChooseOrderOptions {
  OutOfMemoryPolicy out_of_memory = OutOfMemoryPolicy::kKeepTightest;
  Watch watch;     // throws when it ends
  Watch patience;  // when it ends, no further order is simulated
  // The order that was chosen before, for other devices or micro-batches. It is taken if it fits.
  std::optional<size_t> known;
  // For comparing plans: takes the faster of the tightest order and the fullest that fits, and does not make the graph.
  bool roughly = false;
};

// Chooses the order of a resolved plan. `resolved`: of the devices of `from`. If these are all devices, the graph is
// admitted; bad input if that is refused.
ChosenOrder choose_order(const Graph& graph, const Plan& plan, const Resolved& resolved, const Representatives& from,
                         const Cluster& cluster, const ChooseOrderOptions& choosing = {});

// The same, for buckets that nobody asked for. If the plan does not fit with gradients in buckets, and without them
// fits or lacks less, `resolved` becomes one without buckets. The order is then that one's.
ChosenOrder choose_order_and_buckets(const Graph& graph, const Plan& plan, std::shared_ptr<const Resolved>& resolved,
                                     const Representatives& from, const Cluster& cluster,
                                     const ChooseOrderOptions& choosing = {});

}  // namespace partita
