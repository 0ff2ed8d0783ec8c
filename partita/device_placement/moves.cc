// Draws moves, and takes them back.
#include "partita/device_placement/moves.h"

#include <algorithm>
#include <map>
#include <queue>

#include "partita/device_placement/coarsen.h"
#include "partita/device_placement/decode.h"
#include "partita/device_placement/justify.h"

namespace partita {

namespace {

constexpr double kLeastWeight = 0.02, kForgets = 0.02;  // of a kind of move: the least weight, and the share of its
                                                        // past that each try forgets

// Small numbers as often as large ones: 1 .. most.
size_t drawn_size(size_t most, Rng& rng) {
  size_t bits = 0;
  while ((size_t{2} << bits) <= most) ++bits;
  const size_t base = size_t{1} << rng.below(bits + 1);
  return std::min(most, base + rng.below(base));
}

}  // namespace

Moves::Moves(const PlacementProblem& problem, const PlacedSchedule& start)
    : p_(problem),
      units_(placement_units(problem)),
      unit_(unit_of_op(problem, units_)),
      made_(made_by(problem)),
      device_(start.device),
      order_(order_of(start)) {
  int64_t until = 0;
  for (size_t u = 0; u < units_.size(); ++u) {
    if (units_[u].devices.size() < 2) continue;
    movable_.push_back(static_cast<int>(u));
    until += work_ns(static_cast<int>(u), at(static_cast<int>(u)));
    until_ns_.push_back(until);
  }
  find_neighbours();
  find_alike();
  for (const PlacedDevice& d : p_.devices) left_.push_back(d.memory_bytes);
  load_.assign(p_.devices.size(), 0);
  for (size_t u = 0; u < units_.size(); ++u) {
    const int d = at(static_cast<int>(u));
    left_[static_cast<size_t>(d)] -= units_[u].bytes;
    load_[static_cast<size_t>(d)] += work_ns(static_cast<int>(u), d);
  }
  weight_.fill(1);
  mark_.assign(units_.size(), 0);
}

void Moves::find_neighbours() {
  neighbours_.resize(units_.size());
  std::map<std::pair<int, int>, int64_t> bytes;
  for (const PlacedValue& value : p_.values)
    for (int reader : value.readers) {
      const int a = unit_[static_cast<size_t>(value.producer)], b = unit_[static_cast<size_t>(reader)];
      // A value that many read crosses once for all of them.
      if (a != b && value.moves()) bytes[std::minmax(a, b)] += value.bytes / static_cast<int64_t>(value.readers.size());
    }
  for (const auto& [pair, exchanged] : bytes)
    for (const auto& [unit, other] : {pair, std::pair(pair.second, pair.first)})
      if (units_[static_cast<size_t>(other)].devices.size() > 1)
        neighbours_[static_cast<size_t>(unit)].emplace_back(exchanged, other);
  for (auto& list : neighbours_) std::sort(list.rbegin(), list.rend());
}

void Moves::find_alike() {
  std::map<std::vector<int64_t>, std::vector<int>> alike;
  for (int u : movable_) {
    std::vector<int64_t> times;
    for (int o : units_[static_cast<size_t>(u)].ops)
      times.insert(times.end(), p_.ops[static_cast<size_t>(o)].ns.begin(), p_.ops[static_cast<size_t>(o)].ns.end());
    alike[times].push_back(u);
  }
  place_alike_.assign(units_.size(), {-1, -1});
  for (auto& [times, units] : alike) {
    for (size_t i = 0; i < units.size(); ++i)
      place_alike_[static_cast<size_t>(units[i])] = {static_cast<int>(alike_.size()), static_cast<int>(i)};
    alike_.push_back(std::move(units));
  }
}

int64_t Moves::work_ns(int unit, int device) const {
  int64_t ns = 0;
  for (int o : units_[static_cast<size_t>(unit)].ops)
    ns += p_.ops[static_cast<size_t>(o)].ns[static_cast<size_t>(device)];
  return ns;
}

int64_t Moves::most_work_ns() const { return *std::max_element(load_.begin(), load_.end()); }

int64_t Moves::lacking() const { return std::max<int64_t>(0, -*std::min_element(left_.begin(), left_.end())); }

int Moves::any_unit(Rng& rng) const {
  if (rng.below(2) == 0) return movable_[rng.below(movable_.size())];
  const auto drawn = static_cast<int64_t>(rng.below(static_cast<uint64_t>(until_ns_.back())));
  return movable_[static_cast<size_t>(std::upper_bound(until_ns_.begin(), until_ns_.end(), drawn) - until_ns_.begin())];
}

int Moves::other_device(int unit, Rng& rng) const {
  const std::vector<int>& devices = units_[static_cast<size_t>(unit)].devices;
  const int d = devices[rng.below(devices.size() - 1)];
  return d == at(unit) ? devices.back() : d;
}

bool Moves::put(int unit, int device) {
  const int from = at(unit);
  const PlacementUnit& u = units_[static_cast<size_t>(unit)];
  if (from == device || std::find(u.devices.begin(), u.devices.end(), device) == u.devices.end()) return from == device;
  moved_.emplace_back(unit, from);
  left_[static_cast<size_t>(from)] += u.bytes;
  left_[static_cast<size_t>(device)] -= u.bytes;
  load_[static_cast<size_t>(from)] -= work_ns(unit, from);
  load_[static_cast<size_t>(device)] += work_ns(unit, device);
  for (int o : u.ops) device_[static_cast<size_t>(o)] = device;
  return true;
}

Moves::Kind Moves::draw_kind(Rng& rng) const {
  constexpr uint64_t kSteps = 1 << 20;
  double all = 0;
  for (double w : weight_) all += w;
  double drawn = all * static_cast<double>(rng.below(kSteps)) / static_cast<double>(kSteps);
  for (int k = 0; k + 1 < kKinds; ++k) {
    drawn -= weight_[static_cast<size_t>(k)];
    if (drawn < 0) return static_cast<Kind>(k);
  }
  return kByLatest;
}

bool Moves::change(Rng& rng) {
  moved_.clear();
  order_before_.clear();
  const int64_t lacked = lacking();
  kind_ = movable_.empty() ? kInOrder : draw_kind(rng);
  if (apply(kind_, rng) && lacking() <= lacked) return true;
  take_back();
  return false;
}

bool Moves::apply(Kind kind, Rng& rng) {
  if (kind == kInOrder) return move_in_order(rng);
  if (kind == kByTail || kind == kByLatest) {
    order_before_ = order_;
    order_ = kind == kByTail ? by_rank(critical_ranks(p_, device_)) : by_latest_start(p_, made_, device_, order_);
    return order_ != order_before_;
  }
  const int unit = any_unit(rng), from = at(unit), to = other_device(unit, rng);
  if (kind == kAlike) return move_alike(unit, to, rng);
  if (kind == kCluster) return move_cluster(unit, to, rng);
  if (kind == kWindow) return move_window(unit, to, rng);
  if (!put(unit, to)) return false;
  if (kind == kNearest) {
    const auto& near = neighbours_[static_cast<size_t>(unit)];
    return !near.empty() && put(near[0].second, to);
  }
  if (kind == kExchange) {
    const int other = any_unit(rng);
    return other != unit && at(other) == to && put(other, from);
  }
  return true;
}

// Moves a drawn number of alike units, from the unit on or up to it.
bool Moves::move_alike(int unit, int to, Rng& rng) {
  const auto [list, place] = place_alike_[static_cast<size_t>(unit)];
  const std::vector<int>& alike = alike_[static_cast<size_t>(list)];
  if (alike.size() < 2) return false;
  const int from = at(unit), step = rng.below(2) == 0 ? 1 : -1;
  size_t left = drawn_size(alike.size(), rng);
  for (int i = place; i >= 0 && i < static_cast<int>(alike.size()) && left > 0; i += step)
    if (at(alike[static_cast<size_t>(i)]) == from && put(alike[static_cast<size_t>(i)], to)) --left;
  return moved_.size() > 1;
}

bool Moves::move_cluster(int unit, int to, Rng& rng) {
  const int from = at(unit);
  size_t left = drawn_size(std::max<size_t>(2, movable_.size() / 2), rng);
  std::priority_queue<std::pair<int64_t, int>> next;
  next.emplace(0, unit);
  mark_[static_cast<size_t>(unit)] = ++clusters_;
  for (; !next.empty() && left > 0; --left) {
    const int u = next.top().second;
    next.pop();
    put(u, to);
    for (const auto& [bytes, other] : neighbours_[static_cast<size_t>(u)]) {
      int& mark = mark_[static_cast<size_t>(other)];
      if (mark == clusters_ || at(other) != from) continue;
      mark = clusters_;
      next.emplace(bytes, other);
    }
  }
  return moved_.size() > 1;
}

// Moves the operations behind the unit in the order, on its device.
bool Moves::move_window(int unit, int to, Rng& rng) {
  const int from = at(unit), first = units_[static_cast<size_t>(unit)].ops.back();
  const auto begin = std::find(order_.begin(), order_.end(), first);
  const size_t length = drawn_size(order_.size() / 2 + 1, rng);
  const auto end =
      begin + static_cast<std::ptrdiff_t>(std::min<size_t>(length, static_cast<size_t>(order_.end() - begin)));
  for (auto o = begin; o != end; ++o)
    if (device_[static_cast<size_t>(*o)] == from) put(unit_[static_cast<size_t>(*o)], to);
  return moved_.size() > 1;
}

bool Moves::follows(int a, int b) const {
  const std::vector<int>& made = made_[static_cast<size_t>(a)];
  return std::any_of(made.begin(), made.end(), [&](int v) {
    const std::vector<int>& readers = p_.values[static_cast<size_t>(v)].readers;
    return std::find(readers.begin(), readers.end(), b) != readers.end();
  });
}

bool Moves::move_in_order(Rng& rng) {
  constexpr size_t kFarthest = 64;
  const size_t n = order_.size(), from = rng.below(n);
  const int op = order_[from];
  size_t first = from, last = from;
  const bool later = rng.below(2) == 0;
  if (later)
    while (last + 1 < n && last - from < kFarthest && !follows(op, order_[last + 1])) ++last;
  else
    while (first > 0 && from - first < kFarthest && !follows(order_[first - 1], op)) --first;
  if (first == last) return false;
  order_before_ = order_;
  const size_t to = later ? from + 1 + rng.below(last - from) : first + rng.below(from - first);
  const auto place = [&](size_t i) { return order_.begin() + static_cast<std::ptrdiff_t>(i); };
  if (to > from) std::rotate(place(from), place(from + 1), place(to + 1));
  else std::rotate(place(to), place(from), place(from + 1));
  return true;
}

void Moves::keep(bool shorter) {
  double& weight = weight_[static_cast<size_t>(kind_)];
  weight = std::max(kLeastWeight, (1 - kForgets) * weight + (shorter ? kForgets : 0));
}

void Moves::take_back() {
  for (size_t i = moved_.size(); i-- > 0;) {
    const auto [unit, from] = moved_[i];
    const PlacementUnit& u = units_[static_cast<size_t>(unit)];
    const int now = at(unit);
    left_[static_cast<size_t>(now)] += u.bytes;
    left_[static_cast<size_t>(from)] -= u.bytes;
    load_[static_cast<size_t>(now)] -= work_ns(unit, now);
    load_[static_cast<size_t>(from)] += work_ns(unit, from);
    for (int o : u.ops) device_[static_cast<size_t>(o)] = from;
  }
  if (!order_before_.empty()) order_ = order_before_;
  keep(false);
}

}  // namespace partita
