// Searches small latencies by annealing.
#include "partita/partitioning/latency.h"

#include <algorithm>
#include <cmath>

#include "partita/base/rng.h"
#include "partita/partitioning/units.h"

namespace partita::partitioning {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// latency_of without new vectors; infinite if subgraphs wait in a circle.
class Clock {
 public:
  Clock(const Instance& instance, int q)
      : instance_(instance),
        q_(q),
        groups_(instance.accelerators * q),
        waits_(instance.nodes.size()),
        ready_(instance.nodes.size()),
        group_waits_(groups_),
        group_ready_(groups_),
        held_(groups_),
        paid_(groups_),
        first_(groups_),
        next_(instance.nodes.size()) {}

  double operator()(const Subgraphs& place) {
    measure(place);
    stack_.clear();
    for (const int v : instance_.order)
      if (place[v] < 0 && waits_[v] == 0) stack_.push_back(v);
    for (int g = 0; g < groups_; ++g)
      if (group_waits_[g] == 0) stack_.push_back(-1 - g);
    done_ = 0;
    total_ = 0;
    while (!stack_.empty()) {
      const int at = stack_.back();
      stack_.pop_back();
      if (at >= 0) {
        finish(place, at, ready_[at] + instance_.nodes[at].cpu);
        continue;
      }
      const int g = -1 - at;
      const double end = group_ready_[g] + held_[g];
      for (int v = first_[g]; v >= 0; v = next_[v]) finish(place, v, end);
      if (g % q_ != q_ - 1) reach(g + 1, end);
    }
    return done_ == instance_.nodes.size() ? total_ : kInfinity;
  }

 private:
  void measure(const Subgraphs& place) {
    std::fill(group_ready_.begin(), group_ready_.end(), 0);
    std::fill(held_.begin(), held_.end(), 0);
    std::fill(paid_.begin(), paid_.end(), -1);
    std::fill(first_.begin(), first_.end(), -1);
    for (int g = 0; g < groups_; ++g) group_waits_[g] = g % q_ != 0;
    for (size_t u = 0; u < place.size(); ++u) {
      const Node& node = instance_.nodes[u];
      const int of = place[u];
      ready_[u] = 0;
      waits_[u] = static_cast<int>(node.reads.size());
      bool leaves = false;
      for (const int reader : node.readers) {
        const int to = place[reader];
        if (to == of) continue;
        leaves = true;
        if (to < 0) continue;
        ++group_waits_[to];
        if (paid_[to] == static_cast<int>(u)) continue;
        paid_[to] = static_cast<int>(u);
        held_[to] += node.cost;
      }
      if (of < 0) continue;
      held_[of] += node.accelerator + (leaves ? node.cost : 0);
      next_[u] = first_[of];
      first_[of] = static_cast<int>(u);
    }
  }
  void reach(int g, double time) {
    group_ready_[g] = std::max(group_ready_[g], time);
    if (--group_waits_[g] == 0) stack_.push_back(-1 - g);
  }
  void finish(const Subgraphs& place, int u, double time) {
    ++done_;
    total_ = std::max(total_, time);
    for (const int reader : instance_.nodes[u].readers) {
      const int to = place[reader];
      if (to >= 0) {
        if (to != place[u]) reach(to, time);
        continue;
      }
      ready_[reader] = std::max(ready_[reader], time);
      if (--waits_[reader] == 0) stack_.push_back(reader);
    }
  }

  const Instance& instance_;
  int q_, groups_;
  std::vector<int> waits_;
  std::vector<double> ready_;
  std::vector<int> group_waits_;
  std::vector<double> group_ready_, held_;
  std::vector<int> paid_, first_, next_, stack_;
  size_t done_ = 0;
  double total_ = 0;
};

class Annealing {
 public:
  Annealing(const Instance& instance, Subgraphs place, const LatencySearch& options)
      : instance_(instance),
        options_(options),
        q_(options.subgraphs),
        rng_(options.seed),
        clock_(instance, options.subgraphs),
        units_(color_units(instance, false)),
        place_(std::move(place)),
        size_(instance.accelerators) {
    for (size_t v = 0; v < place_.size(); ++v)
      if (place_[v] >= 0) size_[place_[v] / q_] += instance.nodes[v].size;
    now_ = best_value_ = clock_(place_);
    best_ = place_;
  }

  Subgraphs run(const Watch& watch) {
    if (instance_.accelerators == 0 || !(best_value_ > 0)) return best_;
    double temperature = options_.hot * best_value_;
    const double cools = std::pow(options_.cold / options_.hot, 1.0 / std::max(1, options_.moves));
    for (int move = 0; move < options_.moves; ++move, temperature *= cools) {
      if (move % 1024 == 0 && watch.ended()) break;
      changed_.clear();
      propose();
      if (changed_.empty()) continue;
      const double value = fits() ? clock_(place_) : kInfinity;
      if (value <= now_ || value - now_ < -temperature * std::log(1 - rng_.uniform())) {
        now_ = value;
        if (value < best_value_ * (1 - 1e-12)) best_value_ = value, best_ = place_;
        continue;
      }
      while (!changed_.empty()) {
        const auto [v, from] = changed_.back();
        changed_.pop_back();
        account(v, place_[v], -1);
        place_[v] = from;
        account(v, from, 1);
      }
    }
    return best_;
  }

 private:
  void account(int v, int place, int sign) {
    if (place >= 0) size_[place / q_] += sign * instance_.nodes[v].size;
  }
  void put(int v, int to) {
    if (place_[v] == to) return;
    changed_.emplace_back(v, place_[v]);
    account(v, place_[v], -1);
    place_[v] = to;
    account(v, to, 1);
  }
  void put_unit(int u, int to) {
    if (to >= 0 && !units_.units[u].supported) return;
    for (const int v : units_.units[u].nodes) put(v, to);
  }
  bool fits() const {
    return std::all_of(size_.begin(), size_.end(),
                       [&](double size) { return size <= instance_.max_size * (1 + 1e-12); });
  }
  int neighbour(int v) {
    const Node& node = instance_.nodes[v];
    const size_t all = node.reads.size() + node.readers.size();
    if (all == 0) return v;
    const size_t which = rng_.below(all);
    return which < node.reads.size() ? node.reads[which] : node.readers[which - node.reads.size()];
  }
  int drawn_place(int v) {
    const uint64_t what = rng_.below(8);
    if (what == 0) return kCpu;
    if (what < 7) return place_[neighbour(v)];
    return static_cast<int>(rng_.below(instance_.accelerators * q_));
  }

  void propose() {
    const int v = static_cast<int>(rng_.below(place_.size()));
    switch (rng_.below(10)) {
      case 0:
        return spread(v);
      case 1:
        return absorb(v);
      case 2:
        return exchange(v);
      case 3:
        if (q_ > 1 && place_[v] >= 0) return put(v, place_[v] / q_ * q_ + static_cast<int>(rng_.below(q_)));
        break;
      default:
        break;
    }
    put_unit(units_.unit_of[v], drawn_place(v));
  }
  // A few units along edges from v, all to one place.
  void spread(int v) {
    const int to = drawn_place(v), from = place_[v];
    for (uint64_t steps = 2 + rng_.below(12); steps > 0; --steps) {
      if (place_[v] == from) put_unit(units_.unit_of[v], to);
      v = neighbour(v);
    }
  }
  // Moves all of a subgraph, or v with its part before it, or after it, to another place; then perhaps as much of that
  // place further on.
  void absorb(int v) {
    const uint64_t part = rng_.below(5);
    for (uint64_t more = 1 + rng_.below(3); more > 0; --more) {
      const int from = place_[v];
      const int to = drawn_place(v);
      if (from == to || (part == 0 && from < 0)) return;
      if (part == 0) {
        for (const int w : instance_.order)
          if (place_[w] == from) put_unit(units_.unit_of[w], to);
        return;
      }
      push(v, part % 2 == 0, to);
      v = instance_.order[rng_.below(instance_.order.size())];
      for (int tries = 0; tries < 100 && place_[v] != to; ++tries)
        v = instance_.order[rng_.below(instance_.order.size())];
    }
  }
  // Moves v, and the nodes before or after it in its place, to another.
  void push(int v, bool before, int to) {
    const int from = place_[v];
    pushed_.assign(1, v);
    put_unit(units_.unit_of[v], to);
    for (size_t at = 0; at < pushed_.size(); ++at) {
      const Node& node = instance_.nodes[pushed_[at]];
      for (const int w : before ? node.reads : node.readers)
        if (place_[w] == from) {
          put_unit(units_.unit_of[w], to);
          if (place_[w] == to) pushed_.push_back(w);
        }
    }
  }
  void exchange(int v) {
    const int w = static_cast<int>(rng_.below(place_.size()));
    const int a = place_[v], b = place_[w];
    if (a == b) return;
    put_unit(units_.unit_of[v], b);
    put_unit(units_.unit_of[w], a);
  }

  const Instance& instance_;
  LatencySearch options_;
  int q_;
  Rng rng_;
  Clock clock_;
  Units units_;
  Subgraphs place_, best_;
  std::vector<double> size_;
  std::vector<std::pair<int, int>> changed_;  // node, where it was
  std::vector<int> pushed_;
  double now_ = 0, best_value_ = 0;
};

}  // namespace

Subgraphs annealed_latency(const Instance& instance, Subgraphs place, const LatencySearch& options,
                           const Watch& watch) {
  return Annealing(instance, std::move(place), options).run(watch);
}

}  // namespace partita::partitioning
