// Implements Baechi's placement rules: m-TOPO fills devices, m-ETF and m-SCT schedule by earliest start.
#include "partita/device_placement/baechi.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "partita/device_placement/decode.h"

namespace partita {

namespace {

// Tracks the memory left and where each unit is; a unit is an operation or a group that one device takes whole.
class Units {
 public:
  explicit Units(const PlacementProblem& problem) : p_(problem), left_(problem.devices.size()) {
    for (size_t d = 0; d < left_.size(); ++d) left_[d] = problem.devices[d].memory_bytes;
    for (const PlacedOp& op : problem.ops) {
      if (op.group < 0) continue;
      const auto g = static_cast<size_t>(op.group);
      if (bytes_.size() <= g) {
        bytes_.resize(g + 1, 0);
        device_.resize(g + 1, -1);
        runs_.resize(g + 1, std::vector<char>(problem.devices.size(), true));
      }
      bytes_[g] += op.bytes;
      for (size_t d = 0; d < op.ns.size(); ++d) runs_[g][d] = runs_[g][d] && op.ns[d] > 0;
    }
  }
  int64_t bytes(int op) const {
    const PlacedOp& o = p_.ops[static_cast<size_t>(op)];
    return o.group < 0 ? o.bytes : bytes_[static_cast<size_t>(o.group)];
  }
  // The device that holds its group already; -1: none.
  int device(int op) const {
    const int group = p_.ops[static_cast<size_t>(op)].group;
    return group < 0 ? -1 : device_[static_cast<size_t>(group)];
  }
  bool runs_on(int op, size_t d) const {
    const PlacedOp& o = p_.ops[static_cast<size_t>(op)];
    return o.group < 0 ? o.ns[d] > 0 : runs_[static_cast<size_t>(o.group)][d] != 0;
  }
  bool may(int op, size_t d) const {
    const int at = device(op);
    return at >= 0 ? at == static_cast<int>(d) : runs_on(op, d) && bytes(op) <= left_[d];
  }
  void put(int op, int d) {
    if (device(op) >= 0) return;
    left_[static_cast<size_t>(d)] -= bytes(op);
    const int group = p_.ops[static_cast<size_t>(op)].group;
    if (group >= 0) device_[static_cast<size_t>(group)] = d;
  }
  int64_t left(size_t d) const { return left_[d]; }

 private:
  const PlacementProblem& p_;
  std::vector<int64_t> left_, bytes_;    // by device; by group
  std::vector<int> device_;              // by group
  std::vector<std::vector<char>> runs_;  // by group, device
};

std::string no_room(const PlacementProblem& p, const Units& units, int op) {
  int64_t most = 0;
  for (size_t d = 0; d < p.devices.size(); ++d)
    if (units.runs_on(op, d)) most = std::max(most, units.left(d));
  return fmt::format("'{}' needs {} bytes, and no device has more left than {}: {} bytes missing",
                     p.ops[static_cast<size_t>(op)].name, units.bytes(op), most, units.bytes(op) - most);
}

}  // namespace

std::optional<std::vector<int>> topological_placement(const PlacementProblem& p, std::string& why) {
  Units units(p);
  // The devices that most operations can run on share their bytes. Devices that few run on (loads) do not count.
  std::vector<int64_t> runs(p.devices.size(), 0);
  int64_t all = 0, largest = 0;
  for (size_t o = 0; o < p.ops.size(); ++o) {
    for (size_t d = 0; d < runs.size(); ++d) runs[d] += p.ops[o].ns[d] > 0;
    all += p.ops[o].bytes;
    largest = std::max(largest, units.bytes(static_cast<int>(o)));
  }
  const int64_t most = *std::max_element(runs.begin(), runs.end());
  std::vector<size_t> fillable;
  for (size_t d = 0; d < runs.size(); ++d)
    if (2 * runs[d] > most) fillable.push_back(d);
  const int64_t cap = all / static_cast<int64_t>(fillable.size()) + largest;
  std::vector<int> device(p.ops.size(), -1);
  size_t at = 0;
  for (size_t o = 0; o < p.ops.size(); ++o) {
    const int op = static_cast<int>(o);
    const auto full = [&](size_t d) {
      return p.devices[d].memory_bytes - units.left(d) + units.bytes(op) > cap || !units.may(op, d);
    };
    if (units.device(op) >= 0) device[o] = units.device(op);
    while (device[o] < 0 && units.runs_on(op, fillable[at]) && at + 1 < fillable.size() && full(fillable[at])) ++at;
    if (device[o] < 0 && units.may(op, fillable[at])) device[o] = static_cast<int>(fillable[at]);
    for (size_t d = 0; d < p.devices.size() && device[o] < 0; ++d)
      if (units.may(op, d)) device[o] = static_cast<int>(d);
    if (device[o] < 0) {
      why = no_room(p, units, op);
      return std::nullopt;
    }
    units.put(op, device[o]);
  }
  return device;
}

namespace {

// The schedule so far. `favourite` has a child by operation, -1 for none; it may be empty. A device waits for the
// favourite child of its last operation until the child could begin elsewhere as early. Meanwhile it runs urgent
// operations alone: those that could begin at that time on any device.
class Etf {
 public:
  Etf(const PlacementProblem& problem, const std::vector<int>& favourite, bool congestion)
      : p_(problem),
        favourite_(favourite),
        congestion_(congestion),
        units_(problem),
        missing_(problem.ops.size()),
        end_(problem.ops.size(), 0),
        device_free_(problem.devices.size(), 0),
        queue_free_(static_cast<size_t>(problem.queues), 0),
        kept_for_(problem.devices.size(), -1),
        kept_until_(problem.devices.size(), 0),
        came_(problem.values.size()),
        made_(made_by(problem)) {
    s_.device.assign(problem.ops.size(), -1);
    s_.start.assign(problem.ops.size(), 0);
    tail_.assign(problem.ops.size(), 0);
    for (size_t o = problem.ops.size(); o-- > 0;) {
      for (int v : made_[o])
        for (int reader : p_.values[static_cast<size_t>(v)].readers)
          tail_[o] = std::max(tail_[o], tail_[static_cast<size_t>(reader)]);
      tail_[o] += *std::max_element(p_.ops[o].ns.begin(), p_.ops[o].ns.end());
    }
  }

  std::optional<PlacedSchedule> run(std::string& why) {
    std::vector<int> ready;
    for (size_t o = 0; o < p_.ops.size(); ++o) {
      missing_[o] = static_cast<int>(p_.ops[o].reads.size());
      if (missing_[o] == 0) ready.push_back(static_cast<int>(o));
    }
    while (!ready.empty()) {
      using Choice = std::tuple<int64_t, bool, int64_t, int, int>;  // start, not awaited, - tail, operation, device
      Choice best{INT64_MAX, true, 0, -1, -1};
      for (int op : ready)
        for (size_t d = 0; d < p_.devices.size(); ++d)
          if (units_.may(op, d))
            best = std::min(best, Choice{start_on(op, static_cast<int>(d)), kept_for_[d] != op,
                                         -tail_[static_cast<size_t>(op)], op, static_cast<int>(d)});
      const int op = std::get<3>(best);
      if (op < 0) {
        why = no_room(p_, units_, ready.front());
        return std::nullopt;
      }
      take(op, std::get<4>(best));
      std::erase(ready, op);
      for (int v : made_[static_cast<size_t>(op)])
        for (int reader : p_.values[static_cast<size_t>(v)].readers)
          if (--missing_[static_cast<size_t>(reader)] == 0) ready.push_back(reader);
    }
    return pushed_left(p_, s_);
  }

 private:
  // When the value is, or could be, on the device (ns). A transfer that is not sent yet goes behind all on its queue.
  int64_t there(int v, int d, bool send) {
    const PlacedValue& value = p_.values[static_cast<size_t>(v)];
    const auto producer = static_cast<size_t>(value.producer);
    if (s_.device[producer] == d || !value.moves()) return end_[producer];
    for (const auto& [to, at] : came_[static_cast<size_t>(v)])
      if (to == d) return at;
    const Route& route = p_.routes[static_cast<size_t>(s_.device[producer])][static_cast<size_t>(d)];
    if (route.queue < 0) return INT64_MAX / 2;
    int64_t& free = queue_free_[static_cast<size_t>(route.queue)];
    const int64_t start = std::max(congestion_ ? free : 0, end_[producer]),
                  end = start + p_.transfer_ns(route, value.bytes);
    if (send) {
      free = end;
      came_[static_cast<size_t>(v)].emplace_back(d, end);
      s_.transfers.push_back({v, d, start});
    }
    return end;
  }
  // When all that it reads is, or could be, there (ns).
  int64_t ready_on(int op, int d) {
    int64_t ready = 0;
    for (int v : p_.ops[static_cast<size_t>(op)].reads) ready = std::max(ready, there(v, d, false));
    return ready;
  }
  int64_t start_on(int op, int d) {
    const auto at = static_cast<size_t>(d);
    const int64_t start = std::max(device_free_[at], ready_on(op, d));
    const bool kept = kept_for_[at] >= 0 && kept_for_[at] != op && start < kept_until_[at];
    return kept && !urgent(op, start) ? kept_until_[at] : start;
  }
  bool urgent(int op, int64_t at) {
    for (size_t d = 0; d < p_.devices.size(); ++d)
      if (units_.may(op, d) && ready_on(op, static_cast<int>(d)) > at) return false;
    return true;
  }
  // Keeps the device for the favourite child of its current operation until the child could have the result anywhere.
  void keep_for_child(int op, int d) {
    std::replace(kept_for_.begin(), kept_for_.end(), op, -1);
    const int child = favourite_.empty() ? -1 : favourite_[static_cast<size_t>(op)];
    if (child < 0 || !units_.may(child, static_cast<size_t>(d))) return;
    int64_t until = 0;
    for (int v : p_.ops[static_cast<size_t>(child)].reads)
      for (size_t to = 0; p_.values[static_cast<size_t>(v)].producer == op && to < p_.devices.size(); ++to)
        if (units_.may(child, to) && (static_cast<int>(to) == d || p_.routes[static_cast<size_t>(d)][to].queue >= 0))
          until = std::max(until, there(v, static_cast<int>(to), false));
    kept_for_[static_cast<size_t>(d)] = child;
    kept_until_[static_cast<size_t>(d)] = until;
  }
  void take(int op, int d) {
    const auto o = static_cast<size_t>(op);
    units_.put(op, d);
    s_.device[o] = d;
    int64_t start = device_free_[static_cast<size_t>(d)];
    for (int v : p_.ops[o].reads) start = std::max(start, there(v, d, true));
    s_.start[o] = start;
    end_[o] = device_free_[static_cast<size_t>(d)] = start + p_.ops[o].ns[static_cast<size_t>(d)];
    keep_for_child(op, d);
  }

  const PlacementProblem& p_;
  const std::vector<int>& favourite_;
  const bool congestion_;
  Units units_;
  std::vector<int> missing_;
  std::vector<int64_t> end_, device_free_, queue_free_, tail_;
  std::vector<int> kept_for_;  // by device: an operation; -1: none
  std::vector<int64_t> kept_until_;
  std::vector<std::vector<std::pair<int, int64_t>>> came_;
  std::vector<std::vector<int>> made_;
  PlacedSchedule s_;
};

}  // namespace

std::optional<PlacedSchedule> earliest_task_first(const PlacementProblem& problem, std::string& why, bool congestion) {
  const std::vector<int> none;
  return Etf(problem, none, congestion).run(why);
}

std::optional<PlacedSchedule> favourites_first(const PlacementProblem& problem, const std::vector<int>& favourite,
                                               std::string& why) {
  return Etf(problem, favourite, true).run(why);
}

}  // namespace partita
