// Finds the least latency of small graphs by branch and bound.
#include <algorithm>
#include <utility>

#include "partita/partitioning/latency.h"

namespace partita::partitioning {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLess = 1 - 1e-12;

// Nodes are placed in topological order. The placed nodes alone have a latency that more nodes do not lessen: subgraphs
// get longer, and nothing starts earlier. A node that is not placed adds at least the faster of its two times.
class Tree {
 public:
  Tree(const Instance& instance, int q, double below, long long most, const Watch& watch)
      : instance_(instance), q_(q), most_(most), watch_(watch), place_(instance.nodes.size(), kNone) {
    result_.complete = true;
    below_ = below;
    device_.assign(instance.colors, kNone);
    members_.assign(instance.colors, 0);
    size_.assign(instance.accelerators, 0);
    in_.assign(static_cast<size_t>(instance.accelerators) * q, 0);
    on_.assign(instance.accelerators, 0);
    for (size_t at = instance.order.size(); at-- > 0;) {
      const int v = instance.order[at];
      double tail = 0;
      for (const int w : instance.nodes[v].readers) tail = std::max(tail, tail_[w]);
      if (tail_.empty()) tail_.assign(instance.nodes.size(), 0);
      tail_[v] = tail + fastest(v);
    }
  }
  LatencyBranch search() {
    visit(0);
    return std::move(result_);
  }

 private:
  static constexpr int kNone = -2;
  double fastest(int v) const {
    const Node& node = instance_.nodes[v];
    return node.supported && instance_.accelerators > 0 ? std::min(node.cpu, node.accelerator) : node.cpu;
  }

  void visit(size_t depth) {
    if (depth == instance_.order.size()) {
      if (wrong_subgraphs(instance_, place_, q_)) return;
      const auto latency = latency_of(instance_, place_, q_);
      if (!latency || !(latency->total < below_)) return;
      below_ = latency->total;
      result_.place = place_;
      return;
    }
    const int v = instance_.order[depth];
    try_place(depth, v, kCpu);
    bool new_accelerator = false;
    for (int a = 0; a < instance_.accelerators && instance_.nodes[v].supported; ++a) {
      if (on_[a] == 0 && std::exchange(new_accelerator, true)) break;
      if (size_[a] + instance_.nodes[v].size > instance_.max_size * (1 + 1e-12)) continue;
      for (int s = 0; s < q_; ++s) try_place(depth, v, a * q_ + s);
    }
  }

  void try_place(size_t depth, int v, int to) {
    const int color = instance_.nodes[v].color, device = to < 0 ? kCpu : to / q_;
    if (members_[color] > 0 && device_[color] != device) return;
    if (++count_ > most_ || (count_ % 256 == 0 && watch_.ended())) result_.complete = false;
    if (!result_.complete) return;
    const double size = to < 0 ? 0 : size_[device];
    place_[v] = to;
    device_[color] = device;
    ++members_[color];
    if (to >= 0) ++on_[device], ++in_[to], size_[device] += instance_.nodes[v].size;
    if (bound(depth + 1) < below_ * kLess) visit(depth + 1);
    if (to >= 0) --on_[device], --in_[to], size_[device] = size;
    --members_[color];
    place_[v] = kNone;
  }

  // The bound of the nodes before `depth`, with those that follow; infinite if subgraphs wait in a circle.
  double bound(size_t depth) {
    const int groups = static_cast<int>(in_.size());
    std::vector<double> start(groups), held(groups), ready(place_.size());
    std::vector<int> paid(groups, -1);
    for (size_t at = 0; at < depth; ++at) {
      const int u = instance_.order[at];
      const Node& node = instance_.nodes[u];
      bool leaves = false;
      for (const int reader : node.readers) {
        const int to = place_[reader];
        if (to == kNone || to == place_[u]) continue;
        leaves = true;
        if (to >= 0 && std::exchange(paid[to], u) != u) held[to] += node.cost;
      }
      if (place_[u] >= 0) held[place_[u]] += node.accelerator + (leaves ? node.cost : 0);
    }
    // Times rise until nothing changes; in a circle they rise for ever.
    double total = 0;
    for (int round = 0;; ++round) {
      if (round > groups + 1) return kInfinity;
      bool changed = false;
      total = 0;
      for (size_t at = 0; at < depth; ++at) {
        const int u = instance_.order[at], of = place_[u];
        double time = 0;
        for (const int w : instance_.nodes[u].reads) {
          if (of >= 0 && place_[w] == of) continue;
          time = std::max(time, place_[w] >= 0 ? start[place_[w]] + held[place_[w]] : ready[w]);
        }
        if (of >= 0) {
          if (time > start[of]) start[of] = time, changed = true;
          time = start[of] + held[of];
        } else {
          time += instance_.nodes[u].cpu;
          ready[u] = time;
        }
        total = std::max(total, time);
        for (const int w : instance_.nodes[u].readers)
          if (place_[w] == kNone) total = std::max(total, time + tail_[w]);
      }
      for (int g = 0; g < groups; ++g)
        if (g % q_ != 0 && in_[g] > 0) {
          int before = g - 1;
          while (before % q_ != 0 && in_[before] == 0) --before;
          if (in_[before] > 0 && start[before] + held[before] > start[g])
            start[g] = start[before] + held[before], changed = true;
        }
      if (!changed) break;
      if (total >= below_) return total;
    }
    return total;
  }

  const Instance& instance_;
  int q_;
  long long most_;
  const Watch& watch_;
  Subgraphs place_;
  LatencyBranch result_;
  double below_ = kInfinity;
  std::vector<int> device_, members_;  // of each color
  std::vector<double> size_;           // of each accelerator
  std::vector<int> on_, in_;           // nodes on each accelerator and in each subgraph
  std::vector<double> tail_;           // the least time from the start of a node to the end
  long long count_ = 0;
};

}  // namespace

LatencyBranch branch_latency(const Instance& instance, int q, double below, long long most, const Watch& watch) {
  return Tree(instance, q, below, most, watch).search();
}

}  // namespace partita::partitioning
