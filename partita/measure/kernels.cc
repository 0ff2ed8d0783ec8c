// Lists the kernels of plans, each once.
#include "partita/measure/kernels.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "partita/base/prime_factors.h"
#include "partita/base/tuples.h"
#include "partita/cost/kernel_id.h"
#include "partita/physical/segments.h"
#include "partita/physical/workspace.h"
#include "partita/plan/resolve.h"
#include "partita/plan/rules.h"

namespace partita {

namespace {

PlacedShard dense_shard(int tensor, DType dtype, const Box& box, const Shape& axes) {
  return {tensor, {dtype, box, dense_strides(extents(box))}, axes};
}

// The part that an access touches in its first firing, over the axes of the formula.
PlacedShard shard_of(const PhysicalGraph& graph, const KernelWork& work, const Access& access, int firing) {
  const Register& reg = graph.reg(access.reg);
  const auto [whole, box] = boxes_of(access, reg, firing);
  const Shape& axes = work.bound->tensors[access.tensor].factored;
  const TensorShard shard = over_axes({reg.dtype, box, dense_strides(extents(whole))}, reg.axes, axes);
  return dense_shard(access.tensor, reg.dtype, shard.box, axes);
}

bool computes_nothing(const KernelToTime& kernel) {
  return std::all_of(kernel.writes.begin(), kernel.writes.end(),
                     [](const PlacedShard& p) { return is_empty(p.shard.box); });
}

void add(KernelToTime&& kernel, KernelsToTime& kernels) {
  if (computes_nothing(kernel)) return;
  std::string key = kernel.kernel.id.key();
  kernels.try_emplace(std::move(key), std::move(kernel));
}

// Adds the kernels of an op that is split in one way.
void add_split(const Graph& graph, const Op& op, const tdl::Derived& derived, const std::string& form,
               KernelsToTime& kernels) {
  const tdl::Bound& bound = *op.bound;
  const std::vector<Segment> segments = segments_of(bound, derived);
  const OpDefinition* definition = graph.registry->find(op.definition);
  for (int p = 0; p < derived.positions(); ++p) {
    const std::vector<double> flops = segment_flops(definition, bound, segments, derived.ranges[p]);
    for (size_t g = 0; g < segments.size(); ++g) {
      const Segment& segment = segments[g];
      KernelToTime k;
      std::vector<TensorAccess> accesses;
      const auto note = [&](int tensor, const Box& box, bool written) {
        const DType dtype = tensor_dtype(graph, op, tensor);
        accesses.push_back({tensor, dtype, volume(box), written});
        (written ? k.writes : k.reads).push_back(dense_shard(tensor, dtype, box, bound.tensors[tensor].factored));
        k.kernel.bytes += static_cast<double>(volume(box) * bytes_of(dtype));
      };
      for (int t : segment.reads) note(t, box_read(derived, segment, t, p), false);
      for (int t : segment.writes) note(t, derived.boxes[t][p], true);
      k.kernel.id = kernel_id(op.definition, op.attributes, bound, form, segment.first, segment.last, derived.ranges[p],
                              accesses);
      k.kernel.flops = flops[g];
      k.work = {op.definition, op.attributes, op.bound, segment.first, segment.last, {derived.ranges[p]}, 1};
      add(std::move(k), kernels);
    }
  }
}

void add_op(const Graph& graph, const Op& op, const std::vector<int>& mesh, const std::string& form,
            KernelsToTime& kernels) {
  std::vector<std::vector<tdl::AxisStrategy>> offered;
  std::vector<size_t> counts;
  for (int p : mesh) counts.push_back(offered.emplace_back(allowed_strategies(op, p)).size());
  tdl::Deriver deriver(*op.bound, mesh);
  for_each_tuple(counts, [&](const std::vector<size_t>& at) {
    std::vector<tdl::AxisStrategy> strategies;
    for (size_t a = 0; a < at.size(); ++a) strategies.push_back(offered[a][at[a]]);
    if (!has_values_for(*op.bound, mesh, strategies)) return;
    if (const auto derived = deriver.derive(strategies)) add_split(graph, op, *derived, form, kernels);
  });
}

}  // namespace

void add_kernels(const PhysicalGraph& graph, KernelsToTime& kernels, std::map<std::string, int>* times) {
  FormulaHashCache formula_hashes;
  for (const Task& task : graph.tasks) {
    const auto* work = std::get_if<KernelWork>(&task.work);
    if (!work || !work->bound) continue;
    for (size_t firing = 0; firing < work->ranges.size(); ++firing) {
      const int n = static_cast<int>(firing);
      KernelToTime k;
      k.kernel.id = kernel_id(graph, task, *work, formula_hashes.of(work->bound), n);
      const std::string key = k.kernel.id.key();
      if (times) ++(*times)[key];
      if (kernels.contains(key)) continue;
      k.kernel.flops = task.flops, k.kernel.bytes = static_cast<double>(task.bytes);
      k.work = *work;
      k.work.ranges = {work->ranges[firing]};
      for (const Access& read : task.reads) k.reads.push_back(shard_of(graph, *work, read, n));
      for (const Access& write : task.writes) k.writes.push_back(shard_of(graph, *work, write, n));
      add(std::move(k), kernels);
    }
  }
}

void add_kernels(const Graph& graph, int devices, KernelsToTime& kernels) {
  FormulaHashCache formula_hashes;
  std::set<std::tuple<std::string, const tdl::Bound*, std::vector<DType>>> seen;
  for (const Op& op : graph.ops) {
    std::vector<DType> dtypes;
    for (const auto* tensors : {&op.operands, &op.results})
      for (TensorId t : *tensors) dtypes.push_back(graph.tensor(t).dtype);
    if (!seen.insert({op.definition, op.bound.get(), dtypes}).second) continue;
    for (int d = 1; d <= devices; ++d)
      if (devices % d == 0)
        add_op(graph, op, d == 1 ? std::vector<int>{1} : prime_factors(d), formula_hashes.of(op.bound), kernels);
  }
}

}  // namespace partita
