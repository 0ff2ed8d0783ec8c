// Merges variables into neighbours that decide them, by sweeps over the edges until nothing changes.
#include "partita/solver/merge.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "partita/solver/model.h"

namespace partita::solver {

namespace {

constexpr Wide kLargestSum = Wide{1} << 57;  // of all costs together, so that any of their sums can be costs again

Wide sum_of_all(const Network& n) {
  Wide sum = 0;
  for (const Table& costs : n.costs) sum += largest_absolute(costs);
  std::map<const Table*, int64_t> known;
  for (const Network::Edge& e : n.edges) {
    auto [it, fresh] = known.try_emplace(e.table.get(), 0);
    if (fresh) it->second = largest_absolute(*e.table);
    sum += it->second;
  }
  return sum;
}

// The one partner of each value, -1 if it has none, and the number of its partners: 0, 1, or 2 for more.
struct Partners {
  std::vector<int> one, count;
  explicit Partners(size_t values) : one(values, -1), count(values, 0) {}
  void add(int x, int y) { one[x] = y, count[x] = std::min(2, count[x] + 1); }
  bool decide(const std::vector<char>& there) const {
    for (size_t x = 0; x < there.size(); ++x)
      if (there[x] && count[x] != 1) return false;
    return true;
  }
  std::vector<int> without(const std::vector<char>& there) const {
    std::vector<int> lost;
    for (size_t x = 0; x < there.size(); ++x)
      if (there[x] && count[x] == 0) lost.push_back(static_cast<int>(x));
    return lost;
  }
};

}  // namespace

Merging::Merging(const Network& network)
    : n_(network),
      beside_(network.variables(), 0),
      locked_(network.variables(), 0),
      changed_(network.variables(), 0),
      looked_(network.edges.size(), -1) {
  for (int v = 0; v < n_.variables(); ++v) {
    links_.push_back({v, std::vector<int>(n_.domain(v))});
    std::iota(links_[v].value.begin(), links_[v].value.end(), 0);
    there_.emplace_back();
    for (int64_t cost : n_.costs[v]) there_[v].push_back(cost < kForbidden);
    infeasible_ |= live(v) == 0;
  }
  count_entries();
  const bool fits = sum_of_all(n_) <= kLargestSum;
  for (bool changes = true, forwards = true; fits && changes && !infeasible_; forwards = !forwards) {
    changes = false;
    const int edges = static_cast<int>(n_.edges.size());
    for (int i = 0; i < edges && !infeasible_; ++i) changes |= look_at(forwards ? i : edges - 1 - i);
  }
  number();
}

void Merging::count_entries() {
  for (const Network::Edge& e : n_.edges) {
    if (!e.over_two()) {
      for (int v : e.variables) locked_[v] = 1;
      continue;
    }
    for (size_t i = 0; i < 2; ++i) beside_[e.variables[i]] += n_.domain(e.variables[1 - i]);
  }
}

int Merging::live(int v) const { return static_cast<int>(std::count(there_[v].begin(), there_[v].end(), 1)); }

// The root that decides v, and how; paths become short (Tarjan 1975).
const Merging::Link& Merging::root(int v) {
  std::vector<int> path;
  int top = v;
  for (; links_[top].parent != top; top = links_[top].parent) path.push_back(top);
  while (path.size() > 1) {  // all but the topmost one, which is a child of the root
    path.pop_back();
    Link& link = links_[path.back()];
    const Link& above = links_[link.parent];
    std::vector<int> value;
    for (int y : above.value) value.push_back(y < 0 ? -1 : link.value[y]);
    link = {above.parent, std::move(value)};
  }
  return links_[v];
}

// Applies an edge's constraint between its roots: values without a partner go, and a root that the other one decides
// joins it.
bool Merging::look_at(int e) {
  const Network::Edge& edge = n_.edges[e];
  if (!edge.over_two()) return false;
  const Link &first = root(edge.variables[0]), &second = root(edge.variables[1]);
  const int a = first.parent, b = second.parent;
  if (looked_[e] >= std::max(changed_[a], changed_[b])) return false;
  looked_[e] = now_;
  if (a == b) return look_within(e, a);
  Partners of_a(there_[a].size()), of_b(there_[b].size());
  const size_t columns = n_.costs[edge.variables[1]].size();
  for (int x = 0; x < static_cast<int>(there_[a].size()); ++x) {
    if (!there_[a][x]) continue;
    const int64_t* row = edge.table->data() + columns * static_cast<size_t>(first.value[x]);
    for (int y = 0; y < static_cast<int>(there_[b].size()); ++y)
      if (there_[b][y] && row[second.value[y]] < kForbidden) of_a.add(x, y), of_b.add(y, x);
  }
  const bool lost_a = leave_out(a, of_a.without(there_[a])), lost_b = leave_out(b, of_b.without(there_[b]));
  if (infeasible_) return true;
  if (may_join(b, a) && of_a.decide(there_[a])) return join(b, a, of_a.one);
  if (may_join(a, b) && of_b.decide(there_[b])) return join(a, b, of_b.one);
  return lost_a || lost_b;
}

bool Merging::look_within(int e, int root) {
  const Network::Edge& edge = n_.edges[e];
  const Link &first = links_[edge.variables[0]], &second = links_[edge.variables[1]];
  std::vector<int> lost;
  for (int x = 0; x < static_cast<int>(there_[root].size()); ++x) {
    if (!there_[root][x]) continue;
    const size_t row = static_cast<size_t>(first.value[x]), columns = n_.costs[edge.variables[1]].size();
    if ((*edge.table)[row * columns + static_cast<size_t>(second.value[x])] >= kForbidden) lost.push_back(x);
  }
  return leave_out(root, lost);
}

bool Merging::leave_out(int v, const std::vector<int>& values) {
  for (int x : values) there_[v][x] = 0;
  if (values.empty()) return false;
  changed_[v] = ++now_;
  infeasible_ |= live(v) == 0;
  return true;
}

// Tells whether the tables beside `below` may become tables beside `above`, and the one between them go.
bool Merging::may_join(int below, int above) const {
  if (locked_[below] || locked_[above]) return false;
  const double more = live(above) - live(below);
  return more * (beside_[below] - live(above)) <= static_cast<double>(live(above)) * live(below);
}

bool Merging::join(int below, int above, const std::vector<int>& value) {
  beside_[above] += beside_[below] - live(above) - live(below);
  links_[below] = {above, value};
  changed_[above] = changed_[below] = ++now_;
  ++merged_;
  return true;
}

void Merging::number() {
  number_.assign(n_.variables(), -1);
  for (int v = 0; v < n_.variables(); ++v) {
    root(v);
    if (links_[v].parent != v) continue;
    number_[v] = static_cast<int>(original_.size());
    original_.push_back(v);
    values_.emplace_back();
    for (int x = 0; x < n_.domain(v); ++x)
      if (there_[v][x] || locked_[v]) values_.back().push_back(x);
  }
}

// Adds up costs of the roots' values: those of all that joined them, and of the edges within.
void Merging::add_costs(Network& merged) const {
  for (size_t r = 0; r < original_.size(); ++r) merged.costs.emplace_back(values_[r].size(), 0);
  auto add = [&](int r, const auto& cost_at) {
    for (size_t i = 0; i < values_[r].size(); ++i) {
      int64_t& to = merged.costs[r][i];
      const int64_t cost = cost_at(values_[r][i]);
      to = to >= kForbidden || cost >= kForbidden ? kForbidden : to + cost;
    }
  };
  for (int v = 0; v < n_.variables(); ++v)
    add(number_[links_[v].parent], [&](int x) { return n_.costs[v][links_[v].value[x]]; });
  for (const Network::Edge& e : n_.edges) {
    if (!e.over_two() || links_[e.variables[0]].parent != links_[e.variables[1]].parent) continue;
    const Link &first = links_[e.variables[0]], &second = links_[e.variables[1]];
    const size_t columns = n_.costs[e.variables[1]].size();
    add(number_[first.parent], [&](int x) {
      return (*e.table)[columns * static_cast<size_t>(first.value[x]) + static_cast<size_t>(second.value[x])];
    });
  }
}

// Adds edges between roots; those of equal tables over equal values share one.
void Merging::add_edges(Network& merged) const {
  std::map<std::vector<int>, int> lists;
  std::vector<int> list_of;  // of a variable's own values, one for each of its root's
  for (const Link& link : links_) {
    std::vector<int> own;
    for (int x : values_[number_[link.parent]]) own.push_back(link.value[x]);
    list_of.push_back(lists.try_emplace(std::move(own), static_cast<int>(lists.size())).first->second);
  }
  std::vector<const std::vector<int>*> list(lists.size());
  for (const auto& [values, at] : lists) list[at] = &values;
  std::map<std::tuple<const Table*, int, int>, std::shared_ptr<const Table>> tables;
  for (const Network::Edge& e : n_.edges) {
    std::vector<int> roots;
    for (int v : e.variables) roots.push_back(number_[links_[v].parent]);
    if (!e.over_two()) {
      merged.edges.push_back({roots, e.table});
      continue;
    }
    if (roots[0] == roots[1]) continue;
    const int rows = list_of[e.variables[0]], columns = list_of[e.variables[1]];
    auto& table = tables[{e.table.get(), rows, columns}];
    if (!table) {
      Table t;
      t.reserve(list[rows]->size() * list[columns]->size());
      const size_t stride = n_.costs[e.variables[1]].size();
      for (int x : *list[rows])
        for (int y : *list[columns]) t.push_back((*e.table)[stride * static_cast<size_t>(x) + static_cast<size_t>(y)]);
      table = std::make_shared<const Table>(std::move(t));
    }
    merged.edges.push_back({std::move(roots), table});
  }
}

Network Merging::network() const {
  Network merged;
  add_costs(merged);
  add_edges(merged);
  for (const Network::Use& u : n_.uses) {
    const Link& link = links_[u.variable];
    const int r = number_[link.parent];
    merged.uses.push_back({r, u.lower, u.upper, {}});
    for (int x : values_[r]) merged.uses.back().amounts.push_back(u.amounts[link.value[x]]);
  }
  merged.limit = n_.limit;
  return merged;
}

Assignment Merging::lifted(const Assignment& of_merged) const {
  Assignment x;
  for (const Link& link : links_) {
    const int r = number_[link.parent];
    x.push_back(link.value[values_[r][of_merged[r]]]);
  }
  return x;
}

Assignment Merging::lowered(const Assignment& of_original) const {
  Assignment x;
  for (size_t r = 0; r < original_.size(); ++r) {
    const auto at = std::lower_bound(values_[r].begin(), values_[r].end(), of_original[original_[r]]);
    x.push_back(at != values_[r].end() && *at == of_original[original_[r]] ? static_cast<int>(at - values_[r].begin())
                                                                           : 0);
  }
  return x;
}

}  // namespace partita::solver
