// Collects the shards that a kernel holds of each tensor, over the axes of its formula.
#include "partita/kernel_plan/request.h"

#include <utility>

#include "partita/base/error.h"
#include "partita/tdl/affine.h"

namespace partita {

TensorShard over_axes(const TensorShard& shard, const Shape& from, const Shape& to) {
  const auto result = try_over_axes(shard, from, to);
  ensure(result.has_value(), "the box {} over axes {} is no box over axes {}", to_string(shard.box), from, to);
  return *result;
}

std::optional<TensorShard> try_over_axes(const TensorShard& shard, const Shape& from, const Shape& to) {
  auto reshaped = reshape_box(StridedBox{shard.box, shard.strides}, from, to);
  if (!reshaped) return std::nullopt;
  return TensorShard{shard.dtype, std::move(reshaped->box), std::move(reshaped->strides)};
}

KernelShards kernel_shards(const tdl::Bound& bound, const std::vector<PlacedShard>& reads,
                           const std::vector<PlacedShard>& writes) {
  KernelShards held{TensorShards(bound.tensors.size()), std::vector<bool>(bound.tensors.size()), DType::kBool};
  auto add = [&](const PlacedShard& placed) {
    ensure(placed.tensor >= 0 && placed.tensor < static_cast<int>(bound.tensors.size()),
           "{}: a kernel's access without a tensor", bound.name);
    std::optional<TensorShard>& shard = held.shards[placed.tensor];
    ensure(!shard, "{}: two accesses to {}", bound.name, bound.tensors[placed.tensor].name);
    shard = over_axes(placed.shard, placed.axes, bound.tensors[placed.tensor].factored);
    const DType real = compute_dtype(placed.shard.dtype);
    if (real == DType::kFloat64 || (real == DType::kFloat32 && held.real == DType::kBool)) held.real = real;
  };
  for (const PlacedShard& p : reads) add(p);
  for (const PlacedShard& p : writes) {
    add(p);
    held.written[p.tensor] = true;
  }
  if (held.real == DType::kBool) held.real = DType::kFloat64;
  return held;
}

Box stage_box(const tdl::Bound& bound, int stage, const std::vector<Interval>& ranges) {
  const tdl::Stage& s = bound.stages[stage];
  std::vector<int> indices;
  for (const tdl::Affine& form : s.lhs) tdl::collect_indices(form, indices);
  for (int i : indices)
    if (ranges[i].empty()) return Box(s.lhs.size(), Interval{0, 0});
  Box box;
  for (const tdl::Affine& form : s.lhs) box.push_back(tdl::range_of(form, ranges));
  return box;
}

}  // namespace partita
