// Merges the variables of a cut that choose together, and numbers the groups of classes.
#include "partita/search/cuts/coarsen.h"

#include <algorithm>
#include <numeric>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/gradients.h"

namespace partita {

namespace {

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

// Classes of variables, each with the joint values left to it.
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

  // Keeps only values of a and b that agree. Returns false, and changes nothing, if none would be left. `merged` counts
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

// The properties that are equal at every time step of a cell: a forward op's place in the cell's step; for a backward
// op also its definition, the op it is the gradient of, and its number among these.
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

// The state of one cut's coarsening.
struct Coarsening {
  const Cuts& cuts;
  const OneCut& cut;
  const Graph& graph = cuts.graph();
  const size_t tensors = graph.tensors.size();
  const std::vector<TensorId> gradient = gradient_of(graph);  // by TensorId
  Classes classes = Classes(cut.network);
  Coarsened out = {};

  // Variables of the cut.
  int tensor(TensorId id) const { return static_cast<int>(cuts.keeper_of(id).index()); }
  int op(size_t i) const { return static_cast<int>(tensors + i); }
  bool pinned(TensorId id) const { return cuts.constraints().kept_of(graph, id); }
  bool pinned(size_t i) const { return cuts.constraints().choice_of(OpId(i)); }
};

void tie_tensors(Coarsening& c, TensorId a, TensorId b, int& merged) {
  const int u = c.tensor(a), v = c.tensor(b);
  if (u == v || c.pinned(a) || c.pinned(b) || c.graph.tensor(a).shape != c.graph.tensor(b).shape) return;
  c.classes.tie(
      u, v, [&](int x, int y) { return c.cut.tilings[u][x] == c.cut.tilings[v][y]; }, merged);
}

void tie_steps(Coarsening& c) {
  const auto keys = step_keys(c.graph, c.gradient);
  std::map<StepKey, size_t> first;
  for (size_t i = 0; i < c.graph.ops.size(); ++i) {
    c.cuts.poll();
    if (!keys[i] || c.pinned(i)) continue;
    auto [found, fresh] = first.try_emplace(*keys[i], i);
    const size_t j = found->second;
    if (fresh || c.cut.ops[j] != c.cut.ops[i]) continue;
    c.classes.tie(
        c.op(j), c.op(i), [](int x, int y) { return x == y; }, c.out.merged_steps);
    for (size_t r = 0; r < c.graph.ops[i].results.size(); ++r)
      tie_tensors(c, c.graph.ops[j].results[r], c.graph.ops[i].results[r], c.out.merged_steps);
  }
}

void tie_clones(Coarsening& c) {
  for (size_t i = 0; i < c.graph.ops.size(); ++i) {
    c.cuts.poll();
    const Op& op = c.graph.ops[i];
    if (!is_clone(c.graph, op) || c.pinned(i) || c.pinned(op.forward.index())) continue;
    const size_t j = op.forward.index();
    const std::vector<Aligned>&made = c.cut.ops[j]->aligned, &again = c.cut.ops[i]->aligned;
    c.classes.tie(
        c.op(j), c.op(i), [&](int x, int y) { return made[x].strategy == again[y].strategy; }, c.out.merged_clones);
    for (size_t r = 0; r < op.results.size(); ++r)
      tie_tensors(c, c.graph.ops[j].results[r], op.results[r], c.out.merged_clones);
  }
}

// Ties an op's strategy to the tilings that it reads and leaves; scalars are whole everywhere.
void tie_elementwise(Coarsening& c) {
  for (size_t i = 0; i < c.graph.ops.size(); ++i) {
    c.cuts.poll();
    const Op& o = c.graph.ops[i];
    if (c.pinned(i) || !tdl::is_elementwise(*o.bound)) continue;
    auto tie = [&](TensorId id, size_t slot, bool result) {
      if (c.graph.tensor(id).shape.empty() || c.pinned(id)) return;
      const TensorId keeper = c.cuts.keeper_of(id);
      std::vector<std::vector<Tiling>> left;  // by strategy
      for (const Aligned& a : c.cut.ops[i]->aligned) {
        left.emplace_back();
        for (const Aligned::SplitAt& split : (result ? a.results : a.operands)[slot])
          left.back().push_back(
              c.cuts.tiling_of(keeper, (result ? a.layouts.results : a.layouts.operands)[slot], split));
      }
      c.classes.tie(
          c.op(i), c.tensor(id), [&](int x, int y) { return left[x] == c.cut.tilings[keeper.index()][y]; },
          c.out.merged_elementwise);
    };
    for (size_t k = 0; k < o.operands.size(); ++k) tie(o.operands[k], k, false);
    for (size_t r = 0; r < o.results.size(); ++r) tie(o.results[r], r, true);
  }
}

// Sums the costs of the classes' values in the cut's network.
void sum_costs(Coarsening& c, const std::vector<int>& class_of) {
  const CostNetwork& network = c.cut.network;
  std::vector<int> place(network.variables());
  for (const std::vector<int>& members : c.out.members)
    for (size_t m = 0; m < members.size(); ++m) place[members[m]] = static_cast<int>(m);
  for (size_t k = 0; k < c.out.members.size(); ++k) {
    c.out.network.unary.emplace_back();
    for (const std::vector<int>& row : c.out.values[k]) {
      Cost sum;
      for (size_t m = 0; m < row.size(); ++m) sum = sum + network.unary[c.out.members[k][m]][row[m]];
      c.out.network.unary.back().push_back(sum);
    }
  }
  std::map<std::pair<int, int>, std::vector<Cost>> sums;
  for (const CostNetwork::Pair& pair : network.pairs) {
    c.cuts.poll();
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
      for (size_t x = 0; x < c.out.values[ca].size(); ++x) {
        Cost& sum = c.out.network.unary[ca][x];
        sum = sum + cost(c.out.values[ca][x][place[a]], c.out.values[ca][x][place[b]]);
      }
      continue;
    }
    std::vector<Cost>& sum = sums[{ca, cb}];
    sum.resize(c.out.values[ca].size() * c.out.values[cb].size());
    size_t at = 0;
    for (const std::vector<int>& x : c.out.values[ca])
      for (const std::vector<int>& y : c.out.values[cb]) sum[at] = sum[at] + cost(x[place[a]], y[place[b]]), ++at;
  }
  for (auto& [classes, cost] : sums) {
    std::vector<Cost>&first = c.out.network.unary[classes.first], &second = c.out.network.unary[classes.second];
    if (first.size() > 1 && second.size() > 1) {
      c.out.network.pairs.push_back({classes.first, classes.second, std::move(cost)});
      continue;
    }
    // A class without a choice ties nothing together.
    std::vector<Cost>& free = first.size() > 1 ? first : second;
    for (size_t x = 0; x < free.size(); ++x) free[x] = free[x] + cost[x];
  }
}

// Puts the classes into groups, and numbers these by their first class.
void number_groups(Coarsening& c, const std::vector<int>& class_of) {
  DisjointSets sets(c.out.members.size());
  auto unite = [&](int u, int v) { sets.unite(class_of[u], class_of[v]); };
  for (size_t t = 0; t < c.tensors; ++t)
    if (c.gradient[t].valid()) unite(c.tensor(c.gradient[t]), c.tensor(TensorId(t)));
  for (size_t t = 0; t < c.tensors; ++t)  // a new value chooses nothing
    if (c.graph.tensors[t].replaces.valid()) unite(c.tensor(c.graph.tensors[t].replaces), static_cast<int>(t));
  for (size_t i = 0; i < c.graph.ops.size(); ++i) {
    const Op& o = c.graph.ops[i];
    const TensorId whose = c.gradient[o.results[0].index()];
    const bool sums =
        o.phase == Phase::kBackward && whose.valid() && !o.operands.empty() &&
        std::all_of(o.operands.begin(), o.operands.end(), [&](TensorId t) { return c.gradient[t.index()] == whose; });
    if (sums) unite(c.op(i), c.tensor(whose));
    else if (o.forward.valid()) unite(c.op(i), c.op(o.forward.index()));
  }
  std::map<int, int> numbers;
  for (size_t k = 0; k < c.out.members.size(); ++k) {
    auto [number, fresh] = numbers.try_emplace(sets.find(static_cast<int>(k)), static_cast<int>(numbers.size()));
    c.out.group.push_back(number->second);
  }
  c.out.groups = static_cast<int>(numbers.size());
}

}  // namespace

Coarsened coarsen(const Cuts& cuts, const OneCut& cut, const CoarseningRules& rules) {
  Coarsening c{cuts, cut};
  if (rules.steps) tie_steps(c);
  if (rules.clones) tie_clones(c);
  if (rules.elementwise) tie_elementwise(c);
  if (rules.gradients)
    for (size_t t = 0; t < c.tensors; ++t)
      if (c.gradient[t].valid()) tie_tensors(c, c.gradient[t], TensorId(t), c.out.merged_gradients);
  c.classes.finish(c.out);
  std::vector<int> class_of(cut.network.variables());
  for (size_t k = 0; k < c.out.members.size(); ++k)
    for (int v : c.out.members[k]) class_of[v] = static_cast<int>(k);
  sum_costs(c, class_of);
  number_groups(c, class_of);
  return std::move(c.out);
}

Coarsened uncoarsened(const Cuts& cuts, const OneCut& cut) { return coarsen(cuts, cut, {false, false, false, false}); }

std::vector<int> Coarsened::expand(const std::vector<int>& classes) const {
  size_t count = 0;
  for (const std::vector<int>& m : members) count += m.size();
  std::vector<int> out(count);
  for (size_t c = 0; c < members.size(); ++c)
    for (size_t m = 0; m < members[c].size(); ++m) out[members[c][m]] = values[c][classes[c]][m];
  return out;
}

}  // namespace partita
