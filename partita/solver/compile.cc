// Compiles networks into models: pairs, joint factors, and uses at the times that can matter.
#include <algorithm>
#include <map>
#include <numeric>

#include "partita/base/threads.h"
#include "partita/solver/model.h"

namespace partita::solver {

namespace {

// An edge with each variable once, ascending. It keeps its table unless that must be summed up anew, or turned over.
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

// Tables that are summed up; the second of a pair: turned over.
using Sources = std::vector<std::pair<const Table*, bool>>;

// A pair table still to be made.
struct Missing {
  size_t number = 0;  // in the model's
  int rows = 0, columns = 0;
  Sources sources;
  size_t entries() const { return static_cast<size_t>(rows) * columns; }
};

// A model while it is made.
struct Compiling {
  const Network& n;
  Model m;
  std::vector<Missing> missing;
  std::vector<std::shared_ptr<const Table>> held;  // while their addresses are keys
};

// ------------------------------------------------------------------ pair tables

// Queues tables to be made, which takes long: threads share them, the largest first.
void make_table_later(Compiling& c, size_t table, int first, int second, Sources sources) {
  c.missing.push_back({table, c.n.domain(first), c.n.domain(second), std::move(sources)});
}

PairTable merged(int rows, int columns, const Sources& sources) {
  if (sources.size() == 1 && !sources[0].second) return {rows, columns, *sources[0].first};
  std::vector<double> costs(static_cast<size_t>(rows) * columns, 0);
  for (const auto& [table, turned] : sources)
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j)
        costs[static_cast<size_t>(i) * columns + j] +=
            as_double((*table)[turned ? static_cast<size_t>(j) * rows + i : static_cast<size_t>(i) * columns + j]);
  return {rows, columns, costs};
}

void make_tables(Compiling& c) {
  constexpr size_t kMany = 1'000'000;  // entries
  size_t entries = 0;
  for (const Missing& t : c.missing) entries += t.entries();
  std::stable_sort(c.missing.begin(), c.missing.end(),
                   [](const Missing& a, const Missing& b) { return a.entries() > b.entries(); });
  parallel_for(entries > kMany ? kFewThreads : 1, c.missing.size(), [&](size_t i, int) {
    const Missing& t = c.missing[i];
    c.m.tables[t.number] = std::make_shared<const PairTable>(merged(t.rows, t.columns, t.sources));
  });
}

// ------------------------------------------------------------------ factors over three variables or more

// Adds an edge over the variables of an existing factor: its tuples that this edge forbids become infinite.
void add_to_joint(Compiling& c, const Model::Joint& j, const Table& table) {
  size_t k = c.m.offset[j.joint];
  for (const Assignment& x : j.tuples) {
    size_t index = 0;
    for (size_t i = 0; i < x.size(); ++i) index = index * c.n.domain(j.variables[i]) + x[i];
    c.m.unary[k++] += as_double(table[index]);
  }
}

void add_joint(Compiling& c, const std::vector<int>& variables, const Table& table) {
  for (const Model::Joint& j : c.m.joints)
    if (j.variables == variables) return add_to_joint(c, j, table);
  Model::Joint j{variables, static_cast<int>(c.m.offset.size()) - 1, {}};
  Assignment x(variables.size(), 0);
  for (int64_t cost : table) {
    if (cost < kForbidden) {
      j.tuples.push_back(x);
      c.m.unary.push_back(as_double(cost));
    }
    for (int i = static_cast<int>(x.size()) - 1; i >= 0 && ++x[i] == c.n.domain(variables[i]); --i) x[i] = 0;
  }
  if (j.tuples.empty()) {  // a domain is never empty
    j.tuples.push_back(Assignment(variables.size(), 0));
    c.m.unary.push_back(kInfinity);
  }
  c.m.offset.push_back(static_cast<int>(c.m.unary.size()));
  c.m.joints.push_back(std::move(j));
}

// Adds pairs of a factor's variables and the variable that stands for it.
void tie_joint(Compiling& c, const Model::Joint& j) {
  for (size_t i = 0; i < j.variables.size(); ++i) {
    const int rows = c.n.domain(j.variables[i]), columns = static_cast<int>(j.tuples.size());
    std::vector<double> costs(static_cast<size_t>(rows) * columns, kInfinity);
    for (size_t k = 0; k < j.tuples.size(); ++k) costs[static_cast<size_t>(j.tuples[k][i]) * columns + k] = 0;
    c.m.pairs.push_back({j.variables[i], j.joint, static_cast<int>(c.m.tables.size())});
    c.m.tables.push_back(std::make_shared<const PairTable>(rows, columns, costs));
  }
}

// ------------------------------------------------------------------ edges over two variables

using Parallel = std::map<std::pair<int, int>, Sources>;  // by variables

// The pair table made of a table that is alone over its two variables; null if there is none.
std::shared_ptr<const PairTable> made_of(const PairTables* made, const Sources& sources, int rows, int columns) {
  if (!made || sources.size() > 1) return nullptr;
  const auto [table, turned] = sources[0];
  const auto at = made->find({table, turned ? columns : rows});
  if (at == made->end()) return nullptr;
  return turned ? std::make_shared<const PairTable>(at->second->turned()) : at->second;
}

// Adds pairs: parallel edges become one; equal lists of tables share their pair table.
void add_pairs(Compiling& c, const Parallel& pairs, const PairTables* made) {
  std::map<std::pair<int, Sources>, int> known;  // with the number of rows: equal lists may be of two shapes
  for (const auto& [which, sources] : pairs) {
    const auto [a, b] = which;
    auto key = sources;  // its order is that of addresses: only to tell equal ones
    std::sort(key.begin(), key.end());
    auto [it, fresh] = known.emplace(std::pair(c.n.domain(a), key), static_cast<int>(c.m.tables.size()));
    if (fresh) {
      c.m.tables.push_back(made_of(made, sources, c.n.domain(a), c.n.domain(b)));
      if (!c.m.tables.back()) make_table_later(c, c.m.tables.size() - 1, a, b, sources);
    }
    c.m.pairs.push_back({a, b, it->second, 1});
  }
}

// Edges that stay apart, each with its table, turned over or not. The network's own tables may be known, and become so.
struct Apart {
  const std::vector<int64_t>& times;  // [edge]: how often it counts
  PairTables& known;
  std::map<std::pair<const Table*, int>, int> number;  // of the network's own tables, as PairTables has them
};

void add_apart(Compiling& c, const Canonical& e, double times, bool is_own, Apart& apart) {
  const auto [first, second] =
      e.turned ? std::pair(e.variables[1], e.variables[0]) : std::pair(e.variables[0], e.variables[1]);
  if (!is_own) {
    c.m.pairs.push_back({first, second, static_cast<int>(c.m.tables.size()), times});
    c.m.tables.emplace_back();
    return make_table_later(c, c.m.tables.size() - 1, first, second, {{e.table.get(), false}});
  }
  const std::pair key(e.table.get(), c.n.domain(first));
  const auto [at, fresh] = apart.number.try_emplace(key, static_cast<int>(c.m.tables.size()));
  if (fresh) {
    c.m.tables.push_back(apart.known[key]);
    if (!c.m.tables.back()) make_table_later(c, c.m.tables.size() - 1, first, second, {{e.table.get(), false}});
  }
  c.m.pairs.push_back({first, second, at->second, times});
}

// ------------------------------------------------------------------ the model

void add_variables(Compiling& c) {
  c.m.originals = c.n.variables();
  c.m.offset = {0};
  c.m.unary.reserve(std::accumulate(c.n.costs.begin(), c.n.costs.end(), size_t{0},
                                    [](size_t sum, const Table& costs) { return sum + costs.size(); }));
  for (const Table& costs : c.n.costs) {
    c.m.offset.push_back(c.m.offset.back() + static_cast<int>(costs.size()));
    for (int64_t cost : costs) c.m.unary.push_back(as_double(cost));
  }
}

// Adds edges. Edges over one variable become costs of its own. Those over two go to `apart`, if there is one, else to
// the result.
Parallel add_edges(Compiling& c, Apart* apart) {
  Parallel pairs;
  for (size_t i = 0; i < c.n.edges.size(); ++i) {
    const Network::Edge& e = c.n.edges[i];
    const Canonical once = canonical(c.n, e);
    const std::vector<int>& variables = once.variables;
    const bool is_own = once.table == e.table;
    if (variables.size() == 1)
      for (size_t x = 0; x < once.table->size(); ++x)
        c.m.unary[c.m.offset[variables[0]] + x] += as_double((*once.table)[x]);
    else if (variables.size() == 2 && apart) add_apart(c, once, static_cast<double>(apart->times[i]), is_own, *apart);
    else if (variables.size() == 2) pairs[{variables[0], variables[1]}].push_back({once.table.get(), once.turned});
    else add_joint(c, variables, *once.table);
    if (!is_own) c.held.push_back(once.table);
  }
  return pairs;
}

void finish_pairs(Compiling& c) {
  c.m.neighbours.resize(c.m.variables());
  for (size_t p = 0; p < c.m.pairs.size(); ++p) {
    const auto& [a, b, table, times] = c.m.pairs[p];
    c.m.neighbours[a].push_back({b, static_cast<int>(p), true});
    c.m.neighbours[b].push_back({a, static_cast<int>(p), false});
    c.m.entries += static_cast<int64_t>(c.m.domain(a)) * c.m.domain(b);
    c.m.sweep += c.m.sweep_entries(c.m.pairs[p]);
  }
  for (auto& list : c.m.neighbours)
    std::sort(list.begin(), list.end(), [](const auto& x, const auto& y) { return x.variable < y.variable; });
}

void compile_uses(Compiling& c) {
  c.m.uses.resize(c.m.variables());
  if (!c.n.limit) return;
  c.m.limit = *c.n.limit;
  c.m.times = kept_times(c.n);
  c.m.limited = c.m.limit < 0 || !c.m.times.empty();
  for (const Network::Use& u : c.n.uses) {
    const auto lower = std::lower_bound(c.m.times.begin(), c.m.times.end(), u.lower),
               upper = std::lower_bound(c.m.times.begin(), c.m.times.end(), u.upper);
    const int64_t most = *std::max_element(u.amounts.begin(), u.amounts.end());
    if (lower < upper && most > 0)
      c.m.uses[u.variable].push_back(
          {static_cast<int>(lower - c.m.times.begin()), static_cast<int>(upper - c.m.times.begin()), u.amounts});
  }
}

Model finished(Compiling& c) {
  for (const Model::Joint& j : c.m.joints) tie_joint(c, j);
  finish_pairs(c);
  compile_uses(c);
  return std::move(c.m);
}

}  // namespace

Model compile(const Network& network, const PairTables* made) {
  Compiling c{network, {}, {}, {}};
  add_variables(c);
  add_pairs(c, add_edges(c, nullptr), made);
  make_tables(c);
  return finished(c);
}

Model compile_apart(const Network& network, const std::vector<int64_t>& times, PairTables& known) {
  Compiling c{network, {}, {}, {}};
  Apart apart{times, known, {}};
  add_variables(c);
  add_edges(c, &apart);
  make_tables(c);
  for (const auto& [key, number] : apart.number) known[key] = c.m.tables[number];
  return finished(c);
}

}  // namespace partita::solver
