// Finds groups, and devices that can be exchanged.
#include "partita/device_placement/units.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace partita {

std::vector<PlacementUnit> placement_units(const PlacementProblem& p) {
  std::vector<PlacementUnit> units;
  std::map<int, size_t> of_group;
  for (size_t o = 0; o < p.ops.size(); ++o) {
    const PlacedOp& op = p.ops[o];
    size_t u = units.size();
    if (op.group >= 0) u = of_group.try_emplace(op.group, u).first->second;
    if (u == units.size()) units.emplace_back();
    units[u].ops.push_back(static_cast<int>(o));
    units[u].bytes += op.bytes;
  }
  for (PlacementUnit& unit : units)
    for (size_t d = 0; d < p.devices.size(); ++d) {
      const bool runs =
          std::all_of(unit.ops.begin(), unit.ops.end(), [&](int o) { return p.ops[static_cast<size_t>(o)].ns[d] > 0; });
      if (runs && unit.bytes <= p.devices[d].memory_bytes) unit.devices.push_back(static_cast<int>(d));
    }
  return units;
}

std::vector<int> unit_of_op(const PlacementProblem& problem, const std::vector<PlacementUnit>& units) {
  std::vector<int> of(problem.ops.size(), -1);
  for (size_t u = 0; u < units.size(); ++u)
    for (int o : units[u].ops) of[static_cast<size_t>(o)] = static_cast<int>(u);
  return of;
}

namespace {

bool can_exchange(const PlacementProblem& p, size_t a, size_t b) {
  if (p.devices[a].memory_bytes != p.devices[b].memory_bytes) return false;
  if (std::any_of(p.ops.begin(), p.ops.end(), [&](const PlacedOp& op) { return op.ns[a] != op.ns[b]; })) return false;
  const auto other = [&](size_t d) { return d == a ? b : d == b ? a : d; };
  std::map<int, int> queue_becomes, queue_was;
  for (size_t from = 0; from < p.devices.size(); ++from)
    for (size_t to = 0; to < p.devices.size(); ++to) {
      if (from == to) continue;
      const Route &route = p.routes[from][to], &then = p.routes[other(from)][other(to)];
      if ((route.queue < 0) != (then.queue < 0)) return false;
      if (route.queue < 0) continue;
      Route same = then;
      same.queue = route.queue;
      if (same != route) return false;
      if (queue_becomes.try_emplace(route.queue, then.queue).first->second != then.queue) return false;
      if (queue_was.try_emplace(then.queue, route.queue).first->second != route.queue) return false;
    }
  return true;
}

// The units, those with the longest operations first.
std::vector<size_t> by_length(const PlacementProblem& p, const std::vector<PlacementUnit>& units) {
  std::vector<int64_t> ns(units.size(), 0);
  for (size_t u = 0; u < units.size(); ++u)
    for (int o : units[u].ops) {
      const std::vector<int64_t>& of = p.ops[static_cast<size_t>(o)].ns;
      ns[u] += *std::max_element(of.begin(), of.end());
    }
  std::vector<size_t> order(units.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ns[a] > ns[b]; });
  return order;
}

}  // namespace

std::vector<std::vector<int>> equal_devices(const PlacementProblem& p) {
  std::vector<std::vector<int>> sets;
  for (size_t d = 0; d < p.devices.size(); ++d) {
    const auto set = std::find_if(sets.begin(), sets.end(),
                                  [&](const auto& s) { return can_exchange(p, static_cast<size_t>(s.front()), d); });
    if (set == sets.end()) sets.push_back({static_cast<int>(d)});
    else set->push_back(static_cast<int>(d));
  }
  std::erase_if(sets, [](const auto& s) { return s.size() < 2; });
  return sets;
}

void break_device_symmetry(const PlacementProblem& problem, std::vector<PlacementUnit>& units) {
  for (const std::vector<int>& set : equal_devices(problem)) {
    size_t tried = 1;
    for (size_t u : by_length(problem, units)) {
      std::vector<int>& devices = units[u].devices;
      if (tried >= set.size()) break;
      if (std::find(devices.begin(), devices.end(), set.front()) == devices.end()) continue;
      for (size_t i = tried; i < set.size(); ++i) std::erase(devices, set[i]);
      ++tried;
    }
  }
}

PlacedSchedule canonical_schedule(const PlacementProblem& problem, const PlacedSchedule& schedule) {
  const std::vector<PlacementUnit> units = placement_units(problem);
  std::vector<int> becomes(problem.devices.size());
  std::iota(becomes.begin(), becomes.end(), 0);
  for (const std::vector<int>& set : equal_devices(problem)) {
    std::vector<int> order;  // as the units meet them
    for (size_t u : by_length(problem, units)) {
      const int d = schedule.device[static_cast<size_t>(units[u].ops.front())];
      if (std::find(set.begin(), set.end(), d) != set.end() && std::find(order.begin(), order.end(), d) == order.end())
        order.push_back(d);
    }
    for (int d : set)
      if (std::find(order.begin(), order.end(), d) == order.end()) order.push_back(d);
    for (size_t i = 0; i < set.size(); ++i) becomes[static_cast<size_t>(order[i])] = set[i];
  }
  PlacedSchedule s = schedule;
  for (int& d : s.device) d = becomes[static_cast<size_t>(d)];
  for (PlacedTransfer& t : s.transfers) t.to = becomes[static_cast<size_t>(t.to)];
  return s;
}

}  // namespace partita
