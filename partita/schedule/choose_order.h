// Which order of a lowered plan counts: of those whose memory suffices, the one of the least memory whose step is about
// as fast as the fastest's. Its figures are the plan's, and a run follows it.
//
// Example: a step takes 8.10 s in the tightest order, which needs 28 GB; 8.01 s with 30 GB, and 8.00 s in the fullest
// order, which needs 60 GB. The second is chosen. With 29 GB a device it is the first.
//
// Of large graphs not all orders are simulated, and a little more memory does not count.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "partita/base/watch.h"
#include "partita/physical/breakdown.h"
#include "partita/schedule/representatives.h"

namespace partita {

// "About as fast": longer by no more than this part. The prediction is no more exact than that.
constexpr double kAboutAsFast = 0.005;

struct ChosenOrder {
  size_t order = 0;     // of Orders (orders.h)
  bool fits = false;    // false: of the order of the least memory, as no order fits
  PhysicalGraph graph;  // of the devices and micro-batches that the figures are made of (choose_representatives())
  // Of all micro-batches. Peaks are by device, 0 of those that are not lowered.
  std::optional<StepBreakdown> breakdown;  // none: not simulated
  std::vector<int64_t> peak_bytes;
  std::vector<int64_t> least_bytes;         // the peaks in the tightest order
  std::vector<int64_t> extrapolated_bytes;  // in `peak_bytes`, of micro-batches that are not lowered; empty: none
};

// What becomes of a plan that does not fit: it is left as planned(0) is (orders.h), or simulated all the same.
enum class OutOfMemoryPolicy { kKeepTightest, kSimulate };

struct ChooseOrderOptions {
  OutOfMemoryPolicy out_of_memory = OutOfMemoryPolicy::kKeepTightest;
  Watch watch;     // throws where it ends
  Watch patience;  // where it ends no further order is simulated
  // The order that was chosen before, of other devices or micro-batches: it is taken where it fits.
  std::optional<size_t> known;
  // For comparing plans: the faster of the tightest order and the fullest that fits, and the graph is not made.
  bool roughly = false;
};

// `resolved`: of the devices of `from`. Where all are listed, the graph is admitted; bad input where that is refused.
ChosenOrder choose_order(const Graph& graph, const Plan& plan, const Resolved& resolved, const Representatives& from,
                         const Cluster& cluster, const ChooseOrderOptions& choosing = {});

// The same; if the plan does not fit with gradients in buckets, and without them fits or lacks less, `resolved` becomes
// one without buckets, and the order is that one's. For buckets that nobody asked for.
ChosenOrder choose_order_and_buckets(const Graph& graph, const Plan& plan, std::shared_ptr<const Resolved>& resolved,
                                     const Representatives& from, const Cluster& cluster,
                                     const ChooseOrderOptions& choosing = {});

}  // namespace partita
