// Implements the dynamic program over ideals, and the same over the intervals of one order.
#include "partita/partitioning/ideals.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "partita/base/rng.h"
#include "partita/partitioning/order.h"

namespace partita::partitioning {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLess = 1 - 1e-12;  // a load is better only by more than rounding

// All ideals, by size; each with the ideals that have one unit more.
class Lattice {
 public:
  struct Step {
    int unit, ideal;
  };
  // Empty if there are more than `most`, or `watch` ended.
  Lattice(const OrderedUnits& o, long long most, const Watch& watch)
      : words_((o.units.units.size() + 63) / 64), index_(16, Hash{this}, Same{this}) {
    std::vector<uint64_t> more(words_);
    add(more);
    up.emplace_back();
    for (size_t v = 0; v < o.before.size(); ++v)
      if (o.before[v].empty()) up[0].push_back({static_cast<int>(v), -1});
    for (int at = 0; at < size(); ++at) {
      const bool stops = (at % 256 == 0 && watch.ended()) || size() > most;
      if (stops) {
        clear();
        return;
      }
      for (size_t k = 0; k < up[at].size(); ++k) {
        const int v = up[at][k].unit;
        more.assign(bits_.begin() + at * words_, bits_.begin() + (at + 1) * words_);
        more[v / 64] |= uint64_t{1} << (v % 64);
        const int next = up[at][k].ideal = add(more);
        if (next == static_cast<int>(up.size())) up.push_back(after(o, at, v, next));
      }
    }
  }
  Lattice(const Lattice&) = delete;
  Lattice& operator=(const Lattice&) = delete;
  int size() const { return count_; }
  bool has(int ideal, int unit) const { return bits_[ideal * words_ + unit / 64] >> (unit % 64) & 1; }
  std::vector<std::vector<Step>> up;

 private:
  struct Hash {
    const Lattice* of;
    size_t operator()(int ideal) const {
      uint64_t h = 0x9e3779b97f4a7c15;
      for (size_t w = 0; w < of->words_; ++w) {
        h = (h ^ of->bits_[ideal * of->words_ + w]) * 0xff51afd7ed558ccd;
        h ^= h >> 32;
      }
      return h;
    }
  };
  struct Same {
    const Lattice* of;
    bool operator()(int a, int b) const {
      const auto begin = of->bits_.begin();
      return std::equal(begin + a * of->words_, begin + (a + 1) * of->words_, begin + b * of->words_);
    }
  };
  // The units that can be added to `next`, which is `at` with v.
  std::vector<Step> after(const OrderedUnits& o, int at, int v, int next) const {
    std::vector<Step> steps;
    for (const Step& step : up[at])
      if (step.unit != v) steps.push_back({step.unit, -1});
    for (const int w : o.after[v])
      if (std::all_of(o.before[w].begin(), o.before[w].end(), [&](int u) { return has(next, u); }))
        steps.push_back({w, -1});
    return steps;
  }
  int add(const std::vector<uint64_t>& bits) {
    bits_.insert(bits_.end(), bits.begin(), bits.end());
    const auto [at, is_new] = index_.insert(count_);
    if (is_new) return count_++;
    bits_.resize(bits_.size() - words_);
    return *at;
  }
  void clear() {
    count_ = 0;
    up.clear();
  }
  size_t words_;
  int count_ = 0;
  std::vector<uint64_t> bits_;
  std::unordered_set<int, Hash, Same> index_;
};

// The costs of the units between two ideals.
struct Sums {
  double accelerator = 0, cpu = 0, size = 0;
  double communication = 0;  // of the units so far
  double lasting = 0;        // the part of it that no more units reduce
  int unsupported = 0;
};

class Program {
 public:
  Program(const OrderedUnits& o, const Lattice& lattice, double below, const Watch& watch)
      : o_(o),
        lattice_(lattice),
        instance_(*o.units.instance),
        watch_(watch),
        start_(below),
        below_(below),
        states_((instance_.accelerators + 1) * (instance_.cpus + 1)),
        best_(static_cast<size_t>(lattice.size()) * states_, kInfinity),
        from_(best_.size(), -1),
        inside_(o.units.nets.size()),
        touched_(o.units.nets.size()),
        seen_(lattice.size(), -1) {
    best_[0] = 0;
    rest_.resize(lattice.size());
    for (int at = lattice.size() - 1; at-- > 0;)
      rest_[at] = rest_[lattice.up[at][0].ideal] + least_of(o.units.units[lattice.up[at][0].unit]);
    for (const Unit& unit : o.units.units)
      if (unit.accelerator > 0) slowness_ = std::min(slowness_, unit.cpu / unit.accelerator);
  }

  bool run() {
    const int last = lattice_.size() - 1;
    for (int at = 0; at < last; ++at) {
      if (at % 16 == 0 && watch_.ended()) return false;
      offer_more_devices(at);
      if (useful(at)) grow(at);
    }
    offer_more_devices(last);
    return true;
  }

  std::optional<std::vector<int>> split() const {
    const int last = lattice_.size() - 1;
    int state = states_ - 1, at = last;
    if (!(best_[index(last, state)] < start_ * kLess)) return std::nullopt;
    std::vector<int> device(o_.units.units.size());
    while (at > 0) {
      const int from = from_[index(at, state)];
      const int down = from < 0 ? -1 - from : from;  // a CPU: -1 - ideal
      const int accelerators = state % (instance_.accelerators + 1), cpus = state / (instance_.accelerators + 1);
      const bool is_cpu = from < 0;
      const int which = is_cpu ? instance_.accelerators + cpus - 1 : accelerators - 1;
      for (size_t v = 0; v < device.size(); ++v)
        if (lattice_.has(at, static_cast<int>(v)) && !lattice_.has(down, static_cast<int>(v))) device[v] = which;
      state -= is_cpu ? instance_.accelerators + 1 : 1;
      at = down;
    }
    return device;
  }

 private:
  struct Frame {
    int ideal;
    size_t next;
    int unit;  // that was added
    Sums before;
  };

  size_t index(int ideal, int state) const { return static_cast<size_t>(ideal) * states_ + state; }

  // The accelerators' compute of a unit; units that only CPUs can run do not count.
  double least_of(const Unit& unit) const {
    return unit.supported && instance_.accelerators > 0 ? unit.accelerator : 0;
  }
  // Tells whether the units that an ideal lacks could fit on the devices that a state leaves.
  bool has_room(int at, int state) const {
    if (below_ == kInfinity || instance_.accelerators == 0) return true;
    const int k = instance_.accelerators;
    const int used = state / (k + 1);  // CPUs
    const double accelerators = k - state % (k + 1), cpus = instance_.cpus - used;
    if (cpus > 0 && !(slowness_ > 0)) return true;
    return rest_[at] * kLess <= below_ * (accelerators + (cpus > 0 ? cpus / slowness_ : 0));
  }

  // One device more may stay without anything.
  void offer_more_devices(int at) {
    const int k = instance_.accelerators;
    for (int state = 1; state < states_; ++state) {
      if (state % (k + 1) > 0) improve(at, state, best_[index(at, state - 1)], at);
      if (state > k) improve(at, state, best_[index(at, state - k - 1)], -1 - at);
    }
  }
  void improve(int at, int state, double value, int from) {
    if (!(value < best_[index(at, state)])) return;
    best_[index(at, state)] = value;
    from_[index(at, state)] = from;
  }
  bool useful(int at) const {
    for (int state = 0; state < states_; ++state)
      if (best_[index(at, state)] < below_ * kLess && has_room(at, state)) return true;
    return false;
  }

  void add(int v, Sums& s) {
    const Unit& unit = o_.units.units[v];
    s.accelerator += unit.accelerator;
    s.cpu += unit.cpu;
    s.size += unit.size;
    s.unsupported += !unit.supported;
    for (const int net : unit.nets) {
      const Net& n = o_.units.nets[net];
      if (++inside_[net] == 1) {
        s.communication += n.cost;
        if (touched_[net]) s.lasting += n.cost;
      }
      if (inside_[net] == static_cast<int>(n.units.size())) s.communication -= n.cost;
    }
  }
  bool fits_accelerator(const Sums& s) const {
    return s.unsupported == 0 && s.size <= instance_.max_size * (1 + 1e-12);
  }

  // Every ideal above `from` that one device can reach, each once.
  void grow(int from) {
    std::fill(touched_.begin(), touched_.end(), 0);
    for (size_t net = 0; net < touched_.size(); ++net)
      for (const int v : o_.units.nets[net].units) touched_[net] = touched_[net] || lattice_.has(from, v);
    Sums sums;
    std::vector<Frame> path = {{from, 0, -1, sums}};
    seen_[from] = from;
    while (!path.empty()) {
      Frame& top = path.back();
      if (top.next == lattice_.up[top.ideal].size()) {
        if (top.unit >= 0)
          for (const int net : o_.units.units[top.unit].nets) --inside_[net];
        sums = top.before;
        path.pop_back();
        continue;
      }
      const Lattice::Step step = lattice_.up[top.ideal][top.next++];
      if (seen_[step.ideal] == from) continue;
      seen_[step.ideal] = from;
      path.push_back({step.ideal, 0, step.unit, sums});
      add(step.unit, sums);
      const bool accelerator =
          instance_.accelerators > 0 && fits_accelerator(sums) && sums.accelerator + sums.lasting < below_ * kLess;
      const bool cpu = instance_.cpus > 0 && sums.cpu < below_ * kLess;
      if (accelerator) reach(from, step.ideal, sums.accelerator + sums.communication, false);
      if (cpu) reach(from, step.ideal, sums.cpu, true);
      if (!accelerator && !cpu) path.back().next = lattice_.up[step.ideal].size();
    }
  }

  void reach(int from, int to, double load, bool is_cpu) {
    if (load >= below_ * kLess) return;
    const int k = instance_.accelerators, step = is_cpu ? k + 1 : 1;
    for (int state = step; state < states_; ++state) {
      if (!is_cpu && state % (k + 1) == 0) continue;
      const double value = std::max(load, best_[index(from, state - step)]);
      if (value >= below_ * kLess || !has_room(to, state)) continue;
      improve(to, state, value, is_cpu ? -1 - from : from);
      // If fewer devices reach the whole graph, it is the new best.
      if (to == lattice_.size() - 1) below_ = std::min(below_, value);
    }
  }

  const OrderedUnits& o_;
  const Lattice& lattice_;
  const Instance& instance_;
  const Watch& watch_;
  const double start_;
  double below_;
  int states_;                // cpus * (accelerators + 1) + accelerators
  std::vector<double> best_;  // [ideal][state]
  std::vector<int> from_;     // the ideal before, or -1 - it if the last device is a CPU
  std::vector<int> inside_, touched_, seen_;
  std::vector<double> rest_;     // accelerator time of the units that each ideal lacks
  double slowness_ = kInfinity;  // the least cpu / accelerator of a unit
};

std::optional<Devices> best_split(const OrderedUnits& o, const Lattice& lattice, double below, const Watch& watch,
                                  bool& complete) {
  Program program(o, lattice, below, watch);
  complete = program.run();
  const auto split = program.split();
  if (!split) return std::nullopt;
  return devices_of(o.units, *split);
}

}  // namespace

IdealsResult best_of_ideals(const Instance& instance, double below, const Watch& watch, long long most) {
  const OrderedUnits o = order_units(instance);
  const long long states = (instance.accelerators + 1LL) * (instance.cpus + 1LL);
  IdealsResult result;
  const Lattice lattice(o, most / states, watch);
  result.ideals = lattice.size();
  if (lattice.size() == 0) return result;
  result.devices = best_split(o, lattice, below, watch, result.complete);
  if (result.devices) below = std::min(below, max_load(instance, *result.devices));
  result.enough = result.complete && order_is_enough(o, below);
  return result;
}

std::optional<Devices> best_of_order(const Instance& instance, double below, uint64_t seed, const Watch& watch) {
  OrderedUnits o = order_units(instance);
  Rng rng(seed);
  const std::vector<int> order = drawn_order(o, rng);
  for (size_t at = 0; at < order.size(); ++at) {
    o.before[order[at]].clear();
    o.after[order[at]].clear();
    if (at > 0) o.before[order[at]].push_back(order[at - 1]);
    if (at > 0) o.after[order[at - 1]].push_back(order[at]);
  }
  bool complete = false;
  const Lattice lattice(o, static_cast<long long>(order.size()) + 1, watch);
  if (lattice.size() == 0) return std::nullopt;
  return best_split(o, lattice, below, watch, complete);
}

}  // namespace partita::partitioning
