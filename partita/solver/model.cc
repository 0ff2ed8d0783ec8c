#include "partita/solver/model.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "partita/base/threads.h"

namespace partita::solver {

namespace {

// An edge with each variable once, ascending; its table summed up anew unless it is as it stands, or turned over.
struct Canonical {
  std::vector<int> variables;
  std::shared_ptr<const Table> table;
  bool turned = false;
};

Canonical canonical(const Network& n, const Network::Edge& e) {
  if (e.over_two()) {
    const bool turned = e.variables[0] > e.variables[1];
    return {turned ? std::vector<int>{e.variables[1], e.variables[0]} : e.variables, e.table, turned};
  }
  Canonical c;
  c.variables = e.variables;
  std::sort(c.variables.begin(), c.variables.end());
  c.variables.erase(std::unique(c.variables.begin(), c.variables.end()), c.variables.end());
  Table table;
  Assignment x(c.variables.size(), 0);
  while (true) {
    size_t index = 0;
    for (int v : e.variables)
      index = index * n.costs[v].size() +
              x[std::lower_bound(c.variables.begin(), c.variables.end(), v) - c.variables.begin()];
    table.push_back((*e.table)[index]);
    int i = static_cast<int>(x.size()) - 1;
    while (i >= 0 && ++x[i] == n.domain(c.variables[i])) x[i--] = 0;
    if (i < 0) break;
  }
  c.table = std::make_shared<const Table>(std::move(table));
  return c;
}

Wide most_of(const Table& table) {
  Wide most = 0;
  bool any = false;
  for (int64_t c : table)
    if (c < kForbidden && (!any || c > most)) most = c, any = true;
  return most;
}

// Tables that are summed up, the second of a pair: turned over.
using Sources = std::vector<std::pair<const Table*, bool>>;

class Compiler {
 public:
  explicit Compiler(const Network& network, const PairTables* made) : n_(network), made_(made) {}
  // Parallel edges stay apart. `times`: by edge.
  Compiler(const Network& network, const std::vector<int64_t>* times, PairTables* known)
      : n_(network), times_(times), known_(known) {}

  Model compile() {
    m_.originals = n_.variables();
    m_.offset = {0};
    m_.unary.reserve(std::accumulate(n_.costs.begin(), n_.costs.end(), size_t{0},
                                     [](size_t sum, const Table& costs) { return sum + costs.size(); }));
    for (const Table& costs : n_.costs) add_variable(costs);
    std::map<std::pair<int, int>, Sources> pairs;
    for (size_t i = 0; i < n_.edges.size(); ++i) {
      const Network::Edge& e = n_.edges[i];
      Canonical c = canonical(n_, e);
      if (c.variables.size() == 1)
        for (size_t x = 0; x < c.table->size(); ++x)
          m_.unary[m_.offset[c.variables[0]] + x] += as_double((*c.table)[x]);
      else if (c.variables.size() == 2 && times_) add_apart(c, static_cast<double>((*times_)[i]), c.table == e.table);
      else if (c.variables.size() == 2) pairs[{c.variables[0], c.variables[1]}].push_back({c.table.get(), c.turned});
      else add_joint(c);
      if (c.table != e.table) held_.push_back(c.table);
    }
    std::map<std::pair<int, Sources>, int> known;  // with the number of rows: equal lists may be of two shapes
    for (auto& [which, sources] : pairs) {
      const auto [a, b] = which;
      auto key = sources;  // its order is that of addresses: only to tell equal ones
      std::sort(key.begin(), key.end());
      auto [it, fresh] = known.emplace(std::pair(n_.domain(a), key), static_cast<int>(m_.tables.size()));
      if (fresh) {
        m_.tables.push_back(made_of(sources, n_.domain(a), n_.domain(b)));
        if (!m_.tables.back()) later(m_.tables.size() - 1, a, b, sources);
      }
      m_.pairs.push_back({a, b, it->second, 1});
    }
    make_tables();
    for (const Model::Joint& j : m_.joints) tie(j);
    finish_pairs();
    compile_uses();
    return std::move(m_);
  }

 private:
  void add_variable(const Table& costs) {
    m_.offset.push_back(m_.offset.back() + static_cast<int>(costs.size()));
    for (int64_t c : costs) m_.unary.push_back(as_double(c));
  }

  // Its table stands as it is, turned over or not. One that stays may be known, and becomes so.
  void add_apart(const Canonical& c, double times, bool stays) {
    const auto [first, second] =
        c.turned ? std::pair(c.variables[1], c.variables[0]) : std::pair(c.variables[0], c.variables[1]);
    if (!stays) {
      m_.pairs.push_back({first, second, static_cast<int>(m_.tables.size()), times});
      m_.tables.emplace_back();
      return later(m_.tables.size() - 1, first, second, {{c.table.get(), false}});
    }
    const std::pair key(c.table.get(), n_.domain(first));
    const auto [at, fresh] = number_.try_emplace(key, static_cast<int>(m_.tables.size()));
    if (fresh) {
      m_.tables.push_back((*known_)[key]);
      if (!m_.tables.back()) later(m_.tables.size() - 1, first, second, {{c.table.get(), false}});
    }
    m_.pairs.push_back({first, second, at->second, times});
  }

  // What was made of a table that is alone over its two variables; null: nothing.
  std::shared_ptr<const PairTable> made_of(const Sources& sources, int rows, int columns) const {
    if (!made_ || sources.size() > 1) return nullptr;
    const auto [table, turned] = sources[0];
    const auto at = made_->find({table, turned ? columns : rows});
    if (at == made_->end()) return nullptr;
    return turned ? std::make_shared<const PairTable>(at->second->turned()) : at->second;
  }

  // Tables that are yet to be made take long: two threads share them, the largest first.
  void later(size_t table, int first, int second, Sources sources) {
    missing_.push_back({table, n_.domain(first), n_.domain(second), std::move(sources)});
  }

  void make_tables() {
    constexpr size_t kMany = 1'000'000;  // entries
    size_t entries = 0;
    for (const Missing& t : missing_) entries += t.entries();
    std::stable_sort(missing_.begin(), missing_.end(),
                     [](const Missing& a, const Missing& b) { return a.entries() > b.entries(); });
    shared_out(entries > kMany ? 2 : 1, missing_.size(), [&](size_t i, int) {
      const Missing& t = missing_[i];
      m_.tables[t.number] = std::make_shared<const PairTable>(merged(t.rows, t.columns, t.sources));
    });
    for (const auto& [key, number] : number_) (*known_)[key] = m_.tables[number];
  }

  void add_joint(const Canonical& c) {
    for (Model::Joint& j : m_.joints)
      if (j.variables == c.variables) {  // its tuples that this edge forbids become infinite
        size_t k = m_.offset[j.joint];
        for (const Assignment& x : j.tuples) {
          size_t index = 0;
          for (size_t i = 0; i < x.size(); ++i) index = index * n_.domain(c.variables[i]) + x[i];
          m_.unary[k++] += as_double((*c.table)[index]);
        }
        return;
      }
    Model::Joint j{c.variables, static_cast<int>(m_.offset.size()) - 1, {}};
    Assignment x(c.variables.size(), 0);
    for (int64_t cost : *c.table) {
      if (cost < kForbidden) {
        j.tuples.push_back(x);
        m_.unary.push_back(as_double(cost));
      }
      for (int i = static_cast<int>(x.size()) - 1; i >= 0 && ++x[i] == n_.domain(c.variables[i]); --i) x[i] = 0;
    }
    if (j.tuples.empty()) {  // a domain is never empty
      j.tuples.push_back(Assignment(c.variables.size(), 0));
      m_.unary.push_back(kInfinity);
    }
    m_.offset.push_back(static_cast<int>(m_.unary.size()));
    m_.joints.push_back(std::move(j));
  }

  void tie(const Model::Joint& j) {
    for (size_t i = 0; i < j.variables.size(); ++i) {
      const int rows = n_.domain(j.variables[i]), columns = static_cast<int>(j.tuples.size());
      std::vector<double> costs(static_cast<size_t>(rows) * columns, kInfinity);
      for (size_t k = 0; k < j.tuples.size(); ++k) costs[static_cast<size_t>(j.tuples[k][i]) * columns + k] = 0;
      m_.pairs.push_back({j.variables[i], j.joint, static_cast<int>(m_.tables.size())});
      m_.tables.push_back(std::make_shared<const PairTable>(rows, columns, costs));
    }
  }

  static PairTable merged(int rows, int columns, const Sources& sources) {
    if (sources.size() == 1 && !sources[0].second) return {rows, columns, *sources[0].first};
    std::vector<double> costs(static_cast<size_t>(rows) * columns, 0);
    for (const auto& [table, turned] : sources)
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j)
          costs[static_cast<size_t>(i) * columns + j] +=
              as_double((*table)[turned ? static_cast<size_t>(j) * rows + i : static_cast<size_t>(i) * columns + j]);
    return {rows, columns, costs};
  }

  void finish_pairs() {
    m_.neighbours.resize(m_.variables());
    for (size_t p = 0; p < m_.pairs.size(); ++p) {
      const auto& [a, b, table, times] = m_.pairs[p];
      m_.neighbours[a].push_back({b, static_cast<int>(p), true});
      m_.neighbours[b].push_back({a, static_cast<int>(p), false});
      m_.entries += static_cast<int64_t>(m_.domain(a)) * m_.domain(b);
      m_.sweep += m_.sweep_of(m_.pairs[p]);
    }
    for (auto& list : m_.neighbours)
      std::sort(list.begin(), list.end(), [](const auto& x, const auto& y) { return x.variable < y.variable; });
  }

  void compile_uses() {
    m_.uses.resize(m_.variables());
    if (!n_.limit) return;
    m_.limit = *n_.limit;
    m_.times = kept_times(n_);
    m_.limited = m_.limit < 0 || !m_.times.empty();
    for (const Network::Use& u : n_.uses) {
      const auto lower = std::lower_bound(m_.times.begin(), m_.times.end(), u.lower),
                 upper = std::lower_bound(m_.times.begin(), m_.times.end(), u.upper);
      if (lower<upper&& * std::max_element(u.amounts.begin(), u.amounts.end())> 0)
        m_.uses[u.variable].push_back(
            {static_cast<int>(lower - m_.times.begin()), static_cast<int>(upper - m_.times.begin()), u.amounts});
    }
  }

  struct Missing {
    size_t number = 0;  // in the model's
    int rows = 0, columns = 0;
    Sources sources;
    size_t entries() const { return static_cast<size_t>(rows) * columns; }
  };

  const Network& n_;
  const PairTables* made_ = nullptr;
  const std::vector<int64_t>* times_ = nullptr;
  PairTables* known_ = nullptr;
  Model m_;
  std::map<std::pair<const Table*, int>, int> number_;  // of those that stay apart, as PairTables has them
  std::vector<Missing> missing_;
  std::vector<std::shared_ptr<const Table>> held_;  // while their addresses are keys
};

class Propagation {
 public:
  Propagation(const Model& m, Alive& alive, const std::vector<int>& changed)
      : m_(m), alive_(alive), queued_(m.variables(), changed.empty()), queue_(changed) {
    if (changed.empty())
      for (int v = 0; v < m.variables(); ++v) queue_.push_back(v);
    for (int v : changed) queued_[v] = 1;
  }

  bool run() {
    for (int v = 0; v < m_.variables(); ++v) {
      bool any = false;
      for (int i = m_.offset[v]; i < m_.offset[v + 1]; ++i) {
        if (alive_[i] && m_.unary[i] == kInfinity) drop(v, i);
        any |= alive_[i];
      }
      if (!any) return false;
    }
    do {
      while (!queue_.empty()) {
        const int v = queue_.back();
        queue_.pop_back();
        queued_[v] = 0;
        for (const Model::Neighbour& nb : m_.neighbours[v]) {
          if (without_partner(m_, v, nb, alive_, lost_) == 0) return false;
          for (int y : lost_) drop(nb.variable, m_.offset[nb.variable] + y);
        }
      }
      if (!uses()) return false;
    } while (!queue_.empty());
    return true;
  }

 private:
  void drop(int v, int index) {
    alive_[index] = 0;
    if (!queued_[v]) queued_[v] = 1, queue_.push_back(v);
  }

  int64_t least(int v, const Model::Use& u) const {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (size_t x = 0; x < u.amounts.size(); ++x)
      if (alive_[m_.offset[v] + x]) least = std::min(least, u.amounts[x]);
    return least;
  }

  bool uses() {
    if (!m_.limited) return true;
    if (m_.limit < 0) return false;
    std::vector<Wide> load(m_.times.size() + 1, 0);
    for (int v = 0; v < m_.variables(); ++v)
      for (const Model::Use& u : m_.uses[v]) {
        const int64_t amount = least(v, u);
        load[u.lower] += amount;
        load[u.upper] -= amount;
      }
    for (size_t t = 1; t < load.size(); ++t) load[t] += load[t - 1];
    Wide peak = 0;
    for (Wide l : load) peak = std::max(peak, l);
    for (int v = 0; v < m_.variables(); ++v)
      for (const Model::Use& u : m_.uses[v]) {
        const int64_t amount = least(v, u);
        const int64_t largest = *std::max_element(u.amounts.begin(), u.amounts.end());
        if (largest - amount + peak <= m_.limit) continue;
        const Wide room = m_.limit - *std::max_element(load.begin() + u.lower, load.begin() + u.upper);
        if (room < 0) return false;
        for (size_t x = 0; x < u.amounts.size(); ++x)
          if (alive_[m_.offset[v] + x] && u.amounts[x] - Wide{amount} > room)
            drop(v, m_.offset[v] + static_cast<int>(x));
      }
    return true;
  }

  const Model& m_;
  Alive& alive_;
  std::vector<char> queued_;
  std::vector<int> queue_, lost_;
};

}  // namespace

double entries_of(const Network& network) {
  double entries = 0;
  for (const Network::Edge& e : network.edges) entries += static_cast<double>(e.table->size());
  return entries;
}

Wide most_of(const Network& network) {
  Wide most = 0;
  for (const Table& costs : network.costs) most += most_of(costs);
  std::map<const Table*, Wide> known;
  for (const Network::Edge& e : network.edges) {
    const auto [it, fresh] = known.try_emplace(e.table.get(), 0);
    if (fresh) it->second = most_of(*e.table);
    most += it->second;
  }
  return most;
}

// Of the times between two changes of what is in use, those are kept at which something has begun and after which
// something ends: all others are dominated by a neighbour. Moreover, times at which even the largest amounts fit are
// dropped.
std::vector<int64_t> kept_times(const Network& n) {
  std::vector<int64_t> times;
  if (!n.limit) return times;
  std::map<int64_t, std::pair<Wide, Wide>> changes;  // time -> the largest amounts that begin, that end
  for (const Network::Use& u : n.uses) {
    const int64_t largest = *std::max_element(u.amounts.begin(), u.amounts.end());
    if (u.lower >= u.upper || largest == 0) continue;
    changes[u.lower].first += largest;
    changes[u.upper].second += largest;
  }
  Wide load = 0;
  for (auto it = changes.begin(); it != changes.end(); ++it) {
    load += it->second.first - it->second.second;
    auto next = std::next(it);
    if (next != changes.end() && it->second.first > 0 && next->second.second > 0 && load > *n.limit)
      times.push_back(it->first);
  }
  return times;
}

int64_t magnitude(const Table& t) {
  int64_t largest = 0;
  for (int64_t c : t)
    if (c < kForbidden) largest = std::max(largest, c < -kForbidden ? kForbidden : std::abs(c));
  return largest;
}

Model compile(const Network& network, const PairTables* made) { return Compiler(network, made).compile(); }
Model compile_apart(const Network& network, const std::vector<int64_t>& times, PairTables& known) {
  return Compiler(network, &times, &known).compile();
}

int64_t sweep_of(const Model& m, const Alive& alive) {
  std::vector<int64_t> values(m.variables(), 0);
  for (int v = 0; v < m.variables(); ++v)
    values[v] = std::count(&alive[m.offset[v]], &alive[m.offset[v]] + m.domain(v), 1);
  int64_t entries = 0;
  for (const Model::Pair& p : m.pairs) {
    const PairTable& t = *m.tables[p.table];
    entries += std::min<int64_t>(values[p.a], t.rows.count) * std::min<int64_t>(values[p.b], t.columns.count) +
               values[p.a] + values[p.b];
  }
  return entries;
}

int without_partner(const Model& m, int v, const Model::Neighbour& neighbour, const Alive& alive,
                    std::vector<int>& lost) {
  const View view = m.view(neighbour);
  const int w = neighbour.variable, kinds = view.own->count;
  std::vector<char> there(kinds, 0), has(view.other->count, 0);
  for (int x = 0; x < m.domain(v); ++x) there[(*view.own)(x)] |= alive[m.offset[v] + x];
  for (int k = 0; k < view.other->count; ++k) {
    const double* costs = view.by_other + static_cast<size_t>(k) * kinds;
    for (int i = 0; i < kinds && !has[k]; ++i) has[k] = there[i] && costs[i] < kInfinity;
  }
  lost.clear();
  int left = 0;
  for (int y = 0; y < m.domain(w); ++y) {
    if (!alive[m.offset[w] + y]) continue;
    if (has[(*view.other)(y)]) ++left;
    else lost.push_back(y);
  }
  return left;
}

bool propagate(const Model& model, Alive& alive, std::vector<int> changed) {
  return Propagation(model, alive, changed).run();
}

}  // namespace partita::solver
