// Implements branch and bound over the units, depth first, the child of the least bound first.
#include "partita/partitioning/branch.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "partita/partitioning/cut.h"

namespace partita::partitioning {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLess = 1 - 1e-9;  // smaller gains are not looked for; minimum cuts are rounded down by less
constexpr int kMostUnits = 5000;
constexpr int kFree = -1;

class Tree {
 public:
  Tree(const Units& units, const BranchOptions& options, const Watch& watch)
      : units_(units),
        instance_(*units.instance),
        options_(options),
        watch_(watch),
        least_(units),
        accelerators_(instance_.accelerators),
        devices_(accelerators_ + instance_.cpus),
        device_(units.units.size(), kFree),
        side_(units.units.size()),
        compute_(devices_),
        size_(devices_),
        count_(devices_) {
    result_.split.reset();
    below_ = options.below;
    put_in_order();
  }

  BranchResult search() {
    complete_ = true;
    visit(0);
    result_.bound = complete_ ? kInfinity : 0;
    return result_;
  }

 private:
  // Orders the heaviest first; then again and again the unit most joined to those before it, weight included.
  void put_in_order() {
    const int n = static_cast<int>(units_.units.size());
    std::vector<double> weight(n);
    for (int u = 0; u < n; ++u) {
      weight[u] = units_.units[u].supported ? units_.units[u].accelerator : units_.units[u].cpu;
      for (const int net : units_.units[u].nets) weight[u] += units_.nets[net].cost;
    }
    order_.resize(n);
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) { return weight[a] > weight[b]; });
    free_accelerator_.assign(n + 1, 0);
    slowness_.assign(n + 1, kInfinity);
    for (int at = n - 1; at >= 0; --at) {
      const Unit& unit = units_.units[order_[at]];
      const bool either = unit.supported;
      free_accelerator_[at] = free_accelerator_[at + 1] + (either ? unit.accelerator : 0);
      slowness_[at] = slowness_[at + 1];
      if (either && unit.accelerator > 0) slowness_[at] = std::min(slowness_[at], unit.cpu / unit.accelerator);
    }
  }

  bool out_of_budget() {
    if (cuts_ >= options_.cuts || watch_.ended()) complete_ = false;
    return !complete_;
  }

  // `side_` for device d; false if a unit that it must hold is on another device already.
  bool set_sides(int d) {
    for (size_t u = 0; u < device_.size(); ++u)
      side_[u] = device_[u] == kFree ? Side::kFree : device_[u] == d ? Side::kOn : Side::kOff;
    if (!options_.contiguous || count_[d] == 0) return true;
    const auto is_on = [&](int v) { return device_[units_.unit_of[v]] == d; };
    after_.assign(instance_.nodes.size(), 0);
    before_.assign(instance_.nodes.size(), 0);
    for (const int v : instance_.order)
      if (!instance_.nodes[v].backward)
        for (const int u : instance_.nodes[v].reads) after_[v] = after_[v] || after_[u] || is_on(u);
    for (size_t at = instance_.order.size(); at-- > 0;) {
      const int v = instance_.order[at];
      if (instance_.nodes[v].backward) continue;
      for (const int w : instance_.nodes[v].readers)
        if (!instance_.nodes[w].backward) before_[v] = before_[v] || before_[w] || is_on(w);
      if (!before_[v] || !after_[v]) continue;
      Side& side = side_[units_.unit_of[v]];
      if (side == Side::kOff) return false;
      side = Side::kOn;
    }
    return true;
  }

  // No completion has a smaller load on d; infinite if there is none.
  double bound_of(int d) {
    if (!set_sides(d)) return kInfinity;
    double load = 0, size = 0;
    for (size_t u = 0; u < side_.size(); ++u)
      if (side_[u] == Side::kOn) {
        const Unit& unit = units_.units[u];
        load += d < accelerators_ ? unit.accelerator : unit.cpu;
        size += unit.size;
        if (d < accelerators_ && !unit.supported) return kInfinity;
      }
    if (d >= accelerators_) return load;
    if (size > instance_.max_size * (1 + 1e-12)) return kInfinity;
    if (load >= below_ * kLess) return load;
    ++cuts_;
    return least_(side_);
  }

  // Tells whether the rest could fit; empty accelerators are counted too. `communication` is the least that
  // accelerators spend on it.
  bool has_room(size_t depth, double communication) const {
    if (below_ == kInfinity) return true;
    double accelerator = -communication, cpu = 0;
    for (int d = 0; d < devices_; ++d) (d < accelerators_ ? accelerator : cpu) += std::max(0.0, below_ - compute_[d]);
    const double moved = slowness_[depth] > 0 && cpu > 0 ? cpu / slowness_[depth] : cpu > 0 ? kInfinity : 0;
    return free_accelerator_[depth] * kLess <= accelerator + moved;
  }

  double bound_of_all(int changed, size_t depth) {
    double bound = bound_of(changed);
    for (int d = 0; d < devices_ && bound < below_ * kLess; ++d)
      if (d != changed && count_[d] > 0) bound = std::max(bound, bound_of(d));
    double communication = 0;
    for (int d = 0; d < accelerators_ && below_ < kInfinity; ++d) {
      if (bound >= below_ * kLess || !has_room(depth, communication)) return kInfinity;
      if (count_[d] == 0 || !set_sides(d)) continue;
      ++cuts_;
      communication += least_(side_, false);
    }
    return has_room(depth, communication) ? bound : kInfinity;
  }

  void put(int u, int d, int sign) {
    const Unit& unit = units_.units[u];
    compute_[d] += sign * (d < accelerators_ ? unit.accelerator : unit.cpu);
    size_[d] += sign * unit.size;
    count_[d] += sign;
    device_[u] = sign > 0 ? d : kFree;
  }

  void visit(size_t depth) {
    if (depth == order_.size()) return keep();
    if (options_.progress && ++visited_ % 64 == 0) options_.progress();
    const int u = order_[depth];
    std::vector<std::pair<double, int>> children;
    bool empty_accelerator = false, empty_cpu = false;
    for (int d = 0; d < devices_; ++d) {
      bool& seen = d < accelerators_ ? empty_accelerator : empty_cpu;
      if (count_[d] == 0 && std::exchange(seen, true)) continue;
      if (out_of_budget()) return;
      if (d < accelerators_ &&
          (!units_.units[u].supported || size_[d] + units_.units[u].size > instance_.max_size * (1 + 1e-12)))
        continue;
      const double compute = compute_[d];
      put(u, d, 1);
      const double bound = has_room(depth + 1, 0) ? bound_of_all(d, depth + 1) : kInfinity;
      put(u, d, -1);
      compute_[d] = compute;
      if (bound < below_ * kLess) children.emplace_back(bound, d);
    }
    std::sort(children.begin(), children.end());
    for (const auto& [bound, d] : children) {
      if (!(bound < below_ * kLess)) continue;
      if (out_of_budget()) return;
      const double compute = compute_[d], size = size_[d];
      put(u, d, 1);
      visit(depth + 1);
      put(u, d, -1);
      compute_[d] = compute;
      size_[d] = size;
    }
  }

  void keep() {
    const Devices devices = devices_of(units_, device_);
    if (wrong_devices(instance_, devices, options_.contiguous)) return;
    const double value = max_load(instance_, devices);
    if (!(value < below_)) return;
    below_ = value;
    result_.split = device_;
  }

  const Units& units_;
  const Instance& instance_;
  const BranchOptions& options_;
  const Watch& watch_;
  LeastLoad least_;
  int accelerators_, devices_;
  double below_ = kInfinity;
  std::vector<int> order_;
  std::vector<double> free_accelerator_;  // compute of the units from a depth on that accelerators can run
  std::vector<double> slowness_;          // the least cpu / accelerator of those
  std::vector<int> device_;
  std::vector<Side> side_;
  std::vector<double> compute_, size_;
  std::vector<int> count_;
  std::vector<char> after_, before_;
  BranchResult result_;
  bool complete_ = false;
  long long cuts_ = 0, visited_ = 0;
};

}  // namespace

BranchResult branch_and_bound(const Units& units, const BranchOptions& options, const Watch& watch) {
  if (units.units.size() > kMostUnits) return {};
  return Tree(units, options, watch).search();
}

}  // namespace partita::partitioning
