// Computes minimum cuts by Dinic's algorithm; a net of free units is two nodes with its cost between them.
#include "partita/partitioning/cut.h"

#include <algorithm>
#include <limits>

namespace partita::partitioning {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTiny = 1e-12;   // of the sum of all capacities: less room than this is none
constexpr int kOn = 0, kOff = 1;  // source and sink

}  // namespace

LeastLoad::LeastLoad(const Units& units) : units_(units) {
  const size_t most = 2 + units.units.size() + 2 * units.nets.size();
  out_.resize(most);
  level_.resize(most);
  next_.resize(most);
}

void LeastLoad::join(int a, int b, double room) {
  out_[a].push_back(static_cast<int>(arcs_.size()));
  arcs_.push_back({b, room});
  out_[b].push_back(static_cast<int>(arcs_.size()));
  arcs_.push_back({a, 0});
}

void LeastLoad::add_net(const Net& net, const std::vector<Side>& side, double& fixed) {
  bool on = false, off = false, free = false;
  for (const int u : net.units) {
    on = on || side[u] == Side::kOn;
    off = off || side[u] == Side::kOff;
    free = free || side[u] == Side::kFree;
  }
  if (on && off) fixed += net.cost;
  if ((on && off) || !free) return;
  // Enters `in` from units on the accelerator, leaves `out` to those off it.
  const int in = on ? kOn : nodes_++, out = off ? kOff : nodes_++;
  join(in, out, net.cost);
  for (const int u : net.units) {
    if (side[u] != Side::kFree) continue;
    if (!on) join(2 + u, in, kInfinity);
    if (!off) join(out, 2 + u, kInfinity);
  }
}

bool LeastLoad::levels() {
  std::fill(level_.begin(), level_.begin() + nodes_, -1);
  queue_.assign(1, kOn);
  level_[kOn] = 0;
  for (size_t at = 0; at < queue_.size() && level_[kOff] < 0; ++at)
    for (const int arc : out_[queue_[at]])
      if (arcs_[arc].room > 0 && level_[arcs_[arc].to] < 0) {
        level_[arcs_[arc].to] = level_[queue_[at]] + 1;
        queue_.push_back(arcs_[arc].to);
      }
  return level_[kOff] >= 0;
}

double LeastLoad::push(int v, double flow) {
  if (v == kOff) return flow;
  double sent = 0;
  for (size_t& at = next_[v]; at < out_[v].size(); ++at) {
    const int arc = out_[v][at];
    const int to = arcs_[arc].to;
    if (level_[to] != level_[v] + 1 || !(arcs_[arc].room > 0)) continue;
    const double got = push(to, std::min(flow - sent, arcs_[arc].room));
    arcs_[arc].room -= got;
    arcs_[arc ^ 1].room += got;
    sent += got;
    if (sent >= flow) return sent;
  }
  return sent;
}

double LeastLoad::operator()(const std::vector<Side>& side, bool computes) {
  double fixed = 0;
  nodes_ = 2 + static_cast<int>(units_.units.size());
  arcs_.clear();
  for (auto& arcs : out_) arcs.clear();
  for (size_t u = 0; u < side.size(); ++u) {
    const Unit& unit = units_.units[u];
    const double compute = computes ? unit.accelerator : 0;
    if (side[u] == Side::kOn) fixed += compute;
    if (side[u] == Side::kFree) join(2 + static_cast<int>(u), kOff, unit.supported ? compute : kInfinity);
  }
  for (const Net& net : units_.nets) add_net(net, side, fixed);
  double flow = 0, all = fixed;
  for (const Arc& arc : arcs_)
    if (arc.room < kInfinity) all += arc.room;
  for (int round = 0; levels() && round < 1000; ++round) {
    std::fill(next_.begin(), next_.begin() + nodes_, 0);
    const double got = push(kOn, kInfinity);
    flow += got;
    if (got <= kTiny * all) break;
  }
  return (fixed + flow) * (1 - 1e-11);
}

}  // namespace partita::partitioning
