// Finds the shortest schedule of a small problem over all placements and orders, for tests.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "partita/device_placement/problem.h"

namespace partita {

// Orders are tried as sequences by start. Each item starts as soon as its inputs and its queue allow, and no earlier
// than the one before it. So each schedule in which nothing can start earlier is met once.
class BruteForce {
 public:
  BruteForce(const PlacementProblem& problem, bool congestion) : p_(problem), congestion_(congestion) {}

  // INT64_MAX: no placement is allowed.
  int64_t best() {
    device_.assign(p_.ops.size(), 0);
    place(0);
    return best_;
  }

 private:
  struct Item {
    int queue = 0;  // devices, then links; -1: it shares no queue
    int64_t ns = 0;
    std::vector<int> after, before;
  };

  void place(size_t op) {
    if (op == p_.ops.size()) {
      if (allowed()) schedule();
      return;
    }
    for (size_t d = 0; d < p_.devices.size(); ++d) {
      if (p_.ops[op].ns[d] < 1) continue;
      device_[op] = static_cast<int>(d);
      place(op + 1);
    }
  }
  bool allowed() const {
    std::vector<int64_t> bytes(p_.devices.size(), 0);
    std::map<int, int> of_group;
    for (size_t o = 0; o < p_.ops.size(); ++o) {
      bytes[static_cast<size_t>(device_[o])] += p_.ops[o].bytes;
      const int group = p_.ops[o].group;
      if (group >= 0 && of_group.try_emplace(group, device_[o]).first->second != device_[o]) return false;
    }
    for (size_t d = 0; d < bytes.size(); ++d)
      if (bytes[d] > p_.devices[d].memory_bytes) return false;
    for (const PlacedValue& v : p_.values)
      for (int r : v.readers) {
        const auto from = static_cast<size_t>(device_[static_cast<size_t>(v.producer)]);
        const auto to = static_cast<size_t>(device_[static_cast<size_t>(r)]);
        if (v.moves() && from != to && p_.routes[from][to].queue < 0) return false;
      }
    return true;
  }
  void schedule() {
    items_.clear();
    const auto follows = [&](int before, int after) {
      items_[static_cast<size_t>(before)].before.push_back(after);
      items_[static_cast<size_t>(after)].after.push_back(before);
    };
    std::vector<int64_t> load(p_.devices.size(), 0);
    for (size_t o = 0; o < p_.ops.size(); ++o) {
      const int64_t ns = p_.ops[o].ns[static_cast<size_t>(device_[o])];
      items_.push_back({device_[o], ns, {}, {}});
      if ((load[static_cast<size_t>(device_[o])] += ns) >= best_) return;
    }
    for (const PlacedValue& v : p_.values) {
      std::map<int, int> sent;  // to a device: item
      const int home = device_[static_cast<size_t>(v.producer)];
      for (int r : v.readers) {
        const int to = device_[static_cast<size_t>(r)];
        if (to == home || !v.moves()) {
          follows(v.producer, r);
          continue;
        }
        const auto [at, is_new] = sent.try_emplace(to, static_cast<int>(items_.size()));
        if (is_new) {
          const Route& route = p_.routes[static_cast<size_t>(home)][static_cast<size_t>(to)];
          const int queue = congestion_ ? static_cast<int>(p_.devices.size()) + route.queue : -1;
          items_.push_back({queue, p_.transfer_ns(route, v.bytes), {}, {}});
          follows(v.producer, at->second);
        }
        follows(at->second, r);
      }
    }
    end_.assign(items_.size(), -1);
    free_.assign(p_.devices.size() + static_cast<size_t>(p_.queues), 0);
    extend(0, {0, -1}, 0);
  }
  void extend(size_t done, std::pair<int64_t, int> last, int64_t end) {
    if (done == items_.size()) best_ = std::min(best_, end);
    for (size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      if (end_[i] >= 0) continue;
      int64_t start = item.queue < 0 ? 0 : free_[static_cast<size_t>(item.queue)];
      bool ready = true;
      for (int before : item.after) {
        ready = ready && end_[static_cast<size_t>(before)] >= 0;
        start = std::max(start, end_[static_cast<size_t>(before)]);
      }
      const std::pair<int64_t, int> at{start, static_cast<int>(i)};
      if (!ready || at < last || start + item.ns >= best_) continue;
      const int64_t was = item.queue < 0 ? 0 : free_[static_cast<size_t>(item.queue)];
      end_[i] = start + item.ns;
      if (item.queue >= 0) free_[static_cast<size_t>(item.queue)] = end_[i];
      extend(done + 1, at, std::max(end, end_[i]));
      end_[i] = -1;
      if (item.queue >= 0) free_[static_cast<size_t>(item.queue)] = was;
    }
  }

  const PlacementProblem& p_;
  bool congestion_;
  int64_t best_ = INT64_MAX;
  std::vector<int> device_;
  std::vector<Item> items_;
  std::vector<int64_t> end_, free_;
};

}  // namespace partita
