// Starts and ends a reduction: takes the edges and uses of a network, and makes the reduced network.
#include <algorithm>
#include <numeric>

#include "partita/solver/model.h"
#include "partita/solver/reduce_state.h"

namespace partita::solver {

namespace {

// A use at none of the times that matter plays no part in breaking the limit.
void take_uses(Reducing& r) {
  const std::vector<int64_t> times = kept_times(r.n);
  r.uses.resize(r.n.variables());
  for (const Network::Use& u : r.n.uses) {
    const auto from = std::lower_bound(times.begin(), times.end(), u.lower);
    if (from != times.end() && *from < u.upper) r.uses[u.variable].push_back(&u);
  }
}

void keep(Reducing& r, const Network::Edge& e) {
  r.kept.push_back(&e);
  for (int v : e.variables) r.locked[v] = 1;
  const std::set<int> over(e.variables.begin(), e.variables.end());
  if (over.size() == 2) r.kept_pairs.insert({*over.begin(), *over.rbegin()});
}

// Tables over two variables with these numbers of rows and columns, turned ones the other way.
using Sources = std::vector<std::pair<const Table*, bool>>;

Table sum_of(const Sources& sources, size_t rows, size_t columns) {
  Table sum(rows * columns, 0);
  for (const auto& [table, turned] : sources)
    for (size_t x = 0; x < rows; ++x)
      for (size_t y = 0; y < columns; ++y) {
        const int64_t cost = (*table)[turned ? y * rows + x : x * columns + y];
        int64_t& to = sum[x * columns + y];
        to = to >= kForbidden || cost >= kForbidden ? kForbidden : to + cost;
      }
  return sum;
}

// Sums up edges over the same two variables, equal sums once. If sums could be too large, the edges stay as they are;
// so do edges over other numbers of variables.
void take_edges(Reducing& r) {
  const Network& n = r.n;
  std::map<std::pair<int, int>, std::vector<const Network::Edge*>> pairs;
  for (const Network::Edge& e : n.edges)
    if (e.over_two()) pairs[std::minmax(e.variables[0], e.variables[1])].push_back(&e);
    else keep(r, e);
  std::map<std::pair<size_t, Sources>, std::shared_ptr<const Table>> sums;  // by rows and sources
  for (const auto& [ends, list] : pairs) {
    const auto [a, b] = ends;
    const int64_t most = kLargestCost / static_cast<int64_t>(list.size());
    bool small = true;
    for (const Network::Edge* e : list) small = small && r.magnitude_of(e->table) <= most;
    if (!small) {
      for (const Network::Edge* e : list) keep(r, *e);
      continue;
    }
    if (list.size() == 1) {
      r.add({a, b, list[0]->table, list[0]->variables[0] == b});
      continue;
    }
    Sources sources;
    for (const Network::Edge* e : list) sources.push_back({e->table.get(), e->variables[0] == b});
    auto& sum = sums[{n.costs[a].size(), sources}];
    if (!sum) sum = std::make_shared<const Table>(sum_of(sources, n.costs[a].size(), n.costs[b].size()));
    r.add({a, b, sum});
  }
  for (int v = 0; v < n.variables(); ++v)
    if (largest_absolute(r.unary[v]) > kLargestCost) r.locked[v] = 1;
}

}  // namespace

Reducing::Reducing(const Network& network)
    : n(network),
      unary(network.costs),
      incident(network.variables()),
      locked(network.variables(), 0),
      eliminated(network.variables(), 0) {
  for (int v = 0; v < n.variables(); ++v) {
    owner.emplace_back(n.domain(v));
    std::iota(owner[v].begin(), owner[v].end(), 0);
    if (live(v) == 0) infeasible = true;
  }
  if (infeasible || (n.limit && *n.limit < 0)) return;
  take_uses(*this);
  take_edges(*this);
  original_edges = edges.size();
}

int Reducing::live(int v) const {
  return static_cast<int>(std::count_if(unary[v].begin(), unary[v].end(), [](int64_t c) { return c < kForbidden; }));
}

Side Reducing::side(int e, int v) const {
  const ReducedEdge& edge = edges[e];
  const size_t columns = n.costs[edge.turned ? edge.a : edge.b].size();
  const bool rows = (v == edge.a) != edge.turned;
  return {e, v, v == edge.a ? edge.b : edge.a, edge.table->data(), rows ? columns : 1, rows ? 1 : columns, 0};
}

int Reducing::add(ReducedEdge e) {
  incident[e.a].push_back(static_cast<int>(edges.size()));
  incident[e.b].push_back(static_cast<int>(edges.size()));
  at[{e.a, e.b}] = static_cast<int>(edges.size());
  edges.push_back(std::move(e));
  return static_cast<int>(edges.size()) - 1;
}

int64_t Reducing::magnitude_of(const std::shared_ptr<const Table>& t) {
  auto [it, fresh] = magnitudes.try_emplace(t.get(), 0);
  if (fresh) it->second = largest_absolute(*t);
  return it->second;
}

void Reducing::forget() {
  steps.clear();
  counts.clear();
  infeasible = true;
}

namespace {

// The value that stands for x: itself, or the value that dominates it.
int root(const Reducing& r, int v, int x) {
  while (r.owner[v][x] != x) x = r.owner[v][x];
  return x;
}

// Adds the remaining variables, with their remaining values. A locked variable keeps all, since other edges name them.
// Returns, by variable, a number of its list of values.
std::vector<int> add_variables(const Reducing& r, Reduced& out) {
  const int variables = r.n.variables();
  out.number.assign(variables, -1);
  out.place.resize(variables);
  std::map<std::vector<int>, int> lists;
  std::vector<int> list_of(variables, -1);
  for (int v = 0; v < variables; ++v) {
    if (r.eliminated[v]) continue;
    out.number[v] = out.network.variables();
    out.original.push_back(v);
    out.network.costs.emplace_back();
    std::vector<int> values;
    std::vector<int>& place = out.place[v];
    place.assign(r.n.domain(v), -1);
    for (int x = 0; x < r.n.domain(v); ++x)
      if (r.locked[v] || r.is_live(v, x)) {
        place[x] = static_cast<int>(values.size());
        values.push_back(x);
        out.network.costs.back().push_back(r.unary[v][x]);
      }
    for (int x = 0; x < r.n.domain(v); ++x)  // other values go with the one that dominates them, or with any
      if (place[x] < 0) place[x] = std::max(0, place[root(r, v, x)]);
    list_of[v] = lists.try_emplace(values, static_cast<int>(lists.size())).first->second;
    out.kept_values.push_back(std::move(values));
  }
  return list_of;
}

// Adds the remaining edges, over the remaining values; equal ones of one table share theirs.
void add_edges(const Reducing& r, const std::vector<int>& list_of, Reduced& out) {
  std::map<std::tuple<const Table*, bool, int, int>, std::shared_ptr<const Table>> slices;
  for (size_t e = 0; e < r.edges.size(); ++e) {
    const ReducedEdge& edge = r.edges[e];
    if (edge.gone) continue;
    const auto &rows = out.kept_values[out.number[edge.a]], &columns = out.kept_values[out.number[edge.b]];
    const bool whole =
        static_cast<int>(rows.size()) == r.n.domain(edge.a) && static_cast<int>(columns.size()) == r.n.domain(edge.b);
    auto& table = slices[{edge.table.get(), edge.turned, list_of[edge.a], list_of[edge.b]}];
    if (!table && whole && !edge.turned) table = edge.table;
    if (!table) {
      const Side s = r.side(static_cast<int>(e), edge.a);
      Table slice;
      for (int x : rows)
        for (int y : columns) slice.push_back(s.at(x, y));
      table = std::make_shared<const Table>(std::move(slice));
    }
    out.network.edges.push_back({{out.number[edge.a], out.number[edge.b]}, table});
  }
  for (const Network::Edge* e : r.kept) {
    out.network.edges.push_back(*e);
    for (int& v : out.network.edges.back().variables) v = out.number[v];
  }
}

}  // namespace

Reduced make_reduced(const Reducing& r) {
  Reduced out;
  const std::vector<int> list_of = add_variables(r, out);
  add_edges(r, list_of, out);
  for (const Network::Use& u : r.n.uses) {
    const int number = out.number[u.variable];
    if (number < 0) continue;  // it uses nothing that matters
    out.network.uses.push_back({number, u.lower, u.upper, {}});
    for (int x : out.kept_values[number]) out.network.uses.back().amounts.push_back(u.amounts[x]);
  }
  out.network.limit = r.n.limit;
  return out;
}

}  // namespace partita::solver
