#include "partita/solver/reduce.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "partita/base/error.h"
#include "partita/solver/model.h"

namespace partita::solver {

namespace {

constexpr int64_t kLargest = int64_t{1} << 57;  // of costs that are summed up

// Two variables and what their values cost together; it may have been made by a step, and is gone once a step has used
// it.
struct Edge {
  int a = 0, b = 0;  // a < b
  std::shared_ptr<const Table> table;
  bool turned = false;  // the table is [b][a]
  bool gone = false;
};

// An edge as one of its variables sees it.
struct Side {
  int edge = 0, own = 0, other = 0;
  const int64_t* table = nullptr;
  size_t own_stride = 0, other_stride = 0;
  int sample = 0;  // a value of the other: the cheapest by its own costs
  int64_t at(int x, int z) const {
    return table[own_stride * static_cast<size_t>(x) + other_stride * static_cast<size_t>(z)];
  }
};

enum class Kind { kFixed, kDegreeOne, kDegreeTwo, kDominance };

struct Step {
  Kind kind = Kind::kFixed;
  int variable = 0;
  int first = -1, second = -1, made = -1;            // edges; of dominance, values x and y
  Table own;                                         // costs of `variable` then; of a fixed one its value alone
  std::vector<std::pair<int, int64_t>> differences;  // of dominance: an edge, and its least difference
};

// Messages at the two ends of an edge.
struct Ends {
  std::vector<int64_t> a, b;
};

int64_t clamped(Wide value) {
  constexpr Wide kMost = Wide{4'000'000'000'000'000'000};
  return static_cast<int64_t>(std::clamp(value, -kMost, kMost));
}

}  // namespace

struct Reduction::Inside {
  Inside(const Network& network, Rules which)
      : n(network),
        rules(which),
        unary(network.costs),
        incident(network.variables()),
        locked(network.variables(), 0),
        eliminated(network.variables(), 0) {
    constexpr int64_t kTimes = 16, kLeast = 1'000'000, kMost = 100'000'000;  // entries looked at
    for (const Network::Edge& e : n.edges) work_left += kTimes * static_cast<int64_t>(e.table->size());
    work_left = std::clamp(work_left, kLeast, kMost);
    for (int v = 0; v < n.variables(); ++v) {
      owner.emplace_back(n.domain(v));
      std::iota(owner[v].begin(), owner[v].end(), 0);
      if (live(v) == 0) infeasible = true;
    }
    if (infeasible || (n.limit && *n.limit < 0)) return;
    take_uses();
    take_edges();
    original_edges = edges.size();
    run();
    measure();
    if (headroom > static_cast<double>(int64_t{1} << 59)) forget();
  }

  // ------------------------------------------------------------------ the network in hand

  bool is_live(int v, int x) const { return unary[v][x] < kForbidden; }
  int live(int v) const {
    return static_cast<int>(std::count_if(unary[v].begin(), unary[v].end(), [](int64_t c) { return c < kForbidden; }));
  }

  Side side(int e, int v) const {
    const Edge& edge = edges[e];
    const size_t columns = n.costs[edge.turned ? edge.a : edge.b].size();
    const bool rows = (v == edge.a) != edge.turned;
    return {e, v, v == edge.a ? edge.b : edge.a, edge.table->data(), rows ? columns : 1, rows ? 1 : columns, 0};
  }

  void take_uses() {
    const std::vector<int64_t> times =
        kept_times(n);  // what is in use at none of these is part of nothing that breaks the limit
    uses.resize(n.variables());
    for (const Network::Use& u : n.uses) {
      const auto from = std::lower_bound(times.begin(), times.end(), u.lower);
      if (from != times.end() && *from < u.upper) uses[u.variable].push_back(&u);
    }
  }

  // Edges over two variables, those over the same ones summed up. What else there is stays as it is, with the variables
  // it names.
  void take_edges() {
    std::map<std::pair<int, int>, std::vector<const Network::Edge*>> pairs;
    for (const Network::Edge& e : n.edges)
      if (e.over_two()) pairs[std::minmax(e.variables[0], e.variables[1])].push_back(&e);
      else keep(e);
    std::map<std::pair<size_t, std::vector<std::pair<const Table*, bool>>>, std::shared_ptr<const Table>> sums;
    for (const auto& [ends, list] : pairs) {
      const auto [a, b] = ends;
      bool small = true;
      for (const Network::Edge* e : list)
        small = small && magnitude_of(e->table) <= kLargest / static_cast<int64_t>(list.size());
      if (!small) {
        for (const Network::Edge* e : list) keep(*e);
        continue;
      }
      if (list.size() == 1) {
        add({a, b, list[0]->table, list[0]->variables[0] == b});
        continue;
      }
      std::vector<std::pair<const Table*, bool>> key;
      for (const Network::Edge* e : list) key.push_back({e->table.get(), e->variables[0] == b});
      auto& sum = sums[{n.costs[a].size(), key}];
      if (!sum) {
        const size_t rows = n.costs[a].size(), columns = n.costs[b].size();
        Table t(rows * columns, 0);
        for (const auto& [table, turned] : key)
          for (size_t x = 0; x < rows; ++x)
            for (size_t y = 0; y < columns; ++y) {
              const int64_t cost = (*table)[turned ? y * rows + x : x * columns + y];
              int64_t& to = t[x * columns + y];
              to = to >= kForbidden || cost >= kForbidden ? kForbidden : to + cost;
            }
        sum = std::make_shared<const Table>(std::move(t));
      }
      add({a, b, sum});
    }
    for (int v = 0; v < n.variables(); ++v)
      if (magnitude(unary[v]) > kLargest) locked[v] = 1;
  }

  void keep(const Network::Edge& e) {
    kept.push_back(&e);
    for (int v : e.variables) locked[v] = 1;
    const std::set<int> over(e.variables.begin(), e.variables.end());
    if (over.size() == 2) kept_pairs.insert({*over.begin(), *over.rbegin()});
  }

  int64_t magnitude_of(const std::shared_ptr<const Table>& t) {
    auto [it, fresh] = magnitudes.try_emplace(t.get(), 0);
    if (fresh) it->second = magnitude(*t);
    return it->second;
  }

  int add(Edge e) {
    incident[e.a].push_back(static_cast<int>(edges.size()));
    incident[e.b].push_back(static_cast<int>(edges.size()));
    at[{e.a, e.b}] = static_cast<int>(edges.size());
    edges.push_back(std::move(e));
    return static_cast<int>(edges.size()) - 1;
  }

  void remove(int e) {
    Edge& edge = edges[e];
    edge.gone = true;
    at.erase({edge.a, edge.b});
    for (int v : {edge.a, edge.b}) {
      std::erase(incident[v], e);
      if (!eliminated[v]) touch(v);
    }
  }

  // ------------------------------------------------------------------ the rules

  void touch(int v) {
    if (!dirty[v]) dirty[v] = 1, queue.push_back(v);
  }

  // Rounds over the variables that something has changed at, by index, until nothing applies.
  void run() {
    dirty.assign(n.variables(), 0);
    for (int v = 0; v < n.variables(); ++v) touch(v);
    while (!queue.empty()) {
      std::vector<int> now = std::move(queue);
      queue.clear();
      std::sort(now.begin(), now.end());
      for (int v : now) {
        dirty[v] = 0;
        if (!eliminated[v] && !locked[v]) look_at(v);
        if (infeasible) return forget();
      }
    }
  }

  void look_at(int v) {
    if (rules == Rules::kAll) simplify(v);
    if (eliminated[v] || live(v) == 1 || !dominance(v)) return;
    touch(v);
    for (int e : incident[v]) touch(edges[e].a == v ? edges[e].b : edges[e].a);
  }

  void simplify(int v) {
    if (live(v) == 1)
      for (const std::vector<int> mine = incident[v]; int e : mine) fix(v, e);
    if (uses[v].empty() && incident[v].size() == 1) degree_one(v);
    if (uses[v].empty() && incident[v].size() == 2) degree_two(v);
  }

  // What each value of the other variable costs more, if that can be added to its own costs.
  bool give(int to, const Table& added) {
    for (size_t y = 0; y < added.size(); ++y) {
      if (!is_live(to, static_cast<int>(y)) || added[y] >= kForbidden) continue;
      if (const Wide sum = Wide{unary[to][y]} + added[y]; sum > kLargest || sum < -kLargest) return false;
    }
    for (size_t y = 0; y < added.size(); ++y)
      if (is_live(to, static_cast<int>(y)))
        unary[to][y] = added[y] >= kForbidden ? kForbidden : unary[to][y] + added[y];
    infeasible |= live(to) == 0;
    return true;
  }

  void fix(int v, int e) {
    const int x = static_cast<int>(
        std::find_if(unary[v].begin(), unary[v].end(), [](int64_t c) { return c < kForbidden; }) - unary[v].begin());
    const Side s = side(e, v);
    Table added;
    for (int z = 0; z < n.domain(s.other); ++z) added.push_back(s.at(x, z));
    if (!give(s.other, added)) return;
    steps.push_back({Kind::kFixed, v, e, -1, -1, {x}, {}});
    ++counts["fixed"];
    remove(e);
  }

  void degree_one(int v) {
    const Side s = side(incident[v][0], v);
    Table added(n.domain(s.other), kForbidden);
    for (int z = 0; z < n.domain(s.other); ++z)
      for (int x = 0; x < n.domain(v); ++x)
        if (is_live(v, x) && s.at(x, z) < kForbidden) added[z] = std::min(added[z], unary[v][x] + s.at(x, z));
    if (!give(s.other, added)) return;
    steps.push_back({Kind::kDegreeOne, v, s.edge, -1, -1, unary[v], {}});
    ++counts["degree_one"];
    eliminated[v] = 1;
    remove(s.edge);
  }

  void degree_two(int v) {
    Side s = side(incident[v][0], v), t = side(incident[v][1], v);
    if (s.other > t.other) std::swap(s, t);
    const int a = s.other, b = t.other;
    if (at.contains({a, b}) || kept_pairs.contains({a, b}) || live(a) * live(b) > live(v) * (live(a) + live(b))) return;
    auto& table = joined[{s.table, s.own_stride, t.table, t.own_stride, unary[v]}];
    if (!table) {
      Table sum(static_cast<size_t>(n.domain(a)) * n.domain(b), kForbidden);
      for (int x = 0; x < n.domain(v); ++x) {
        if (!is_live(v, x)) continue;
        for (int y = 0; y < n.domain(a); ++y) {
          if (s.at(x, y) >= kForbidden) continue;
          const int64_t cost = unary[v][x] + s.at(x, y);
          for (int z = 0; z < n.domain(b); ++z)
            if (t.at(x, z) < kForbidden) {
              int64_t& to = sum[static_cast<size_t>(y) * n.domain(b) + z];
              to = std::min(to, cost + t.at(x, z));
            }
        }
      }
      table = std::make_shared<const Table>(std::move(sum));
    }
    if (magnitude_of(table) > kLargest) return;
    eliminated[v] = 1;
    Step step{Kind::kDegreeTwo, v, s.edge, t.edge, -1, unary[v], {}};
    remove(s.edge);
    remove(t.edge);
    step.made = add({a, b, table});
    steps.push_back(std::move(step));
    ++counts["degree_two"];
  }

  // min_z (table(x, z) - table(y, z)); empty: it is below `needed`, or y is forbidden beside some z where x is not. A
  // value that has no partner costs whatever we like.
  std::optional<int64_t> least_difference(const Side& s, int x, int y, Wide needed) {
    int64_t least = kForbidden;
    const Table& others = unary[s.other];
    for (int z = 0; z < static_cast<int>(others.size()); ++z) {
      --work_left;
      if (others[z] >= kForbidden) continue;
      const int64_t worse = s.at(x, z), better = s.at(y, z);
      if (worse >= kForbidden) continue;
      if (better >= kForbidden || worse - better < needed) return std::nullopt;
      least = std::min(least, worse - better);
    }
    return least == kForbidden ? 0 : least;
  }

  bool uses_no_more(int v, int y, int x) const {
    return std::all_of(uses[v].begin(), uses[v].end(),
                       [&](const Network::Use* u) { return u->amounts[y] <= u->amounts[x]; });
  }

  // A value is compared with every other that is cheaper beside one sample of partners, as far as there is work left.
  bool dominance(int v) {
    if (work_left < 0) return false;
    const int values = n.domain(v);
    std::vector<Side> sides;
    std::vector<Wide> sample(unary[v].begin(), unary[v].end());
    for (int e : incident[v]) {
      Side s = side(e, v);
      s.sample =
          static_cast<int>(std::min_element(unary[s.other].begin(), unary[s.other].end()) - unary[s.other].begin());
      for (int x = 0; x < values; ++x) sample[x] += s.at(x, s.sample);
      sides.push_back(s);
    }
    bool any = false;
    for (int x = values; x-- > 0;) {
      if (!is_live(v, x)) continue;
      work_left -= values;
      for (int y = 0; y < values; ++y) {
        if (y == x || sample[y] > sample[x] || !is_live(v, y) || !uses_no_more(v, y, x)) continue;
        if (work_left < 0) return any;
        if (!dominates(v, y, x, sides, sample[x] - sample[y])) continue;
        any = true;
        break;
      }
    }
    return any;
  }

  // `sum`, of the sampled differences, gives way to that of the least ones, side by side.
  bool dominates(int v, int y, int x, const std::vector<Side>& sides, Wide sum) {
    Step step{Kind::kDominance, v, x, y, -1, {}, {}};
    for (const Side& s : sides) {
      sum -= Wide{s.at(x, s.sample)} - s.at(y, s.sample);
      const auto difference = least_difference(s, x, y, -sum);
      if (!difference) return false;
      sum += *difference;
      step.differences.push_back({s.edge, *difference});
    }
    if (sum < 0) return false;
    unary[v][x] = kForbidden;
    owner[v][x] = y;
    steps.push_back(std::move(step));
    ++counts["dominated"];
    return true;
  }

  // ------------------------------------------------------------------ what comes of it

  void forget() {
    steps.clear();
    counts.clear();
    infeasible = true;
  }

  // How large what lifting adds to messages can become.
  void measure() {
    std::vector<double> reach(edges.size(), 0);
    for (size_t i = steps.size(); i-- > 0;) {
      const Step& s = steps[i];
      auto of = [&](int e) { return static_cast<double>(magnitude_of(edges[e].table)); };
      switch (s.kind) {
        case Kind::kFixed:
          reach[s.first] = of(s.first);
          break;
        case Kind::kDegreeOne:
          reach[s.first] = of(s.first) + static_cast<double>(magnitude(s.own));
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
    for (double r : reach) headroom = std::max(headroom, r);
  }

  // The value that stands for x: itself, or what dominates it.
  int root(int v, int x) const {
    while (owner[v][x] != x) x = owner[v][x];
    return x;
  }

  // Of a locked variable all values stay, since other edges name them.
  bool stays(int v, int x) const { return locked[v] || is_live(v, x); }

  void make_reduced() {
    number.assign(n.variables(), -1);
    place.resize(n.variables());
    std::map<std::vector<int>, int> lists;
    std::vector<int> list_of(n.variables(), -1);
    for (int v = 0; v < n.variables(); ++v) {
      if (eliminated[v]) continue;
      number[v] = reduced.variables();
      original.push_back(v);
      reduced.costs.emplace_back();
      std::vector<int> values;
      place[v].assign(n.domain(v), -1);
      for (int x = 0; x < n.domain(v); ++x)
        if (stays(v, x)) {
          place[v][x] = static_cast<int>(values.size());
          values.push_back(x);
          reduced.costs.back().push_back(unary[v][x]);
        }
      for (int x = 0; x < n.domain(v); ++x)  // the rest goes with what dominates it, or with any
        if (place[v][x] < 0) place[v][x] = std::max(0, place[v][root(v, x)]);
      list_of[v] = lists.try_emplace(values, static_cast<int>(lists.size())).first->second;
      kept_values.push_back(std::move(values));
    }
    std::map<std::tuple<const Table*, bool, int, int>, std::shared_ptr<const Table>> slices;
    for (size_t e = 0; e < edges.size(); ++e) {
      const Edge& edge = edges[e];
      if (edge.gone) continue;
      const auto &rows = kept_values[number[edge.a]], &columns = kept_values[number[edge.b]];
      const bool whole =
          static_cast<int>(rows.size()) == n.domain(edge.a) && static_cast<int>(columns.size()) == n.domain(edge.b);
      auto& table = slices[{edge.table.get(), edge.turned, list_of[edge.a], list_of[edge.b]}];
      if (!table && whole && !edge.turned) table = edge.table;
      if (!table) {
        const Side s = side(static_cast<int>(e), edge.a);
        Table slice;
        for (int x : rows)
          for (int y : columns) slice.push_back(s.at(x, y));
        table = std::make_shared<const Table>(std::move(slice));
      }
      reduced.edges.push_back({{number[edge.a], number[edge.b]}, table});
    }
    for (const Network::Edge* e : kept) {
      reduced.edges.push_back(*e);
      for (int& v : reduced.edges.back().variables) v = number[v];
    }
    for (const Network::Use& u : n.uses) {
      if (number[u.variable] < 0) continue;  // it uses nothing that matters
      reduced.uses.push_back({number[u.variable], u.lower, u.upper, {}});
      for (int x : kept_values[number[u.variable]]) reduced.uses.back().amounts.push_back(u.amounts[x]);
    }
    reduced.limit = n.limit;
  }

  // ------------------------------------------------------------------ undoing

  void undo(const Step& s, Assignment& x) const {
    if (s.kind != Kind::kDegreeOne && s.kind != Kind::kDegreeTwo) return;
    const int v = s.variable;
    Wide best = 0;
    x[v] = -1;
    for (int y = 0; y < n.domain(v); ++y) {
      if (s.own[y] >= kForbidden) continue;
      Wide cost = s.own[y];
      bool forbidden = false;
      for (int e : {s.first, s.second}) {
        if (e < 0) continue;
        const Side t = side(e, v);
        const int64_t pair = t.at(y, x[t.other]);
        forbidden |= pair >= kForbidden;
        cost += pair;
      }
      if (!forbidden && (x[v] < 0 || cost < best)) best = cost, x[v] = y;
    }
    x[v] = std::max(x[v], 0);
  }

  std::vector<int64_t>& end(std::vector<Ends>& ends, int e, int v) const {
    std::vector<int64_t>& values = v == edges[e].a ? ends[e].a : ends[e].b;
    if (values.empty()) values.assign(n.domain(v), 0);
    return values;
  }

  // [variable][value]: not forbidden, and not dominated by what has not been undone yet.
  using There = std::vector<std::vector<char>>;
  There there_at_the_end() const {
    There there;
    for (const Table& costs : unary) {
      there.emplace_back();
      for (int64_t c : costs) there.back().push_back(c < kForbidden);
    }
    return there;
  }

  // min over the other end of s table - messages there. Values that are gone have a message of their own only once
  // their dominance is undone, and reckon with nothing that is gone either.
  std::vector<int64_t> transformed(const Side& s, const std::vector<int64_t>& messages, int64_t scale,
                                   const There& there) const {
    std::vector<int64_t> out;
    for (int x = 0; x < n.domain(s.own); ++x) {
      bool any = false;
      Wide least = 0;
      for (int z = 0; there[s.own][x] && z < n.domain(s.other); ++z) {
        if (!there[s.other][z] || messages[z] == kNotThere || s.at(x, z) >= kForbidden) continue;
        const Wide cost = Wide{scale} * s.at(x, z) - messages[z];
        if (!any || cost < least) least = cost, any = true;
      }
      out.push_back(any ? clamped(least) : kNotThere);
    }
    return out;
  }

  void undo(const Step& s, int64_t scale, There& there, std::vector<Ends>& ends) const {
    const int v = s.variable;
    if (s.kind == Kind::kDominance) {
      there[v][s.first] = 1;
      for (const auto& [e, difference] : s.differences) {
        std::vector<int64_t>& messages = end(ends, e, v);
        messages[s.first] =
            messages[s.second] == kNotThere ? kNotThere : clamped(messages[s.second] + Wide{scale} * difference);
      }
      return;
    }
    const Side first = side(s.first, v);
    if (s.kind == Kind::kDegreeTwo) {
      const Side second = side(s.second, v);
      end(ends, s.first, first.other) = end(ends, s.made, first.other);
      end(ends, s.second, second.other) = end(ends, s.made, second.other);
      end(ends, s.first, v) = transformed(first, end(ends, s.first, first.other), scale, there);
      end(ends, s.second, v) = transformed(second, end(ends, s.second, second.other), scale, there);
      ends[s.made] = {};
      return;
    }
    std::vector<int64_t>& own = end(ends, s.first, v);
    if (s.kind == Kind::kDegreeOne)
      for (int x = 0; x < n.domain(v); ++x)
        own[x] = s.own[x] >= kForbidden ? kNotThere : clamped(-Wide{scale} * s.own[x]);
    else
      for (int x = 0; x < n.domain(v); ++x) own[x] = x == s.own[0] ? 0 : kNotThere;
    Side back = side(s.first, first.other);
    end(ends, s.first, first.other) = transformed(back, own, scale, there);
  }

  const Network& n;
  const Rules rules;
  std::vector<Table> unary;   // forbidden: not there any more
  std::vector<Edge> edges;    // made ones at the end
  size_t original_edges = 0;  // before them
  std::vector<const Network::Edge*> kept;
  std::set<std::pair<int, int>> kept_pairs;  // that they are over
  std::vector<std::vector<int>> incident;    // [variable]: edges
  std::map<std::pair<int, int>, int> at;     // edges that are there
  std::vector<char> locked, eliminated, dirty;
  std::vector<std::vector<const Network::Use*>> uses;  // [variable]: that matter
  std::vector<std::vector<int>> owner;                 // [variable][value]: what dominates it
  std::vector<int> queue;
  std::vector<Step> steps;
  std::map<std::string, int> counts;
  std::map<const Table*, int64_t> magnitudes;
  std::map<std::tuple<const int64_t*, size_t, const int64_t*, size_t, Table>, std::shared_ptr<const Table>>
      joined;  // equal joins share a table
  int64_t work_left = 0;
  bool infeasible = false;  // or nothing was done: the network is its own reduction
  double headroom = 0;

  Network reduced;
  std::vector<int> number, original;  // of the reduced network's variables
  std::vector<std::vector<int>> place,
      kept_values;  // [original variable][value] -> reduced value; [reduced variable][value] -> original value
};

Reduction::Reduction(const Network& network, Rules rules) : inside_(std::make_unique<Inside>(network, rules)) {
  Inside& in = *inside_;
  if (!in.steps.empty()) in.make_reduced();
  else in.headroom = 0;
}
Reduction::~Reduction() = default;

const Network& Reduction::reduced() const { return inside_->steps.empty() ? inside_->n : inside_->reduced; }
double Reduction::headroom() const { return inside_->headroom; }
const std::map<std::string, int>& Reduction::counts() const { return inside_->counts; }

std::vector<Certificate::Substitution> Reduction::dominated() const {
  std::vector<Certificate::Substitution> list;
  for (const Step& s : inside_->steps)
    if (s.kind == Kind::kDominance) list.push_back({s.variable, s.first, s.second});
  return list;
}

Assignment Reduction::lifted(const Assignment& of_reduced) const {
  const Inside& in = *inside_;
  if (in.steps.empty()) return of_reduced;
  Assignment x(in.n.variables(), 0);
  for (size_t r = 0; r < of_reduced.size(); ++r) x[in.original[r]] = in.kept_values[r][of_reduced[r]];
  for (size_t i = in.steps.size(); i-- > 0;) in.undo(in.steps[i], x);
  return x;
}

Assignment Reduction::lowered(const Assignment& of_original) const {
  const Inside& in = *inside_;
  if (in.steps.empty()) return of_original;
  Assignment x;
  for (int v : in.original) x.push_back(in.place[v][of_original[v]]);
  return x;
}

Certificate::Leaf Reduction::lifted(const Certificate::Leaf& of_reduced) const {
  const Inside& in = *inside_;
  Certificate::Leaf leaf{of_reduced.scale, {}, {}, of_reduced.multipliers};
  if (in.steps.empty()) {
    leaf = of_reduced;
  } else {
    for (const Certificate::Decision& d : of_reduced.decisions) {
      const int v = in.original[d.variable];
      leaf.decisions.push_back({v, {}});
      for (int x = 0; x < in.n.domain(v); ++x)
        if (std::binary_search(d.values.begin(), d.values.end(), in.place[v][x]))
          leaf.decisions.back().values.push_back(x);
    }
    std::vector<Ends> ends(in.edges.size());
    for (const Certificate::Message& m : of_reduced.messages) {
      std::vector<int> variables;
      for (int r : m.variables) variables.push_back(in.original[r]);
      auto it = variables.size() == 2 ? in.at.find({variables[0], variables[1]}) : in.at.end();
      if (it == in.at.end()) {  // an edge that stayed as it is
        leaf.messages.push_back({variables, m.ends});
        continue;
      }
      for (size_t i = 0; i < 2; ++i) {
        if (m.ends[i].empty()) continue;
        const int r = m.variables[i], v = variables[i];
        std::vector<int64_t>& to = in.end(ends, it->second, v);
        std::fill(to.begin(), to.end(), kNotThere);
        for (size_t x = 0; x < m.ends[i].size(); ++x) to[in.kept_values[r][x]] = m.ends[i][x];
      }
    }
    Inside::There there = in.there_at_the_end();
    for (size_t i = in.steps.size(); i-- > 0;) in.undo(in.steps[i], leaf.scale, there, ends);
    for (size_t e = 0; e < ends.size(); ++e)
      if (!ends[e].a.empty() || !ends[e].b.empty())
        leaf.messages.push_back({{in.edges[e].a, in.edges[e].b}, {std::move(ends[e].a), std::move(ends[e].b)}});
  }
  for (Certificate::Message& m : leaf.messages)
    for (auto& end : m.ends)
      for (int64_t& value : end)
        if (value == kNotThere) value = 0;
  return leaf;
}

// A step takes a variable with its edges out: of the messages at their far ends those of a new edge are made, all
// others are in costs now.
Certificate::Leaf Reduction::lowered(const Certificate::Leaf& of_original) const {
  const Inside& in = *inside_;
  if (in.steps.empty()) return of_original;
  Certificate::Leaf leaf{of_original.scale, {}, {}, of_original.multipliers};
  std::map<std::vector<int>, int> known;  // edges by their variables
  for (size_t e = 0; e < in.original_edges; ++e) known[{in.edges[e].a, in.edges[e].b}] = static_cast<int>(e);
  std::vector<Ends> ends(in.edges.size());
  for (const Certificate::Message& m : of_original.messages) {
    if (const auto it = known.find(m.variables); it != known.end()) {
      ends[it->second] = {m.ends[0], m.ends[1]};
      continue;
    }
    leaf.messages.push_back(m);  // of an edge that stayed as it is
    for (int& v : leaf.messages.back().variables) v = in.number[v];
  }
  for (const Step& s : in.steps)
    if (s.kind == Kind::kDegreeTwo) {
      const Side first = in.side(s.first, s.variable), second = in.side(s.second, s.variable);
      ends[s.made] = {in.end(ends, s.first, first.other), in.end(ends, s.second, second.other)};
    }
  for (size_t e = 0; e < in.edges.size(); ++e) {
    const Edge& edge = in.edges[e];
    if (edge.gone || (ends[e].a.empty() && ends[e].b.empty())) continue;
    leaf.messages.push_back({{in.number[edge.a], in.number[edge.b]}, {{}, {}}});
    for (const auto& [v, at] : {std::pair(edge.a, 0), std::pair(edge.b, 1)}) {
      const std::vector<int64_t>& values = in.end(ends, static_cast<int>(e), v);
      for (int x : in.kept_values[in.number[v]]) leaf.messages.back().ends[at].push_back(values[x]);
    }
  }
  return leaf;
}

}  // namespace partita::solver
