#include "plain_minimum.h"

#include <algorithm>
#include <bit>
#include <set>

#include "partita/base/radices.h"
#include "partita/graph/factors.h"
#include "partita/plan/resolve.h"
#include "partita/plan/rules.h"

namespace partita {

void for_each_value(const std::vector<int>& domains, const std::vector<int>& scope,
                    const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> at(scope.size(), 0);
  while (true) {
    visit(at);
    size_t i = at.size();
    while (i > 0 && ++at[i - 1] == domains[scope[i - 1]]) at[--i] = 0;
    if (i == 0) return;
  }
}

namespace {

// Factors over variables whose domains shrink.
class Elimination {
 public:
  Elimination(const std::vector<int>& domains, std::vector<Factor> factors, int64_t max_table)
      : domains_(domains), factors_(std::move(factors)), max_table_(max_table) {}

  std::optional<int64_t> run() {
    for (const Factor& f : factors_)
      if (f.scope.empty()) sum_ += f.cost[0];
    std::set<int> left, changed;
    for (size_t v = 0; v < domains_.size(); ++v) left.insert(static_cast<int>(v));
    changed = left;
    std::map<int, double> sizes;
    for (;;) {
      while (!changed.empty()) {  // a value that is never the better choice is dropped
        const int v = *changed.begin();
        changed.erase(changed.begin());
        if (drop_dominated(v))
          for (int u : around(v)) changed.insert(u);
      }
      if (left.empty()) return sum_;
      for (int v : left) sizes[v] = entries(around(v));
      const int v = *std::min_element(left.begin(), left.end(), [&](int a, int b) { return sizes[a] < sizes[b]; });
      if (sizes[v] > static_cast<double>(max_table_)) return std::nullopt;
      const std::vector<int> scope = around(v);
      eliminate(v, scope);
      left.erase(v);
      changed.insert(scope.begin(), scope.end());
    }
  }

 private:
  static bool has(const Factor& f, int v) { return std::binary_search(f.scope.begin(), f.scope.end(), v); }
  std::vector<int> around(int v) const {
    std::set<int> scope;
    for (const Factor& f : factors_)
      if (has(f, v)) scope.insert(f.scope.begin(), f.scope.end());
    scope.erase(v);
    return {scope.begin(), scope.end()};
  }
  double entries(const std::vector<int>& scope) const {
    double n = 1;
    for (int v : scope) n *= domains_[v];
    return n;
  }
  size_t stride(const Factor& f, int v) const {
    size_t n = 1;
    for (size_t i = f.scope.size(); f.scope[--i] != v;) n *= static_cast<size_t>(domains_[f.scope[i]]);
    return n;
  }

  // Drops value a if another, b, costs no more whatever the others are: the sum over the factors of the least by which
  // a is dearer.
  bool drop_dominated(int v) {
    bool dropped = false;
    for (int a = 0; a < domains_[v]; ++a)
      for (int b = 0; b < domains_[v]; ++b) {
        if (a == b) continue;
        int64_t dearer = 0;
        for (const Factor& f : factors_) {
          if (!has(f, v) || dearer <= -kNever) continue;
          const size_t inner = stride(f, v), block = inner * static_cast<size_t>(domains_[v]);
          int64_t least = kNever;
          for (size_t at = 0; at < f.cost.size(); at += block)
            for (size_t i = 0; i < inner; ++i) {
              const int64_t of_a = f.cost[at + static_cast<size_t>(a) * inner + i],
                            of_b = f.cost[at + static_cast<size_t>(b) * inner + i];
              if (of_a < kNever) least = std::min(least, of_b < kNever ? of_a - of_b : -kNever);
            }
          dearer += least;
        }
        if (dearer < 0) continue;
        for (Factor& f : factors_) {
          if (!has(f, v)) continue;
          const size_t inner = stride(f, v), block = inner * static_cast<size_t>(domains_[v]);
          std::vector<int64_t> kept;
          for (size_t at = 0; at < f.cost.size(); ++at)
            if (at % block / inner != static_cast<size_t>(a)) kept.push_back(f.cost[at]);
          f.cost = std::move(kept);
        }
        --domains_[v];
        --a;
        dropped = true;
        break;
      }
    return dropped;
  }

  void eliminate(int v, const std::vector<int>& scope) {
    Factor joined{scope, {}};
    std::vector<Factor> mine;
    for (size_t f = 0; f < factors_.size();)
      if (has(factors_[f], v)) {
        mine.push_back(std::move(factors_[f]));
        std::swap(factors_[f], factors_.back());
        factors_.pop_back();
      } else {
        ++f;
      }
    std::vector<std::vector<size_t>> strides;  // over `scope`, of each factor
    for (const Factor& f : mine) {
      strides.emplace_back();
      for (int u : scope) strides.back().push_back(has(f, u) ? stride(f, u) : 0);
    }
    for_each_value(domains_, scope, [&](const std::vector<int>& values) {
      std::vector<size_t> at(mine.size(), 0);
      for (size_t f = 0; f < mine.size(); ++f)
        for (size_t i = 0; i < values.size(); ++i) at[f] += strides[f][i] * static_cast<size_t>(values[i]);
      int64_t least = kNever;
      for (int x = 0; x < domains_[v]; ++x) {
        int64_t cost = 0;
        for (size_t f = 0; f < mine.size(); ++f)
          cost = std::min(kNever, cost + mine[f].cost[at[f] + stride(mine[f], v) * static_cast<size_t>(x)]);
        least = std::min(least, cost);
      }
      joined.cost.push_back(least);
    });
    if (scope.empty()) sum_ = std::min(kNever, sum_ + joined.cost[0]);
    else factors_.push_back(std::move(joined));
  }

  std::vector<int> domains_;
  std::vector<Factor> factors_;
  const int64_t max_table_;
  int64_t sum_ = 0;
};

}  // namespace

std::optional<int64_t> plain_minimum(const std::vector<int>& domains, std::vector<Factor> factors, int64_t max_table) {
  return Elimination(domains, std::move(factors), max_table).run();
}

int LayoutCosts::number(const Layout& layout) {
  for (size_t i = 0; i < layouts_.size(); ++i)
    if (layouts_[i].shape() == layout.shape() && same_placement(layouts_[i], layout)) return static_cast<int>(i);
  layouts_.push_back(layout);
  return static_cast<int>(layouts_.size()) - 1;
}

int64_t LayoutCosts::bytes(int from, int to, int64_t element_bytes) {
  if (from == to) return 0;
  auto [known, fresh] = known_.try_emplace({from, to, element_bytes}, 0);
  if (fresh) known->second = convert(layouts_[from], layouts_[to], element_bytes, cluster_).bytes;
  return known->second;
}

OneAxisPlans::OneAxisPlans(const Graph& graph, const Cluster& cluster)
    : graph_(graph), mesh_{{cluster.compute_count}, slowest_link_first(cluster)}, costs_(cluster) {
  const int p = cluster.compute_count;
  for (const Op& op : graph.ops) {
    std::vector<tdl::AxisStrategy> dividing, passing, whole;
    for (const tdl::AxisStrategy& s : tdl::strategies(*op.bound, p)) {
      bool fits = tdl::derive(*op.bound, {p}, {s}).has_value();
      for (const std::string& name : s.names) fits &= op.bound->indices[op.bound->find_index(name)].extent >= p;
      if (!fits) continue;
      if (!s.names.empty()) dividing.push_back(s);
      else if (s.partial.empty()) whole.push_back(s);
      else if (tdl::is_elementwise(*op.bound)) passing.push_back(s);
    }
    strategies_.push_back(dividing.empty() ? whole : dividing);
    strategies_.back().insert(strategies_.back().end(), passing.begin(), passing.end());
    inner_bytes_.emplace_back();
    needs_.emplace_back();
    makes_.emplace_back();
    for (const tdl::AxisStrategy& s : strategies_.back()) {
      const tdl::Derived derived = *tdl::derive(*op.bound, {p}, {s});
      const OpLayouts layouts = layouts_of(*op.bound, derived, mesh_);
      auto numbers = [&](const std::vector<Layout>& list) {
        std::vector<int> out;
        for (const Layout& layout : list) out.push_back(costs_.number(layout));
        return out;
      };
      needs_.back().push_back(numbers(layouts.operands));
      makes_.back().push_back(numbers(layouts.results));
      inner_bytes_.back().push_back(
          derived.inner.empty() ? 0
                                : inner_bytes(*op.bound, derived, mesh_, bytes_of(inner_dtype(graph, op)), cluster));
    }
  }
  const size_t tensors = graph.tensors.size();
  const auto radices = factored_radices(graph);
  reads_.resize(tensors);
  made_.resize(tensors);
  replacement_.resize(tensors);
  named_.resize(tensors);
  scopes_.resize(tensors);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    for (size_t k = 0; k < graph.ops[i].operands.size(); ++k)
      reads_[graph.ops[i].operands[k].index()].push_back({static_cast<int>(i), k});
    for (size_t r = 0; r < graph.ops[i].results.size(); ++r)
      made_[graph.ops[i].results[r].index()] = {static_cast<int>(i), r};
  }
  for (size_t t = 0; t < tensors; ++t) {
    if (const TensorId w = graph.tensors[t].replaces; w.valid()) replacement_[w.index()] = TensorId(t);
    auto name = [&](const Sbp& sbp, std::vector<Shape> of) {
      Placement placement{mesh_, {sbp}, is_factored(of) ? of : std::vector<Shape>()};
      const int number = costs_.number(layout_of(placement, graph.tensors[t].shape));
      for (const auto& [other, known] : named_[t])
        if (known == number) return;
      named_[t].emplace_back(std::move(placement), number);
    };
    name(Sbp::broadcast(), unfactored(graph.tensors[t].shape));
    for (const std::vector<Shape>& of : {unfactored(graph.tensors[t].shape), radices[t]})
      for (size_t axis = 0; axis < of.size(); ++axis)
        for (size_t sub = 0; sub < of[axis].size(); ++sub)
          if (of[axis][sub] >= p) name(Sbp::split(static_cast<int>(axis), static_cast<int>(sub)), of);
  }
  for (size_t t = 0; t < tensors; ++t) {
    std::set<int> ops;
    auto add = [&](const Use& use, const std::vector<std::vector<std::vector<int>>>& layouts) {
      for (const std::vector<int>& slots : layouts[use.op])
        if (slots[use.slot] != layouts[use.op][0][use.slot])
          ops.insert(use.op);  // an op whose values are all alike decides nothing
    };
    for (TensorId id : {TensorId(t), replacement_[t]}) {
      if (!id.valid()) continue;
      for (const Use& read : reads_[id.index()]) add(read, needs_);
      if (made_[id.index()].op >= 0) add(made_[id.index()], makes_);
    }
    scopes_[t].assign(ops.begin(), ops.end());
  }
}

std::vector<int> OneAxisPlans::domains() const {
  std::vector<int> out;
  for (const auto& list : strategies_) out.push_back(static_cast<int>(list.size()));
  return out;
}

std::pair<int64_t, int> OneAxisPlans::best_home(TensorId id, const std::vector<int>& values) {
  // Its producer's layout, and the layouts into which it is brought; each once.
  struct Moved {
    int made = -1;
    std::vector<int> wanted;
    int64_t element = 0;
  };
  std::vector<Moved> moved;
  for (TensorId t : {id, replacement_[id.index()]}) {
    if (!t.valid()) continue;
    Moved m{-1, {}, bytes_of(graph_.tensor(t).dtype)};
    if (const Use& made = made_[t.index()]; made.op >= 0) m.made = makes_[made.op][values[made.op]][made.slot];
    for (const Use& read : reads_[t.index()]) m.wanted.push_back(needs_[read.op][values[read.op]][read.slot]);
    std::sort(m.wanted.begin(), m.wanted.end());
    m.wanted.erase(std::unique(m.wanted.begin(), m.wanted.end()), m.wanted.end());
    moved.push_back(std::move(m));
  }
  auto at = [&](int kept_layout) {
    int64_t bytes = 0;
    for (const Moved& m : moved) {
      if (m.made >= 0) bytes += costs_.bytes(m.made, kept_layout, m.element);
      for (int wanted : m.wanted) bytes += costs_.bytes(kept_layout, wanted, m.element);
    }
    return bytes;
  };
  std::pair<int64_t, int> best{kNever, -1};
  if (moved[0].made >= 0) best.first = at(moved[0].made);
  for (size_t n = 0; n < named_[id.index()].size(); ++n)
    if (const int64_t bytes = at(named_[id.index()][n].second); bytes < best.first) best = {bytes, static_cast<int>(n)};
  return best;
}

int64_t OneAxisPlans::bytes(TensorId id, const std::vector<int>& values) { return best_home(id, values).first; }

int64_t OneAxisPlans::bytes(const std::vector<int>& values) {
  int64_t sum = 0;
  for (size_t i = 0; i < graph_.ops.size(); ++i) sum += inner_bytes_[i][values[i]];
  for (size_t t = 0; t < graph_.tensors.size(); ++t)
    if (!graph_.tensors[t].replaces.valid()) sum += bytes(TensorId(t), values);
  return sum;
}

std::optional<int64_t> OneAxisPlans::least(int64_t max_table) {
  constexpr double kDirect = 1 << 12;  // entries of a factor over all ops around a tensor
  std::vector<int> sizes = domains();
  std::vector<Factor> factors;
  for (size_t i = 0; i < graph_.ops.size(); ++i) factors.push_back({{static_cast<int>(i)}, inner_bytes_[i]});
  std::vector<int> values(graph_.ops.size(), 0);
  for (size_t t = 0; t < graph_.tensors.size(); ++t) {
    if (graph_.tensors[t].replaces.valid()) continue;
    double entries = 1;
    for (int op : scopes_[t]) entries *= sizes[op];
    if (entries > kDirect && add_states(TensorId(t), sizes, factors)) continue;
    if (entries > static_cast<double>(max_table)) return std::nullopt;
    factors.push_back({scopes_[t], {}});
    for_each_value(sizes, scopes_[t], [&](const std::vector<int>& at) {
      for (size_t i = 0; i < at.size(); ++i) values[scopes_[t][i]] = at[i];
      factors.back().cost.push_back(bytes(TensorId(t), values));
    });
  }
  return plain_minimum(sizes, std::move(factors), max_table);
}

// A variable says how the tensor is kept and into which layouts it is brought. Its readers find theirs among these.
bool OneAxisPlans::add_states(TensorId id, std::vector<int>& sizes, std::vector<Factor>& factors) {
  constexpr size_t kMostWanted = 8;
  const TensorId next = replacement_[id.index()];
  if (next.valid() && !reads_[next.index()].empty()) return false;
  const int64_t element = bytes_of(graph_.tensor(id).dtype);
  std::set<int> wanted, named, kept_layouts;
  for (const Use& read : reads_[id.index()])
    for (const auto& slots : needs_[read.op]) wanted.insert(slots[read.slot]);
  for (const auto& [placement, number] : named_[id.index()]) named.insert(number);
  kept_layouts = named;
  const Use made = made_[id.index()];
  if (made.op >= 0)
    for (const auto& slots : makes_[made.op]) kept_layouts.insert(slots[made.slot]);
  if (wanted.size() > kMostWanted) return false;
  const std::vector<int> list(wanted.begin(), wanted.end());
  struct State {
    int kept_layout;
    std::set<int> there;
  };
  std::vector<State> states;
  Factor brought{{static_cast<int>(sizes.size())}, {}};
  for (int kept_layout : kept_layouts)
    for (size_t set = 0; set < size_t{1} << list.size(); ++set) {
      State state{kept_layout, {kept_layout}};
      int64_t bytes = 0;
      for (size_t i = 0; i < list.size(); ++i)
        if (set >> i & 1) state.there.insert(list[i]), bytes += costs_.bytes(kept_layout, list[i], element);
      if (set && state.there.size() != 1 + static_cast<size_t>(std::popcount(set))) continue;  // kept layout twice
      states.push_back(std::move(state));
      brought.cost.push_back(bytes);
    }
  const int variable = static_cast<int>(sizes.size());
  sizes.push_back(static_cast<int>(states.size()));
  factors.push_back(std::move(brought));
  auto pair = [&](int op, const std::function<int64_t(int value, const State&)>& cost) {
    factors.push_back({{op, variable}, {}});
    for (int value = 0; value < sizes[op]; ++value)
      for (const State& state : states) factors.back().cost.push_back(cost(value, state));
  };
  for (const Use& read : reads_[id.index()])
    pair(read.op, [&](int value, const State& state) {
      return state.there.contains(needs_[read.op][value][read.slot]) ? 0 : kNever;
    });
  if (made.op >= 0)
    pair(made.op, [&](int value, const State& state) {
      const int as = makes_[made.op][value][made.slot];
      return named.contains(state.kept_layout) || state.kept_layout == as ? costs_.bytes(as, state.kept_layout, element)
                                                                          : kNever;
    });
  if (next.valid()) {
    const Use again = made_[next.index()];
    pair(again.op, [&](int value, const State& state) {
      return costs_.bytes(makes_[again.op][value][again.slot], state.kept_layout, element);
    });
  }
  return true;
}

std::optional<std::vector<int>> OneAxisPlans::values_of(const Plan& plan) const {
  std::vector<int> values;
  for (size_t i = 0; i < graph_.ops.size(); ++i) {
    if (plan.ops[i].mesh != mesh_) return std::nullopt;
    const auto found = std::find(strategies_[i].begin(), strategies_[i].end(), plan.ops[i].strategies[0]);
    if (found == strategies_[i].end()) return std::nullopt;
    values.push_back(static_cast<int>(found - strategies_[i].begin()));
  }
  return values;
}

Plan OneAxisPlans::plan(const std::vector<int>& values) {
  Plan plan;
  for (size_t i = 0; i < graph_.ops.size(); ++i) plan.ops.push_back({mesh_, {strategies_[i][values[i]]}});
  for (size_t t = 0; t < graph_.tensors.size(); ++t) {
    if (graph_.tensors[t].replaces.valid()) continue;
    if (const int kept_layout = best_home(TensorId(t), values).second; kept_layout >= 0)
      plan.kept[TensorId(t)] = named_[t][kept_layout].first;
  }
  return plan;
}

}  // namespace partita
