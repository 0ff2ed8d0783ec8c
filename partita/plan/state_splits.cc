// Splits the states of each parameter, and the ops and tensors that follow them.
#include "partita/plan/state_splits.h"

#include <algorithm>

namespace partita {

namespace {

Mesh as_one(const Mesh& mesh, const std::vector<int>& axes) {
  int positions = 1;
  for (const int a : axes) positions *= mesh.extents[static_cast<size_t>(a)];
  Mesh one{{positions}, {}};
  for (int d = 0; d < positions; ++d) one.devices.push_back(DeviceId(d));
  return one;
}

// Splits the update of one parameter by the strategy whose largest shard of the parameter is smallest; empty if no free
// axis is as long as there are devices.
std::optional<StateSplit> update_split(const Op& op, const Mesh& mesh, const std::function<bool(int)>& is_taken) {
  std::optional<StateSplit> best;
  int64_t fewest = volume(op.bound->tensors[0].shape);
  for (const tdl::AxisStrategy& s : allowed_strategies(op, mesh.positions())) {
    if (s.names.size() != 1) continue;
    const auto derived = tdl::derive(*op.bound, mesh.extents, {s});
    if (!derived) continue;
    const Layout layout = layouts_of(*op.bound, *derived, mesh).operands[0];
    const auto name = layout.is_partial() ? std::nullopt : name_of(layout);
    if (!name || is_taken((*name)[0].axis)) continue;
    int64_t most = 0;
    for (int r = 0; r < mesh.positions(); ++r) most = std::max(most, layout.elements(r));
    if (most < fewest) fewest = most, best = {s, layout, (*name)[0], {}};
  }
  return best;
}

}  // namespace

StateSplits::StateSplits(const Graph& graph, const Mesh& mesh, int stage, const AxesOf& axes_of,
                         const IsTaken& is_taken)
    : graph_(graph),
      stage_(stage),
      axes_of_(axes_of),
      read_by_(readers_by_tensor(graph)),
      split_(graph.tensors.size(), -1),
      update_(graph.ops.size(), -1) {
  if (stage == 0) return;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const std::vector<TensorId> gradients = gradients_of_update(graph, op);
    if (gradients.empty()) continue;
    const TensorId parameter = op.operands[0];
    const std::vector<int> axes = axes_of(parameter);
    if (axes.empty()) continue;
    auto split = update_split(op, as_one(mesh, axes), [&](int axis) { return is_taken(parameter, axis); });
    if (!split) continue;
    split->mesh_axes = axes;
    const int at = static_cast<int>(splits_.size());
    splits_.push_back(std::move(*split));
    update_[i] = split_[parameter.index()] = at;
    parameters_.push_back(parameter);
    for (TensorId g : gradients)
      if (split_[g.index()] < 0) split_[g.index()] = at;
  }
}

bool StateSplits::is_shortened(OpId id) const {
  const Op& op = graph_.op(id);
  if (op.phase != Phase::kForward || op.operands.size() != 1 || op.results.size() != 1) return false;
  const Tensor &from = graph_.tensor(op.operands[0]), &to = graph_.tensor(op.results[0]);
  return from.shape == to.shape && is_float(to.dtype) && bytes_of(to.dtype) < bytes_of(from.dtype);
}

bool StateSplits::is_master(TensorId t) const {
  if (graph_.tensor(t).role != Role::kParameter) return false;
  bool is_cast = false;
  for (const Reader& reader : read_by_[t.index()]) {
    if (graph_.op(reader.op).phase == Phase::kUpdate) continue;
    if (!is_shortened(reader.op)) return false;
    is_cast = true;
  }
  return is_cast;
}

void StateSplits::keep_parameters(RulePlanner& planner) const {
  for (TensorId p : parameters_)
    if (stage_ == 3 || is_master(p)) planner.split_when_kept(p, {of(p)->layout.radices, of(p)->sbp, of(p)->mesh_axes});
}

// Returns the split in which an op reads one of its operands, and its strategy then.
const StateSplit* StateSplits::split_read_by(OpId id, tdl::AxisStrategy& strategy) const {
  const Op& op = graph_.op(id);
  for (TensorId t : op.operands) {
    const StateSplit* split = of(t);
    if (!split) continue;
    for (const tdl::AxisStrategy& s : allowed_strategies(op, split->layout.mesh.positions())) {
      const auto derived = s.names.size() == 1 ? tdl::derive(*op.bound, split->layout.mesh.extents, {s}) : std::nullopt;
      if (!derived) continue;
      const OpLayouts layouts = layouts_of(*op.bound, *derived, split->layout.mesh);
      for (size_t k = 0; k < op.operands.size(); ++k)
        if (op.operands[k] == t && same_placement(split->layout, layouts.operands[k])) return strategy = s, split;
    }
  }
  return nullptr;
}

std::vector<tdl::AxisStrategy> StateSplits::strategies(OpId id, int mesh_axis) const {
  const Op& op = graph_.op(id);
  if (stage_ == 0 || op.operands.empty()) return {};
  tdl::AxisStrategy strategy;
  const StateSplit* split = nullptr;
  if (update_[id.index()] >= 0) {
    split = &splits_[static_cast<size_t>(update_[id.index()])];
    strategy = split->strategy;
  } else if (op.phase == Phase::kUpdate || (stage_ < 3 && is_shortened(id) && is_master(op.operands[0]))) {
    split = split_read_by(id, strategy);
  }
  const bool here = split && std::ranges::find(split->mesh_axes, mesh_axis) != split->mesh_axes.end();
  return here ? std::vector{strategy} : std::vector<tdl::AxisStrategy>();
}

void StateSplits::keep_results(RulePlanner& planner, OpId id) const {
  const Op& op = graph_.op(id);
  if (stage_ == 0 || op.operands.empty()) return;
  const StateSplit* master = stage_ < 3 && is_shortened(id) && is_master(op.operands[0]) ? of(op.operands[0]) : nullptr;
  for (TensorId r : op.results) {
    if (master)
      for (const int a : master->mesh_axes) planner.keep_along(r, a, {});
    else if (const StateSplit* split = of(r); split && stage_ >= 2 && op.phase == Phase::kBackward)
      planner.keep_split(r, {split->layout.radices, split->sbp, split->mesh_axes});
  }
}

std::set<TensorId> StateSplits::gathered_again(const RulePlanner& planner) const {
  std::set<TensorId> out;
  if (stage_ < 3) return out;
  const std::vector<bool> weight = weight_tensor_mask(graph_), of_micro_batches = weights_of_micro_batches(graph_);
  for (const Op& op : graph_.ops)
    for (TensorId t : op.operands) {
      const bool again = of_micro_batches[t.index()] || (op.phase == Phase::kBackward && weight[t.index()]);
      const Layout* kept_layout = again ? planner.kept_layout(t) : nullptr;
      const auto name = kept_layout ? name_of(*kept_layout) : std::nullopt;
      const auto is_split = [&](int a) { return (*name)[static_cast<size_t>(a)].kind == Sbp::Kind::kSplit; };
      if (name && kept_layout->mesh == planner.mesh() && std::ranges::any_of(axes_of_(t), is_split)) out.insert(t);
    }
  return out;
}

}  // namespace partita
