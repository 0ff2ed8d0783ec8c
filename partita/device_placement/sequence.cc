// Branches on the order of two items of a device or queue.
#include "partita/device_placement/sequence.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "partita/device_placement/windows.h"

namespace partita {

namespace {

// A row of bits for each item.
class Relation {
 public:
  explicit Relation(size_t n) : words_((n + 63) / 64), bits_(n * words_, 0) {}
  bool has(size_t row, size_t i) const { return (bits_[row * words_ + i / 64] >> (i % 64)) & 1; }
  void add(size_t row, size_t i) { bits_[row * words_ + i / 64] |= uint64_t{1} << (i % 64); }
  void add_all(size_t row, size_t other) {
    for (size_t w = 0; w < words_; ++w) bits_[row * words_ + w] |= bits_[other * words_ + w];
  }

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

struct Item {
  size_t queue = 0;  // devices, then links
  int64_t ns = 0;
  std::vector<size_t> after, before;
  int value = -1, to = -1;  // of a transfer
};

class Sequencer {
 public:
  Sequencer(const PlacementProblem& problem, const std::vector<int>& device, int64_t limit_ns, int64_t most_nodes,
            const Watch& watch)
      : p_(problem), device_(device), limit_(limit_ns), most_nodes_(most_nodes), watch_(watch) {
    make_items();
    head_.assign(items_.size(), 0);
    tail_.assign(items_.size(), 0);
    on_.resize(p_.devices.size() + static_cast<size_t>(p_.queues));
    for (size_t i = 0; i < items_.size(); ++i) on_[items_[i].queue].push_back(i);
  }

  SequenceResult run() {
    Relation before = paths();
    search(before);
    result_.complete = result_.complete || result_.schedule;
    return std::move(result_);
  }

 private:
  void follows(size_t before, size_t after) {
    items_[before].before.push_back(after);
    items_[after].after.push_back(before);
  }
  void make_items() {
    for (size_t o = 0; o < p_.ops.size(); ++o) {
      const auto d = static_cast<size_t>(device_[o]);
      items_.push_back({d, p_.ops[o].ns[d], {}, {}, -1, -1});
    }
    std::map<std::pair<int, int>, size_t> sent;
    for (size_t v = 0; v < p_.values.size(); ++v) {
      const PlacedValue& value = p_.values[v];
      const auto from = static_cast<size_t>(value.producer);
      for (int r : value.readers) {
        const auto to = static_cast<size_t>(r);
        if (!value.moves() || device_[from] == device_[to]) {
          follows(from, to);
          continue;
        }
        const Route& route = p_.routes[static_cast<size_t>(device_[from])][static_cast<size_t>(device_[to])];
        const auto [at, is_new] = sent.try_emplace({static_cast<int>(v), device_[to]}, items_.size());
        if (is_new) {
          items_.push_back({p_.devices.size() + static_cast<size_t>(route.queue),
                            p_.transfer_ns(route, value.bytes),
                            {},
                            {},
                            static_cast<int>(v),
                            device_[to]});
          follows(from, at->second);
        }
        follows(at->second, to);
      }
    }
  }
  // Row i: the items before i on any path.
  Relation paths() const {
    Relation before(items_.size());
    for (size_t i : topological(before))
      for (size_t earlier : items_[i].after) {
        before.add(i, earlier);
        before.add_all(i, earlier);
      }
    return before;
  }
  // A topological order by queues and inputs; short if there is none.
  std::vector<size_t> topological(const Relation& before) const {
    std::vector<int> missing(items_.size(), 0);
    for (size_t i = 0; i < items_.size(); ++i) {
      missing[i] = static_cast<int>(items_[i].after.size());
      for (size_t k : on_[items_[i].queue]) missing[i] += before.has(i, k);
    }
    std::vector<size_t> order;
    for (size_t i = 0; i < items_.size(); ++i)
      if (missing[i] == 0) order.push_back(i);
    for (size_t at = 0; at < order.size(); ++at) {
      const size_t i = order[at];
      for (size_t k : items_[i].before)
        if (--missing[k] == 0) order.push_back(k);
      for (size_t k : on_[items_[i].queue])
        if (before.has(k, i) && --missing[k] == 0) order.push_back(k);
    }
    return order;
  }
  // When all have ended, one after another, each after its own head.
  int64_t finished(std::vector<std::pair<int64_t, int64_t>>& items) const {
    std::sort(items.begin(), items.end());
    int64_t end = 0;
    for (const auto& [start, took] : items) end = std::max(end, start) + took;
    return end;
  }
  bool find_windows(const Relation& before) {
    const std::vector<size_t> order = topological(before);
    if (order.size() < items_.size()) return false;
    for (size_t i : order) {
      here_.clear();
      for (size_t k : on_[items_[i].queue])
        if (before.has(i, k)) here_.emplace_back(head_[k], items_[k].ns);
      head_[i] = finished(here_);
      for (size_t k : items_[i].after) head_[i] = std::max(head_[i], head_[k] + items_[k].ns);
    }
    for (size_t at = order.size(); at-- > 0;) {
      const size_t i = order[at];
      here_.clear();
      for (size_t k : on_[items_[i].queue])
        if (before.has(k, i)) here_.emplace_back(tail_[k], items_[k].ns);
      tail_[i] = finished(here_);
      for (size_t k : items_[i].before) tail_[i] = std::max(tail_[i], tail_[k] + items_[k].ns);
      if (head_[i] + items_[i].ns + tail_[i] > limit_) return false;
    }
    return true;
  }
  int64_t length(size_t first, size_t second) const {
    return head_[first] + items_[first].ns + items_[second].ns + tail_[second];
  }
  // Decides pairs with no choice. `pair`: the undecided pair with the least time to spare, {0, 0} if there is none.
  bool narrow(Relation& before, std::pair<size_t, size_t>& pair) {
    for (bool changed = true; changed;) {
      changed = false;
      if (!find_windows(before)) return false;
      pair = {0, 0};
      int64_t tightest = -1;
      for (const std::vector<size_t>& on : on_) {
        std::vector<WindowItem> windows;
        for (size_t i : on) windows.push_back({head_[i], items_[i].ns, tail_[i]});
        if (shared_out_ns(std::move(windows), 1) > limit_) return false;
        for (size_t a = 0; a < on.size(); ++a)
          for (size_t b = 0; b < a; ++b) {
            const size_t i = on[a], k = on[b];
            if (before.has(i, k) || before.has(k, i)) continue;
            const int64_t ik = length(i, k), ki = length(k, i);
            if (ik > limit_ && ki > limit_) return false;
            if (ik > limit_ || ki > limit_) {
              ik > limit_ ? before.add(i, k) : before.add(k, i);
              changed = true;
            } else if (const int64_t tight = 2 * std::min(ik, ki) + std::max(ik, ki); tight > tightest) {
              tightest = tight;
              pair = ik <= ki ? std::pair(i, k) : std::pair(k, i);
            }
          }
      }
    }
    return true;
  }
  // The item that can start first is next, in the decided orders; among equal starts that with the longest way to the
  // end.
  PlacedSchedule schedule(const Relation& before) const {
    std::vector<int> missing(items_.size(), 0);
    std::vector<int64_t> ready(items_.size(), 0), free(on_.size(), 0);
    std::vector<size_t> open;
    for (size_t i = 0; i < items_.size(); ++i) {
      missing[i] = static_cast<int>(items_[i].after.size());
      for (size_t k : on_[items_[i].queue]) missing[i] += before.has(i, k);
      if (missing[i] == 0) open.push_back(i);
    }
    PlacedSchedule s;
    s.device = device_;
    s.start.assign(p_.ops.size(), 0);
    const auto start = [&](size_t i) { return std::max(ready[i], free[items_[i].queue]); };
    while (!open.empty()) {
      const auto next = std::min_element(open.begin(), open.end(), [&](size_t a, size_t b) {
        return std::tuple(start(a), -tail_[a], a) < std::tuple(start(b), -tail_[b], b);
      });
      const size_t i = *next;
      const int64_t from = start(i), end = from + items_[i].ns;
      open.erase(next);
      free[items_[i].queue] = end;
      s.end = std::max(s.end, end);
      if (i < p_.ops.size()) s.start[i] = from;
      else s.transfers.push_back({items_[i].value, items_[i].to, from});
      for (size_t k : items_[i].before) {
        ready[k] = std::max(ready[k], end);
        if (--missing[k] == 0) open.push_back(k);
      }
      for (size_t k : on_[items_[i].queue])
        if (before.has(k, i) && --missing[k] == 0) open.push_back(k);
    }
    return s;
  }
  // Tells whether the search is over: with a schedule, or because it has to stop.
  bool search(Relation& before) {
    if (++result_.nodes > most_nodes_ || watch_.ended()) {
      result_.complete = false;
      return true;
    }
    std::pair<size_t, size_t> pair;
    if (!narrow(before, pair)) return false;
    if (PlacedSchedule s = schedule(before); s.end <= limit_) {
      sort_by_start(s.transfers);
      result_.schedule = std::move(s);
      return true;
    }
    if (pair.first == pair.second) return false;
    Relation other = before;
    before.add(pair.second, pair.first);
    if (search(before)) return true;
    other.add(pair.first, pair.second);
    return search(other);
  }

  const PlacementProblem& p_;
  const std::vector<int>& device_;
  int64_t limit_, most_nodes_;
  const Watch& watch_;
  std::vector<Item> items_;
  std::vector<std::vector<size_t>> on_;  // by queue
  std::vector<int64_t> head_, tail_;
  std::vector<std::pair<int64_t, int64_t>> here_;
  SequenceResult result_;
};

}  // namespace

SequenceResult find_sequence(const PlacementProblem& problem, const std::vector<int>& device, int64_t limit_ns,
                             int64_t most_nodes, const Watch& watch) {
  return Sequencer(problem, device, limit_ns, most_nodes, watch).run();
}

}  // namespace partita
