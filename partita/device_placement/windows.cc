// Computes heads and tails, and narrows devices by them.
#include "partita/device_placement/windows.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "partita/base/error.h"

namespace partita {

namespace {

constexpr size_t kMostSets = 64;          // of devices or queues that share work
constexpr size_t kMostClosedOften = 512;  // operations, with the work of all before and after in each round
constexpr size_t kThresholds = 24;        // of heads, from which a device's first operations are looked at

bool has(uint64_t set, size_t d) { return (set >> d) & 1; }

// The most, over taken places, of a place's own number and all taken there or behind.
class Most {
 public:
  explicit Most(const std::vector<int64_t>& own) {
    while (size_ < own.size()) size_ *= 2;
    most_.assign(2 * size_, INT64_MIN / 2);
    more_.assign(2 * size_, 0);
    for (size_t i = 0; i < own.size(); ++i) most_[size_ + i] = own[i] - kNotTaken;
    for (size_t i = size_ - 1; i > 0; --i) most_[i] = std::max(most_[2 * i], most_[2 * i + 1]);
  }
  void take(size_t place, int64_t number) {
    // Whole subtrees left of the way from the leaf to the root, and the leaf.
    size_t at = size_ + place;
    most_[at] += number + kNotTaken;
    for (; at > 1; at /= 2) {
      if (at % 2 == 1) {
        most_[at - 1] += number;
        more_[at - 1] += number;
      }
      most_[at / 2] = std::max(most_[at / 2 * 2], most_[at / 2 * 2 + 1]) + more_[at / 2];
    }
  }
  int64_t most() const { return most_[1]; }

 private:
  static constexpr int64_t kNotTaken = INT64_MAX / 4;
  size_t size_ = 1;
  std::vector<int64_t> most_, more_;
};

// The least over how many devices are used of the work and those devices' idle time, shared out.
int64_t shared_out_with_idle(int64_t work, std::vector<int64_t>& idle) {
  std::sort(idle.begin(), idle.end());
  int64_t least = INT64_MAX;
  for (size_t k = 0; k < idle.size(); ++k) {
    work += idle[k];
    const auto devices = static_cast<int64_t>(k) + 1;
    least = std::min(least, (work + devices - 1) / devices);
  }
  return least;
}

}  // namespace

int64_t shared_out_ns(std::vector<WindowItem> items, int machines) {
  if (items.empty()) return 0;
  std::sort(items.begin(), items.end(), [](const WindowItem& a, const WindowItem& b) { return a.tail < b.tail; });
  std::vector<int64_t> own;
  for (const WindowItem& item : items) own.push_back(item.tail * machines);
  std::vector<size_t> by_head(items.size());
  std::iota(by_head.begin(), by_head.end(), size_t{0});
  std::sort(by_head.begin(), by_head.end(), [&](size_t a, size_t b) { return items[a].head > items[b].head; });
  Most work(own);
  int64_t most = 0;
  for (size_t i : by_head) {
    work.take(i, items[i].ns);
    most = std::max(most, items[i].head * machines + work.most());
  }
  return (most + machines - 1) / machines;
}

PlacementWindows::PlacementWindows(const PlacementProblem& problem)
    : p_(problem),
      devices_(problem.devices.size()),
      in_(problem.ops.size()),
      out_(problem.ops.size()),
      head_(problem.ops.size() * devices_, 0),
      tail_(problem.ops.size() * devices_, 0),
      can_run_(problem.ops.size(), 0) {
  ensure(devices_ <= kMostDevices, "windows of {} devices, more than {}", devices_, kMostDevices);
  for (size_t o = 0; o < p_.ops.size(); ++o)
    for (size_t d = 0; d < devices_; ++d) can_run_[o] |= static_cast<uint64_t>(ns(o, d) > 0) << d;
  std::map<std::pair<int, int>, int> known;
  for (const PlacedValue& value : p_.values)
    for (int reader : value.readers) {
      const auto [at, is_new] = known.try_emplace({value.producer, reader}, static_cast<int>(edges_.size()));
      if (is_new) {
        edges_.push_back({value.producer, reader, false, costs_.size()});
        costs_.resize(costs_.size() + devices_ * devices_, 0);
        in_[static_cast<size_t>(reader)].push_back(at->second);
        out_[static_cast<size_t>(value.producer)].push_back(at->second);
      }
      if (!value.moves()) continue;
      Edge& edge = edges_[static_cast<size_t>(at->second)];
      edge.moves = true;
      for (size_t a = 0; a < devices_; ++a)
        for (size_t b = 0; b < devices_; ++b) {
          int64_t& cost = costs_[edge.cost + a * devices_ + b];
          if (a == b) continue;
          cost = p_.routes[a][b].queue < 0 ? kNever
                                           : std::min(kNever, cost + p_.transfer_ns(p_.routes[a][b], value.bytes));
        }
    }
  close();
}

void PlacementWindows::close() {
  const size_t n = p_.ops.size();
  if (n > kMostClosed) return;
  words_ = (n + 63) / 64;
  before_.assign(n * words_, 0);
  after_.assign(n * words_, 0);
  on_.assign(devices_, 0);
  const auto add = [&](std::vector<uint64_t>& sets, size_t to, size_t from) {
    sets[to * words_ + from / 64] |= uint64_t{1} << (from % 64);
    for (size_t w = 0; w < words_; ++w) sets[to * words_ + w] |= sets[from * words_ + w];
  };
  for (size_t o = 0; o < n; ++o)
    for (int e : in_[o]) add(before_, o, static_cast<size_t>(edges_[static_cast<size_t>(e)].from));
  for (size_t o = n; o-- > 0;)
    for (int e : out_[o]) add(after_, o, static_cast<size_t>(edges_[static_cast<size_t>(e)].to));
}

// Raises the head to the end of all work before it: on its devices together, and on each device of work that is there
// for sure.
void PlacementWindows::raise(const PlacementState& state, size_t op, bool heads) {
  const uint64_t* others = (heads ? before_ : after_).data() + op * words_;
  const int machines = std::popcount(can_run_[op]);
  std::fill(on_.begin(), on_.end(), 0);
  int64_t work = 0, most = 0;
  for (size_t k = found_.size(); k-- > 0;) {
    const auto [from, other] = found_[k];
    if (!has(others[other / 64], other % 64)) continue;
    const uint64_t runs = state.runs[other];
    int64_t took = kNever;
    for (uint64_t left = runs; left; left &= left - 1)
      took = std::min(took, ns(other, static_cast<size_t>(std::countr_zero(left))));
    if ((runs & ~can_run_[op]) == 0) {
      work += took;
      most = std::max(most, from + (work + machines - 1) / machines);
    }
    if (std::has_single_bit(runs)) {
      int64_t& on = on_[static_cast<size_t>(std::countr_zero(runs))];
      on += took;
      most = std::max(most, from + on);
    }
  }
  std::vector<int64_t>& of = heads ? head_ : tail_;
  int64_t least = kNever;
  for (size_t d = 0; d < devices_; ++d) {
    int64_t& found = of[op * devices_ + d];
    found = std::max(found, most);
    least = std::min(least, found);
  }
  const std::pair<int64_t, size_t> at{least, op};
  found_.insert(std::upper_bound(found_.begin(), found_.end(), at), at);
}

PlacementState PlacementWindows::start() const {
  PlacementState state{can_run_, {}};
  std::map<int, int> of_group;
  for (size_t o = 0; o < p_.ops.size(); ++o) {
    const int group = p_.ops[o].group, op = static_cast<int>(o);
    state.parent.push_back(group < 0 ? op : of_group.try_emplace(group, op).first->second);
  }
  bool changed = false;
  agree(state, changed);
  return state;
}

// Heads follow from predecessors, in the framework's order; tails from successors, in reverse.
bool PlacementWindows::find(const PlacementState& state, bool closed) {
  class_.resize(p_.ops.size());
  for (size_t o = 0; o < p_.ops.size(); ++o) class_[o] = state.first_of(static_cast<int>(o));
  found_.clear();
  for (size_t o = 0; o < p_.ops.size(); ++o) {
    if (!find_one(state, o, true)) return false;
    if (closed && words_ > 0) raise(state, o, true);
  }
  found_.clear();
  for (size_t o = p_.ops.size(); o-- > 0;) {
    if (!find_one(state, o, false)) return false;
    if (closed && words_ > 0) raise(state, o, false);
  }
  return true;
}

bool PlacementWindows::find_one(const PlacementState& state, size_t op, bool heads) {
  std::vector<int64_t>& of = heads ? head_ : tail_;
  bool possible = false;
  for (size_t d = 0; d < devices_; ++d) {
    int64_t& found = of[op * devices_ + d];
    found = kNever;
    if (!has(state.runs[op], d)) continue;
    int64_t least = 0;
    choices_.clear();
    here_.clear();
    for (int number : heads ? in_[op] : out_[op]) {
      const Edge& e = edges_[static_cast<size_t>(number)];
      const auto other = static_cast<size_t>(heads ? e.from : e.to);
      const bool together = class_[other] == class_[op];
      int64_t away = kNever;
      for (size_t at = 0; at < devices_ && !together; ++at)
        if (has(state.runs[other], at) && (at != d || !e.moves)) {
          const int64_t way = !e.moves ? 0 : heads ? cost(e, at, d) : cost(e, d, at);
          away = std::min(away, of[other * devices_ + at] + ns(other, at) + way);
        }
      const int64_t start = has(state.runs[other], d) ? of[other * devices_ + d] : kNever;
      const int64_t end = start >= kNever ? kNever : start + ns(other, d);
      least = std::max(least, std::min(away, end));
      if (end >= kNever || away <= end) continue;
      if (away >= kNever) here_.emplace_back(start, ns(other, d));
      else choices_.push_back({away, start, ns(other, d)});
    }
    if (least >= kNever) continue;
    // The values that would come last from other devices have producers here first.
    std::sort(choices_.begin(), choices_.end(), [](const Choice& a, const Choice& b) { return a.away > b.away; });
    const auto finished = [&] {
      std::sort(here_.begin(), here_.end());
      int64_t end = 0;
      for (const auto& [start, took] : here_) end = std::max(end, start) + took;
      return end;
    };
    int64_t here = finished(), best = kNever;
    for (size_t k = 0;; ++k) {
      const int64_t away = k < choices_.size() ? choices_[k].away : 0;
      best = std::min(best, std::max(here, away));
      if (here >= away) break;
      here_.emplace_back(choices_[k].start, choices_[k].ns);
      here = finished();
    }
    found = std::max(least, best);
    possible = true;
  }
  return possible;
}

int64_t PlacementWindows::path_ns(const PlacementState& state) const {
  int64_t longest = 0;
  for (size_t o = 0; o < p_.ops.size(); ++o) {
    int64_t least = kNever;
    for (size_t d = 0; d < devices_; ++d)
      if (has(state.runs[o], d)) least = std::min(least, head(o, d) + ns(o, d) + tail(o, d));
    longest = std::max(longest, least);
  }
  return longest;
}

namespace {

// The most of any set: items of a set and its subsets are shared out over it. Two sets without a common member are each
// as large as both.
int64_t most_of_sets(const std::map<uint64_t, std::vector<WindowItem>>& items) {
  std::vector<uint64_t> sets;
  for (const auto& [set, of] : items) sets.push_back(set);
  for (size_t i = 0; i < sets.size(); ++i)
    for (size_t k = 0; k < i && sets.size() < kMostSets; ++k)
      if (const uint64_t both = sets[i] | sets[k];
          (sets[i] & sets[k]) && std::find(sets.begin(), sets.end(), both) == sets.end())
        sets.push_back(both);
  int64_t most = 0;
  for (uint64_t set : sets) {
    std::vector<WindowItem> inside;
    for (const auto& [part, of] : items)
      if ((part & ~set) == 0) inside.insert(inside.end(), of.begin(), of.end());
    most = std::max(most, shared_out_ns(std::move(inside), std::popcount(set)));
  }
  return most;
}

}  // namespace

// Its least head, time and tail over devices.
WindowItem PlacementWindows::least_item(const PlacementState& state, size_t op) const {
  WindowItem item{kNever, kNever, kNever};
  for (size_t d = 0; d < devices_; ++d) {
    if (!has(state.runs[op], d)) continue;
    item.head = std::min(item.head, head(op, d));
    item.ns = std::min(item.ns, ns(op, d));
    item.tail = std::min(item.tail, tail(op, d));
  }
  return item;
}

int64_t PlacementWindows::work_ns(const PlacementState& state) const {
  std::map<uint64_t, std::vector<WindowItem>> items;
  for (size_t o = 0; o < p_.ops.size(); ++o) items[state.runs[o]].push_back(least_item(state, o));
  return most_of_sets(items);
}

// A device begins with none of a set's operations before their least head there. The least of their tails passes after
// the last of them. So used devices have the work and these: the most over thresholds.
int64_t PlacementWindows::begun_and_ended_ns(const PlacementState& state) const {
  struct Timed {
    size_t op;
    WindowItem least;
  };
  std::vector<Timed> items;
  std::vector<int64_t> thresholds, first(devices_), last(devices_), idle;
  for (size_t o = 0; o < p_.ops.size(); ++o) {
    if (std::has_single_bit(can_run_[o])) continue;
    items.push_back({o, least_item(state, o)});
    thresholds.push_back(items.back().least.head);
  }
  std::sort(items.begin(), items.end(), [](const Timed& a, const Timed& b) { return a.least.tail > b.least.tail; });
  std::sort(thresholds.begin(), thresholds.end());
  thresholds.erase(std::unique(thresholds.begin(), thresholds.end()), thresholds.end());
  int64_t most = 0;
  const size_t step = std::max<size_t>(1, thresholds.size() / kThresholds);
  for (size_t i = 0; i < thresholds.size(); i += step) {
    std::fill(first.begin(), first.end(), kNever);
    std::fill(last.begin(), last.end(), kNever);
    int64_t work = 0;
    for (const auto& [op, least] : items) {
      if (least.head < thresholds[i]) continue;
      work += least.ns;
      idle.clear();
      for (size_t d = 0; d < devices_; ++d) {
        if (has(state.runs[op], d)) {
          first[d] = std::min(first[d], head(op, d));
          last[d] = std::min(last[d], tail(op, d));
        }
        if (first[d] < kNever) idle.push_back(first[d] + last[d]);
      }
      most = std::max(most, shared_out_with_idle(work, idle));
    }
  }
  return most;
}

// A value crosses to each of the readers that can be neither with its producer nor with one another.
int64_t PlacementWindows::crossings_ns(const PlacementState& state) const {
  if (p_.queues > 64) return 0;
  std::map<uint64_t, std::vector<WindowItem>> items;
  struct Way {
    uint64_t to = 0, queues = 0;
    WindowItem item;
  };
  std::vector<Way> ways;
  for (const PlacedValue& value : p_.values) {
    if (!value.moves()) continue;
    const auto from = static_cast<size_t>(value.producer);
    ways.clear();
    for (int reader : value.readers) {
      const auto to = static_cast<size_t>(reader);
      if (state.runs[from] & state.runs[to]) continue;
      Way way{state.runs[to], 0, {kNever, kNever, kNever}};
      for (size_t a = 0; a < devices_; ++a)
        for (size_t b = 0; b < devices_; ++b) {
          if (!has(state.runs[from], a) || !has(state.runs[to], b) || p_.routes[a][b].queue < 0) continue;
          way.queues |= uint64_t{1} << p_.routes[a][b].queue;
          way.item.head = std::min(way.item.head, head(from, a) + ns(from, a));
          way.item.ns = std::min(way.item.ns, p_.transfer_ns(p_.routes[a][b], value.bytes));
          way.item.tail = std::min(way.item.tail, ns(to, b) + tail(to, b));
        }
      ways.push_back(way);
    }
    std::sort(ways.begin(), ways.end(), [](const Way& a, const Way& b) { return a.item.tail > b.item.tail; });
    uint64_t counted = 0;
    for (const Way& way : ways) {
      if (way.queues == 0 || (counted & way.to)) continue;
      counted |= way.to;
      items[way.queues].push_back(way.item);
    }
  }
  return items.empty() ? 0 : most_of_sets(items);
}

// The shortest step in which the two are apart.
int64_t PlacementWindows::least_crossing(const PlacementState& state, const Edge& e) const {
  const auto from = static_cast<size_t>(e.from), to = static_cast<size_t>(e.to);
  int64_t least = kNever;
  for (size_t a = 0; a < devices_; ++a)
    for (size_t b = 0; b < devices_ && has(state.runs[from], a); ++b)
      if (a != b && has(state.runs[to], b))
        least = std::min(least, head(from, a) + ns(from, a) + cost(e, a, b) + ns(to, b) + tail(to, b));
  return least;
}

// Operations that are together run on a device that all of them can use.
bool PlacementWindows::agree(PlacementState& state, bool& changed) const {
  std::vector<int> first(state.parent.size());
  for (size_t o = 0; o < first.size(); ++o) {
    first[o] = state.first_of(static_cast<int>(o));
    state.runs[static_cast<size_t>(first[o])] &= state.runs[o];
  }
  for (size_t o = 0; o < first.size(); ++o) {
    state.parent[o] = first[o];
    const uint64_t runs = state.runs[static_cast<size_t>(first[o])];
    changed = changed || state.runs[o] != runs;
    if (runs == 0) return false;
    state.runs[o] = runs;
  }
  return true;
}

bool PlacementWindows::fits(PlacementState& state, bool& changed) const {
  std::vector<int64_t> left, bytes(p_.ops.size(), 0);
  for (const PlacedDevice& d : p_.devices) left.push_back(d.memory_bytes);
  for (size_t o = 0; o < p_.ops.size(); ++o) {
    bytes[static_cast<size_t>(state.parent[o])] += p_.ops[o].bytes;
    if (std::has_single_bit(state.runs[o]))
      left[static_cast<size_t>(std::countr_zero(state.runs[o]))] -= p_.ops[o].bytes;
  }
  if (std::any_of(left.begin(), left.end(), [](int64_t bytes) { return bytes < 0; })) return false;
  for (size_t o = 0; o < p_.ops.size(); ++o) {
    if (state.parent[o] != static_cast<int>(o) || std::has_single_bit(state.runs[o])) continue;
    for (size_t d = 0; d < devices_; ++d)
      if (has(state.runs[o], d) && bytes[o] > left[d]) {
        state.runs[o] &= ~(uint64_t{1} << d);
        changed = true;
      }
    if (state.runs[o] == 0) return false;
  }
  return true;
}

bool PlacementWindows::drop(PlacementState& state, int64_t limit_ns, bool& changed) const {
  for (size_t o = 0; o < p_.ops.size(); ++o) {
    for (size_t d = 0; d < devices_; ++d)
      if (has(state.runs[o], d) && head(o, d) + ns(o, d) + tail(o, d) > limit_ns) {
        state.runs[o] &= ~(uint64_t{1} << d);
        changed = true;
      }
    if (state.runs[o] == 0) return false;
  }
  return true;
}

void PlacementWindows::join(PlacementState& state, int64_t limit_ns, bool& changed) const {
  for (const Edge& e : edges_) {
    if (!e.moves) continue;
    const int a = state.first_of(e.from), b = state.first_of(e.to);
    if (a == b || least_crossing(state, e) <= limit_ns) continue;
    state.parent[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
    changed = true;
  }
}

// Operations that are together take their time on one device, one after another; thorough: with all that is there for
// sure.
bool PlacementWindows::classes_fit(PlacementState& state, int64_t limit_ns, bool thorough, bool& changed) const {
  std::vector<std::vector<int>> members(p_.ops.size());
  std::vector<std::vector<WindowItem>> there(devices_);
  const auto item = [&](size_t o, size_t d) { return WindowItem{head(o, d), ns(o, d), tail(o, d)}; };
  for (size_t o = 0; o < p_.ops.size(); ++o) {
    const uint64_t runs = state.runs[o];
    if (std::has_single_bit(runs)) {
      const auto d = static_cast<size_t>(std::countr_zero(runs));
      there[d].push_back(item(o, d));
    } else {
      members[static_cast<size_t>(state.parent[o])].push_back(static_cast<int>(o));
    }
  }
  std::vector<int64_t> left(devices_);
  for (size_t d = 0; d < devices_; ++d)
    if ((left[d] = limit_ns - shared_out_ns(there[d], 1)) < 0) return false;
  for (size_t o = 0; o < p_.ops.size(); ++o) {
    if (members[o].empty() || (members[o].size() == 1 && !thorough)) continue;
    for (size_t d = 0; d < devices_; ++d) {
      if (!has(state.runs[o], d)) continue;
      std::vector<WindowItem> items;
      int64_t more = 0;
      for (int m : members[o]) {
        items.push_back(item(static_cast<size_t>(m), d));
        more += items.back().ns;
      }
      // No set exceeds the class's time by its own part of the class.
      if (more <= left[d] && items.size() == 1) continue;
      if (thorough && more > left[d]) items.insert(items.end(), there[d].begin(), there[d].end());
      if (shared_out_ns(std::move(items), 1) <= limit_ns) continue;
      state.runs[o] &= ~(uint64_t{1} << d);
      changed = true;
    }
    if (state.runs[o] == 0) return false;
  }
  return true;
}

// If neither of two can be before the other on a device, the one that is not there for sure is elsewhere.
void PlacementWindows::part(PlacementState& state, int64_t limit_ns, bool& changed) const {
  for (size_t d = 0; d < devices_; ++d)
    for (size_t a = 0; a < p_.ops.size(); ++a) {
      if (state.runs[a] != uint64_t{1} << d) continue;
      const int64_t until = limit_ns - tail(a, d) - ns(a, d), from = head(a, d) + ns(a, d);
      for (size_t b = 0; b < p_.ops.size(); ++b) {
        if (b == a || !has(state.runs[b], d) || std::has_single_bit(state.runs[b])) continue;
        if (head(b, d) + ns(b, d) <= until || from + ns(b, d) + tail(b, d) <= limit_ns) continue;
        state.runs[b] &= ~(uint64_t{1} << d);
        changed = true;
      }
    }
}

bool PlacementWindows::narrow(PlacementState& state, int64_t limit_ns, int rounds, bool thorough) {
  for (int round = 0; round < rounds; ++round) {
    bool changed = false;
    if (!agree(state, changed) || !fits(state, changed) || !agree(state, changed) ||
        !find(state, p_.ops.size() <= kMostClosedOften))
      return false;
    if (!drop(state, limit_ns, changed)) return false;
    join(state, limit_ns, changed);
    if (!agree(state, changed) || work_ns(state) > limit_ns || crossings_ns(state) > limit_ns) return false;
    if (thorough && begun_and_ended_ns(state) > limit_ns) return false;
    if (thorough) part(state, limit_ns, changed);
    if (!agree(state, changed) || !classes_fit(state, limit_ns, thorough, changed)) return false;
    if (!changed) break;
  }
  bool changed = false;
  return agree(state, changed);
}

}  // namespace partita
