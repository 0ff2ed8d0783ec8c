// Validates placement problems and checks schedules.
#include "partita/device_placement/problem.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "partita/base/error.h"

namespace partita {

int64_t PlacementProblem::transfer_ns(const Route& route, int64_t bytes) const {
  const auto size = static_cast<double>(bytes);
  double least = route.latency_ns + route.ns_per_byte * size;
  for (const auto& [latency_ns, ns_per_byte] : route.others) least = std::min(least, latency_ns + ns_per_byte * size);
  return std::max<int64_t>(1, std::llround(least));
}

bool share_a_device(const PlacedOp& a, const PlacedOp& b) {
  for (size_t d = 0; d < a.ns.size(); ++d)
    if (a.ns[d] > 0 && b.ns[d] > 0) return true;
  return false;
}

int64_t least_crossing_ns(const PlacementProblem& p, const PlacedOp& from, const PlacedOp& to, int64_t bytes) {
  int64_t least = INT64_MAX;
  for (size_t a = 0; a < from.ns.size(); ++a)
    for (size_t b = 0; b < to.ns.size(); ++b)
      if (a != b && from.ns[a] > 0 && to.ns[b] > 0 && p.routes[a][b].queue >= 0)
        least = std::min(least, p.transfer_ns(p.routes[a][b], bytes));
  return least == INT64_MAX ? 0 : least;
}

int64_t least_ns(const PlacedOp& op) {
  int64_t least = INT64_MAX;
  for (int64_t ns : op.ns)
    if (ns > 0) least = std::min(least, ns);
  return least;
}

void sort_by_start(std::vector<PlacedTransfer>& transfers) {
  std::sort(transfers.begin(), transfers.end(), [](const PlacedTransfer& a, const PlacedTransfer& b) {
    return std::tie(a.start, a.value, a.to) < std::tie(b.start, b.value, b.to);
  });
}

std::vector<std::vector<int>> made_by(const PlacementProblem& p) {
  std::vector<std::vector<int>> made(p.ops.size());
  for (size_t v = 0; v < p.values.size(); ++v)
    made[static_cast<size_t>(p.values[v].producer)].push_back(static_cast<int>(v));
  return made;
}

namespace {

void verify_ways(const PlacementProblem& p) {
  const size_t n = p.devices.size();
  ensure(p.routes.size() == n, "a placement problem of {} devices has ways from {}", n, p.routes.size());
  for (size_t from = 0; from < n; ++from) {
    ensure(p.routes[from].size() == n, "device '{}' has ways to {} of {} devices", p.devices[from].name,
           p.routes[from].size(), n);
    for (const Route& route : p.routes[from])
      ensure(route.queue >= -1 && route.queue < p.queues && route.latency_ns >= 0 && route.ns_per_byte >= 0,
             "a way from device '{}' is on queue {} of {}, with {} ns and {} ns a byte", p.devices[from].name,
             route.queue, p.queues, route.latency_ns, route.ns_per_byte);
  }
}

}  // namespace

void validate(const PlacementProblem& p) {
  verify_ways(p);
  for (size_t o = 0; o < p.ops.size(); ++o) {
    const PlacedOp& op = p.ops[o];
    ensure(op.ns.size() == p.devices.size(), "op '{}' has times for {} of {} devices", op.name, op.ns.size(),
           p.devices.size());
    ensure(std::any_of(op.ns.begin(), op.ns.end(), [](int64_t ns) { return ns > 0; }), "op '{}' can run nowhere",
           op.name);
    ensure(std::all_of(op.ns.begin(), op.ns.end(), [](int64_t ns) { return ns > 0 || ns == -1; }),
           "op '{}' takes no time", op.name);
    ensure(op.bytes >= 0 && op.scratch >= 0, "op '{}' keeps {} bytes, and {} while it runs", op.name, op.bytes,
           op.scratch);
    for (int v : op.reads) {
      ensure(v >= 0 && v < static_cast<int>(p.values.size()), "op '{}' reads value {}", op.name, v);
      const PlacedValue& value = p.values[static_cast<size_t>(v)];
      ensure(value.producer < static_cast<int>(o), "op '{}' stands before '{}', which it reads", op.name,
             p.ops[static_cast<size_t>(value.producer)].name);
      ensure(std::count(value.readers.begin(), value.readers.end(), static_cast<int>(o)) == 1 &&
                 std::count(op.reads.begin(), op.reads.end(), v) == 1,
             "op '{}' reads value {} and is not its reader once", op.name, v);
    }
  }
  for (const PlacedResult& result : p.results)
    ensure(result.bytes >= 0 && result.producer >= 0 && result.producer < static_cast<int>(p.ops.size()),
           "a result of op {} has {} bytes", result.producer, result.bytes);
  for (size_t v = 0; v < p.values.size(); ++v) {
    const PlacedValue& value = p.values[v];
    ensure(value.bytes >= kOrderAlone && value.producer >= 0 && value.producer < static_cast<int>(p.ops.size()),
           "value {} has {} bytes and producer {}", v, value.bytes, value.producer);
    ensure(value.result < static_cast<int>(p.results.size()) &&
               (value.result < 0 || p.results[static_cast<size_t>(value.result)].producer == value.producer),
           "value {} is of result {}, which another op makes", v, value.result);
    ensure(value.moves() || value.result < 0, "value {} moves nothing, and is of result {}", v, value.result);
    for (int r : value.readers) {
      ensure(r >= 0 && r < static_cast<int>(p.ops.size()), "value {} is read by op {}", v, r);
      const std::vector<int>& reads = p.ops[static_cast<size_t>(r)].reads;
      ensure(std::count(reads.begin(), reads.end(), static_cast<int>(v)) == 1,
             "value {} has reader '{}', which does not read it", v, p.ops[static_cast<size_t>(r)].name);
    }
  }
}

namespace {

// A device or link that is busy from `start` to `end`.
struct Busy {
  int64_t start, end;
  std::string what;
};

std::string overlap(std::vector<Busy> busy, const std::string& where) {
  std::sort(busy.begin(), busy.end(), [](const Busy& a, const Busy& b) { return a.start < b.start; });
  for (size_t i = 1; i < busy.size(); ++i)
    if (busy[i].start < busy[i - 1].end)
      return fmt::format("{} and {} are at once on {}", busy[i - 1].what, busy[i].what, where);
  return {};
}

std::string wrong_place(const PlacementProblem& p, const PlacedSchedule& s) {
  if (s.device.size() != p.ops.size() || s.start.size() != p.ops.size())
    return fmt::format("{} ops have {} devices and {} starts", p.ops.size(), s.device.size(), s.start.size());
  std::map<int, int> group_device;
  for (size_t o = 0; o < p.ops.size(); ++o) {
    const PlacedOp& op = p.ops[o];
    const int d = s.device[o];
    if (d < 0 || d >= static_cast<int>(p.devices.size()) || op.ns[static_cast<size_t>(d)] < 1)
      return fmt::format("op '{}' cannot run on device {}", op.name, d);
    if (s.start[o] < 0) return fmt::format("op '{}' starts at {}", op.name, s.start[o]);
    if (op.group >= 0 && group_device.try_emplace(op.group, d).first->second != d)
      return fmt::format("op '{}' is apart from its group", op.name);
  }
  return {};
}

// By device: bytes more, or less, at a time.
using Changes = std::vector<std::map<int64_t, int64_t>>;

void hold(Changes& changes, int device, int64_t from, int64_t until, int64_t bytes) {
  changes[static_cast<size_t>(device)][from] += bytes;
  changes[static_cast<size_t>(device)][until] -= bytes;
}

std::string too_full(const PlacementProblem& p, const PlacedSchedule& s) {
  Changes changes(p.devices.size());
  const auto op_end = [&](int o) {
    const auto i = static_cast<size_t>(o);
    return s.start[i] + p.ops[i].ns[static_cast<size_t>(s.device[i])];
  };
  const auto last_read = [&](const PlacedValue& value, int device, int64_t end) {
    for (int r : value.readers)
      if (s.device[static_cast<size_t>(r)] == device) end = std::max(end, op_end(r));
    return end;
  };
  std::vector<int64_t> until;  // by result
  for (const PlacedResult& result : p.results) until.push_back(op_end(result.producer));
  for (const PlacedValue& value : p.values)
    if (value.result >= 0) {
      int64_t& end = until[static_cast<size_t>(value.result)];
      end = last_read(value, s.device[static_cast<size_t>(value.producer)], end);
    }
  for (const PlacedTransfer& t : s.transfers) {
    const PlacedValue& value = p.values[static_cast<size_t>(t.value)];
    const auto from = static_cast<size_t>(s.device[static_cast<size_t>(value.producer)]);
    const int64_t over = t.start + p.transfer_ns(p.routes[from][static_cast<size_t>(t.to)], value.bytes);
    if (value.result < 0) continue;
    until[static_cast<size_t>(value.result)] = std::max(until[static_cast<size_t>(value.result)], over);
    hold(changes, t.to, t.start, last_read(value, t.to, over), value.bytes);
  }
  for (size_t i = 0; i < p.results.size(); ++i) {
    const auto producer = static_cast<size_t>(p.results[i].producer);
    hold(changes, s.device[producer], s.start[producer], until[i], p.results[i].bytes);
  }
  for (size_t o = 0; o < p.ops.size(); ++o) {
    hold(changes, s.device[o], 0, INT64_MAX, p.ops[o].bytes);
    hold(changes, s.device[o], s.start[o], op_end(static_cast<int>(o)), p.ops[o].scratch);
  }
  for (size_t d = 0; d < p.devices.size(); ++d) {
    int64_t bytes = 0;
    for (const auto& [time, change] : changes[d])
      if ((bytes += change) > p.devices[d].memory_bytes)
        return fmt::format("device '{}' needs {} of {} bytes at {} ns", p.devices[d].name, bytes,
                           p.devices[d].memory_bytes, time);
  }
  return {};
}

}  // namespace

std::string schedule_error(const PlacementProblem& p, const PlacedSchedule& s) {
  if (std::string wrong = wrong_place(p, s); !wrong.empty()) return wrong;
  const auto op_end = [&](size_t o) { return s.start[o] + p.ops[o].ns[static_cast<size_t>(s.device[o])]; };
  std::map<std::pair<int, int>, int64_t> arrival;  // of (value, device)
  std::vector<std::vector<Busy>> on_queue(static_cast<size_t>(p.queues)), on_device(p.devices.size());
  int64_t end = 0;
  for (const PlacedTransfer& t : s.transfers) {
    const PlacedValue& value = p.values[static_cast<size_t>(t.value)];
    const std::string what = fmt::format("value {} to device {}", t.value, t.to);
    const auto from = static_cast<size_t>(s.device[static_cast<size_t>(value.producer)]);
    const Route& route = p.routes[from][static_cast<size_t>(t.to)];
    if (!value.moves() || from == static_cast<size_t>(t.to) || route.queue < 0) return what + " has no way";
    if (std::none_of(value.readers.begin(), value.readers.end(),
                     [&](int r) { return s.device[static_cast<size_t>(r)] == t.to; }))
      return what + " has no reader there";
    if (t.start < op_end(static_cast<size_t>(value.producer))) return what + " starts before it is made";
    const int64_t over = t.start + p.transfer_ns(route, value.bytes);
    if (!arrival.try_emplace({t.value, t.to}, over).second) return what + " is sent twice";
    on_queue[static_cast<size_t>(route.queue)].push_back({t.start, over, what});
    end = std::max(end, over);
  }
  for (size_t o = 0; o < p.ops.size(); ++o) {
    on_device[static_cast<size_t>(s.device[o])].push_back({s.start[o], op_end(o), p.ops[o].name});
    end = std::max(end, op_end(o));
    for (int v : p.ops[o].reads) {
      const auto producer = static_cast<size_t>(p.values[static_cast<size_t>(v)].producer);
      int64_t there = op_end(producer);
      if (s.device[producer] != s.device[o] && p.values[static_cast<size_t>(v)].moves()) {
        const auto found = arrival.find({v, s.device[o]});
        if (found == arrival.end()) return fmt::format("value {} does not come to op '{}'", v, p.ops[o].name);
        there = found->second;
      }
      if (s.start[o] < there) return fmt::format("op '{}' starts before value {} is there", p.ops[o].name, v);
    }
  }
  for (size_t d = 0; d < on_device.size(); ++d)
    if (std::string wrong = overlap(on_device[d], p.devices[d].name); !wrong.empty()) return wrong;
  for (size_t q = 0; q < on_queue.size(); ++q)
    if (std::string wrong = overlap(on_queue[q], fmt::format("queue {}", q)); !wrong.empty()) return wrong;
  if (end != s.end) return fmt::format("the end is {}, not {}", end, s.end);
  return too_full(p, s);
}

}  // namespace partita
