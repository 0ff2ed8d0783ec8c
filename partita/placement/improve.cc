// Late acceptance over placements and orders.
#include "partita/placement/improve.h"

#include <algorithm>

#include "partita/placement/coarsen.h"
#include "partita/placement/decode.h"

namespace partita {

namespace {

// Operations that go together.
struct Units {
  std::vector<int> of;                 // by operation
  std::vector<std::vector<int>> ops;   // by unit
  std::vector<std::vector<int>> runs;  // by unit: the devices on which all of it runs
  std::vector<int64_t> bytes;
  std::vector<int> nearest;  // by unit: what it exchanges most bytes with; -1: nothing
  std::vector<int> movable;  // units with a choice
};

Units units_of(const PlacementProblem& p) {
  Units u;
  std::vector<int> of_group;
  for (size_t o = 0; o < p.ops.size(); ++o) {
    const int group = p.ops[o].group;
    if (group >= 0 && of_group.size() <= static_cast<size_t>(group))
      of_group.resize(static_cast<size_t>(group) + 1, -1);
    int unit = group < 0 ? -1 : of_group[static_cast<size_t>(group)];
    if (unit < 0) {
      unit = static_cast<int>(u.ops.size());
      u.ops.emplace_back();
      if (group >= 0) of_group[static_cast<size_t>(group)] = unit;
    }
    u.of.push_back(unit);
    u.ops[static_cast<size_t>(unit)].push_back(static_cast<int>(o));
  }
  u.runs.resize(u.ops.size());
  u.bytes.assign(u.ops.size(), 0);
  for (size_t i = 0; i < u.ops.size(); ++i) {
    for (int o : u.ops[i]) u.bytes[i] += p.ops[static_cast<size_t>(o)].bytes;
    for (size_t d = 0; d < p.devices.size(); ++d)
      if (std::all_of(u.ops[i].begin(), u.ops[i].end(), [&](int o) { return p.ops[static_cast<size_t>(o)].ns[d] > 0; }))
        u.runs[i].push_back(static_cast<int>(d));
    if (u.runs[i].size() > 1) u.movable.push_back(static_cast<int>(i));
  }
  return u;
}

void find_nearest(const PlacementProblem& p, Units& u) {
  u.nearest.assign(u.ops.size(), -1);
  std::vector<int64_t> most(u.ops.size(), -1);
  const auto offer = [&](int unit, int other, int64_t bytes) {
    if (bytes <= most[static_cast<size_t>(unit)] || u.runs[static_cast<size_t>(other)].size() < 2) return;
    most[static_cast<size_t>(unit)] = bytes;
    u.nearest[static_cast<size_t>(unit)] = other;
  };
  for (const PlacedValue& value : p.values)
    for (int reader : value.readers) {
      const int a = u.of[static_cast<size_t>(value.producer)], b = u.of[static_cast<size_t>(reader)];
      if (a == b || !value.moves()) continue;
      offer(a, b, value.bytes);
      offer(b, a, value.bytes);
    }
}

class Improver {
 public:
  Improver(const PlacementProblem& problem, const PlacedSchedule& start, Rng& rng)
      : p_(problem),
        rng_(rng),
        units_(units_of(problem)),
        best_(start),
        device_(start.device),
        order_(order_of(start)),
        made_(made_by(problem)) {
    find_nearest(problem, units_);
    left_.resize(p_.devices.size());
    for (size_t d = 0; d < left_.size(); ++d) left_[d] = p_.devices[d].memory_bytes;
    for (size_t u = 0; u < units_.ops.size(); ++u)
      left_[static_cast<size_t>(at(static_cast<int>(u)))] -= units_.bytes[u];
  }

  PlacedSchedule run(const ImproveOptions& options, const Watch& watch) {
    PlacedSchedule now = list_schedule(p_, device_, order_, true);
    keep(now);
    std::vector<int64_t> late(static_cast<size_t>(options.late), now.end);
    int64_t current = now.end;
    for (int64_t i = 0; i < options.changes && best_.end > options.enough_ns && !watch.ended(); ++i) {
      const std::vector<int> device = device_, order = order_;
      const std::vector<int64_t> left = left_;
      if (!change()) continue;
      now = list_schedule(p_, device_, order_, true);
      int64_t& before = late[static_cast<size_t>(i) % late.size()];
      if (now.end <= current || now.end <= before) {
        current = now.end;
        keep(now);
      } else {
        device_ = device, order_ = order, left_ = left;
      }
      before = std::min(before, current);
    }
    return std::move(best_);
  }

 private:
  int at(int unit) const { return device_[static_cast<size_t>(units_.ops[static_cast<size_t>(unit)][0])]; }
  void keep(const PlacedSchedule& s) {
    if (s.end < best_.end) best_ = s;
  }
  int any_unit() { return units_.movable[rng_.below(units_.movable.size())]; }

  // Whether the unit now is on the device.
  bool put(int unit, int d) {
    const int from = at(unit);
    const std::vector<int>& runs = units_.runs[static_cast<size_t>(unit)];
    if (from == d || std::find(runs.begin(), runs.end(), d) == runs.end()) return from == d;
    left_[static_cast<size_t>(from)] += units_.bytes[static_cast<size_t>(unit)];
    left_[static_cast<size_t>(d)] -= units_.bytes[static_cast<size_t>(unit)];
    for (int o : units_.ops[static_cast<size_t>(unit)]) device_[static_cast<size_t>(o)] = d;
    return true;
  }
  bool fits() const {
    return std::all_of(left_.begin(), left_.end(), [](int64_t bytes) { return bytes >= 0; });
  }
  // Whether there is a change that can be judged. One that does not fit is taken back.
  bool change() {
    const uint64_t kind = rng_.below(8);
    if (units_.movable.empty() || kind >= 5) return move_in_order();
    const std::vector<int> device = device_;
    const std::vector<int64_t> left = left_;
    const int unit = any_unit();
    const std::vector<int>& runs = units_.runs[static_cast<size_t>(unit)];
    int d = runs[rng_.below(runs.size() - 1)];
    if (d == at(unit)) d = runs.back();
    const int from = at(unit);
    bool done = put(unit, d);
    if (kind == 3) {  // with what it exchanges most with
      if (const int other = units_.nearest[static_cast<size_t>(unit)]; other >= 0) done = put(other, d) && done;
    } else if (kind == 4) {  // in exchange for another one
      const int other = any_unit();
      if (other != unit && at(other) == d) done = put(other, from) && done;
    }
    if (done && fits()) return true;
    device_ = device, left_ = left;
    return false;
  }
  bool move_in_order() {
    const size_t n = order_.size(), from = rng_.below(n);
    const int op = order_[from];
    // As far as its neighbours in the graph let it.
    size_t first = from, last = from;
    const bool later = rng_.below(2) == 0;
    const auto follows = [&](int a, int b) {  // b reads a
      return std::any_of(made_[static_cast<size_t>(a)].begin(), made_[static_cast<size_t>(a)].end(), [&](int v) {
        const std::vector<int>& readers = p_.values[static_cast<size_t>(v)].readers;
        return std::find(readers.begin(), readers.end(), b) != readers.end();
      });
    };
    constexpr size_t kFarthest = 64;
    if (later)
      while (last + 1 < n && last - from < kFarthest && !follows(op, order_[last + 1])) ++last;
    else
      while (first > 0 && from - first < kFarthest && !follows(order_[first - 1], op)) --first;
    if (first == last) return false;
    const size_t to = later ? from + 1 + rng_.below(last - from) : first + rng_.below(from - first);
    if (to > from)
      std::rotate(order_.begin() + static_cast<std::ptrdiff_t>(from),
                  order_.begin() + static_cast<std::ptrdiff_t>(from) + 1,
                  order_.begin() + static_cast<std::ptrdiff_t>(to) + 1);
    else
      std::rotate(order_.begin() + static_cast<std::ptrdiff_t>(to), order_.begin() + static_cast<std::ptrdiff_t>(from),
                  order_.begin() + static_cast<std::ptrdiff_t>(from) + 1);
    return true;
  }

  const PlacementProblem& p_;
  Rng& rng_;
  Units units_;
  PlacedSchedule best_;
  std::vector<int> device_, order_;
  std::vector<int64_t> left_;  // bytes, by device
  const std::vector<std::vector<int>> made_;
};

}  // namespace

PlacedSchedule improved(const PlacementProblem& problem, const PlacedSchedule& start, const ImproveOptions& options,
                        Rng& rng, const Watch& watch) {
  if (problem.ops.empty()) return start;
  return Improver(problem, start, rng).run(options, watch);
}

}  // namespace partita
