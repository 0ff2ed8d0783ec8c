// Makes subgraphs from one order of the units: the authors' greedy, and a program over intervals.
#include <algorithm>

#include "partita/partitioning/latency.h"
#include "partita/partitioning/order.h"

namespace partita::partitioning {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void put(const Units& units, int unit, int place, Subgraphs& places) {
  for (const int v : units.units[unit].nodes) places[v] = place;
}

// Time that an interval of the order holds an accelerator, from its first unit on; infinite once it does not fit.
class Interval {
 public:
  Interval(const Units& units, double memory) : units_(units), memory_(memory), inside_(units.nets.size()) {}
  double add(int u) {
    const Unit& unit = units_.units[u];
    fits_ = fits_ && unit.supported;
    size_ += unit.size;
    time_ += unit.accelerator;
    for (const int net : unit.nets) {
      const Net& n = units_.nets[net];
      if (++inside_[net] == 1) time_ += n.cost;
      if (inside_[net] == static_cast<int>(n.units.size())) time_ -= n.cost;
    }
    return fits_ && size_ <= memory_ * (1 + 1e-12) ? time_ : kInfinity;
  }

 private:
  const Units& units_;
  double memory_, size_ = 0, time_ = 0;
  bool fits_ = true;
  std::vector<int> inside_;
};

}  // namespace

Subgraphs greedy_subgraphs(const Instance& instance, int q, uint64_t seed) {
  const OrderedUnits o = order_units(instance);
  Rng rng(seed);
  Subgraphs places(instance.nodes.size(), kCpu);
  int used = 0;
  bool open = false;
  double size = 0;
  for (const int u : drawn_order(o, rng)) {
    const Unit& unit = o.units.units[u];
    const bool fits = unit.supported && unit.size <= instance.max_size;
    if (open && !(fits && size + unit.size <= instance.max_size)) open = false;
    if (!open && fits && used < instance.accelerators) {
      open = true;
      ++used;
      size = 0;
    }
    if (!open) continue;
    size += unit.size;
    put(o.units, u, (used - 1) * q, places);
  }
  return places;
}

Subgraphs best_intervals(const Instance& instance, int q, bool shared, uint64_t seed, const Watch& watch) {
  const OrderedUnits o = order_units(instance);
  Rng rng(seed);
  const std::vector<int> order = drawn_order(o, rng);
  const int n = static_cast<int>(order.size()), most = std::min(n, instance.accelerators * (shared ? q : 1));
  const double memory = instance.max_size / (shared ? q : 1);
  // best[i][s]: units before i, s intervals; from: the begin of the last interval, i - 1 with as many intervals: a CPU.
  std::vector<std::vector<double>> best(n + 1, std::vector<double>(most + 1, kInfinity));
  std::vector<std::vector<int>> from(n + 1, std::vector<int>(most + 1, kCpu));
  best[0][0] = 0;
  for (int i = 0; i < n; ++i) {
    if (watch.ended()) return Subgraphs(instance.nodes.size(), kCpu);
    for (int s = 0; s <= most; ++s)
      if (const double time = best[i][s] + o.units.units[order[i]].cpu; time < best[i + 1][s])
        best[i + 1][s] = time, from[i + 1][s] = kCpu;
    Interval interval(o.units, memory);
    for (int j = i; j < n; ++j) {
      const double time = interval.add(order[j]);
      if (time == kInfinity) break;
      for (int s = 0; s < most; ++s)
        if (best[i][s] + time < best[j + 1][s + 1]) best[j + 1][s + 1] = best[i][s] + time, from[j + 1][s + 1] = i;
    }
  }
  Subgraphs places(instance.nodes.size(), kCpu);
  int s = static_cast<int>(std::min_element(best[n].begin(), best[n].end()) - best[n].begin());
  for (int i = n; i > 0;) {
    const int begin = from[i][s];
    if (begin == kCpu) {
      --i;
      continue;
    }
    --s;
    const int place = shared ? s : s * q;  // intervals of one accelerator run in the order in which they lie
    while (i > begin) put(o.units, order[--i], place, places);
  }
  return places;
}

}  // namespace partita::partitioning
