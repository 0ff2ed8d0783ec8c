// Collects the parts that a kernel holds of each tensor, over the axes of its formula.
#include "partita/kernel_plan/request.h"

#include <utility>

#include "partita/base/error.h"
#include "partita/tdl/affine.h"

namespace partita {

Part over_axes(const Part& part, const Shape& from, const Shape& to) {
  const auto result = try_over_axes(part, from, to);
  ensure(result.has_value(), "the box {} over axes {} is no box over axes {}", to_string(part.box), from, to);
  return *result;
}

std::optional<Part> try_over_axes(const Part& part, const Shape& from, const Shape& to) {
  auto regrouped_part = regrouped(StridedBox{part.box, part.strides}, from, to);
  if (!regrouped_part) return std::nullopt;
  return Part{part.dtype, std::move(regrouped_part->box), std::move(regrouped_part->strides)};
}

KernelParts kernel_parts(const tdl::Bound& bound, const std::vector<PlacedPart>& reads,
                         const std::vector<PlacedPart>& writes) {
  KernelParts held{Parts(bound.tensors.size()), std::vector<bool>(bound.tensors.size()), DType::kBool};
  auto add = [&](const PlacedPart& placed) {
    ensure(placed.tensor >= 0 && placed.tensor < static_cast<int>(bound.tensors.size()),
           "{}: a kernel's access without a tensor", bound.name);
    std::optional<Part>& part = held.parts[placed.tensor];
    ensure(!part, "{}: two accesses to {}", bound.name, bound.tensors[placed.tensor].name);
    part = over_axes(placed.part, placed.axes, bound.tensors[placed.tensor].factored);
    const DType real = computed_in(placed.part.dtype);
    if (real == DType::kFloat64 || (real == DType::kFloat32 && held.real == DType::kBool)) held.real = real;
  };
  for (const PlacedPart& p : reads) add(p);
  for (const PlacedPart& p : writes) {
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
