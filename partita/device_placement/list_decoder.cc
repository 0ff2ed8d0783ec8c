// Implements the list decoder: fills the queues operation by operation.
#include "partita/device_placement/list_decoder.h"

#include <algorithm>
#include <tuple>

#include "partita/base/error.h"

namespace partita {

int64_t Timeline::earliest(int64_t from, int64_t ns, bool gaps) const {
  if (busy_.empty() || from >= busy_.back().second) return from;
  if (!gaps) return busy_.back().second;
  auto next = std::upper_bound(busy_.begin(), busy_.end(), from, [](int64_t t, const auto& b) { return t < b.second; });
  for (; next != busy_.end() && next->first < from + ns; ++next) from = std::max(from, next->second);
  return from;
}

void Timeline::take(int64_t start, int64_t ns) {
  if (busy_.empty() || start > busy_.back().second) {
    busy_.emplace_back(start, start + ns);
    return;
  }
  if (start == busy_.back().second) {
    busy_.back().second = start + ns;
    return;
  }
  auto next = std::upper_bound(busy_.begin(), busy_.end(), start, [](int64_t t, const auto& b) { return t < b.first; });
  const bool joins_before = next != busy_.begin() && std::prev(next)->second == start;
  const bool joins_after = next != busy_.end() && next->first == start + ns;
  if (joins_before && joins_after) {
    std::prev(next)->second = next->second;
    busy_.erase(next);
  } else if (joins_before) {
    std::prev(next)->second = start + ns;
  } else if (joins_after) {
    next->first = start;
  } else {
    busy_.insert(next, {start, start + ns});
  }
}

ListDecoder::ListDecoder(const PlacementProblem& problem, bool gaps)
    : p_(problem), gaps_(gaps), devices_(static_cast<int>(problem.devices.size())) {
  const size_t n = p_.ops.size(), m = p_.values.size(), d = p_.devices.size();
  first_read_.push_back(0);
  for (const PlacedOp& op : p_.ops) {
    ns_.insert(ns_.end(), op.ns.begin(), op.ns.end());
    reads_.insert(reads_.end(), op.reads.begin(), op.reads.end());
    first_read_.push_back(static_cast<int>(reads_.size()));
  }
  for (const PlacedValue& value : p_.values) producer_.push_back(value.producer);
  std::vector<const Route*> routes;  // one of each class
  for (const std::vector<Route>& row : p_.routes)
    for (const Route& route : row) {
      if (route.queue < 0) {
        route_class_.push_back(-1);
        continue;
      }
      Route alike = route;
      const auto known = std::find_if(routes.begin(), routes.end(), [&](const Route* w) {
        alike.queue = w->queue;
        return *w == alike;
      });
      route_class_.push_back(static_cast<int>(known - routes.begin()));
      if (known == routes.end()) routes.push_back(&route);
    }
  classes_ = static_cast<int>(routes.size());
  for (const PlacedValue& value : p_.values)
    for (const Route* route : routes) transfer_ns_.push_back(value.moves() ? p_.transfer_ns(*route, value.bytes) : -1);
  behind_.assign(n, 0);
  for (size_t o = n; o-- > 0;) {
    const int64_t least = least_ns(p_.ops[o]);
    for (int v : p_.ops[o].reads) {
      int64_t& of_producer = behind_[static_cast<size_t>(p_.values[static_cast<size_t>(v)].producer)];
      of_producer = std::max(of_producer, least + behind_[o]);
    }
  }
  s_.start.resize(n);
  ends_.resize(n);
  came_.resize(m * d);
  on_.resize(d);
  queues_.resize(static_cast<size_t>(p_.queues));
}

void ListDecoder::prepare(const std::vector<int>& device) {
  s_.device = device;
  std::fill(came_.begin(), came_.end(), -1);
  std::fill(ends_.begin(), ends_.end(), -1);
  for (Timeline& t : on_) t.clear();
  for (Timeline& t : queues_) t.clear();
  s_.transfers.clear();
  s_.end = 0;
}

std::optional<int64_t> ListDecoder::decode(const std::vector<int>& device, const std::vector<int>& order,
                                           int64_t limit) {
  prepare(device);
  for (int op : order) {
    const int64_t end = add(op);
    if (end + behind_[static_cast<size_t>(op)] > limit) return std::nullopt;
    s_.end = std::max(s_.end, end);
  }
  return s_.end <= limit ? std::optional(s_.end) : std::nullopt;
}

int64_t ListDecoder::way_ns(int value, int from, int to) const {
  const int c = route_class_[static_cast<size_t>(from) * static_cast<size_t>(devices_) + static_cast<size_t>(to)];
  ensure(c >= 0, "there is no way from '{}' to '{}'", p_.devices[static_cast<size_t>(from)].name,
         p_.devices[static_cast<size_t>(to)].name);
  return transfer_ns_[static_cast<size_t>(value) * static_cast<size_t>(classes_) + static_cast<size_t>(c)];
}

int64_t ListDecoder::send(int value, int from, int to, int64_t made) {
  const int64_t ns = way_ns(value, from, to);
  Timeline& queue = queues_[static_cast<size_t>(p_.routes[static_cast<size_t>(from)][static_cast<size_t>(to)].queue)];
  const int64_t start = queue.earliest(made, ns, gaps_), there = start + ns;
  queue.take(start, ns);
  s_.transfers.push_back({value, to, start});
  came_[static_cast<size_t>(value) * static_cast<size_t>(devices_) + static_cast<size_t>(to)] = there;
  s_.end = std::max(s_.end, there);
  return there;
}

int64_t ListDecoder::add(int op) {
  const auto o = static_cast<size_t>(op);
  const int home = s_.device[o];
  const int64_t ns = ns_[o * static_cast<size_t>(devices_) + static_cast<size_t>(home)];
  ensure(ns > 0, "op '{}' is placed where it cannot run", p_.ops[o].name);
  int64_t ready = 0;
  missing_.clear();
  for (int k = first_read_[o]; k < first_read_[o + 1]; ++k) {
    const int v = reads_[static_cast<size_t>(k)];
    const auto producer = static_cast<size_t>(producer_[static_cast<size_t>(v)]);
    const int64_t made = ends_[producer];
    ensure(made >= 0, "op '{}' is taken before '{}', which it reads", p_.ops[o].name, p_.ops[producer].name);
    const bool crosses = s_.device[producer] != home && p_.values[static_cast<size_t>(v)].moves();
    const int64_t there =
        crosses ? came_[static_cast<size_t>(v) * static_cast<size_t>(devices_) + static_cast<size_t>(home)] : made;
    if (there >= 0) ready = std::max(ready, there);
    else missing_.emplace_back(made, v);
  }
  if (missing_.size() > 1) std::sort(missing_.begin(), missing_.end());  // values made first are sent first
  for (const auto& [made, v] : missing_)
    ready = std::max(ready, send(v, s_.device[static_cast<size_t>(producer_[static_cast<size_t>(v)])], home, made));
  Timeline& on = on_[static_cast<size_t>(home)];
  s_.start[o] = on.earliest(ready, ns, gaps_);
  on.take(s_.start[o], ns);
  return ends_[o] = s_.start[o] + ns;
}

PlacedSchedule ListDecoder::schedule() const {
  PlacedSchedule s = s_;
  sort_by_start(s.transfers);
  return s;
}

}  // namespace partita
