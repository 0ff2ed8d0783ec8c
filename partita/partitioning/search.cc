// Anneals splits; the loads after a move follow from the number of classes of each net on each device.
#include "partita/partitioning/search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "partita/base/rng.h"

namespace partita::partitioning {

namespace {

// x^32: in a mean of so high a power, the largest is most.
double power(double x) {
  for (int k = 0; k < 5; ++k) x *= x;
  return x;
}
constexpr double kPower = 32;

class Split {
 public:
  Split(const Units& units, std::vector<int> device)
      : units_(&units),
        accelerators_(units.instance->accelerators),
        devices_(accelerators_ + units.instance->cpus),
        device_of(std::move(device)),
        load(devices_),
        size_(devices_),
        on_(units.nets.size() * devices_) {
    for (size_t u = 0; u < device_of.size(); ++u) {
      const Unit& unit = units_->units[u];
      const int d = device_of[u];
      load[d] += d < accelerators_ ? unit.accelerator : unit.cpu;
      size_[d] += unit.size;
      for (const int net : unit.nets) ++on_[net * devices_ + d];
    }
    for (size_t net = 0; net < units_->nets.size(); ++net)
      for (int d = 0; d < accelerators_; ++d)
        if (const int on = on_[net * devices_ + d]; on > 0 && on < pins(net)) load[d] += units_->nets[net].cost;
  }

  bool may(int u, int to, double freed = 0) const {
    if (to >= accelerators_) return true;
    const Unit& unit = units_->units[u];
    return unit.supported && size_[to] - freed + unit.size <= units_->instance->max_size * (1 + 1e-12);
  }

  void move(int u, int to) {
    const Unit& unit = units_->units[u];
    const int from = device_of[u];
    const bool off = from < accelerators_, onto = to < accelerators_;
    load[from] -= off ? unit.accelerator : unit.cpu;
    load[to] += onto ? unit.accelerator : unit.cpu;
    size_[from] -= unit.size;
    size_[to] += unit.size;
    for (const int net : unit.nets) {
      const double cost = units_->nets[net].cost;
      const int all = pins(net);
      int &a = on_[net * devices_ + from], &b = on_[net * devices_ + to];
      if (off) load[from] += cost * ((a > 1) - (a < all));
      if (onto) load[to] += cost * ((b + 1 < all) - (b > 0));
      --a, ++b;
    }
    device_of[u] = to;
  }

  double most() const { return *std::max_element(load.begin(), load.end()); }
  double size_of(int u) const { return units_->units[u].size; }

 private:
  int pins(size_t net) const { return static_cast<int>(units_->nets[net].units.size()); }
  const Units* units_;
  int accelerators_, devices_;

 public:
  std::vector<int> device_of;
  std::vector<double> load;

 private:
  std::vector<double> size_;
  std::vector<int> on_;  // [net][device]
};

class Annealing {
 public:
  Annealing(const Units& units, std::vector<int> device, const SearchOptions& options)
      : units_(units),
        options_(options),
        rng_(options.seed),
        split_(units, std::move(device)),
        devices_(units.instance->accelerators + units.instance->cpus),
        best_(split_.device_of),
        best_load_(split_.most()) {}

  std::vector<int> run(const Watch& watch) {
    if (devices_ < 2 || !(best_load_ > 0)) return best_;
    double temperature = options_.hot;
    const double cools = std::pow(options_.cold / options_.hot, 1.0 / std::max(1, options_.moves));
    for (int move = 0; move < options_.moves; ++move, temperature *= cools) {
      if (move % (options_.contiguous ? 64 : 1024) == 0 && watch.ended()) break;
      if (move % 4096 == 0) {
        split_ = Split(units_, split_.device_of);  // without the rounding of many additions
      }
      try_one(temperature);
    }
    return best_;
  }

 private:
  // A unit of the device of the largest load, or any.
  int drawn_unit() {
    const int n = static_cast<int>(units_.units.size());
    int u = static_cast<int>(rng_.below(n));
    if (rng_.below(2) == 0) return u;
    const int fullest =
        static_cast<int>(std::max_element(split_.load.begin(), split_.load.end()) - split_.load.begin());
    for (int tries = 0; tries < 4 * devices_ && split_.device_of[u] != fullest; ++tries)
      u = static_cast<int>(rng_.below(n));
    return u;
  }
  // The device of a unit that shares a net, or any.
  int drawn_device(int u) {
    const Unit& unit = units_.units[u];
    if (!unit.nets.empty() && rng_.below(4) > 0) {
      const Net& net = units_.nets[unit.nets[rng_.below(unit.nets.size())]];
      return split_.device_of[net.units[rng_.below(net.units.size())]];
    }
    return static_cast<int>(rng_.below(devices_));
  }

  double energy_of(int a, int b) const {
    return power(split_.load[a] / best_load_) + power(split_.load[b] / best_load_);
  }

  void try_one(double temperature) {
    const int u = drawn_unit(), from = split_.device_of[u], to = drawn_device(u);
    if (from == to) return;
    int other = -1;
    if (rng_.below(3) == 0) {
      other = static_cast<int>(rng_.below(units_.units.size()));
      if (split_.device_of[other] != to || !split_.may(other, from, split_.size_of(u))) return;
    }
    if (!split_.may(u, to, other < 0 ? 0 : split_.size_of(other))) return;
    const double before = energy_of(from, to);
    split_.move(u, to);
    if (other >= 0) split_.move(other, from);
    // d mean = d sum / power, near a largest load of 1.
    const double worse = (energy_of(from, to) - before) / kPower;
    const bool accepted = (worse <= 0 || worse < -temperature * std::log(1 - rng_.uniform())) && allowed(from, to);
    if (!accepted) {
      if (other >= 0) split_.move(other, to);
      split_.move(u, from);
      return;
    }
    if (const double most = split_.most(); most < best_load_ * (1 - 1e-12)) {
      best_load_ = most;
      best_ = split_.device_of;
    }
  }
  bool allowed(int a, int b) const {
    return !options_.contiguous ||
           (is_contiguous(units_, split_.device_of, a) && is_contiguous(units_, split_.device_of, b));
  }

  const Units& units_;
  SearchOptions options_;
  Rng rng_;
  Split split_;
  int devices_;
  std::vector<int> best_;
  double best_load_;
};

}  // namespace

std::vector<int> anneal_split(const Units& units, std::vector<int> device, const SearchOptions& options,
                              const Watch& watch) {
  return Annealing(units, std::move(device), options).run(watch);
}

std::optional<std::vector<int>> heaviest_first(const Units& units, bool contiguous) {
  const Instance& instance = *units.instance;
  const int k = instance.accelerators, all = k + instance.cpus;
  std::vector<int> order(units.units.size()), device(units.units.size(), -1);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const Unit &x = units.units[a], &y = units.units[b];
    if (x.supported != y.supported) return y.supported;
    return x.size / std::max(1.0, instance.max_size) + x.accelerator >
           y.size / std::max(1.0, instance.max_size) + y.accelerator;
  });
  std::vector<double> load(all), size(all);
  for (const int u : order) {
    const Unit& unit = units.units[u];
    int best = -1;
    const auto after = [&](int d) { return load[d] + (d < k ? unit.accelerator : unit.cpu); };
    for (int d = 0; d < all; ++d) {
      if (d < k && (!unit.supported || size[d] + unit.size > instance.max_size)) continue;
      if (best < 0 || after(d) < after(best)) best = d;
    }
    if (best < 0) return std::nullopt;
    device[u] = best;
    load[best] = after(best);
    size[best] += unit.size;
  }
  if (contiguous)
    for (int d = 0; d < all; ++d)
      if (!is_contiguous(units, device, d)) return std::nullopt;
  return device;
}

}  // namespace partita::partitioning
