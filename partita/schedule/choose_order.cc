// Simulates a plan's orders, as few as are needed to choose one.
#include "partita/schedule/choose_order.h"

#include <algorithm>
#include <future>
#include <memory>

#include "partita/base/run_async.h"
#include "partita/cluster/memory_deficit.h"
#include "partita/graph/micro_batches.h"
#include "partita/schedule/lower.h"
#include "partita/schedule/orders.h"
#include "partita/schedule/representatives.h"
#include "partita/sim/simulate.h"

namespace partita {

namespace {

// The orders of a step's first micro-batches, or of all.
struct Lowered {
  Graph few;  // of these micro-batches, if they are not all
  Resolved resolved;
  CostModel cost;
  LowerOptions options;
  std::optional<Orders> orders;

  Lowered(const Lowered&) = delete;  // orders refer to the graph
  Lowered(const Graph& graph, const Resolved& of_all, int micro_batches, const Cluster& cluster, const Watch& watch)
      : cost(cluster) {
    options.watch = watch;
    if (micro_batches == graph.micro_batches()) {
      orders.emplace(graph, of_all, cluster, options);
      return;
    }
    few = with_fewer_micro_batches(graph, micro_batches);
    resolved = with_fewer_micro_batches(of_all, micro_batches);
    orders.emplace(few, resolved, cluster, options);
  }
  StepBreakdown simulated(size_t i) {
    const PhysicalGraph& graph = orders->with_edges(i);
    return breakdown_of(simulate(graph, cost, 1, options.watch), graph);
  }
};

// A plan's orders, with the known figures of each.
struct Trial {
  int64_t more = 0;                                   // further micro-batches than the first, in periods
  std::future<std::unique_ptr<Lowered>> async_fewer;  // lowers while the others are simulated
  Lowered main;
  std::unique_ptr<Lowered> fewer;                          // of one period less; null: all micro-batches are lowered
  bool grows = false;                                      // each adds memory
  int compute_count = 0;                                   // devices
  std::vector<std::optional<StepBreakdown>> times;         // by order, of all micro-batches
  std::vector<std::optional<std::vector<int64_t>>> peaks;  // by order, by device, of all micro-batches

  Trial(const Graph& graph, const Plan& plan, const Resolved& resolved, const Representatives& from,
        const Cluster& cluster, const Watch& watch)
      : more((graph.micro_batches() - from.micro_batches) / from.period),
        async_fewer(more > 0 ? run_async([&] {
          return std::make_unique<Lowered>(graph, resolved, from.micro_batches - from.period, cluster, watch);
        })
                             : std::future<std::unique_ptr<Lowered>>()),
        main(graph, resolved, from.micro_batches, cluster, watch),
        grows(memory_grows_with_micro_batches(plan)),
        compute_count(cluster.compute_count),
        times(main.orders->size()),
        peaks(main.orders->size()) {
    if (async_fewer.valid()) fewer = async_fewer.get();
    if (const auto apart = main.orders->wants_times()) {
      const PhysicalGraph& physical = main.orders->with_edges(*apart);
      const Trace trace = simulate(physical, main.cost, 1, watch);
      times[*apart] = breakdown_of(trace, physical);
      main.orders->take_times(trace.events);
    }
  }
  const StepBreakdown& time(size_t i) {
    if (times[i]) return *times[i];
    if (!fewer) return times[i].emplace(main.simulated(i));
    auto one_fewer = run_async([&] { return fewer->simulated(i); });
    StepBreakdown of_main = main.simulated(i);
    return times[i].emplace(extrapolate_breakdown(std::move(of_main), one_fewer.get(), more));
  }
  // Simulates order i while another is simulated, unless its figures are those of the other.
  void time_like(size_t i, size_t other) {
    if (!times[i] && times[other] && main.orders->alike(i, other) && (!fewer || fewer->orders->alike(i, other)))
      times[i] = times[other];
    else time(i);
  }
  int64_t step_ns(size_t i) { return time(i).step_ns(); }
  std::vector<int64_t> extrapolated_bytes(size_t i) {
    if (!fewer || !grows) return {};
    return extrapolate_bytes(main.orders->planned(i).peak_bytes, fewer->orders->planned(i).peak_bytes, more);
  }
  const std::vector<int64_t>& peak_bytes(size_t i) {
    if (peaks[i]) return *peaks[i];
    peaks[i] = main.orders->planned(i).peak_bytes;
    const std::vector<int64_t> beyond = extrapolated_bytes(i);
    for (size_t d = 0; d < beyond.size(); ++d) (*peaks[i])[d] += beyond[d];
    return *peaks[i];
  }
  int64_t most_bytes(size_t i) {
    return *std::max_element(peak_bytes(i).begin(), peak_bytes(i).begin() + compute_count);
  }
};

// The chosen order of those that were simulated.
size_t best_of(Trial& trial) {
  std::optional<int64_t> fastest;  // of those that fit
  for (size_t i = 0; i < trial.times.size(); ++i)
    if (trial.times[i] && trial.main.orders->fits(i))
      fastest = std::min(fastest.value_or(trial.step_ns(i)), trial.step_ns(i));
  const auto limit = static_cast<double>(*fastest) * (1 + kAboutAsFast);
  std::optional<size_t> best;
  for (size_t i = 0; i < trial.times.size(); ++i) {
    if (!trial.times[i] || static_cast<double>(trial.step_ns(i)) > limit || !trial.main.orders->fits(i)) continue;
    const auto key = [&](size_t k) { return std::pair(trial.most_bytes(k), trial.step_ns(k)); };
    if (!best || key(i) < key(*best)) best = i;
  }
  return *best;
}

constexpr size_t kFewNodes = 10'000;  // about 50 ms an order
constexpr double kLittleMemory = 0.05;

// Tells whether an order takes so little beyond the tightest that others are not worth the time to simulate.
bool takes_little_more(Trial& trial, size_t i) {
  return static_cast<double>(trial.most_bytes(i)) <= static_cast<double>(trial.most_bytes(0)) * (1 + kLittleMemory);
}

// Finds the tightest order that is fast enough by bisection: steps mostly become shorter from the tightest order to the
// fullest.
size_t chosen_of_large(Trial& trial, size_t fullest, const Watch& patience) {
  trial.time(fullest);
  if (takes_little_more(trial, fullest) || patience.ended()) return fullest;
  trial.time(0);
  size_t slow = 0, fast = fullest, best = best_of(trial);
  while (!takes_little_more(trial, best) && fast - slow > 1 && !patience.ended()) {
    const size_t middle = (slow + fast) / 2;
    if (trial.main.orders->fits(middle)) trial.time(middle);
    best = best_of(trial);
    (best == middle ? fast : slow) = middle;
  }
  return best;
}

// If there are few nodes, all orders that fit are simulated.
size_t chosen(Trial& trial, const ChooseOrderOptions& choosing) {
  const Watch& patience = choosing.patience;
  Orders& orders = *trial.main.orders;
  size_t fullest = orders.size() - 1;
  while (fullest > 0 && !orders.fits(fullest)) --fullest;
  if (choosing.roughly) return trial.step_ns(0) < trial.step_ns(fullest) ? 0 : fullest;
  if (orders.planned(0).order.size() > kFewNodes) return chosen_of_large(trial, fullest, patience);
  trial.time(fullest);
  for (size_t i = fullest; i-- > 0;)
    if (!patience.ended() && orders.fits(i)) trial.time_like(i, i + 1);
  return best_of(trial);
}

// Returns the one of the tightest order and the order by time that needs less.
size_t least_memory(Trial& trial) {
  const auto by_time = trial.main.orders->by_time();
  return by_time && trial.most_bytes(*by_time) < trial.most_bytes(0) ? *by_time : 0;
}

// Sets the peaks of all micro-batches.
StepBreakdown with_peaks(StepBreakdown breakdown, const std::vector<int64_t>& peaks) {
  for (StageFigures& stage : breakdown.stages)
    for (DeviceId d : stage.devices) stage.peak_memory_bytes = std::max(stage.peak_memory_bytes, peaks[d.index()]);
  return breakdown;
}

}  // namespace

ChosenOrder choose_order(const Graph& graph, const Plan& plan, const Resolved& resolved, const Representatives& from,
                         const Cluster& cluster, const ChooseOrderOptions& choosing) {
  if (!resolved.device_mask) validate_lowered_size(graph, cluster);
  Trial trial(graph, plan, resolved, from, cluster, choosing.watch);
  Orders& orders = *trial.main.orders;
  ChosenOrder out;
  // First fit is not exact: the order by time may need less than the tightest.
  const auto by_time = orders.by_time();
  out.fits = orders.fits(0) || (by_time && orders.fits(*by_time));
  out.least_bytes = trial.peak_bytes(0);
  const bool left = !out.fits && choosing.out_of_memory == OutOfMemoryPolicy::kKeepTightest;
  const std::optional<size_t>& known = choosing.known;
  const bool is_known = known && *known < orders.size() && orders.fits(*known);
  const size_t i = is_known ? *known : out.fits ? chosen(trial, choosing) : least_memory(trial);
  out.order = i;
  out.peak_bytes = trial.peak_bytes(i);
  if (trial.most_bytes(i) < trial.most_bytes(0)) out.least_bytes = out.peak_bytes;
  if (!left) out.breakdown = with_peaks(trial.time(i), out.peak_bytes);
  out.extrapolated_bytes = trial.extrapolated_bytes(i);
  if (!choosing.roughly) out.graph = left ? orders.taken(i) : orders.lowered(i);
  return out;
}

ChosenOrder choose_order_and_buckets(const Graph& graph, const Plan& plan, std::shared_ptr<const Resolved>& resolved,
                                     const Representatives& from, const Cluster& cluster,
                                     const ChooseOrderOptions& choosing) {
  const auto deficit = [&](const ChosenOrder& of) { return memory_deficit(of.peak_bytes, cluster); };
  ChosenOrder chosen = choose_order(graph, plan, *resolved, from, cluster, choosing);
  if (resolved->bucket_bytes == 0 || deficit(chosen).fits()) return chosen;
  auto without = std::make_shared<Resolved>(*resolved);
  without->bucket_bytes = 0;
  ChosenOrder one_by_one = choose_order(graph, plan, *without, from, cluster, choosing);
  if (!deficit(one_by_one).fits() && deficit(chosen).bytes <= deficit(one_by_one).bytes) return chosen;
  resolved = std::move(without);
  return one_by_one;
}

}  // namespace partita
