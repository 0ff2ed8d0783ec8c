// Chooses ops one after another under a rule, the cheapest allowed strategy each; and answers rules' questions about a
// graph.
#include "partita/plan/rule_planner.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/radices.h"
#include "partita/base/tuples.h"
#include "partita/graph/autodiff.h"

namespace partita {

namespace {

constexpr int64_t kNever = INT64_MAX;

// Tells whether some position would keep nothing, which no plan may have.
bool more_shards_than_extent(const Layout& layout, const NdSbp& sbp) {
  std::map<std::pair<int, int>, int64_t> shards;
  for (size_t a = 0; a < sbp.size(); ++a)
    if (sbp[a].kind == Sbp::Kind::kSplit)
      shards.try_emplace({sbp[a].axis, sbp[a].sub_axis}, 1).first->second *= layout.mesh.extents[a];
  return std::any_of(shards.begin(), shards.end(),
                     [&](const auto& p) { return p.second > layout.radices[p.first.first][p.first.second]; });
}

}  // namespace

RulePlanner::RulePlanner(const Graph& graph, const Cluster& cluster, const Constraints& constraints, Mesh mesh,
                         const Watch& watch)
    : graph_(graph),
      converter_(cluster),
      constraints_(constraints),
      mesh_(std::move(mesh)),
      watch_(watch),
      kept_layouts_(graph.tensors.size()),
      readers_(graph.tensors.size(), 0) {
  plan_.ops.resize(graph.ops.size());
  for (const Op& op : graph.ops)
    for (TensorId t : op.operands) ++readers_[t.index()];
  for (const auto& [id, placement] : constraints.kept) keep(id, placement);
}

bool RulePlanner::try_choose(OpId id, const std::vector<std::vector<tdl::AxisStrategy>>& axes) {
  ensure(axes.size() == mesh_.extents.size(), "{} lists of strategies for a mesh of {} axes", axes.size(),
         mesh_.extents.size());
  if (const OpChoice* fixed = constraints_.choice_of(id)) return settle(id, OpChoice(*fixed)), true;
  if (is_clone(graph_, graph_.op(id))) return repeat(id), true;
  int64_t best = kNever;
  std::optional<OpChoice> choice;
  std::vector<size_t> counts;
  for (const std::vector<tdl::AxisStrategy>& axis : axes) counts.push_back(axis.size());
  for_each_tuple(counts, [&](const std::vector<size_t>& at) {
    watch_.poll("while a rule chose");
    OpChoice option{mesh_, {}};
    for (size_t a = 0; a < axes.size(); ++a) option.strategies.push_back(axes[a][at[a]]);
    int64_t bytes = cost(graph_.op(id), option);
    if (bytes < best) best = bytes, choice = option;
  });
  if (!choice) return false;
  settle(id, *choice);
  return true;
}

void RulePlanner::repeat(OpId clone) {
  const Op &op = graph_.op(clone), &original = graph_.op(op.forward);
  for (size_t r = 0; r < op.results.size(); ++r)
    if (const auto kept = plan_.kept.find(original.results[r]);
        kept != plan_.kept.end() && !plan_.kept.contains(op.results[r]))
      keep(op.results[r], Placement(kept->second));
  settle(clone, OpChoice(choice(op.forward)));
}

void RulePlanner::choose(OpId id, const std::vector<std::vector<tdl::AxisStrategy>>& axes) {
  const Op& op = graph_.op(id);
  if (!try_choose(id, axes))
    fail("op '{}' ({}): none of the rule's strategies exists on {} devices", op.name, op.definition, mesh_.positions());
}

void RulePlanner::place(OpId id, const OpChoice& choice) { settle(id, constraints_.choice_or(id, choice)); }

void RulePlanner::want(OpId id, int operand, const OpChoice& choice) {
  const Op& op = graph_.op(id);
  if (const auto derived = cache_.get(op.bound, choice.mesh.extents, choice.strategies))
    want(op.operands[static_cast<size_t>(operand)],
         layouts_of(*op.bound, *derived, choice.mesh).operands[static_cast<size_t>(operand)]);
}

void RulePlanner::keep_partial_result(TensorId id, int axis) {
  if (!kept_layouts_[id.index()]->is_partial() || plan_.kept.contains(id)) return;
  const Layout kept_layout = *kept_layouts_[id.index()];
  const std::vector<Shape>& radices = kept_layout.radices;
  int digit = 0;  // of a factored axis, the longest
  if (axis >= 0)
    digit = static_cast<int>(std::max_element(radices[axis].begin(), radices[axis].end()) - radices[axis].begin());
  bool fits = axis >= 0 && radices[axis][digit] >= mesh_.positions();
  Placement placement =
      placement_of(kept_layout, NdSbp(mesh_.extents.size(), fits ? Sbp::split(axis, digit) : Sbp::broadcast()));
  placement.mesh = mesh_;
  keep(id, placement);
}

void RulePlanner::keep_whole(TensorId id) { keep(id, {mesh_, NdSbp(mesh_.extents.size(), Sbp::broadcast()), {}}); }

void RulePlanner::keep_along(TensorId id, int mesh_axis, const AxisLayout& part) {
  if (constraints_.kept_of(id) || !kept_layouts_[id.index()]) return;
  const Layout& kept_layout = *kept_layouts_[id.index()];
  std::optional<NdSbp> name = kept_layout.mesh == mesh_ ? name_of(kept_layout) : std::nullopt;
  const std::optional<Sbp> sbp = sbp_of(part, kept_layout.radices);
  if (!name || !sbp || (*name)[mesh_axis] == *sbp) return;
  (*name)[mesh_axis] = *sbp;
  if (!more_shards_than_extent(kept_layout, *name)) keep(id, placement_of(kept_layout, *name));
}

void RulePlanner::keep_whole(TensorId id, int mesh_axis) {
  const Layout& kept_layout = *kept_layouts_[id.index()];
  if (kept_layout.mesh == mesh_ && kept_layout.kinds[static_cast<size_t>(mesh_axis)]) keep_along(id, mesh_axis, {});
}

namespace {

// Returns the layout's placement, but so split; empty if it cannot be.
std::optional<Placement> split_over(const Layout& layout, const SplitOver& split) {
  NdSbp name(layout.mesh.extents.size(), split.sbp);
  std::vector<Shape> radices = split.radices;
  if (split.mesh_axes.size() < name.size()) {
    const std::optional<Layout> same = over_radices(layout, radices);
    const std::optional<NdSbp> before = same ? name_of(*same) : std::nullopt;
    if (!before) return std::nullopt;
    name = *before;
    for (const int a : split.mesh_axes) name[static_cast<size_t>(a)] = split.sbp;
  }
  Placement placement{layout.mesh, name, is_factored(radices) ? std::move(radices) : std::vector<Shape>()};
  const Layout made = layout_of(placement, layout.shape());
  return more_shards_than_extent(made, name) ? std::nullopt : std::optional(placement);
}

}  // namespace

void RulePlanner::keep_split(TensorId id, const SplitOver& split) {
  if (constraints_.kept_of(id) || kept_layouts_[id.index()]->mesh != mesh_) return;
  if (const auto placement = split_over(*kept_layouts_[id.index()], split)) keep(id, *placement);
}

namespace {

// Tells whether each device may keep its term of this sum from step to step: the tensor is a state that the op
// replaces, and no other op reads it. Running statistics of groups that lie on several devices are such sums.
bool may_keep_terms(const Graph& graph, const Op& op, TensorId t, const Layout& need) {
  const Tensor& tensor = graph.tensor(t);
  return tensor.role == Role::kState && is_float(tensor.dtype) && need.reducer() == tdl::Reducer::kSum &&
         op.results.size() == 1 && graph.tensor(op.results[0]).replaces == t;
}

}  // namespace

Placement kept_as_read(const Graph& graph, const Op& op, TensorId id, const Layout& need, bool only_reader) {
  const bool whole = need.is_partial() && !(only_reader && may_keep_terms(graph, op, id, need));
  const auto name = whole ? std::nullopt : name_of(need);
  if (name && !more_shards_than_extent(need, *name)) return placement_of(need, *name);
  return {need.mesh, NdSbp(need.mesh.extents.size(), Sbp::broadcast()), {}};
}

// Returns how a tensor without a kept layout is kept for its first reader.
Placement RulePlanner::kept_layout_for(const Op& op, TensorId id, const Layout& need) const {
  Placement kept = kept_as_read(graph_, op, id, need, readers_[id.index()] == 1);
  if (const auto split = split_when_kept_.find(id); split != split_when_kept_.end() && need.mesh == mesh_)
    if (auto placement = split_over(layout_of(kept, need.shape()), split->second)) return *placement;
  return kept;
}

Plan RulePlanner::finish(std::string_view search) {
  for (size_t t = 0; t < graph_.tensors.size(); ++t)  // tensors that no op reads
    if (!kept_layouts_[t] && !graph_.tensors[t].producer.valid())
      keep(TensorId(t), {mesh_, NdSbp(mesh_.extents.size(), Sbp::broadcast()), {}});
  plan_.search = search;
  return std::move(plan_);
}

void RulePlanner::keep(TensorId id, const Placement& placement) {
  plan_.kept[id] = placement;
  kept_layouts_[id.index()] = layout_of(placement, graph_.tensor(id).shape);
}

namespace {

// Tells whether some index is split into more shards than it has values, which no plan may.
bool more_shards_than_values(const Op& op, const OpChoice& choice) {
  std::map<std::string, int64_t> shards;
  for (size_t a = 0; a < choice.strategies.size(); ++a)
    for (const std::string& name : choice.strategies[a].names)
      shards.try_emplace(name, 1).first->second *= choice.mesh.extents[a];
  return std::ranges::any_of(shards, [&](const auto& split) {
    const int index = op.bound->find_index(split.first);
    return index >= 0 && split.second > op.bound->indices[static_cast<size_t>(index)].extent;
  });
}

}  // namespace

int64_t RulePlanner::cost(const Op& op, const OpChoice& choice) {
  if (more_shards_than_values(op, choice)) return kNever;
  auto derived = cache_.get(op.bound, choice.mesh.extents, choice.strategies);
  if (!derived) return kNever;
  OpLayouts layouts = layouts_of(*op.bound, *derived, choice.mesh);
  int64_t bytes = derived->inner.empty()
                      ? 0
                      : converter_.inner_bytes(*op.bound, *derived, choice.mesh, bytes_of(inner_dtype(graph_, op)));
  for (size_t k = 0; k < op.operands.size(); ++k) {
    const Tensor& tensor = graph_.tensor(op.operands[k]);
    const Layout& need = layouts.operands[k];
    if (kept_layouts_[op.operands[k].index()]) {
      bytes += converter_.bytes(*kept_layouts_[op.operands[k].index()], need, bytes_of(tensor.dtype));
    } else if ((need.is_partial() &&
                (readers_[op.operands[k].index()] > 1 || !may_keep_terms(graph_, op, op.operands[k], need))) ||
               !name_of(need)) {
      bytes += tensor.bytes();  // a tensor without a kept layout is not kept so if others read it
    } else if (split_when_kept_.contains(op.operands[k])) {
      const Layout kept = layout_of(kept_layout_for(op, op.operands[k], need), tensor.shape);
      bytes += converter_.bytes(kept, need, bytes_of(tensor.dtype));
    }
  }
  for (size_t r = 0; r < op.results.size(); ++r) {
    const Tensor& tensor = graph_.tensor(op.results[r]);
    if (tensor.replaces.valid() && kept_layouts_[tensor.replaces.index()])
      bytes += converter_.bytes(layouts.results[r], *kept_layouts_[tensor.replaces.index()], bytes_of(tensor.dtype));
    if (const auto wanted = wanted_.find(op.results[r]);
        wanted != wanted_.end() && layouts.results[r] != wanted->second)
      bytes += 1 + converter_.bytes(layouts.results[r], wanted->second, bytes_of(tensor.dtype));
  }
  return bytes;
}

void RulePlanner::settle(OpId id, const OpChoice& choice) {
  const Op& op = graph_.op(id);
  plan_.ops[id.index()] = choice;
  auto derived = cache_.get(op.bound, choice.mesh.extents, choice.strategies);
  if (!derived) return;  // a wrong pin: the checker says why
  OpLayouts layouts = layouts_of(*op.bound, *derived, choice.mesh);
  for (size_t k = 0; k < op.operands.size(); ++k) {
    TensorId t = op.operands[k];
    if (kept_layouts_[t.index()]) continue;
    keep(t, kept_layout_for(op, t, layouts.operands[k]));
  }
  for (size_t r = 0; r < op.results.size(); ++r) {
    TensorId t = op.results[r], w = graph_.tensor(t).replaces;
    if (plan_.kept.contains(t)) continue;
    kept_layouts_[t.index()] = w.valid() && kept_layouts_[w.index()] ? kept_layouts_[w.index()] : layouts.results[r];
  }
}

Mesh all_devices(const Cluster& cluster) {
  std::vector<DeviceId> devices = slowest_link_first(cluster);
  return {{static_cast<int>(devices.size())}, devices};
}

void require_samples(std::string_view rule, const Graph& graph, int shards) {
  for (TensorId input : graph.inputs) {
    const Tensor& t = graph.tensor(input);
    if (t.sample_axis >= 0 && t.shape[t.sample_axis] < shards)
      throw DoesNotApply(
          fmt::format("{}: input '{}' has {} samples{}, too few for {} devices; use a larger batch{} or fewer devices",
                      rule, t.name, t.shape[t.sample_axis], graph.micro_batches() > 1 ? " in a micro-batch" : "",
                      shards, graph.micro_batches() > 1 ? ", fewer micro-batches" : ""));
  }
}

std::vector<TensorId> gradients_of_update(const Graph& graph, const Op& op) {
  std::vector<TensorId> out;
  const OpDefinition* definition = graph.registry->find(op.definition);
  if (op.phase != Phase::kUpdate || !definition || !definition->update) return out;
  for (TensorId g = op.operands[1]; g.valid();) {
    out.push_back(g);
    const OpId producer = graph.tensor(g).producer;
    if (!producer.valid() || graph.op(producer).phase != Phase::kUpdate) break;
    const std::vector<TensorId>& from = graph.op(producer).operands;
    const auto same = std::find_if(from.begin(), from.end(),
                                   [&](TensorId t) { return graph.tensor(t).shape == graph.tensor(g).shape; });
    g = same == from.end() ? TensorId() : *same;
  }
  return out;
}

std::vector<tdl::AxisStrategy> with_name(const std::vector<tdl::AxisStrategy>& strategies, const std::string& name) {
  std::vector<tdl::AxisStrategy> out;
  for (const tdl::AxisStrategy& s : strategies)
    if (s.names.size() == 1 && s.names[0] == name) out.push_back(s);
  return out;
}

std::vector<tdl::AxisStrategy> sample_strategies(const Graph& graph, const Op& op,
                                                 const std::vector<tdl::AxisStrategy>& allowed) {
  for (const std::string& index : sample_indices(graph, op))
    if (std::vector<tdl::AxisStrategy> found = with_name(allowed, index); !found.empty()) return found;
  return {};
}

namespace {

bool passes_sums_on(const tdl::AxisStrategy& s) {
  return s.names.empty() && !s.partial.empty() && s.reducer == tdl::Reducer::kSum;
}

// Tells whether both operands are summands.
bool is_sum(const Op& op) {
  return op.operands.size() > 1 && std::ranges::any_of(tdl::strategies(*op.bound, 2), [&](const tdl::AxisStrategy& s) {
           return passes_sums_on(s) && s.partial.size() == op.operands.size();
         });
}

}  // namespace

// Tells whether it ends in a sum of gradients, through ops that are its only readers and do not see samples.
bool LateSums::is_added_to(TensorId id) const {
  while (read_by_[id.index()].size() == 1) {
    const Op& reader = graph_.op(read_by_[id.index()][0].op);
    if (reader.phase == Phase::kForward || reader.results.size() != 1) return false;
    if (is_sum(reader)) return true;
    if (!sample_indices(graph_, reader).empty()) return false;
    id = reader.results[0];
  }
  return false;
}

std::vector<tdl::AxisStrategy> LateSums::strategies(OpId id, const std::vector<tdl::AxisStrategy>& allowed,
                                                    bool kept_split) const {
  const Op& op = graph_.op(id);
  std::vector<tdl::AxisStrategy> out;
  if (op.phase == Phase::kForward || op.results.size() != 1) return out;
  for (const tdl::AxisStrategy& s : allowed) {
    if (!passes_sums_on(s)) continue;
    int64_t bytes = 0;
    bool only_reader = true;
    for (const std::string& name : s.partial) {
      const TensorId operand = op.operands[op.bound->find_tensor(name)];
      bytes += graph_.tensor(operand).bytes();
      only_reader &=
          std::ranges::all_of(read_by_[operand.index()], [&](const Reader& reader) { return reader.op == id; });
    }
    const Tensor& result = graph_.tensor(op.results[0]);
    const bool by_micro_batches = !kept_split && graph_.micro_batches() > 1 && result.accumulated;
    if (only_reader && (result.bytes() <= bytes || by_micro_batches || is_added_to(op.results[0]))) out.push_back(s);
  }
  return out;
}

}  // namespace partita
