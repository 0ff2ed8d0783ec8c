// Makes a plan's Resolved: derives every op, finds every tensor's kept layout, converts it for its readers.
#include "partita/plan/resolve.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/radices.h"
#include "partita/graph/micro_batches.h"
#include "partita/plan/needs.h"

namespace partita {

std::shared_ptr<const tdl::Derived> DerivationCache::get(const std::shared_ptr<const tdl::Bound>& bound,
                                                         const std::vector<int>& mesh,
                                                         const std::vector<tdl::AxisStrategy>& strategies) {
  auto key = std::make_tuple(bound.get(), mesh, strategies);
  auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  auto derived = tdl::derive(*bound, mesh, strategies);
  auto shared = derived ? std::make_shared<const tdl::Derived>(std::move(*derived)) : nullptr;
  known_.emplace(std::move(key), shared);
  return shared;
}

std::string why_not_derived(const Op& op, const OpChoice& choice) {
  tdl::NotDerived why;
  tdl::derive(*op.bound, choice.mesh.extents, choice.strategies, &why);
  std::vector<std::string> names;
  for (const tdl::AxisStrategy& s : choice.strategies) names.push_back(tdl::to_string(s));
  return fmt::format("op '{}' ({}): the strategy [{}] does not exist: {}", op.name, op.definition,
                     fmt::join(names, ", "), why.why);
}

int64_t Resolved::conversion_bytes() const {
  int64_t bytes = 0;
  for (const ResolvedConversion& c : conversions) bytes += c.firings * c.conversion.bytes;
  return bytes;
}

DType inner_dtype(const Graph& graph, const Op& op) {
  for (TensorId t : op.results)
    if (is_float(graph.tensor(t).dtype)) return compute_dtype(graph.tensor(t).dtype);
  for (TensorId t : op.operands)
    if (is_float(graph.tensor(t).dtype)) return compute_dtype(graph.tensor(t).dtype);
  return graph.tensor(op.results[0]).dtype;
}

DType tensor_dtype(const Graph& graph, const Op& op, int tensor) {
  if (static_cast<size_t>(tensor) < op.operands.size()) return graph.tensor(op.operands[tensor]).dtype;
  const std::vector<int>& results = op.bound->results;
  const auto result = std::find(results.begin(), results.end(), tensor);
  if (result == results.end()) return inner_dtype(graph, op);
  return graph.tensor(op.results[static_cast<size_t>(result - results.begin())]).dtype;
}

Layout layout_of(const Placement& placement, const Shape& shape) {
  return make_layout(placement.mesh, placement.sbp, placement.radices.empty() ? unfactored(shape) : placement.radices);
}

Placement placement_of(const Layout& layout, NdSbp name) {
  return {layout.mesh, std::move(name), is_factored(layout.radices) ? layout.radices : std::vector<Shape>()};
}

namespace {

const Layout& made_layout(const Graph& graph, const std::vector<const OpLayouts*>& layouts, TensorId id) {
  const OpId producer = graph.tensor(id).producer;
  const std::vector<TensorId>& results = graph.op(producer).results;
  const size_t r = static_cast<size_t>(std::find(results.begin(), results.end(), id) - results.begin());
  ensure(r < results.size(), "op '{}' does not produce '{}'", graph.op(producer).name, graph.tensor(id).name);
  return layouts[producer.index()]->results[r];
}

Layout home_of(const Graph& graph, const Plan& plan, const std::vector<const OpLayouts*>& layouts, TensorId id) {
  const Tensor& tensor = graph.tensor(id);
  // A replacement has the layout of the tensor that it replaces: they are one buffer.
  TensorId keeper = tensor.replaces.valid() ? tensor.replaces : id;
  auto kept = plan.kept.find(keeper);
  if (kept != plan.kept.end()) return layout_of(kept->second, graph.tensor(keeper).shape);
  if (!graph.tensor(keeper).producer.valid())
    fail("plan: {} '{}' has no kept layout; inputs, constants, parameters and state need one",
         name_of(graph.tensor(keeper).role), graph.tensor(keeper).name);
  return made_layout(graph, layouts, id);
}

}  // namespace

TensorNeeds needs_of(const Graph& graph, const Plan& plan, const std::vector<const OpLayouts*>& layouts,
                     const std::vector<std::vector<Reader>>& read_by, TensorId id) {
  const Layout* made = graph.tensor(id).producer.valid() ? &made_layout(graph, layouts, id) : nullptr;
  const auto read = [&](const Reader& reader) -> const Layout& {
    return layouts[reader.op.index()]->operands[reader.operand];
  };
  const auto again = [&](const Reader& reader) {
    return plan.resharded.contains(id) && graph.op(reader.op).phase == Phase::kBackward;
  };
  return needs_of_readers(made, home_of(graph, plan, layouts, id), read_by[id.index()], read, same_placement,
                          [&](const Reader& a, const Reader& b) { return again(a) == again(b); });
}

namespace {

ResolvedOp resolved_op(const Op& op, const OpChoice& choice, DerivationCache& cache) {
  ResolvedOp resolved{choice.mesh, cache.get(op.bound, choice.mesh.extents, choice.strategies), {}, choice.stage};
  if (!resolved.derived) fail("plan: {}", why_not_derived(op, choice));
  resolved.layouts = layouts_of(*op.bound, *resolved.derived, choice.mesh);
  return resolved;
}

}  // namespace

std::vector<ResolvedOp> resolve_ops(const Graph& graph, const Plan& plan) {
  DerivationCache cache;
  std::vector<ResolvedOp> ops;
  ops.reserve(graph.ops.size());
  for (size_t i = 0; i < graph.ops.size(); ++i) ops.push_back(resolved_op(graph.ops[i], plan.ops[i], cache));
  return ops;
}

Resolved with_fewer_micro_batches(Resolved resolved, int micro_batches) {
  for (ResolvedConversion& c : resolved.conversions)
    if (c.firings > 1) c.firings = micro_batches;
  resolved.smaller = nullptr;
  return resolved;
}

int reads_a_step(const Graph& graph, TensorId id) {
  const Tensor& tensor = graph.tensor(id);
  const bool in_micro_batches = tensor.scope == MicroBatchScope::kMicroBatch && tensor.role != Role::kConstant;
  return in_micro_batches || (tensor.scope == MicroBatchScope::kSum && !tensor.accumulated) ? graph.micro_batches() : 1;
}

int conversion_firings(const Graph& graph, const Plan& plan, TensorId id, const std::vector<Reader>& readers) {
  const bool into_kept = readers.empty();
  if (into_kept) return graph.firings(graph.op(graph.tensor(id).producer));
  if (graph.tensor(id).scope == MicroBatchScope::kMicroBatch) return graph.micro_batches();  // a constant's too
  if (const int firings = reads_a_step(graph, id); firings > 1 || !plan.resharded.contains(id)) return firings;
  return std::any_of(readers.begin(), readers.end(), [&](const Reader& r) { return graph.op(r.op).per_micro_batch; })
             ? graph.micro_batches()
             : 1;
}

namespace {

Resolved resolved_of(const Graph& graph, const Plan& plan, const Cluster& cluster, const DeviceMask& device_mask) {
  if (plan.ops.size() != graph.ops.size())
    fail("plan: it has {} ops, model '{}' has {}: the plan is for another model", plan.ops.size(), graph.name,
         graph.ops.size());
  Resolved out;
  out.order = plan.order;
  out.transfers = plan.transfers;
  out.pipeline = plan.pipeline;
  out.bucket_bytes = plan.bucket_bytes;
  out.device_mask = device_mask;
  out.ops = resolve_ops(graph, plan);
  std::vector<const OpLayouts*> layouts;
  for (const ResolvedOp& op : out.ops) layouts.push_back(&op.layouts);
  for (const Op& op : graph.ops) out.operand_conversion.emplace_back(op.operands.size(), -1);

  Converter converter(cluster, device_mask);
  const std::vector<std::vector<Reader>> read_by = readers_by_tensor(graph);
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const int64_t element_bytes = bytes_of(graph.tensors[t].dtype);
    TensorNeeds tensor = needs_of(graph, plan, layouts, read_by, TensorId(t));
    for (const TensorNeeds::Need& need : tensor.needs) {
      for (const Reader& reader : need.readers)
        out.operand_conversion[reader.op.index()][reader.operand] = static_cast<int>(out.conversions.size());
      const int firings = conversion_firings(graph, plan, TensorId(t), need.readers);
      out.conversions.push_back(
          {TensorId(t), converter.convert(tensor.from(need), tensor.to(need), element_bytes), need.readers, firings});
    }
    out.kept_layouts.push_back(std::move(tensor.kept_layout));
  }
  return out;
}

// Returns the digit of a factored axis of which samples are the outermost values.
size_t samples_digit(const Shape& radices, int64_t outer) {
  size_t digit = 0;
  for (int64_t before = 1; digit + 1 < radices.size() && before < outer; ++digit) before *= radices[digit];
  return digit;
}

// Returns the plan of `large` for micro-batches of another size. Samples are the outermost of one digit; the others
// stay.
Plan for_micro_batches_of(const Graph& small, Plan plan, const Graph& large) {
  for (auto& [id, placement] : plan.kept) {
    const Tensor& tensor = small.tensor(id);
    if (tensor.scope != MicroBatchScope::kMicroBatch || placement.radices.empty()) continue;
    Shape& radices = placement.radices[static_cast<size_t>(tensor.micro_batch_axis)];
    int64_t& samples = radices[samples_digit(radices, micro_batch_axis_of(small, id).outer)];
    const int64_t others = volume(radices) / samples,
                  extent = tensor.shape[static_cast<size_t>(tensor.micro_batch_axis)];
    if (extent % others)
      fail("micro-batches: parts of {} and {} samples are laid out differently ('{}' is kept in factors {}); {}",
           large.micro_batch_samples.front(), large.micro_batch_samples.back(), tensor.name, fmt::join(radices, "."),
           "use a number of parts that divides the batch");
    samples = extent / others;
  }
  return plan;
}

}  // namespace

Resolved resolve(const Graph& graph, const Plan& plan, const Cluster& cluster, const DeviceMask& device_mask) {
  Resolved out = resolved_of(graph, plan, cluster, device_mask);
  if (graph.whole && graph.micro_batch_samples.back() != graph.micro_batch_samples.front()) {
    Graph small = with_micro_batches_of(graph, graph.micro_batch_samples.back());
    Resolved of_small = resolved_of(small, for_micro_batches_of(small, plan, graph), cluster, device_mask);
    out.smaller = std::make_shared<const ResolvedStep>(ResolvedStep{std::move(small), std::move(of_small)});
  }
  return out;
}

}  // namespace partita
