#include "partita/search/coarsen.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "partita/base/error.h"

namespace partita {

namespace {

constexpr int64_t kOpTable =
    int64_t{1} << 14;  // entries of a table over the tensors of one op, that ops are minimised over first

class DisjointSets {
 public:
  explicit DisjointSets(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0); }
  int find(int v) {
    while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
    return v;
  }
  void unite(int a, int b) {  // the lower one stands for both
    a = find(a), b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<int> parent_;
};

// Classes of variables, each with the joint values that are left to it.
class Classes {
 public:
  explicit Classes(const CostNetwork& network) : class_of_(network.variables()), place_(network.variables(), 0) {
    for (int v = 0; v < network.variables(); ++v) {
      class_of_[v] = v;
      members_.push_back({v});
      values_.emplace_back();
      for (int x = 0; x < network.domain(v); ++x) values_.back().push_back({x});
    }
  }

  // Only values of a and b that agree are kept. False, and nothing changes, where none would be. `merged` counts
  // classes that became one.
  template <typename Agree>
  bool tie(int a, int b, const Agree& agree, int& merged) {
    int into = class_of_[a], from = class_of_[b];
    if (into == from) {
      std::vector<std::vector<int>> left;
      for (const std::vector<int>& row : values_[into])
        if (agree(row[place_[a]], row[place_[b]])) left.push_back(row);
      if (left.empty()) return false;
      values_[into] = std::move(left);
      return true;
    }
    const bool swap = members_[into].size() < members_[from].size();
    if (swap) std::swap(into, from);
    std::vector<std::vector<int>> both;
    for (const std::vector<int>& row : values_[into])
      for (const std::vector<int>& other : values_[from]) {
        if (!(swap ? agree(other[place_[a]], row[place_[b]]) : agree(row[place_[a]], other[place_[b]]))) continue;
        both.push_back(row);
        both.back().insert(both.back().end(), other.begin(), other.end());
      }
    if (both.empty()) return false;
    values_[into] = std::move(both);
    for (int v : members_[from]) {
      class_of_[v] = into;
      place_[v] = static_cast<int>(members_[into].size());
      members_[into].push_back(v);
    }
    members_[from].clear();
    values_[from].clear();
    ++merged;
    return true;
  }

  // Members ascending, values lexicographically, classes by their first member.
  void finish(Coarsened& out) {
    std::vector<int> classes;
    for (size_t c = 0; c < members_.size(); ++c)
      if (!members_[c].empty()) classes.push_back(static_cast<int>(c));
    auto first = [&](int c) { return *std::min_element(members_[c].begin(), members_[c].end()); };
    std::sort(classes.begin(), classes.end(), [&](int a, int b) { return first(a) < first(b); });
    for (int c : classes) {
      std::vector<int> members = members_[c];
      std::sort(members.begin(), members.end());
      std::vector<std::vector<int>> rows;
      for (const std::vector<int>& row : values_[c]) {
        std::vector<int> sorted;
        for (int v : members) sorted.push_back(row[place_[v]]);
        rows.push_back(std::move(sorted));
      }
      std::sort(rows.begin(), rows.end());
      out.members.push_back(std::move(members));
      out.values.push_back(std::move(rows));
    }
  }

 private:
  std::vector<int> class_of_, place_;      // by variable
  std::vector<std::vector<int>> members_;  // by class
  std::vector<std::vector<std::vector<int>>> values_;
};

// What is equal at every time step of a cell: where in the cell's step a forward op stands; of a backward op also its
// definition, what it is the gradient of, and which of several it is.
using StepKey = std::tuple<int, int, bool, std::string, std::string, int, int>;

std::vector<std::optional<StepKey>> step_keys(const Graph& graph, const std::vector<TensorId>& gradient) {
  std::map<std::pair<int, int>, int> forward_count;
  std::map<std::pair<int, StepKey>, int> backward_count;
  std::vector<std::optional<StepKey>> keys(graph.ops.size());
  auto slot_of = [&](const Op& forward, TensorId t) {
    auto operand = std::find(forward.operands.begin(), forward.operands.end(), t);
    if (operand != forward.operands.end()) return static_cast<int>(operand - forward.operands.begin());
    auto result = std::find(forward.results.begin(), forward.results.end(), t);
    return result == forward.results.end()
               ? -1
               : static_cast<int>(forward.operands.size() + static_cast<size_t>(result - forward.results.begin()));
  };
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.cell < 0 || op.time_step < 0) continue;
    if (!op.forward.valid()) {
      keys[i] = StepKey{op.cell, forward_count[{op.cell, op.time_step}]++, true, op.definition, "", 0, 0};
    } else if (const auto& forward = keys[op.forward.index()]) {
      StepKey key{op.cell,    std::get<1>(*forward),
                  false,      op.definition,
                  op.formula, slot_of(graph.op(op.forward), gradient[op.results[0].index()]),
                  0};
      std::get<6>(key) = backward_count[{op.time_step, key}]++;
      keys[i] = key;
    }
  }
  return keys;
}

class Coarsener {
 public:
  Coarsener(const Cuts& cuts, const OneCut& cut)
      : cuts_(cuts),
        graph_(cuts.graph()),
        cut_(cut),
        tensors_(graph_.tensors.size()),
        gradient_(gradient_of(graph_)),
        classes_(cut.network) {}

  Coarsened run(const CoarseningRules& rules) {
    if (rules.steps) tie_steps();
    if (rules.elementwise) tie_elementwise();
    if (rules.gradients)
      for (size_t t = 0; t < tensors_; ++t)
        if (gradient_[t].valid()) tie_tensors(gradient_[t], TensorId(t), out_.merged_gradients);
    classes_.finish(out_);
    std::vector<int> class_of(cut_.network.variables());
    for (size_t c = 0; c < out_.members.size(); ++c)
      for (int v : out_.members[c]) class_of[v] = static_cast<int>(c);
    sum_costs(class_of);
    number_groups(class_of);
    return std::move(out_);
  }

 private:
  int tensor(TensorId id) const { return static_cast<int>(cuts_.keeper_of(id).index()); }
  int op(size_t i) const { return static_cast<int>(tensors_ + i); }
  bool pinned(TensorId id) const { return cuts_.pins().kept.contains(cuts_.keeper_of(id)); }
  bool pinned(size_t i) const { return cuts_.pins().ops.contains(OpId(i)); }

  void tie_tensors(TensorId a, TensorId b, int& merged) {
    const int u = tensor(a), v = tensor(b);
    if (u == v || pinned(a) || pinned(b) || graph_.tensor(a).shape != graph_.tensor(b).shape) return;
    classes_.tie(
        u, v, [&](int x, int y) { return cut_.tilings[u][x] == cut_.tilings[v][y]; }, merged);
  }

  void tie_steps() {
    const auto keys = step_keys(graph_, gradient_);
    std::map<StepKey, size_t> first;
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      cuts_.poll();
      if (!keys[i] || pinned(i)) continue;
      auto [found, fresh] = first.try_emplace(*keys[i], i);
      const size_t j = found->second;
      if (fresh || cut_.ops[j] != cut_.ops[i]) continue;
      classes_.tie(
          op(j), op(i), [](int x, int y) { return x == y; }, out_.merged_steps);
      for (size_t r = 0; r < graph_.ops[i].results.size(); ++r)
        tie_tensors(graph_.ops[j].results[r], graph_.ops[i].results[r], out_.merged_steps);
    }
  }

  // An op's strategy is tied to the tilings that it reads and leaves; scalars are whole everywhere.
  void tie_elementwise() {
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      cuts_.poll();
      const Op& o = graph_.ops[i];
      if (pinned(i) || !tdl::is_elementwise(*o.bound)) continue;
      auto tie = [&](TensorId id, size_t slot, bool result) {
        if (graph_.tensor(id).shape.empty() || pinned(id)) return;
        const TensorId keeper = cuts_.keeper_of(id);
        std::vector<std::vector<Tiling>> left;  // by strategy
        for (const Aligned& a : cut_.ops[i]->aligned) {
          left.emplace_back();
          for (const Aligned::SplitAt& split : (result ? a.results : a.operands)[slot])
            left.back().push_back(
                cuts_.tiling_of(keeper, (result ? a.layouts.results : a.layouts.operands)[slot], split));
        }
        classes_.tie(
            op(i), tensor(id), [&](int x, int y) { return left[x] == cut_.tilings[keeper.index()][y]; },
            out_.merged_elementwise);
      };
      for (size_t k = 0; k < o.operands.size(); ++k) tie(o.operands[k], k, false);
      for (size_t r = 0; r < o.results.size(); ++r) tie(o.results[r], r, true);
    }
  }

  void sum_costs(const std::vector<int>& class_of) {
    const CostNetwork& network = cut_.network;
    std::vector<int> place(network.variables());
    for (const std::vector<int>& members : out_.members)
      for (size_t m = 0; m < members.size(); ++m) place[members[m]] = static_cast<int>(m);
    for (size_t c = 0; c < out_.members.size(); ++c) {
      out_.network.unary.emplace_back();
      for (const std::vector<int>& row : out_.values[c]) {
        Cost sum;
        for (size_t m = 0; m < row.size(); ++m) sum = sum + network.unary[out_.members[c][m]][row[m]];
        out_.network.unary.back().push_back(sum);
      }
    }
    std::map<std::pair<int, int>, std::vector<Cost>> sums;
    for (const CostNetwork::Pair& pair : network.pairs) {
      cuts_.poll();
      int a = pair.a, b = pair.b;
      const bool swap = class_of[a] > class_of[b];
      if (swap) std::swap(a, b);
      const int ca = class_of[a], cb = class_of[b];
      const size_t columns = network.unary[pair.b].size();
      auto cost = [&](int x, int y) {
        return swap ? pair.cost[static_cast<size_t>(y) * columns + static_cast<size_t>(x)]
                    : pair.cost[static_cast<size_t>(x) * columns + static_cast<size_t>(y)];
      };
      if (ca == cb) {
        for (size_t x = 0; x < out_.values[ca].size(); ++x) {
          Cost& sum = out_.network.unary[ca][x];
          sum = sum + cost(out_.values[ca][x][place[a]], out_.values[ca][x][place[b]]);
        }
        continue;
      }
      std::vector<Cost>& sum = sums[{ca, cb}];
      sum.resize(out_.values[ca].size() * out_.values[cb].size());
      size_t at = 0;
      for (const std::vector<int>& x : out_.values[ca])
        for (const std::vector<int>& y : out_.values[cb]) sum[at] = sum[at] + cost(x[place[a]], y[place[b]]), ++at;
    }
    for (auto& [classes, cost] : sums) {
      std::vector<Cost>&first = out_.network.unary[classes.first], &second = out_.network.unary[classes.second];
      if (first.size() > 1 && second.size() > 1) {
        out_.network.pairs.push_back({classes.first, classes.second, std::move(cost)});
        continue;
      }
      // What has no choice ties nothing together.
      std::vector<Cost>& free = first.size() > 1 ? first : second;
      for (size_t x = 0; x < free.size(); ++x) free[x] = free[x] + cost[x];
    }
  }

  void number_groups(const std::vector<int>& class_of) {
    DisjointSets sets(out_.members.size());
    auto unite = [&](int u, int v) { sets.unite(class_of[u], class_of[v]); };
    for (size_t t = 0; t < tensors_; ++t)
      if (gradient_[t].valid()) unite(tensor(gradient_[t]), tensor(TensorId(t)));
    for (size_t t = 0; t < tensors_; ++t)  // a new value chooses nothing
      if (graph_.tensors[t].replaces.valid()) unite(tensor(graph_.tensors[t].replaces), static_cast<int>(t));
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& o = graph_.ops[i];
      const TensorId whose = gradient_[o.results[0].index()];
      const bool sums =
          o.phase == Phase::kBackward && whose.valid() && !o.operands.empty() &&
          std::all_of(o.operands.begin(), o.operands.end(), [&](TensorId t) { return gradient_[t.index()] == whose; });
      if (sums) unite(op(i), tensor(whose));
      else if (o.forward.valid()) unite(op(i), op(o.forward.index()));
    }
    std::map<int, int> numbers;
    for (size_t c = 0; c < out_.members.size(); ++c) {
      auto [number, fresh] = numbers.try_emplace(sets.find(static_cast<int>(c)), static_cast<int>(numbers.size()));
      out_.group.push_back(number->second);
    }
    out_.groups = static_cast<int>(numbers.size());
  }

  const Cuts& cuts_;
  const Graph& graph_;
  const OneCut& cut_;
  const size_t tensors_;
  const std::vector<TensorId> gradient_;
  Classes classes_;
  Coarsened out_;
};

// Eliminates, and remembers who is next to whom.
class Eliminating {
 public:
  explicit Eliminating(const CostNetwork& network) : around(network.variables()), gone(network.variables(), false) {
    for (const std::vector<Cost>& unary : network.unary) bits_.push_back(std::log2(static_cast<double>(unary.size())));
    for (const CostNetwork::Pair& p : network.pairs) around[p.a].insert(p.b), around[p.b].insert(p.a);
  }
  double table_bits(int v) const {
    double bits = 0;
    for (int u : around[v]) bits += bits_[u];
    return bits;
  }
  void eliminate(int v) {
    const std::vector<int> ring(around[v].begin(), around[v].end());
    for (int a : ring) {
      around[a].erase(v);
      for (int b : ring)
        if (a != b) around[a].insert(b);
    }
    gone[v] = true;
    order.push_back(v);
  }

  std::vector<std::set<int>> around;
  std::vector<bool> gone;
  std::vector<int> order;

 private:
  std::vector<double> bits_;
};

// What is left of the graph of groups when those between at most two others are taken out, as long as there are any,
// and the two joined: nothing of a chain, of forks and joins, of any series-parallel graph.
int entangled_groups(const Coarsened& coarsened) {
  std::vector<std::set<int>> around(coarsened.groups);
  const CostNetwork& network = coarsened.network;
  for (const CostNetwork::Pair& p : network.pairs) {
    const int a = coarsened.group[p.a], b = coarsened.group[p.b];
    if (a != b) around[a].insert(b), around[b].insert(a);
  }
  std::vector<int> waiting(coarsened.groups);
  std::iota(waiting.begin(), waiting.end(), 0);
  std::vector<bool> gone(coarsened.groups, false);
  int left = coarsened.groups;
  while (!waiting.empty()) {
    const int g = waiting.back();
    waiting.pop_back();
    if (gone[g] || around[g].size() > 2) continue;
    gone[g] = true;
    --left;
    const std::vector<int> ring(around[g].begin(), around[g].end());
    for (int a : ring) {
      around[a].erase(g);
      for (int b : ring)
        if (a != b) around[a].insert(b);
      waiting.push_back(a);
    }
  }
  return left;
}

}  // namespace

std::vector<int> Coarsened::expand(const std::vector<int>& classes) const {
  size_t count = 0;
  for (const std::vector<int>& m : members) count += m.size();
  std::vector<int> out(count);
  for (size_t c = 0; c < members.size(); ++c)
    for (size_t m = 0; m < members[c].size(); ++m) out[members[c][m]] = values[c][classes[c]][m];
  return out;
}

Coarsened coarsen(const Cuts& cuts, const OneCut& cut, const CoarseningRules& rules) {
  return Coarsener(cuts, cut).run(rules);
}
Coarsened uncoarsened(const Cuts& cuts, const OneCut& cut) { return Coarsener(cuts, cut).run({false, false, false}); }

GroupOrder group_order(const Coarsened& coarsened, size_t tensors, const Watch& watch) {
  Eliminating state(coarsened.network);
  const int classes = coarsened.network.variables();
  std::vector<std::vector<int>> left(coarsened.groups);  // classes by group
  for (int c = 0; c < classes; ++c) {
    const bool ops_only = coarsened.members[c].front() >= static_cast<int>(tensors);
    if (ops_only && state.table_bits(c) <= std::log2(static_cast<double>(kOpTable))) state.eliminate(c);
  }
  for (int c = 0; c < classes; ++c)
    if (!state.gone[c]) left[coarsened.group[c]].push_back(c);
  auto table_around = [&](int g) {
    std::set<int> variables;
    for (int c : left[g])
      for (int u : state.around[c])
        if (coarsened.group[u] != g) variables.insert(u);
    double bits = 0;
    for (int u : variables) bits += std::log2(static_cast<double>(coarsened.network.domain(u)));
    return std::pair(bits, g);
  };
  std::set<std::pair<double, int>> queue;  // by the table over what is around, then in the graph's order
  std::vector<std::pair<double, int>> known(coarsened.groups);
  for (int g = 0; g < coarsened.groups; ++g)
    if (!left[g].empty()) queue.insert(known[g] = table_around(g));
  GroupOrder out;
  out.entangled = entangled_groups(coarsened);
  while (!queue.empty()) {
    watch.poll("while groups of variables were put in order");
    const int g = queue.begin()->second;
    queue.erase(queue.begin());
    std::set<int> touched;
    for (int c : left[g])
      for (int u : state.around[c])
        if (coarsened.group[u] != g) touched.insert(coarsened.group[u]);
    while (!left[g].empty()) {
      auto next = std::min_element(left[g].begin(), left[g].end(), [&](int a, int b) {
        return std::pair(state.table_bits(a), a) < std::pair(state.table_bits(b), b);
      });
      const int c = *next;
      left[g].erase(next);
      state.eliminate(c);
    }
    for (int h : touched) {
      queue.erase(known[h]);
      queue.insert(known[h] = table_around(h));
    }
  }
  out.order = std::move(state.order);
  return out;
}

std::vector<TensorId> gradient_of(const Graph& graph) {
  std::vector<TensorId> of(graph.tensors.size());
  for (const Op& op : graph.ops) {
    if (op.phase != Phase::kBackward) continue;
    // Sums and casts of contributions.
    TensorId whose = op.operands.empty() ? TensorId() : of[op.operands[0].index()];
    for (TensorId t : op.operands)
      if (of[t.index()] != whose || graph.tensor(t).shape != graph.tensor(op.results[0]).shape) whose = TensorId();
    const bool sum = op.definition == "add" && op.operands.size() == 2, cast = op.definition == "cast";
    if (whose.valid() && (sum || cast)) {
      of[op.results[0].index()] = whose;
      continue;
    }
    if (!op.forward.valid()) continue;
    const Op& forward = graph.op(op.forward);
    std::set<TensorId> taken;
    for (TensorId result : op.results) {
      const Tensor& tensor = graph.tensor(result);
      TensorId found;
      for (size_t k = forward.operands.size(); k-- > 0;) {
        const TensorId operand = forward.operands[k];
        if (graph.tensor(operand).shape != tensor.shape || !is_float(graph.tensor(operand).dtype) ||
            taken.contains(operand))
          continue;
        if (op.name.starts_with(forward.name + ".grad." + forward.bound->tensors[k].name)) {
          found = operand;
          break;
        }
        found = operand;  // the first of this shape, where no name says
      }
      if (found.valid()) taken.insert(of[result.index()] = found);
    }
  }
  return of;
}

}  // namespace partita
