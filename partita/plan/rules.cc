#include "partita/plan/rules.h"

#include <algorithm>
#include <optional>
#include <set>

#include "partita/base/error.h"
#include "partita/plan/resolve.h"

namespace partita {

namespace {

constexpr int64_t kNever = INT64_MAX;

bool is_factored(const std::vector<Shape>& radices) {
  return std::any_of(radices.begin(), radices.end(), [](const Shape& r) { return r.size() > 1; });
}

// Position of a stored axis's first factored axis.
size_t first_factored_axis(const tdl::BoundTensor& tensor, int axis) {
  size_t at = 0;
  for (int a = 0; a < axis; ++a) at += tensor.radices[a].size();
  return at;
}

// Per factored axis of operand k, the names of the indices that it is read at plainly.
std::vector<std::set<int>> plain_reads(const tdl::Bound& bound, int tensor) {
  std::vector<std::set<int>> names(bound.tensors[tensor].factored.size());
  for (const tdl::Stage& stage : bound.stages)
    tdl::for_each_read(stage.body, [&](const tdl::Expr& read) {
      if (read.tensor != tensor) return;
      for (size_t a = 0; a < read.subscripts.size() && a < names.size(); ++a) {
        int index = read.subscripts[a].plain_index();
        if (index >= 0) names[a].insert(index);
      }
    });
  return names;
}

std::vector<int> result_indices(const tdl::Bound& bound, int result) {
  std::vector<int> indices;
  for (const tdl::Affine& lhs : bound.stages[bound.stage_of(bound.results[result])].lhs) indices.push_back(lhs.plain_index());
  return indices;
}

// Builds a plan op by op in graph order, knowing where every tensor is so far.
class RulePlanner {
 public:
  RulePlanner(const Graph& graph, const Cluster& cluster, const Pins& pins, Mesh mesh)
      : graph_(graph), cluster_(cluster), pins_(pins), mesh_(std::move(mesh)), home_(graph.tensors.size()) {
    plan_.ops.resize(graph.ops.size());
    for (const auto& [id, placement] : pins.kept) keep(id, placement);
  }

  // The candidate with the fewest bytes; the first of equals. Pinned ops take their pin.
  void choose(OpId id, const std::vector<tdl::AxisStrategy>& candidates) {
    const Op& op = graph_.op(id);
    auto pin = pins_.ops.find(id);
    if (pin != pins_.ops.end()) return settle(id, pin->second);
    int64_t best = kNever;
    std::optional<OpChoice> choice;
    for (const tdl::AxisStrategy& s : candidates) {
      OpChoice option{mesh_, {}};
      for (size_t a = 0; a < mesh_.extents.size(); ++a) option.strategies.push_back(s);
      int64_t bytes = cost(op, option);
      if (bytes < best) best = bytes, choice = option;
    }
    if (!choice) fail("op '{}' ({}): none of the rule's strategies exists on {} devices", op.name, op.definition, mesh_.positions());
    settle(id, *choice);
  }

  // Keeps a result split along `axis` if it came out partial there, or whole if the axis is too short.
  void keep_partial_result(TensorId id, int axis) {
    if (!home_[id.index()]->is_partial() || plan_.kept.contains(id)) return;
    const std::vector<Shape> radices = home_[id.index()]->radices;
    int digit = 0;  // of a factored axis, the longest
    if (axis >= 0) digit = static_cast<int>(std::max_element(radices[axis].begin(), radices[axis].end()) - radices[axis].begin());
    bool fits = axis >= 0 && radices[axis][digit] >= mesh_.positions();
    keep(id, {mesh_, NdSbp(mesh_.extents.size(), fits ? Sbp::split(axis, digit) : Sbp::broadcast()), is_factored(radices) ? radices : std::vector<Shape>()});
  }

  Plan finish() {
    for (size_t t = 0; t < graph_.tensors.size(); ++t)  // what nobody reads
      if (!home_[t] && !graph_.tensors[t].producer.valid()) keep(TensorId(t), whole());
    return std::move(plan_);
  }

  const Mesh& mesh() const { return mesh_; }
  const Layout* home(TensorId id) const { return home_[id.index()] ? &*home_[id.index()] : nullptr; }

 private:
  Placement whole() const { return {mesh_, NdSbp(mesh_.extents.size(), Sbp::broadcast()), {}}; }

  void keep(TensorId id, const Placement& placement) {
    plan_.kept[id] = placement;
    const Tensor& tensor = graph_.tensor(id);
    home_[id.index()] = placement.radices.empty() ? make_layout(placement.mesh, placement.sbp, tensor.shape)
                                                  : make_layout(placement.mesh, placement.sbp, placement.radices);
  }

  int64_t cost(const Op& op, const OpChoice& choice) {
    auto derived = cache_.get(op.bound, choice.mesh.extents, choice.strategies);
    if (!derived) return kNever;
    OpLayouts layouts = layouts_of(*op.bound, *derived, choice.mesh);
    int64_t bytes = derived->inner.empty() ? 0 : inner_bytes(*op.bound, *derived, choice.mesh, bytes_of(inner_dtype(graph_, op)), cluster_);
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const Tensor& tensor = graph_.tensor(op.operands[k]);
      // What no one has read yet is kept as its first reader wants it, but never partial.
      if (home_[op.operands[k].index()])
        bytes += conversion_bytes(*home_[op.operands[k].index()], layouts.operands[k], bytes_of(tensor.dtype), cluster_);
      else if (layouts.operands[k].is_partial() || !name_of(layouts.operands[k]))
        bytes += tensor.bytes();
    }
    for (size_t r = 0; r < op.results.size(); ++r) {
      const Tensor& tensor = graph_.tensor(op.results[r]);
      if (tensor.replaces.valid() && home_[tensor.replaces.index()])
        bytes += conversion_bytes(layouts.results[r], *home_[tensor.replaces.index()], bytes_of(tensor.dtype), cluster_);
    }
    return bytes;
  }

  void settle(OpId id, const OpChoice& choice) {
    const Op& op = graph_.op(id);
    plan_.ops[id.index()] = choice;
    auto derived = cache_.get(op.bound, choice.mesh.extents, choice.strategies);
    if (!derived) return;  // a wrong pin: the checker says why
    OpLayouts layouts = layouts_of(*op.bound, *derived, choice.mesh);
    for (size_t k = 0; k < op.operands.size(); ++k) {
      TensorId t = op.operands[k];
      if (home_[t.index()]) continue;
      const Layout& need = layouts.operands[k];
      auto name = need.is_partial() ? std::nullopt : name_of(need);
      if (name && !more_parts_than_extent(need, *name)) {
        keep(t, {choice.mesh, *name, is_factored(need.radices) ? need.radices : std::vector<Shape>()});
      } else {
        keep(t, {choice.mesh, NdSbp(choice.mesh.extents.size(), Sbp::broadcast()), {}});
      }
    }
    for (size_t r = 0; r < op.results.size(); ++r) {
      TensorId t = op.results[r], w = graph_.tensor(t).replaces;
      if (plan_.kept.contains(t)) continue;
      home_[t.index()] = w.valid() && home_[w.index()] ? home_[w.index()] : layouts.results[r];
    }
  }

  // Some position keeps nothing: a plan doesn't offer that.
  static bool more_parts_than_extent(const Layout& layout, const NdSbp& sbp) {
    std::map<std::pair<int, int>, int64_t> parts;
    for (size_t a = 0; a < sbp.size(); ++a)
      if (sbp[a].kind == Sbp::Kind::kSplit) parts.try_emplace({sbp[a].axis, sbp[a].sub_axis}, 1).first->second *= layout.mesh.extents[a];
    return std::any_of(parts.begin(), parts.end(), [&](const auto& p) { return p.second > layout.radices[p.first.first][p.first.second]; });
  }

  const Graph& graph_;
  const Cluster& cluster_;
  const Pins& pins_;
  Mesh mesh_;
  Plan plan_;
  std::vector<std::optional<Layout>> home_;
  DerivationCache cache_;
};

Mesh all_devices(const Cluster& cluster) {
  std::vector<DeviceId> devices = slowest_link_first(cluster);
  return {{static_cast<int>(devices.size())}, devices};
}

const tdl::AxisStrategy kReplicate{};

// Splits before partial before replication, each in the formula's order.
std::vector<tdl::AxisStrategy> splits_first(std::vector<tdl::AxisStrategy> strategies) {
  std::stable_sort(strategies.begin(), strategies.end(), [](const auto& a, const auto& b) {
    auto rank = [](const tdl::AxisStrategy& s) { return !s.names.empty() ? 0 : s.replicate() ? 2 : 1; };
    return rank(a) < rank(b);
  });
  return strategies;
}

std::vector<tdl::AxisStrategy> with_name(const std::vector<tdl::AxisStrategy>& strategies, const std::string& name) {
  std::vector<tdl::AxisStrategy> out;
  for (const tdl::AxisStrategy& s : strategies)
    if (s.names.size() == 1 && s.names[0] == name) out.push_back(s);
  return out;
}

// What model parallelism splits in an op with a parameter: the index, and the result axis that keeps its result.
struct ParameterSplit {
  std::string index;
  int result_axis = -1;
};
std::optional<ParameterSplit> parameter_split(const Graph& graph, const Op& op, int p) {
  int parameter = -1;  // the largest
  for (size_t k = 0; k < op.operands.size(); ++k) {
    const Tensor& t = graph.tensor(op.operands[k]);
    if (t.role == Role::kParameter && (parameter < 0 || t.bytes() > graph.tensor(op.operands[parameter]).bytes())) parameter = k;
  }
  if (parameter < 0) return std::nullopt;
  const tdl::Bound& bound = *op.bound;
  std::vector<int> result = result_indices(bound, 0);
  auto in_result = [&](int index) { return std::find(result.begin(), result.end(), index) != result.end(); };
  auto names = plain_reads(bound, parameter);
  int contracted = -1, output = -1;
  for (const std::set<int>& axis : names)
    for (int i : axis) {
      if (!bound.indices[i].splittable || bound.indices[i].extent < p) continue;
      int& slot = in_result(i) ? output : contracted;
      if (slot < 0 || bound.indices[i].extent > bound.indices[slot].extent) slot = i;
    }
  int chosen = contracted >= 0 ? contracted : output;
  if (chosen < 0) return std::nullopt;
  ParameterSplit split{bound.indices[chosen].name, -1};
  const tdl::BoundTensor& tensor = bound.tensors[bound.results[0]];
  for (size_t axis = 0; output >= 0 && axis < tensor.radices.size(); ++axis)
    if (tensor.radices[axis].size() == 1 && result[first_factored_axis(tensor, static_cast<int>(axis))] == output)
      split.result_axis = static_cast<int>(axis);
  return split;
}

}  // namespace

std::vector<std::string> sample_indices(const Graph& graph, const Op& op) {
  const tdl::Bound& bound = *op.bound;
  // Of the factors of a tensor's sample axis, the first splittable index of each.
  auto along = [&](const tdl::BoundTensor& tensor, int axis, auto indices_of) {
    std::vector<std::string> names;
    const size_t first = first_factored_axis(tensor, axis);
    for (size_t f = first; f < first + tensor.radices[axis].size(); ++f)
      for (int index : indices_of(f))
        if (index >= 0 && bound.indices[index].splittable) {
          names.push_back(bound.indices[index].name);
          break;
        }
    return names;
  };
  for (size_t k = 0; k < op.operands.size(); ++k) {
    int axis = graph.tensor(op.operands[k]).sample_axis;
    if (axis < 0) continue;
    auto read = plain_reads(bound, static_cast<int>(k));
    if (auto names = along(bound.tensors[k], axis, [&](size_t f) { return read[f]; }); !names.empty()) return names;
  }
  for (size_t r = 0; r < op.results.size(); ++r) {
    int axis = graph.tensor(op.results[r]).sample_axis;
    if (axis < 0) continue;
    const std::vector<int> written = result_indices(bound, static_cast<int>(r));
    if (auto names = along(bound.tensors[bound.results[r]], axis, [&](size_t f) { return std::set{written[f]}; }); !names.empty()) return names;
  }
  return {};
}

std::vector<tdl::AxisStrategy> allowed_strategies(const Op& op, int p) {
  std::vector<tdl::AxisStrategy> out;
  for (const tdl::AxisStrategy& s : tdl::strategies(*op.bound, p)) {
    bool fits = true;
    for (const std::string& name : s.names) fits &= op.bound->indices[op.bound->find_index(name)].extent >= p;
    if (fits) out.push_back(s);
  }
  return out;
}

Plan single_plan(const Graph& graph, const Cluster& cluster, const Pins& pins) {
  RulePlanner planner(graph, cluster, pins, Mesh{{}, {slowest_link_first(cluster)[0]}});
  for (size_t i = 0; i < graph.ops.size(); ++i) planner.choose(OpId(i), {kReplicate});
  Plan plan = planner.finish();
  plan.search = "single";
  return plan;
}

Plan data_parallel_plan(const Graph& graph, const Cluster& cluster, const Pins& pins) {
  RulePlanner planner(graph, cluster, pins, all_devices(cluster));
  int p = planner.mesh().positions();
  for (TensorId input : graph.inputs) {
    const Tensor& t = graph.tensor(input);
    if (t.sample_axis >= 0 && t.shape[t.sample_axis] < p)
      throw Error(ExitCode::kInfeasible, fmt::format("data-parallel: input '{}' has {} samples, too few for {} devices; use a larger batch or fewer devices",
                                                     t.name, t.shape[t.sample_axis], p));
  }
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const std::vector<tdl::AxisStrategy> all = allowed_strategies(op, p);
    std::vector<tdl::AxisStrategy> candidates;
    for (const std::string& index : sample_indices(graph, op))
      if (candidates.empty()) candidates = with_name(all, index);
    if (candidates.empty()) candidates = {kReplicate};
    planner.choose(OpId(i), candidates);
  }
  Plan plan = planner.finish();
  plan.search = "data-parallel";
  return plan;
}

Plan model_parallel_plan(const Graph& graph, const Cluster& cluster, const Pins& pins) {
  RulePlanner planner(graph, cluster, pins, all_devices(cluster));
  int p = planner.mesh().positions();
  std::vector<std::optional<ParameterSplit>> split(graph.ops.size());
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    std::vector<tdl::AxisStrategy> all = allowed_strategies(op, p), candidates;
    if (op.phase == Phase::kForward) split[i] = parameter_split(graph, op, p);
    const std::optional<ParameterSplit>& rule = op.forward.valid() ? split[op.forward.index()] : split[i];
    if (rule) candidates = with_name(all, rule->index);
    bool has_parameter = op.phase == Phase::kForward && std::any_of(op.operands.begin(), op.operands.end(), [&](TensorId t) {
                           return graph.tensor(t).role == Role::kParameter;
                         });
    if (candidates.empty()) candidates = has_parameter ? std::vector{kReplicate} : splits_first(all);
    planner.choose(OpId(i), candidates);
    if (split[i] && !pins.ops.contains(OpId(i))) planner.keep_partial_result(op.results[0], split[i]->result_axis);
  }
  Plan plan = planner.finish();
  plan.search = "model-parallel";
  return plan;
}

}  // namespace partita
