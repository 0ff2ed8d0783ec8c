// Makes units and nets of an instance, and the bound that only balances compute.
#include "partita/partitioning/units.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace partita::partitioning {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Joined {
 public:
  explicit Joined(int n) : up_(n) { std::iota(up_.begin(), up_.end(), 0); }
  int find(int v) {
    while (up_[v] != v) v = up_[v] = up_[up_[v]];
    return v;
  }
  bool join(int a, int b) {
    a = find(a), b = find(b);
    up_[std::max(a, b)] = std::min(a, b);
    return a != b;
  }

 private:
  std::vector<int> up_;
};

// The first number with load(t) <= 0; load falls.
template <typename Load>
double least(double high, Load load) {
  double low = 0;
  for (int step = 0; step < 100; ++step) {
    const double middle = 0.5 * (low + high);
    (load(middle) <= 0 ? high : low) = middle;
  }
  return low;
}

}  // namespace

Units units_of(const Instance& instance, const std::vector<int>& part) {
  Units u;
  u.instance = &instance;
  u.unit_of = part;
  u.units.resize(1 + *std::max_element(part.begin(), part.end()));
  std::map<std::vector<int>, double> nets;
  for (size_t v = 0; v < part.size(); ++v) {
    const Node& node = instance.nodes[v];
    Unit& unit = u.units[part[v]];
    unit.nodes.push_back(static_cast<int>(v));
    unit.cpu += node.cpu;
    unit.accelerator += node.accelerator;
    unit.size += node.size;
    unit.supported = unit.supported && node.supported;
    unit.forward = unit.forward || !node.backward;
    if (node.cost <= 0) continue;
    std::vector<int> pins = {part[v]};
    for (const int reader : node.readers) pins.push_back(part[reader]);
    std::sort(pins.begin(), pins.end());
    pins.erase(std::unique(pins.begin(), pins.end()), pins.end());
    if (pins.size() > 1) nets[pins] += node.cost;
  }
  for (auto& [pins, cost] : nets) {
    for (const int unit : pins) u.units[unit].nets.push_back(static_cast<int>(u.nets.size()));
    u.nets.push_back({cost, pins});
  }
  return u;
}

Units color_units(const Instance& instance, bool contiguous) {
  const int n = static_cast<int>(instance.nodes.size());
  std::vector<int> part(n);
  for (int v = 0; v < n; ++v) part[v] = instance.nodes[v].color;
  Joined joined(instance.colors);
  for (bool again = contiguous; again;) {
    again = false;
    // For each class: nodes after one of its forward nodes, and before one; nodes that are both belong to it.
    std::vector<std::vector<int>> members(instance.colors);
    for (int v = 0; v < n; ++v)
      if (!instance.nodes[v].backward) members[joined.find(part[v])].push_back(v);
    std::vector<char> after, before;
    for (int c = 0; c < instance.colors; ++c) {
      if (members[c].size() < 2) continue;
      after.assign(n, 0), before.assign(n, 0);
      for (const int v : members[c]) after[v] = before[v] = 1;
      for (const int v : instance.order)
        for (const int u : instance.nodes[v].reads)
          if (!instance.nodes[v].backward) after[v] = after[v] || after[u];
      for (size_t at = instance.order.size(); at-- > 0;)
        for (const int w : instance.nodes[instance.order[at]].readers)
          if (!instance.nodes[w].backward) before[instance.order[at]] = before[instance.order[at]] || before[w];
      for (int v = 0; v < n; ++v)
        if (after[v] && before[v] && !instance.nodes[v].backward) again = joined.join(c, part[v]) || again;
    }
  }
  std::vector<int> number(instance.colors, -1);
  int count = 0;
  for (int v = 0; v < n; ++v) {
    int& of = number[joined.find(part[v])];
    if (of < 0) of = count++;
    part[v] = of;
  }
  return units_of(instance, part);
}

Devices devices_of(const Units& units, const std::vector<int>& device_of_unit) {
  Devices devices(units.unit_of.size());
  for (size_t v = 0; v < devices.size(); ++v) devices[v] = device_of_unit[units.unit_of[v]];
  return devices;
}

std::vector<int> devices_of_units(const Units& units, const Devices& devices) {
  std::vector<int> of(units.units.size());
  for (size_t v = 0; v < devices.size(); ++v) of[units.unit_of[v]] = devices[v];
  return of;
}

bool is_contiguous(const Units& units, const std::vector<int>& device_of_unit, int device) {
  const Instance& instance = *units.instance;
  static thread_local std::vector<char> left;
  left.assign(instance.nodes.size(), 0);
  for (const int v : instance.order) {
    if (instance.nodes[v].backward) continue;
    const bool inside = device_of_unit[units.unit_of[v]] == device;
    for (const int u : instance.nodes[v].reads) {  // forward nodes read forward nodes only
      if (!left[u] && device_of_unit[units.unit_of[u]] != device) continue;
      if (!inside) left[v] = 1;
      else if (left[u]) return false;
    }
  }
  return true;
}

double balance_bound(const Units& units) {
  const Instance& instance = *units.instance;
  const double k = instance.accelerators, l = instance.cpus;
  double must = 0, rest = 0, all_cpu = 0, least_alone = 0;
  std::vector<const Unit*> free;
  for (const Unit& unit : units.units) {
    all_cpu += unit.cpu;
    const bool fits = k > 0 && unit.supported && unit.size <= instance.max_size * (1 + 1e-12);
    if (!fits) must += unit.cpu;
    else free.push_back(&unit), rest += unit.accelerator;
    if (!fits && l == 0) return kInfinity;
    least_alone = std::max(least_alone, std::min(fits ? unit.accelerator : kInfinity, l > 0 ? unit.cpu : kInfinity));
  }
  std::sort(free.begin(), free.end(), [](const Unit* a, const Unit* b) {
    return a->cpu * b->accelerator < b->cpu * a->accelerator;  // the unit that a CPU is least slow at
  });
  const auto missing = [&](double t) {  // accelerator time that is missing, if CPUs take the units they are best at
    double room = l * t - must, left = rest;
    if (room < 0) return kInfinity;
    for (const Unit* unit : free) {
      const double part = unit->cpu <= room ? 1 : room / unit->cpu;
      left -= part * unit->accelerator;
      room -= part * unit->cpu;
      if (part < 1) break;
    }
    return left - k * t;
  };
  return std::max(least_alone, least(all_cpu + rest + 1, missing));
}

}  // namespace partita::partitioning
