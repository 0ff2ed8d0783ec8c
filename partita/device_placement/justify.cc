// Computes latest starts by list scheduling from the end of the step.
#include "partita/device_placement/justify.h"

#include <algorithm>
#include <numeric>

#include "partita/device_placement/coarsen.h"
#include "partita/device_placement/decode.h"
#include "partita/device_placement/list_decoder.h"

namespace partita {

namespace {

// Times are counted back from the end of the step.
class FromTheEnd {
 public:
  FromTheEnd(const PlacementProblem& problem, const std::vector<std::vector<int>>& made, const std::vector<int>& device)
      : p_(problem),
        device_(device),
        made_(made),
        before_end_(problem.ops.size(), 0),
        on_(problem.devices.size()),
        queues_(static_cast<size_t>(problem.queues)) {}

  // Returns operations by latest start, taken from the end of a topological order.
  std::vector<int> order(std::vector<int> order) {
    std::reverse(order.begin(), order.end());
    for (int op : order) add(op);
    std::reverse(order.begin(), order.end());
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return before_end_[static_cast<size_t>(a)] > before_end_[static_cast<size_t>(b)];
    });
    return order;
  }

 private:
  int64_t ns(int op) const {
    return p_.ops[static_cast<size_t>(op)].ns[static_cast<size_t>(device_[static_cast<size_t>(op)])];
  }
  static int64_t take(Timeline& queue, int64_t from, int64_t ns) {
    const int64_t start = queue.earliest(from, ns, true);
    queue.take(start, ns);
    return start + ns;
  }
  void add(int op) {
    const int home = device_[static_cast<size_t>(op)];
    int64_t ready = 0;
    leaves_.clear();
    for (int v : made_[static_cast<size_t>(op)]) {
      const PlacedValue& value = p_.values[static_cast<size_t>(v)];
      for (int reader : value.readers) {
        const int to = device_[static_cast<size_t>(reader)];
        const int64_t needed = before_end_[static_cast<size_t>(reader)];
        if (to == home || !value.moves()) {
          ready = std::max(ready, needed);
          continue;
        }
        const auto same = std::find_if(leaves_.begin(), leaves_.end(),
                                       [&, v = v](const Leaving& l) { return l.value == v && l.to == to; });
        if (same == leaves_.end()) leaves_.push_back({needed, v, to});
        else same->needed = std::max(same->needed, needed);
      }
    }
    std::sort(leaves_.begin(), leaves_.end(), [](const Leaving& a, const Leaving& b) { return a.needed < b.needed; });
    for (const Leaving& l : leaves_) {
      const Route& route = p_.routes[static_cast<size_t>(home)][static_cast<size_t>(l.to)];
      const int64_t takes = p_.transfer_ns(route, p_.values[static_cast<size_t>(l.value)].bytes);
      ready = std::max(ready, take(queues_[static_cast<size_t>(route.queue)], l.needed, takes));
    }
    before_end_[static_cast<size_t>(op)] = take(on_[static_cast<size_t>(home)], ready, ns(op));
  }

  struct Leaving {
    int64_t needed;  // before the end, at the latest
    int value, to;
  };
  const PlacementProblem& p_;
  const std::vector<int>& device_;
  const std::vector<std::vector<int>>& made_;
  std::vector<int64_t> before_end_;  // by operation: its latest start
  std::vector<Timeline> on_, queues_;
  std::vector<Leaving> leaves_;
};

}  // namespace

std::vector<int> by_latest_start(const PlacementProblem& problem, const std::vector<std::vector<int>>& made,
                                 const std::vector<int>& device, const std::vector<int>& order) {
  return FromTheEnd(problem, made, device).order(order);
}

PlacedSchedule justify_schedule(const PlacementProblem& problem, const PlacedSchedule& schedule) {
  const std::vector<std::vector<int>> made = made_by(problem);
  ListDecoder decoder(problem, true);
  PlacedSchedule best = schedule;
  while (decoder.decode(best.device, by_latest_start(problem, made, best.device, order_of(best)), best.end - 1))
    best = decoder.schedule();
  return best;
}

}  // namespace partita
