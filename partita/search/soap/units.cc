// Puts the ops of a graph into units, and follows the leader's indices along the axes of their tensors.
#include <algorithm>
#include <map>
#include <set>

#include "partita/graph/gradients.h"
#include "partita/graph/layers.h"
#include "partita/plan/rule_planner.h"
#include "partita/search/soap/soap_plan.h"
#include "partita/tdl/affine.h"

namespace partita {

namespace {

bool is_of_cell(const Op& op) { return op.cell >= 0 && op.time_step >= 0; }

// By tensor: whether it is made of weights and constants alone.
std::vector<bool> without_samples(const Graph& graph) {
  std::vector<bool> alone(graph.tensors.size(), false);
  for (size_t t = 0; t < alone.size(); ++t)
    alone[t] = graph.tensors[t].role == Role::kParameter || graph.tensors[t].role == Role::kConstant;
  for (const Op& op : graph.ops)
    if (op.phase == Phase::kForward)
      for (const TensorId t : op.results)
        alone[t.index()] = std::ranges::all_of(op.operands, [&](TensorId o) { return alone[o.index()]; });
  return alone;
}

// By forward op: its unit; -1 for ops of weights and constants alone, and for others.
std::vector<int> units_of_forward_ops(const Graph& graph) {
  const std::vector<bool> alone = without_samples(graph);
  std::map<std::pair<int, int>, int> cells;
  std::vector<int> unit(graph.ops.size(), -1);
  int count = 0;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.phase != Phase::kForward || std::ranges::all_of(op.results, [&](TensorId t) { return alone[t.index()]; }))
      continue;
    if (is_of_cell(op)) {
      const auto [found, fresh] = cells.try_emplace({op.cell, op.time_step}, count);
      count += fresh;
      unit[i] = found->second;
      continue;
    }
    int64_t largest = -1;
    if (tdl::takes_one_pass(*op.bound) && !tdl::reduces(*op.bound))
      for (const TensorId t : op.operands) {
        const OpId producer = graph.tensor(t).producer;
        if (!producer.valid() || unit[producer.index()] < 0 || graph.tensor(t).bytes() <= largest) continue;
        unit[i] = unit[producer.index()];
        largest = graph.tensor(t).bytes();
      }
    if (unit[i] < 0) unit[i] = count++;
  }
  return unit;
}

// The indices by which a formula accesses an axis of a tensor.
struct AxisAccess {
  bool result = false;
  int slot = 0, axis = 0;       // of the op's operands or results; the axis as stored
  std::vector<int> plain, all;  // indices: alone, and in any form
};

void add_form(const tdl::Affine& form, AxisAccess& access) {
  if (const int index = form.plain_index(); index >= 0) access.plain.push_back(index);
  tdl::collect_indices(form, access.all);
}

// The first digit that is longer than 1 stands for a factored axis.
std::vector<int> leading_digits(const tdl::BoundTensor& tensor) {
  std::vector<int> digits;
  int first = 0;
  for (const Shape& radices : tensor.radices) {
    const auto longer = std::ranges::find_if(radices, [](int64_t radix) { return radix > 1; });
    digits.push_back(first + (longer == radices.end() ? 0 : static_cast<int>(longer - radices.begin())));
    first += static_cast<int>(radices.size());
  }
  return digits;
}

std::vector<AxisAccess> accesses_of(const tdl::Bound& bound) {
  std::vector<AxisAccess> out;
  for (int k = 0; k < bound.operand_count; ++k) {
    const std::vector<int> digits = leading_digits(bound.tensors[static_cast<size_t>(k)]);
    for (size_t a = 0; a < digits.size(); ++a) {
      AxisAccess access{false, k, static_cast<int>(a), {}, {}};
      for (const tdl::Stage& stage : bound.stages)
        tdl::for_each_read(stage.body, [&](const tdl::Expr& read) {
          const size_t digit = static_cast<size_t>(digits[a]);
          if (read.tensor == k && digit < read.subscripts.size()) add_form(read.subscripts[digit], access);
        });
      out.push_back(std::move(access));
    }
  }
  for (size_t r = 0; r < bound.results.size(); ++r) {
    const int tensor = bound.results[r];
    const std::vector<int> digits = leading_digits(bound.tensors[static_cast<size_t>(tensor)]);
    for (size_t a = 0; a < digits.size(); ++a) {
      AxisAccess access{true, static_cast<int>(r), static_cast<int>(a), {}, {}};
      add_form(bound.stages[static_cast<size_t>(bound.stage_of(tensor))].lhs[static_cast<size_t>(digits[a])], access);
      out.push_back(std::move(access));
    }
  }
  return out;
}

bool contains(const std::vector<int>& indices, int index) { return std::ranges::find(indices, index) != indices.end(); }

// Follows indices of a leader through the ops of its unit.
class Follower {
 public:
  explicit Follower(const Graph& graph) : graph_(graph), stands_for_(gradient_of(graph)) {
    for (size_t t = 0; t < stands_for_.size(); ++t) {
      if (graph.tensors[t].replaces.valid()) stands_for_[t] = graph.tensors[t].replaces;
      if (!stands_for_[t].valid()) stands_for_[t] = TensorId(t);
    }
  }

  void follow(SoapUnit& unit) {
    along_.clear();
    unit.follows.assign(unit.ops.size(), std::vector<int>(unit.indices.size(), -1));
    const size_t leader = static_cast<size_t>(std::ranges::find(unit.ops, unit.leader) - unit.ops.begin());
    for (size_t d = 0; d < unit.indices.size(); ++d) take(unit, leader, d, unit.indices[d]);
    for (bool more = true; more;) {
      more = false;
      for (size_t i = 0; i < unit.ops.size(); ++i)
        for (size_t d = 0; d < unit.indices.size(); ++d) {
          if (unit.follows[i][d] >= 0) continue;
          const int index = index_along(graph_.op(unit.ops[i]), static_cast<int>(d));
          if (index >= 0) take(unit, i, d, index), more = true;
        }
    }
  }

 private:
  const std::vector<AxisAccess>& accesses(const Op& op) {
    const auto [found, fresh] = accesses_.try_emplace(op.bound.get());
    if (fresh) found->second = accesses_of(*op.bound);
    return found->second;
  }
  static TensorId tensor_of(const Op& op, const AxisAccess& access) {
    return (access.result ? op.results : op.operands)[static_cast<size_t>(access.slot)];
  }
  bool is_of_gradient(const Op& op, const AxisAccess& access) const {
    const TensorId tensor = tensor_of(op, access);
    return stands_for_[tensor.index()] != tensor;
  }
  std::pair<TensorId, int> axis_of(const Op& op, const AxisAccess& access) const {
    return {stands_for_[tensor_of(op, access).index()], access.axis};
  }

  // Splits this index of the op with the unit's d-th, and follows the axes that it indexes.
  void take(SoapUnit& unit, size_t i, size_t d, int index) {
    const Op& op = graph_.op(unit.ops[i]);
    unit.follows[i][d] = index;
    for (const bool plain : {true, false})
      for (const AxisAccess& access : accesses(op))
        if (contains(plain ? access.plain : access.all, index))
          along_.try_emplace(axis_of(op, access), static_cast<int>(d));
  }

  // The index of the op that runs along the unit's d-th: alone if possible, else one inside a form that also indexes a
  // result. A forward op never splits a contracted index. A backward op goes by gradients, since its forward inputs may
  // have come along another axis.
  int index_along(const Op& op, int d) {
    const std::vector<AxisAccess>& all = accesses(op);
    std::vector<int> in_forms, of_results;
    for (const AxisAccess& access : all)
      if (access.result) of_results.insert(of_results.end(), access.all.begin(), access.all.end());
    auto can_be_split = [&](int index) {
      return op.bound->indices[static_cast<size_t>(index)].splittable &&
             (op.phase != Phase::kForward || contains(of_results, index));
    };
    for (const bool of_gradients : {true, false})
      for (const AxisAccess& access : all) {
        const auto known = along_.find(axis_of(op, access));
        if (known == along_.end() || known->second != d || is_of_gradient(op, access) != of_gradients) continue;
        if (const auto plain = std::ranges::find_if(access.plain, can_be_split); plain != access.plain.end())
          return *plain;
        std::ranges::copy_if(access.all, std::back_inserter(in_forms), can_be_split);
      }
    const auto best = std::ranges::find_if(in_forms, [&](int index) { return contains(of_results, index); });
    return best != in_forms.end() ? *best : in_forms.empty() ? -1 : in_forms[0];
  }

  const Graph& graph_;
  std::vector<TensorId> stands_for_;  // by tensor
  std::map<const tdl::Bound*, std::vector<AxisAccess>> accesses_;
  std::map<std::pair<TensorId, int>, int> along_;  // of a tensor's axis, the unit's index that runs along it
};

// The op that leads a unit: its first one, in a cell the first that reads a weight.
OpId leader_of(const Graph& graph, const std::vector<bool>& weight, const std::vector<OpId>& forward) {
  if (is_of_cell(graph.op(forward[0])))
    for (const OpId id : forward)
      if (is_of_cell(graph.op(id)) &&
          std::ranges::any_of(graph.op(id).operands, [&](TensorId t) { return weight[t.index()]; }))
        return id;
  return forward[0];
}

// Keeps the indices that all ops of the cell have.
void keep_common_indices(const Graph& graph, SoapUnit& unit) {
  if (!is_of_cell(graph.op(unit.leader))) return;
  for (size_t d = unit.indices.size(); d-- > 0;) {
    bool common = true;
    for (size_t i = 0; i < unit.ops.size(); ++i) {
      const Op& op = graph.op(unit.ops[i]);
      common &= op.phase != Phase::kForward || !is_of_cell(op) || unit.follows[i][d] >= 0;
    }
    if (common) continue;
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(d);
    unit.indices.erase(unit.indices.begin() + at);
    unit.dimensions.erase(unit.dimensions.begin() + at);
    for (std::vector<int>& follows : unit.follows) follows.erase(follows.begin() + at);
  }
}

}  // namespace

std::vector<SoapUnit> soap_units(const Graph& graph) {
  const std::vector<bool> weight = weight_tensor_mask(graph);
  std::vector<std::vector<OpId>> forward;  // by unit, the ops put there by their own kind
  const std::vector<int> of_forward = units_of_forward_ops(graph);
  for (size_t i = 0; i < of_forward.size(); ++i) {
    if (of_forward[i] < 0) continue;
    forward.resize(std::max(forward.size(), static_cast<size_t>(of_forward[i]) + 1));
    forward[static_cast<size_t>(of_forward[i])].push_back(OpId(i));
  }
  if (forward.empty() && !graph.ops.empty()) forward.push_back({OpId(0)});  // nothing depends on an input
  const std::vector<int> of_all = with_their_forward_ops(graph, of_forward);
  std::vector<SoapUnit> units(forward.size());
  for (size_t i = 0; i < of_all.size(); ++i) units[static_cast<size_t>(of_all[i])].ops.push_back(OpId(i));
  Follower follower(graph);
  for (size_t u = 0; u < units.size(); ++u) {
    SoapUnit& unit = units[u];
    unit.leader = leader_of(graph, weight, forward[u]);
    const std::vector<SoapDimension> dimensions = soap_dimensions(graph, weight, graph.op(unit.leader));
    for (size_t i = 0; i < dimensions.size(); ++i)
      if (dimensions[i] != SoapDimension::kContracted && dimensions[i] != SoapDimension::kWhole) {
        unit.indices.push_back(static_cast<int>(i));
        unit.dimensions.push_back(dimensions[i]);
      }
    follower.follow(unit);
    keep_common_indices(graph, unit);
  }
  return units;
}

std::vector<int> units_of_ops(const Graph& graph, const std::vector<SoapUnit>& units) {
  std::vector<int> unit_of(graph.ops.size());
  for (size_t u = 0; u < units.size(); ++u)
    for (const OpId op : units[u].ops) unit_of[op.index()] = static_cast<int>(u);
  return unit_of;
}

}  // namespace partita
