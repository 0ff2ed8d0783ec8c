// Derives the layouts of an op's tensors under each strategy over one mesh axis.
#include "partita/plan/axis_options.h"

#include <algorithm>
#include <numeric>

#include "partita/plan/rules.h"

namespace partita {

AxisLayout axis_layout_of(Layout layout) {
  const Shape extents = layout.factored_shape();
  for (size_t a = 0; a < extents.size(); ++a)
    if (layout.boxes.along(a).axes.empty()) layout.boxes = layout.boxes.with(a, {{}, {{0, extents[a]}}});
  const std::optional<NdSbp> name = name_of(layout);
  if (!name) return {AxisLayout::Kind::kOther};
  const Sbp& sbp = (*name)[0];
  if (sbp.kind == Sbp::Kind::kBroadcast) return {};
  if (sbp.kind == Sbp::Kind::kPartial) return {AxisLayout::Kind::kPartial};
  const Shape& digits = layout.radices[sbp.axis];
  return {AxisLayout::Kind::kSplit, sbp.axis,
          std::accumulate(digits.begin(), digits.begin() + sbp.sub_axis, int64_t{1}, std::multiplies<>())};
}

std::optional<Sbp> sbp_of(const AxisLayout& part, const std::vector<Shape>& radices) {
  if (part.kind == AxisLayout::Kind::kWhole) return Sbp::broadcast();
  if (part.kind != AxisLayout::Kind::kSplit) return std::nullopt;
  int64_t outer = 1;
  const Shape& digits = radices[static_cast<size_t>(part.axis)];
  for (size_t d = 0; d < digits.size(); ++d) {
    if (outer == part.outer && digits[d] > 1) return Sbp::split(part.axis, static_cast<int>(d));
    outer *= digits[d];
  }
  return std::nullopt;
}

const std::vector<AxisOption>& AxisOptions::of(OpId id) {
  const auto& bound = graph_.op(id).bound;
  auto [found, fresh] = known_.try_emplace(bound.get());
  if (!fresh) return found->second;
  Mesh mesh{{degree_}, {}};
  for (int d = 0; d < degree_; ++d) mesh.devices.push_back(DeviceId(d));
  for (const tdl::AxisStrategy& s : allowed_strategies(graph_.op(id), degree_)) {
    if (s.names.empty()) continue;
    const auto derived = tdl::derive(*bound, {degree_}, {s});
    if (!derived) continue;
    const OpLayouts layouts = layouts_of(*bound, *derived, mesh);
    AxisOption option{s, {}, {}, !derived->inner.empty()};
    for (const Layout& l : layouts.operands) option.operands.push_back(axis_layout_of(l));
    for (const Layout& l : layouts.results) option.results.push_back(axis_layout_of(l));
    found->second.push_back(std::move(option));
  }
  std::stable_sort(found->second.begin(), found->second.end(),
                   [](const AxisOption& a, const AxisOption& b) { return a.inner < b.inner; });
  return found->second;
}

bool fits(const std::vector<TensorId>& tensors, const std::vector<AxisLayout>& parts, TensorId tensor,
          const AxisLayout& part) {
  for (size_t k = 0; k < tensors.size(); ++k)
    if (tensors[k] == tensor && parts[k] != part) return false;
  return true;
}

}  // namespace partita
