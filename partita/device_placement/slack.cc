// Keeps a relaxed schedule beside the merges of a batch.
#include "partita/device_placement/slack.h"

#include <algorithm>

namespace partita {

namespace {

size_t at(int i) { return static_cast<size_t>(i); }

// By vertex the longest path to it without it, and the one from it on with it.
struct Paths {
  std::vector<int64_t> head, tail;
  int64_t longest = 0;
};
Paths paths(const MergeGraph& g, const std::vector<int64_t>& ns) {
  Paths p{std::vector<int64_t>(ns.size(), 0), std::vector<int64_t>(ns.size(), 0)};
  const std::vector<int> order = topological_order(g);
  for (int u : order)
    for (int e = g.first[at(u)]; e < g.first[at(u) + 1]; ++e)
      p.head[at(g.to[at(e)])] = std::max(p.head[at(g.to[at(e)])], p.head[at(u)] + ns[at(u)]);
  for (size_t i = order.size(); i-- > 0;) {
    const int u = order[i];
    for (int e = g.first[at(u)]; e < g.first[at(u) + 1]; ++e)
      p.tail[at(u)] = std::max(p.tail[at(u)], p.tail[at(g.to[at(e)])]);
    p.tail[at(u)] += ns[at(u)];
    p.longest = std::max(p.longest, p.head[at(u)] + p.tail[at(u)]);
  }
  return p;
}

}  // namespace

int64_t longest_path(const MergeGraph& graph, const std::vector<int64_t>& ns) { return paths(graph, ns).longest; }

Slack::Slack(const MergeGraph& graph, const std::vector<int64_t>& ns, int64_t limit_ns)
    : graph_(graph), ns_(ns), before_(predecessors(graph)), start_(ns.size()), end_(ns.size()) {
  constexpr int64_t kLooks = 20;
  looks_ = kLooks * static_cast<int64_t>(graph.to.size() + ns.size());
  const Paths p = paths(graph, ns);
  limit_ = std::max(limit_ns, p.longest);
  const double stretch = p.longest == 0 ? 1 : static_cast<double>(limit_) / static_cast<double>(p.longest);
  for (size_t v = 0; v < ns.size(); ++v) {
    const int64_t middle = (p.head[v] + p.longest - p.tail[v]) / 2;  // of the earliest and the latest start
    start_[v] = middle + static_cast<int64_t>((stretch - 1) * static_cast<double>(middle));
    end_[v] = start_[v] + ns[v];
  }
}

// Narrows a vertex's interval by all its neighbours but one.
bool Slack::narrow(int v, int other, int64_t& from, int64_t& until) {
  for (int e = before_.first[at(v)]; e < before_.first[at(v) + 1]; ++e) {
    const int p = before_.from[at(e)];
    if (p != other) from = std::max(from, end_[at(p)]);
  }
  for (int e = graph_.first[at(v)]; e < graph_.first[at(v) + 1]; ++e) {
    const int s = graph_.to[at(e)];
    if (s != other) until = std::min(until, start_[at(s)]);
  }
  looks_ -= before_.count(v) + graph_.first[at(v) + 1] - graph_.first[at(v)];
  return looks_ >= 0;
}

bool Slack::try_merge(int u, int v) {
  if (looks_ < 0) return false;
  int64_t from = 0, until = limit_;
  const int64_t ns = ns_[at(u)] + ns_[at(v)];
  if (!narrow(u, v, from, until) || from + ns > until) return false;
  if (!narrow(v, u, from, until) || from + ns > until) return false;
  start_[at(u)] = start_[at(v)] = from;
  end_[at(u)] = end_[at(v)] = from + ns;
  return true;
}

}  // namespace partita
