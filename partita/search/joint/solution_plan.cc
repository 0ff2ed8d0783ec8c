// Converts a solution of a joint problem to a plan, and back.
#include <algorithm>
#include <numeric>

#include "partita/base/error.h"
#include "partita/plan/resolve.h"
#include "partita/search/joint/joint.h"
#include "partita/search/joint/readers.h"

namespace partita {

namespace {

// Per axis of `to`, the common value of the axes of `from` that lie across it, one of `values` an axis; empty if they
// differ. A mesh numbers its positions in mixed radix: axes with equal values act as one.
template <typename T>
std::optional<std::vector<T>> on_axes(const Mesh& from, const std::vector<T>& values, const Mesh& to) {
  if (from.devices != to.devices || values.size() != from.extents.size()) return std::nullopt;
  std::vector<T> out;
  int64_t begin = 1;
  for (int extent : to.extents) {
    const int64_t end = begin * extent;
    std::optional<T> said;
    int64_t first = 1;
    for (size_t a = 0; a < values.size(); ++a) {
      const int64_t last = first * from.extents[a];
      if (first < last && first < end && last > begin) {
        if (said && *said != values[a]) return std::nullopt;
        said = values[a];
      }
      first = last;
    }
    if (!said) return std::nullopt;
    out.push_back(*said);
    begin = end;
  }
  return out;
}

// The variables of a network whose edges are pairs, which get their values one after another.
struct InTurn {
  using Edge = solver::Network::Edge;
  const solver::Network& network;
  const std::vector<std::vector<int>>& may;  // by variable: the values that it may have
  const std::vector<char>& follows;  // by variable: a follower stands behind the first variable of its last edge
  std::vector<std::vector<const Edge*>> edges;  // by variable
  solver::Assignment values;                    // -1: not settled

  int64_t at(const Edge& e, int v, int x, int y) const {  // x of v, y of the other
    const bool first = e.variables[0] == v;
    return (*e.table)[static_cast<size_t>(first ? x : y) * network.costs[e.variables[1]].size() +
                      static_cast<size_t>(first ? y : x)];
  }
  static int other(const Edge& e, int v) { return e.variables[e.variables[0] == v ? 1 : 0]; }
};

// By allowed value, the cost of a variable beside settled ones, without one edge.
std::vector<solver::Wide> costs_without(const InTurn& s, int v, const InTurn::Edge* left_out) {
  std::vector<solver::Wide> costs;
  for (int x : s.may[v]) {
    costs.push_back(s.network.costs[v][x]);
    for (const InTurn::Edge* e : s.edges[v])
      if (const int w = s.other(*e, v); e != left_out && s.values[w] >= 0) costs.back() += s.at(*e, v, x, s.values[w]);
  }
  return costs;
}

// Adds the cost of an edge of v: beside the other's value if it is settled, else the least. A follower is always at its
// best, with all its other edges.
void add_edge_costs(const InTurn& s, int v, const InTurn::Edge& e, std::vector<solver::Wide>& costs) {
  const int w = s.other(e, v);
  const bool follower = s.follows[w] && e.variables[1] == w;
  const std::vector<solver::Wide> beyond =
      follower ? costs_without(s, w, &e) : std::vector<solver::Wide>(s.may[w].size(), 0);
  for (size_t i = 0; i < costs.size(); ++i) {
    const int x = s.may[v][i];
    if (!follower && s.values[w] >= 0) {
      costs[i] += s.at(e, v, x, s.values[w]);
      continue;
    }
    std::optional<solver::Wide> least;
    for (size_t j = 0; j < s.may[w].size(); ++j)
      if (const solver::Wide cost = s.at(e, v, x, s.may[w][j]) + beyond[j]; !least || cost < *least) least = cost;
    costs[i] += *least;
  }
}

// Settles one of `may` for each variable: in this order and twice, the cheapest beside settled ones and the least of
// the others. Ties take the first.
solver::Assignment settled(const solver::Network& network, const std::vector<std::vector<int>>& may,
                           const std::vector<int>& order, const std::vector<char>& follows) {
  InTurn s{network, may, follows, std::vector<std::vector<const InTurn::Edge*>>(may.size()),
           solver::Assignment(may.size(), -1)};
  for (const InTurn::Edge& e : network.edges)
    for (int v : e.variables) s.edges[v].push_back(&e);
  for (int pass = 0; pass < 2; ++pass)
    for (int v : order) {
      s.values[v] = may[v][0];
      if (may[v].size() == 1) continue;
      std::vector<solver::Wide> costs;
      for (int x : may[v]) costs.push_back(network.costs[v][x]);
      for (const InTurn::Edge* e : s.edges[v]) add_edge_costs(s, v, *e, costs);
      s.values[v] = may[v][static_cast<size_t>(std::min_element(costs.begin(), costs.end()) - costs.begin())];
    }
  return std::move(s.values);
}

// By variable, all of its values.
std::vector<std::vector<int>> all_values(const solver::Network& network) {
  std::vector<std::vector<int>> all;
  for (int v = 0; v < network.variables(); ++v) {
    all.emplace_back(static_cast<size_t>(network.domain(v)));
    std::iota(all.back().begin(), all.back().end(), 0);
  }
  return all;
}

// Settles the variables behind the ops: kept layouts of tensors, and behind these, layouts for readers.
solver::Assignment settled(const JointProblem& joint, const std::vector<std::vector<int>>& may,
                           std::vector<int> order) {
  std::vector<char> follows(may.size(), 0);
  for (int v : joint.tensor_variable)
    if (v >= 0) order.push_back(v);
  for (const std::vector<int>& list : joint.resharded_variables)
    for (int v : list) order.push_back(v), follows[v] = 1;
  return settled(joint.network, may, order, follows);
}

// Tells whether an op of the backward pass and another one each make their own copy. True if they need the same layout,
// which is neither the kept one nor shared by several readers. False if several of both share a copy, since a plan has
// both or neither. False too if a micro-batch would make it instead of a step.
bool is_resharded(const JointProblem& joint, const Graph& graph, TensorId id, const std::vector<Reader>& readers,
                  const solver::Assignment& values) {
  const TensorSpace& space = *joint.tensors[id.index()];
  const TensorSpace::Value& value = space.values[values[joint.tensor_variable[id.index()]]];
  const Layout& kept_layout = space.layouts[value.kept_layout];
  auto is_shared = [&](const Layout& l) {
    auto is_it = [&](int a) { return same_placement(space.layouts[a], l); };
    for (size_t b = 0; b < space.resharded.size(); ++b)
      if (is_it(space.resharded[b].layout))
        return space.resharded[b].choices[values[joint.resharded_variables[id.index()][b]]].once;
    return std::any_of(value.also.begin(), value.also.end(), is_it);
  };
  auto wanted = [&](const Reader& r) -> const Layout& {
    return joint.ops[r.op.index()]->layouts[values[joint.op_variable[r.op.index()]]].operands[r.operand];
  };
  auto is_backward = [&](const Reader& r) { return graph.op(r.op).phase == Phase::kBackward; };
  for (const Reader& r : readers)
    if (graph.firings(graph.op(r.op)) > reads_a_step(graph, id)) return false;
  bool twice = false;
  for (const Reader& b : readers) {
    if (!is_backward(b) || same_placement(wanted(b), kept_layout)) continue;
    for (const Reader& other : readers) {
      if (is_backward(other) || !same_placement(wanted(b), wanted(other))) continue;
      if (is_shared(wanted(b))) return false;
      for (int p = 0; p < joint.mesh.positions() && !twice; ++p) twice = !is_view(kept_layout, wanted(b), p);
    }
  }
  return twice;
}

}  // namespace

Plan plan_of(const JointProblem& joint, const Graph& graph, const solver::Assignment& values) {
  Plan plan;
  plan.search = "exact";
  for (size_t i = 0; i < graph.ops.size(); ++i)
    plan.ops.push_back({joint.mesh, joint.ops[i]->strategies[values[joint.op_variable[i]]]});
  auto keep = [&](size_t t, const Layout& kept_layout) {
    const auto name = name_of(kept_layout);
    ensure(name.has_value(), "tensor '{}' is to be kept in a layout without a name", graph.tensors[t].name);
    plan.kept[TensorId(t)] = placement_of(kept_layout, *name);
  };
  const auto read_by = readers_by_tensor(graph);
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (const StraightSpace* straight = joint.straight[t].get()) {
      const size_t reader = read_by[t][0].op.index(), columns = joint.ops[reader]->strategies.size();
      const auto made = static_cast<size_t>(values[joint.op_variable[graph.tensors[t].producer.index()]]),
                 read = static_cast<size_t>(values[joint.op_variable[reader]]);
      if (const int kept_layout = straight->kept_layouts[made * columns + read]; kept_layout >= 0)
        keep(t, straight->layouts[kept_layout]);
    }
    if (!joint.tensors[t]) continue;
    const TensorSpace& space = *joint.tensors[t];
    const Layout& kept_layout = space.layouts[space.values[values[joint.tensor_variable[t]]].kept_layout];
    if (is_resharded(joint, graph, TensorId(t), read_by[t], values)) plan.resharded.insert(TensorId(t));
    if (const OpId producer = graph.tensors[t].producer; producer.valid()) {
      const int r = result_position(graph, TensorId(t));
      if (same_placement(kept_layout,
                         joint.ops[producer.index()]->layouts[values[joint.op_variable[producer.index()]]].results[r]))
        continue;
    }
    keep(t, kept_layout);
  }
  return plan;
}

std::optional<solver::Assignment> values_of(const JointProblem& joint, const Graph& graph, const Plan& plan) {
  const solver::Network& network = joint.network;
  std::vector<std::vector<int>> may = all_values(network);
  std::vector<int> order, open;  // ops that the plan settles, and the others
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const int v = joint.op_variable[i];
    open.push_back(v);
    const auto strategies = on_axes(plan.ops[i].mesh, plan.ops[i].strategies, joint.mesh);
    if (!strategies) continue;
    const auto& known = joint.ops[i]->strategies;
    const auto found = std::find(known.begin(), known.end(), *strategies);
    if (found == known.end()) continue;
    may[v] = {static_cast<int>(found - known.begin())};
    open.pop_back();
    order.push_back(v);
  }
  if (order.empty()) return std::nullopt;
  order.insert(order.end(), open.begin(), open.end());
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (!joint.tensors[t]) continue;
    const int v = joint.tensor_variable[t];
    std::optional<Layout> kept_layout;
    if (const auto kept = plan.kept.find(TensorId(t)); kept != plan.kept.end()) {
      const Placement& placement = kept->second;
      if (auto sbp = on_axes(placement.mesh, placement.sbp, joint.mesh))
        kept_layout = layout_of({joint.mesh, std::move(*sbp), placement.radices}, graph.tensors[t].shape);
    } else if (const OpId producer = graph.tensors[t].producer;
               producer.valid() && may[joint.op_variable[producer.index()]].size() == 1) {
      const int r = result_position(graph, TensorId(t));
      kept_layout = joint.ops[producer.index()]->layouts[may[joint.op_variable[producer.index()]][0]].results[r];
    }
    const TensorSpace& space = *joint.tensors[t];
    std::vector<int> there;
    for (size_t x = 0; kept_layout && x < space.values.size(); ++x)
      if (same_placement(space.layouts[space.values[x].kept_layout], *kept_layout))
        there.push_back(static_cast<int>(x));
    if (plan.resharded.contains(TensorId(t))) {  // each of its readers makes its own copy
      std::erase_if(there, [&](int x) { return !space.values[x].also.empty(); });
      for (size_t b = 0; b < space.resharded.size(); ++b) {
        const std::vector<TensorSpace::ReshardChoice>& choices = space.resharded[b].choices;
        if (std::ranges::any_of(choices,
                                [](const TensorSpace::ReshardChoice& w) { return w.others && w.backward && !w.once; }))
          std::erase_if(may[joint.resharded_variables[t][b]], [&](int x) { return choices[x].once; });
      }
    }
    if (!there.empty()) may[v] = std::move(there);
  }
  return settled(joint, may, std::move(order));
}

solver::Assignment with_best_tensors(const JointProblem& joint, const std::vector<int>& op_values) {
  std::vector<std::vector<int>> may = all_values(joint.network);
  for (size_t i = 0; i < op_values.size(); ++i) may[joint.op_variable[i]] = {op_values[i]};
  return settled(joint, may, joint.op_variable);
}

}  // namespace partita
