// Applies the rules of a reduction, each of which makes the network smaller and records a step.
#include <algorithm>
#include <cmath>
#include <optional>

#include "partita/solver/model.h"
#include "partita/solver/reduce_state.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

namespace {

using Kind = ReductionStep::Kind;

// The remaining work.
struct Work {
  explicit Work(Reducing& of) : r(of), dirty(of.n.variables(), 0) {
    const Tuning::Dominance& t = kTuning.dominance;
    for (const Network::Edge& e : r.n.edges) left += t.looks * static_cast<int64_t>(e.table->size());
    left = std::clamp(left, t.least, t.most);
    for (int v = 0; v < r.n.variables(); ++v) touch(v);
  }
  void touch(int v) {
    if (!dirty[v]) dirty[v] = 1, queue.push_back(v);
  }

  Reducing& r;
  std::vector<char> dirty;
  std::vector<int> queue;  // variables with a change
  int64_t left = 0;        // table entries that dominance may still read
  // Edges that degree two makes, by their ingredients: equal ones share a table.
  std::map<std::tuple<const int64_t*, size_t, const int64_t*, size_t, Table>, std::shared_ptr<const Table>> joined;
};

void remove(Work& w, int e) {
  Reducing& r = w.r;
  ReducedEdge& edge = r.edges[e];
  edge.gone = true;
  r.at.erase({edge.a, edge.b});
  for (int v : {edge.a, edge.b}) {
    std::erase(r.incident[v], e);
    if (!r.eliminated[v]) w.touch(v);
  }
}

// ------------------------------------------------------------------ fixed, degree one, degree two

// Adds to each value's own costs, if none becomes too large.
bool give_costs(Reducing& r, int to, const Table& added) {
  for (size_t y = 0; y < added.size(); ++y) {
    if (!r.is_live(to, static_cast<int>(y)) || added[y] >= kForbidden) continue;
    if (const Wide sum = Wide{r.unary[to][y]} + added[y]; sum > kLargestCost || sum < -kLargestCost) return false;
  }
  for (size_t y = 0; y < added.size(); ++y)
    if (r.is_live(to, static_cast<int>(y)))
      r.unary[to][y] = added[y] >= kForbidden ? kForbidden : r.unary[to][y] + added[y];
  r.infeasible |= r.live(to) == 0;
  return true;
}

void fix(Work& w, int v, int e) {
  Reducing& r = w.r;
  const Table& own = r.unary[v];
  const int x =
      static_cast<int>(std::find_if(own.begin(), own.end(), [](int64_t c) { return c < kForbidden; }) - own.begin());
  const Side s = r.side(e, v);
  Table added;
  for (int z = 0; z < r.n.domain(s.other); ++z) added.push_back(s.at(x, z));
  if (!give_costs(r, s.other, added)) return;
  r.steps.push_back({Kind::kFixed, v, e, -1, -1, {x}, {}});
  ++r.counts["fixed"];
  remove(w, e);
}

void take_degree_one(Work& w, int v) {
  Reducing& r = w.r;
  const Side s = r.side(r.incident[v][0], v);
  Table added(r.n.domain(s.other), kForbidden);
  for (int z = 0; z < r.n.domain(s.other); ++z)
    for (int x = 0; x < r.n.domain(v); ++x)
      if (r.is_live(v, x) && s.at(x, z) < kForbidden) added[z] = std::min(added[z], r.unary[v][x] + s.at(x, z));
  if (!give_costs(r, s.other, added)) return;
  r.steps.push_back({Kind::kDegreeOne, v, s.edge, -1, -1, r.unary[v], {}});
  ++r.counts["degree_one"];
  r.eliminated[v] = 1;
  remove(w, s.edge);
}

// The least of v's costs and those of its two edges, by the values at their far ends.
Table joined_at(const Reducing& r, int v, const Side& s, const Side& t) {
  const int rows = r.n.domain(s.other), columns = r.n.domain(t.other);
  Table sum(static_cast<size_t>(rows) * columns, kForbidden);
  for (int x = 0; x < r.n.domain(v); ++x) {
    if (!r.is_live(v, x)) continue;
    for (int y = 0; y < rows; ++y) {
      if (s.at(x, y) >= kForbidden) continue;
      const int64_t cost = r.unary[v][x] + s.at(x, y);
      for (int z = 0; z < columns; ++z)
        if (t.at(x, z) < kForbidden) {
          int64_t& to = sum[static_cast<size_t>(y) * columns + z];
          to = std::min(to, cost + t.at(x, z));
        }
    }
  }
  return sum;
}

// Takes a variable of degree two. Not if there is an edge between the two neighbours already, or if the new table has
// more entries than the old ones.
void take_degree_two(Work& w, int v) {
  Reducing& r = w.r;
  Side s = r.side(r.incident[v][0], v), t = r.side(r.incident[v][1], v);
  if (s.other > t.other) std::swap(s, t);
  const int a = s.other, b = t.other;
  if (r.at.contains({a, b}) || r.kept_pairs.contains({a, b}) ||
      r.live(a) * r.live(b) > r.live(v) * (r.live(a) + r.live(b)))
    return;
  auto& table = w.joined[{s.table, s.own_stride, t.table, t.own_stride, r.unary[v]}];
  if (!table) table = std::make_shared<const Table>(joined_at(r, v, s, t));
  if (r.magnitude_of(table) > kLargestCost) return;
  r.eliminated[v] = 1;
  ReductionStep step{Kind::kDegreeTwo, v, s.edge, t.edge, -1, r.unary[v], {}};
  remove(w, s.edge);
  remove(w, t.edge);
  step.made = r.add({a, b, table});
  r.steps.push_back(std::move(step));
  ++r.counts["degree_two"];
}

void simplify(Work& w, int v) {
  Reducing& r = w.r;
  if (r.live(v) == 1)
    for (const std::vector<int> mine = r.incident[v]; int e : mine) fix(w, v, e);
  if (r.uses[v].empty() && r.incident[v].size() == 1) take_degree_one(w, v);
  if (r.uses[v].empty() && r.incident[v].size() == 2) take_degree_two(w, v);
}

// ------------------------------------------------------------------ dominance

// min_z (table(x, z) - table(y, z)); empty if it is below `needed`, or if y, but not x, is forbidden beside some z.
// A value without a partner may cost anything.
std::optional<int64_t> least_difference(Work& w, const Side& s, int x, int y, Wide needed) {
  int64_t least = kForbidden;
  const Table& others = w.r.unary[s.other];
  for (int z = 0; z < static_cast<int>(others.size()); ++z) {
    --w.left;
    if (others[z] >= kForbidden) continue;
    const int64_t worse = s.at(x, z), better = s.at(y, z);
    if (worse >= kForbidden) continue;
    if (better >= kForbidden || worse - better < needed) return std::nullopt;
    least = std::min(least, worse - better);
  }
  return least == kForbidden ? 0 : least;
}

// Takes x out if y is never worse. `sum`, of the differences beside the sampled partners, is replaced by that of the
// least ones, edge by edge.
bool take_dominated(Work& w, int v, int y, int x, const std::vector<Side>& sides, Wide sum) {
  Reducing& r = w.r;
  ReductionStep step{Kind::kDominance, v, x, y, -1, {}, {}};
  for (const Side& s : sides) {
    sum -= Wide{s.at(x, s.sample)} - s.at(y, s.sample);
    const auto difference = least_difference(w, s, x, y, -sum);
    if (!difference) return false;
    sum += *difference;
    step.differences.push_back({s.edge, *difference});
  }
  if (sum < 0) return false;
  r.unary[v][x] = kForbidden;
  r.owner[v][x] = y;
  r.steps.push_back(std::move(step));
  ++r.counts["dominated"];
  return true;
}

bool uses_no_more(const Reducing& r, int v, int y, int x) {
  return std::all_of(r.uses[v].begin(), r.uses[v].end(),
                     [&](const Network::Use* u) { return u->amounts[y] <= u->amounts[x]; });
}

// Compares a value with every other that is cheaper beside one sample of partners, while there is work left.
bool dominate_values(Work& w, int v) {
  Reducing& r = w.r;
  if (w.left < 0) return false;
  const int values = r.n.domain(v);
  std::vector<Side> sides;
  std::vector<Wide> sample(r.unary[v].begin(), r.unary[v].end());
  for (int e : r.incident[v]) {
    Side s = r.side(e, v);
    const Table& others = r.unary[s.other];
    s.sample = static_cast<int>(std::min_element(others.begin(), others.end()) - others.begin());
    for (int x = 0; x < values; ++x) sample[x] += s.at(x, s.sample);
    sides.push_back(s);
  }
  bool any = false;
  for (int x = values; x-- > 0;) {
    if (!r.is_live(v, x)) continue;
    w.left -= values;
    for (int y = 0; y < values; ++y) {
      if (y == x || sample[y] > sample[x] || !r.is_live(v, y) || !uses_no_more(r, v, y, x)) continue;
      if (w.left < 0) return any;
      if (!take_dominated(w, v, y, x, sides, sample[x] - sample[y])) continue;
      any = true;
      break;
    }
  }
  return any;
}

void look_at(Work& w, int v, Reduction::Rules rules) {
  Reducing& r = w.r;
  if (rules == Reduction::Rules::kAll) simplify(w, v);
  if (r.eliminated[v] || r.live(v) == 1 || !dominate_values(w, v)) return;
  w.touch(v);
  for (int e : r.incident[v]) w.touch(r.edges[e].a == v ? r.edges[e].b : r.edges[e].a);
}

// The largest amount that lifting adds to messages.
double headroom_of(Reducing& r) {
  std::vector<double> reach(r.edges.size(), 0);
  auto of = [&](int e) { return static_cast<double>(r.magnitude_of(r.edges[e].table)); };
  for (size_t i = r.steps.size(); i-- > 0;) {
    const ReductionStep& s = r.steps[i];
    switch (s.kind) {
      case Kind::kFixed:
        reach[s.first] = of(s.first);
        break;
      case Kind::kDegreeOne:
        reach[s.first] = of(s.first) + static_cast<double>(largest_absolute(s.own));
        break;
      case Kind::kDegreeTwo:
        reach[s.first] = reach[s.made] + of(s.first);
        reach[s.second] = reach[s.made] + of(s.second);
        break;
      case Kind::kDominance:
        for (const auto& [e, difference] : s.differences) reach[e] += std::abs(static_cast<double>(difference));
        break;
    }
  }
  double headroom = 0;
  for (double r_of_edge : reach) headroom = std::max(headroom, r_of_edge);
  return headroom;
}

}  // namespace

// Goes in rounds over the variables with a change, by index.
void apply_rules(Reducing& r, Reduction::Rules rules) {
  constexpr int64_t kMostHeadroom = int64_t{1} << 59;
  Work work(r);
  while (!work.queue.empty()) {
    std::vector<int> now = std::move(work.queue);
    work.queue.clear();
    std::sort(now.begin(), now.end());
    for (int v : now) {
      work.dirty[v] = 0;
      if (!r.eliminated[v] && !r.locked[v]) look_at(work, v, rules);
      if (r.infeasible) return r.forget();
    }
  }
  r.headroom = headroom_of(r);
  if (r.headroom > static_cast<double>(kMostHeadroom)) r.forget();
}

}  // namespace partita::solver
