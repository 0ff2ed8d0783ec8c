// ZeRO (Rajbhandari et al., SC 2020, section 5): data parallelism that keeps no state twice. Stage 1 splits the
// optimizer's states, stage 2 the gradients as well, stage 3 the parameters too. The update of a parameter runs on each
// device's part of it.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/plan/rule_planner.h"

namespace partita {

namespace {

// How the update of one parameter is split: the strategy of its op, and the layout that parameter, gradient and states
// then have.
struct UpdateSplit {
  tdl::AxisStrategy strategy;
  Layout layout;
};

// The strategy whose largest part of the parameter is smallest; empty where no axis is as long as there are devices.
std::optional<UpdateSplit> update_split(const Op& op, const Mesh& mesh) {
  std::optional<UpdateSplit> best;
  int64_t fewest = volume(op.bound->tensors[0].shape);
  for (const tdl::AxisStrategy& s : allowed_strategies(op, mesh.positions())) {
    if (s.names.size() != 1) continue;
    const auto derived = tdl::derive(*op.bound, mesh.extents, {s});
    if (!derived) continue;
    const Layout layout = layouts_of(*op.bound, *derived, mesh).operands[0];
    int64_t most = 0;
    for (int r = 0; r < mesh.positions(); ++r) most = std::max(most, layout.elements(r));
    if (most < fewest && !layout.is_partial() && name_of(layout)) fewest = most, best = {s, layout};
  }
  return best;
}

class ZeroRule {
 public:
  ZeroRule(const Graph& graph, const Mesh& mesh)
      : graph_(graph),
        mesh_(mesh),
        late_(graph),
        read_by_(readers(graph)),
        splits_(graph.ops.size()),
        wanted_(graph.tensors.size()) {
    for (size_t i = 0; i < graph.ops.size(); ++i) {
      const Op& op = graph.ops[i];
      const std::vector<TensorId> gradients = gradients_of_update(graph, op);
      if (gradients.empty()) continue;
      splits_[i] = update_split(op, mesh);
      if (!splits_[i]) continue;
      split_parameters_.emplace_back(op.operands[0], splits_[i]->layout);
      for (TensorId g : gradients)
        if (!wanted_[g.index()]) wanted_[g.index()] = splits_[i]->layout;
    }
  }

  const std::vector<std::pair<TensorId, Layout>>& split_parameters() const { return split_parameters_; }
  // A parameter that the forward pass casts to a shorter type, and reads nowhere else, is a master copy, which stages 1
  // and 2 split with the states (mixed precision, section 5.1). Each device casts its part, and the shorter type is
  // gathered.
  bool is_master(TensorId t) const {
    if (graph_.tensor(t).role != Role::kParameter) return false;
    bool is_cast = false;
    for (const Reader& reader : read_by_[t.index()]) {
      if (graph_.op(reader.op).phase == Phase::kUpdate) continue;
      if (!is_shortened(reader.op)) return false;
      is_cast = true;
    }
    return is_cast;
  }
  // The strategy of a master copy's cast that reads it as it is kept; none for other ops.
  std::optional<tdl::AxisStrategy> cast_of_parts(OpId id, const Layout& master) const {
    if (!is_shortened(id) || !is_master(graph_.op(id).operands[0])) return std::nullopt;
    const Op& op = graph_.op(id);
    const auto found = reading(op, allowed_strategies(op, mesh_.positions()), [&](TensorId) { return &master; });
    return found.empty() ? std::nullopt : std::optional(found[0]);
  }
  const Layout* gradient(TensorId t) const { return wanted_[t.index()] ? &*wanted_[t.index()] : nullptr; }

  // The strategies that an op may take: its split for an update; along samples where it sees them; and for another op
  // of the update, that of a gradient which updates read split.
  std::vector<tdl::AxisStrategy> strategies(OpId id) const {
    const Op& op = graph_.op(id);
    if (splits_[id.index()]) return {splits_[id.index()]->strategy};
    const std::vector<tdl::AxisStrategy> all = allowed_strategies(op, mesh_.positions());
    if (std::vector<tdl::AxisStrategy> samples = sample_strategies(graph_, op, all); !samples.empty()) return samples;
    std::vector<tdl::AxisStrategy> out{kReplicate};
    if (op.phase == Phase::kUpdate) {
      if (std::vector<tdl::AxisStrategy> same = reading(op, all, [&](TensorId t) { return gradient(t); });
          !same.empty())
        return same;
      const std::vector<tdl::AxisStrategy> sums = late_.strategies(id, all);
      if (op.results.size() == 1 && !op.forward.valid() && graph_.tensor(op.results[0]).replaces.valid())
        out.insert(out.end(), sums.begin(), sums.end());
      return out;
    }
    const std::vector<tdl::AxisStrategy> sums = late_.strategies(id, all);
    out.insert(out.end(), sums.begin(), sums.end());
    for (const tdl::AxisStrategy& s : all)  // of weights alone, or sums of gradients: what is cheapest
      if (!s.names.empty() || op.phase == Phase::kForward) out.push_back(s);
    return out;
  }

 private:
  // The strategies that split one index and read an operand where `wanted` has it.
  template <typename Wanted>
  std::vector<tdl::AxisStrategy> reading(const Op& op, const std::vector<tdl::AxisStrategy>& all,
                                         const Wanted& wanted) const {
    std::vector<tdl::AxisStrategy> out;
    for (const tdl::AxisStrategy& s : all) {
      const auto derived = s.names.size() == 1 ? tdl::derive(*op.bound, mesh_.extents, {s}) : std::nullopt;
      if (!derived) continue;
      const OpLayouts layouts = layouts_of(*op.bound, *derived, mesh_);
      for (size_t k = 0; k < op.operands.size(); ++k)
        if (const Layout* layout = wanted(op.operands[k]); layout && same_placement(*layout, layouts.operands[k])) {
          out.push_back(s);
          break;
        }
    }
    return out;
  }

  bool is_shortened(OpId id) const {
    const Op& op = graph_.op(id);
    if (op.phase != Phase::kForward || op.operands.size() != 1 || op.results.size() != 1) return false;
    const Tensor &from = graph_.tensor(op.operands[0]), &to = graph_.tensor(op.results[0]);
    return from.shape == to.shape && is_float(to.dtype) && bytes_of(to.dtype) < bytes_of(from.dtype);
  }

  const Graph& graph_;
  Mesh mesh_;
  LateSums late_;
  std::vector<std::vector<Reader>> read_by_;
  std::vector<std::optional<UpdateSplit>> splits_;  // by op
  std::vector<std::optional<Layout>> wanted_;       // by tensor: of gradients, how their updates read them
  std::vector<std::pair<TensorId, Layout>> split_parameters_;
};

// Updates after everything else: stage 1 has all gradients whole until then.
std::vector<OpId> updates_last(const Graph& graph) {
  std::vector<OpId> order;
  for (const bool updates : {false, true})
    for (size_t i = 0; i < graph.ops.size(); ++i)
      if ((graph.ops[i].phase == Phase::kUpdate) == updates) order.push_back(OpId(i));
  return order;
}

}  // namespace

Plan zero_plan(const Graph& graph, const Cluster& cluster, int stage, const Pins& pins, const Watch& watch) {
  RulePlanner planner(graph, cluster, pins, all_devices(cluster), watch);
  require_samples("zero", graph, planner.mesh().positions());
  const ZeroRule rule(graph, planner.mesh());
  for (const auto& [parameter, layout] : rule.split_parameters())
    if ((stage == 3 || rule.is_master(parameter)) && !planner.home(parameter))
      planner.keep(parameter, placement_of(layout, *name_of(layout)));
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const Layout* master = op.operands.empty() ? nullptr : planner.home(op.operands[0]);
    const auto parts = stage < 3 && master ? rule.cast_of_parts(OpId(i), *master) : std::nullopt;
    planner.choose(OpId(i), {parts ? std::vector{*parts} : rule.strategies(OpId(i))});
    if (parts && !pins.kept.contains(op.results[0])) planner.keep_whole(op.results[0]);
    for (TensorId r : op.results)
      if (const Layout* layout = rule.gradient(r);
          layout && stage >= 2 && op.phase == Phase::kBackward && !pins.kept.contains(r))
        planner.keep(r, placement_of(*layout, *name_of(*layout)));
  }
  std::set<TensorId> again;
  if (stage == 3) again = gathered_again(graph, planner);
  Plan plan = planner.finish(fmt::format("zero?stage={}", stage));
  plan.refetched = std::move(again);
  if (stage == 1) plan.order = updates_last(graph);
  return plan;
}

}  // namespace partita
