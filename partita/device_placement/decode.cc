// Decodes a placement into a schedule by serving queues in the order of events.
#include "partita/device_placement/decode.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <tuple>

#include "partita/base/error.h"
#include "partita/device_placement/list_decoder.h"
#include "partita/device_placement/live_memory.h"

namespace partita {

namespace {

int64_t op_ns(const PlacementProblem& p, int op, int device) {
  const int64_t ns = p.ops[static_cast<size_t>(op)].ns[static_cast<size_t>(device)];
  ensure(ns > 0, "op '{}' is placed where it cannot run", p.ops[static_cast<size_t>(op)].name);
  return ns;
}

const Route& route_of(const PlacementProblem& p, int from, int to) {
  const Route& route = p.routes[static_cast<size_t>(from)][static_cast<size_t>(to)];
  ensure(route.queue >= 0, "there is no way from '{}' to '{}'", p.devices[static_cast<size_t>(from)].name,
         p.devices[static_cast<size_t>(to)].name);
  return route;
}

void finish(PlacedSchedule& s, const PlacementProblem& p) {
  sort_by_start(s.transfers);
  s.end = 0;
  for (size_t o = 0; o < p.ops.size(); ++o)
    s.end = std::max(s.end, s.start[o] + op_ns(p, static_cast<int>(o), s.device[o]));
  for (const PlacedTransfer& t : s.transfers) {
    const PlacedValue& value = p.values[static_cast<size_t>(t.value)];
    const Route& route = route_of(p, s.device[static_cast<size_t>(value.producer)], t.to);
    s.end = std::max(s.end, t.start + p.transfer_ns(route, value.bytes));
  }
}

// The devices other than its own on which a value is read, each with the lowest rank that reads it there.
struct Destination {
  int to = 0, rank = 0;
};
std::vector<Destination> destinations(const PlacementProblem& p, const std::vector<int>& device,
                                      const std::vector<int>& rank, int value) {
  const PlacedValue& v = p.values[static_cast<size_t>(value)];
  const int home = device[static_cast<size_t>(v.producer)];
  std::vector<Destination> found;
  if (!v.moves()) return found;
  for (int reader : v.readers) {
    const int to = device[static_cast<size_t>(reader)], r = rank[static_cast<size_t>(reader)];
    if (to == home) continue;
    const auto same = std::find_if(found.begin(), found.end(), [&](const Destination& d) { return d.to == to; });
    if (same == found.end()) found.push_back({to, r});
    else same->rank = std::min(same->rank, r);
  }
  return found;
}

class FirstCome {
 public:
  FirstCome(const PlacementProblem& problem, const std::vector<int>& device, const std::vector<int>& rank,
            double frees_from)
      : p_(problem),
        device_(device),
        rank_(rank),
        made_(made_by(problem)),
        missing_(problem.ops.size()),
        ready_(problem.devices.size()),
        waiting_(static_cast<size_t>(problem.queues)),
        device_free_(problem.devices.size(), true),
        queue_free_(static_cast<size_t>(problem.queues), true),
        frees_from_(frees_from) {
    if (frees_from < 1) held_.emplace(problem, device);
    s_.device = device;
    s_.start.assign(problem.ops.size(), 0);
  }

  PlacedSchedule run() {
    for (size_t o = 0; o < p_.ops.size(); ++o) {
      missing_[o] = static_cast<int>(p_.ops[o].reads.size());
      if (missing_[o] == 0) ready_[static_cast<size_t>(device_[o])].insert({rank_[o], static_cast<int>(o)});
    }
    serve();
    while (!events_.empty()) {
      now_ = events_.top().at;
      while (!events_.empty() && events_.top().at == now_) {
        const Event e = events_.top();
        events_.pop();
        e.transfer ? arrived(e.number) : made(e.number);
      }
      serve();
    }
    finish(s_, p_);
    return std::move(s_);
  }

 private:
  struct Event {
    int64_t at;
    bool transfer;
    int number;                             // operation, or of s_.transfers
    bool operator<(const Event& b) const {  // the earliest on top
      return std::tie(at, transfer, number) > std::tie(b.at, b.transfer, b.number);
    }
  };
  using Waiting = std::tuple<int64_t, int, int, int>;  // since, rank, value, to
  using Ready = std::pair<int, int>;                   // rank, operation

  void read(int op) {
    if (--missing_[static_cast<size_t>(op)] == 0)
      ready_[static_cast<size_t>(device_[static_cast<size_t>(op)])].insert({rank_[static_cast<size_t>(op)], op});
  }
  void made(int op) {
    const int home = device_[static_cast<size_t>(op)];
    if (held_) held_->end(op);
    device_free_[static_cast<size_t>(home)] = true;
    for (int v : made_[static_cast<size_t>(op)]) {
      for (int reader : p_.values[static_cast<size_t>(v)].readers)
        if (device_[static_cast<size_t>(reader)] == home || !p_.values[static_cast<size_t>(v)].moves()) read(reader);
      for (const Destination& d : destinations(p_, device_, rank_, v))
        waiting_[static_cast<size_t>(route_of(p_, home, d.to).queue)].push({now_, d.rank, v, d.to});
    }
  }
  void arrived(int transfer) {
    const PlacedTransfer& t = s_.transfers[static_cast<size_t>(transfer)];
    if (held_) held_->arrived(t.value, t.to);
    const PlacedValue& value = p_.values[static_cast<size_t>(t.value)];
    queue_free_[static_cast<size_t>(route_of(p_, device_[static_cast<size_t>(value.producer)], t.to).queue)] = true;
    for (int reader : value.readers)
      if (device_[static_cast<size_t>(reader)] == t.to) read(reader);
  }
  // Picks the next ready operation of a free device.
  std::set<Ready>::iterator next_on(size_t device) {
    std::set<Ready>& ready = ready_[device];
    const auto limit = frees_from_ * static_cast<double>(p_.devices[device].memory_bytes);
    if (!held_ || static_cast<double>(held_->bytes(static_cast<int>(device))) <= limit) return ready.begin();
    const auto frees =
        std::find_if(ready.begin(), ready.end(), [&](const Ready& r) { return held_->more_bytes(r.second) <= 0; });
    return frees == ready.end() ? ready.begin() : frees;
  }
  void serve() {
    for (size_t d = 0; d < ready_.size(); ++d)
      if (device_free_[d] && !ready_[d].empty()) {
        const auto next = next_on(d);
        const int op = next->second;
        ready_[d].erase(next);
        if (held_) held_->start(op);
        device_free_[d] = false;
        s_.start[static_cast<size_t>(op)] = now_;
        events_.push({now_ + op_ns(p_, op, static_cast<int>(d)), false, op});
      }
    for (size_t q = 0; q < waiting_.size(); ++q)
      if (queue_free_[q] && !waiting_[q].empty()) {
        const auto [since, rank, v, to] = waiting_[q].top();
        waiting_[q].pop();
        queue_free_[q] = false;
        const PlacedValue& value = p_.values[static_cast<size_t>(v)];
        const Route& route = route_of(p_, device_[static_cast<size_t>(value.producer)], to);
        events_.push({now_ + p_.transfer_ns(route, value.bytes), true, static_cast<int>(s_.transfers.size())});
        s_.transfers.push_back({v, to, now_});
        if (held_) held_->send(v, to);
      }
  }

  template <typename T>
  using Least = std::priority_queue<T, std::vector<T>, std::greater<>>;

  const PlacementProblem& p_;
  const std::vector<int>& device_;
  const std::vector<int>& rank_;
  const std::vector<std::vector<int>> made_;
  std::vector<int> missing_;
  std::vector<std::set<Ready>> ready_;
  std::vector<Least<Waiting>> waiting_;
  std::vector<char> device_free_, queue_free_;
  double frees_from_;
  std::optional<LiveMemory> held_;
  std::priority_queue<Event> events_;
  int64_t now_ = 0;
  PlacedSchedule s_;
};

}  // namespace

PlacedSchedule first_come(const PlacementProblem& problem, const std::vector<int>& device, const std::vector<int>& rank,
                          double frees_from) {
  return FirstCome(problem, device, rank, frees_from).run();
}

PlacedSchedule list_schedule(const PlacementProblem& problem, const std::vector<int>& device,
                             const std::vector<int>& order, bool gaps) {
  ListDecoder decoder(problem, gaps);
  decoder.decode(device, order);
  return decoder.schedule();
}

std::vector<int64_t> tails(const PlacementProblem& p, const std::vector<int>& device) {
  const std::vector<std::vector<int>> made = made_by(p);
  std::vector<int64_t> tail(p.ops.size(), 0);
  for (size_t o = p.ops.size(); o-- > 0;) {
    int64_t after = 0;
    for (int v : made[o]) {
      const PlacedValue& value = p.values[static_cast<size_t>(v)];
      for (int reader : value.readers) {
        const int to = device[static_cast<size_t>(reader)];
        const int64_t crossing_ns =
            to == device[o] || !value.moves() ? 0 : p.transfer_ns(route_of(p, device[o], to), value.bytes);
        after = std::max(after, crossing_ns + tail[static_cast<size_t>(reader)]);
      }
    }
    tail[o] = after + op_ns(p, static_cast<int>(o), device[o]);
  }
  return tail;
}

std::vector<int> critical_ranks(const PlacementProblem& p, const std::vector<int>& device) {
  const std::vector<int64_t> tail = tails(p, device);
  std::vector<int> order(p.ops.size()), rank(p.ops.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return tail[static_cast<size_t>(a)] > tail[static_cast<size_t>(b)]; });
  for (size_t i = 0; i < order.size(); ++i) rank[static_cast<size_t>(order[i])] = static_cast<int>(i);
  return rank;
}

std::vector<int> by_rank(const std::vector<int>& rank) {
  std::vector<int> order(rank.size());
  for (size_t o = 0; o < rank.size(); ++o) order[static_cast<size_t>(rank[o])] = static_cast<int>(o);
  return order;
}

PlacedSchedule by_tails(const PlacementProblem& problem, const std::vector<int>& device) {
  return list_schedule(problem, device, by_rank(critical_ranks(problem, device)), true);
}

PlacedSchedule pushed_left(const PlacementProblem& p, const PlacedSchedule& given) {
  PlacedSchedule s = given;
  using Item = std::tuple<int64_t, bool, int>;  // start, transfer, number
  std::vector<Item> items;
  for (size_t o = 0; o < p.ops.size(); ++o) items.emplace_back(given.start[o], false, static_cast<int>(o));
  for (size_t t = 0; t < given.transfers.size(); ++t)
    items.emplace_back(given.transfers[t].start, true, static_cast<int>(t));
  std::sort(items.begin(), items.end());
  std::vector<int64_t> device_free(p.devices.size(), 0), queue_free(static_cast<size_t>(p.queues), 0),
      end(p.ops.size());
  std::vector<std::vector<std::pair<int, int64_t>>> came(p.values.size());
  for (const auto& [start, transfer, number] : items) {
    if (transfer) {
      PlacedTransfer& t = s.transfers[static_cast<size_t>(number)];
      const PlacedValue& value = p.values[static_cast<size_t>(t.value)];
      const Route& route = route_of(p, s.device[static_cast<size_t>(value.producer)], t.to);
      int64_t& free = queue_free[static_cast<size_t>(route.queue)];
      t.start = std::max(free, end[static_cast<size_t>(value.producer)]);
      free = t.start + p.transfer_ns(route, value.bytes);
      came[static_cast<size_t>(t.value)].push_back({t.to, free});
      continue;
    }
    const auto o = static_cast<size_t>(number);
    int64_t& free = device_free[static_cast<size_t>(s.device[o])];
    s.start[o] = free;
    for (int v : p.ops[o].reads) {
      const auto producer = static_cast<size_t>(p.values[static_cast<size_t>(v)].producer);
      if (s.device[producer] == s.device[o] || !p.values[static_cast<size_t>(v)].moves())
        s.start[o] = std::max(s.start[o], end[producer]);
      for (const auto& [to, at] : came[static_cast<size_t>(v)])
        if (to == s.device[o]) s.start[o] = std::max(s.start[o], at);
    }
    end[o] = free = s.start[o] + op_ns(p, number, s.device[o]);
  }
  finish(s, p);
  return s;
}

}  // namespace partita
