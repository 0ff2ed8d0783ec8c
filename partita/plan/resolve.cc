#include "partita/plan/resolve.h"

#include "partita/base/error.h"
#include "partita/base/radices.h"

namespace partita {

std::shared_ptr<const tdl::Derived> DerivationCache::get(const std::shared_ptr<const tdl::Bound>& bound, const std::vector<int>& mesh,
                                                         const std::vector<tdl::AxisStrategy>& strategies) {
  auto key = std::make_tuple(bound.get(), mesh, strategies);
  auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  auto derived = tdl::derive(*bound, mesh, strategies);
  auto shared = derived ? std::make_shared<const tdl::Derived>(std::move(*derived)) : nullptr;
  known_.emplace(std::move(key), shared);
  return shared;
}

int64_t Resolved::conversion_bytes() const {
  int64_t bytes = 0;
  for (const ResolvedConversion& c : conversions) bytes += c.conversion.bytes;
  return bytes;
}

DType inner_dtype(const Graph& graph, const Op& op) {
  for (TensorId t : op.results)
    if (is_float(graph.tensor(t).dtype)) return computed_in(graph.tensor(t).dtype);
  for (TensorId t : op.operands)
    if (is_float(graph.tensor(t).dtype)) return computed_in(graph.tensor(t).dtype);
  return graph.tensor(op.results[0]).dtype;
}

Layout layout_of(const Placement& placement, const Shape& shape) {
  return make_layout(placement.mesh, placement.sbp, placement.radices.empty() ? unfactored(shape) : placement.radices);
}

Placement placement_of(const Layout& layout, NdSbp name) {
  return {layout.mesh, std::move(name), is_factored(layout.radices) ? layout.radices : std::vector<Shape>()};
}

namespace {

Layout home_of(const Graph& graph, const Plan& plan, const std::vector<ResolvedOp>& ops, TensorId id) {
  const Tensor& tensor = graph.tensor(id);
  // A replacement is in the layout of what it replaces: one buffer.
  TensorId keeper = tensor.replaces.valid() ? tensor.replaces : id;
  auto kept = plan.kept.find(keeper);
  if (kept != plan.kept.end()) return layout_of(kept->second, graph.tensor(keeper).shape);
  if (!graph.tensor(keeper).producer.valid())
    fail("plan: {} '{}' has no kept layout; inputs, constants, parameters and state need one", name_of(graph.tensor(keeper).role),
         graph.tensor(keeper).name);
  const Op& op = graph.op(tensor.producer);
  for (size_t r = 0; r < op.results.size(); ++r)
    if (op.results[r] == id) return ops[tensor.producer.index()].layouts.results[r];
  ensure(false, "op '{}' does not produce '{}'", op.name, tensor.name);
  return {};
}

}  // namespace

Resolved resolve(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  if (plan.ops.size() != graph.ops.size())
    fail("plan: it has {} ops, model '{}' has {}: the plan is for another model", plan.ops.size(), graph.name, graph.ops.size());
  Resolved out;
  DerivationCache cache;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const OpChoice& choice = plan.ops[i];
    ResolvedOp resolved;
    resolved.derived = cache.get(op.bound, choice.mesh.extents, choice.strategies);
    if (!resolved.derived) {
      tdl::NotDerived why;
      tdl::derive(*op.bound, choice.mesh.extents, choice.strategies, &why);
      std::vector<std::string> names;
      for (const tdl::AxisStrategy& s : choice.strategies) names.push_back(tdl::to_string(s));
      fail("plan: op '{}' ({}): the strategy [{}] does not exist: {}", op.name, op.definition, fmt::join(names, ", "), why.why);
    }
    resolved.layouts = layouts_of(*op.bound, *resolved.derived, choice.mesh);
    out.ops.push_back(std::move(resolved));
  }
  for (size_t t = 0; t < graph.tensors.size(); ++t) out.home.push_back(home_of(graph, plan, out.ops, TensorId(t)));

  std::vector<std::vector<Reader>> read_by = readers(graph);
  out.operand_conversion.resize(graph.ops.size());
  for (size_t i = 0; i < graph.ops.size(); ++i) out.operand_conversion[i].assign(graph.ops[i].operands.size(), -1);
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    int64_t element = bytes_of(tensor.dtype);
    if (tensor.producer.valid()) {
      const Op& op = graph.op(tensor.producer);
      size_t r = std::find(op.results.begin(), op.results.end(), TensorId(t)) - op.results.begin();
      const Layout& made = out.ops[tensor.producer.index()].layouts.results[r];
      if (!same_placement(made, out.home[t]))
        out.conversions.push_back({TensorId(t), convert(made, out.home[t], element, cluster), {}});
    }
    std::vector<int> made_here;  // conversions of this tensor from its home
    auto again = [&](const Reader& reader) { return plan.refetched.contains(TensorId(t)) && graph.op(reader.op).phase == Phase::kBackward; };
    for (const Reader& reader : read_by[t]) {
      const Layout& need = out.ops[reader.op.index()].layouts.operands[reader.operand];
      if (same_placement(out.home[t], need)) continue;
      int found = -1;
      for (int c : made_here)
        if (same_placement(out.conversions[c].conversion.to, need) && again(out.conversions[c].readers[0]) == again(reader)) found = c;
      if (found < 0) {
        found = static_cast<int>(out.conversions.size());
        out.conversions.push_back({TensorId(t), convert(out.home[t], need, element, cluster), {}});
        made_here.push_back(found);
      }
      out.conversions[found].readers.push_back(reader);
      out.operand_conversion[reader.op.index()][reader.operand] = found;
    }
  }
  return out;
}

}  // namespace partita
