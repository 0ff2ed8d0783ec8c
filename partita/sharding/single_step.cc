// Finds the one step straight from a layout to another.
#include "partita/sharding/single_step.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/sharding/fetch.h"

namespace partita::boxing {

namespace {

using K = Sbp::Kind;

StepKind kind_of(const Sbp& from, const Sbp& to) {
  if (from.kind == K::kPartial) return to.kind == K::kBroadcast ? StepKind::kAllReduce : StepKind::kReduceScatter;
  if (from.kind != K::kSplit || to.kind == K::kPartial) return StepKind::kLocal;
  return to.kind == K::kBroadcast ? StepKind::kAllGather : StepKind::kAllToAll;
}

// If S(i) is added or removed while a mesh axis further in splits i, the step is a fetch. Mesh axes of extent 1 do
// nothing.
std::optional<NamedStep> step_between_names(const NdSbp& from, const NdSbp& to, const std::vector<int>& extents) {
  NamedStep step{StepKind::kLocal, {}};
  for (size_t a = 0; a < from.size(); ++a)
    if (extents[a] > 1 && from[a] != to[a]) step.axes.push_back(static_cast<int>(a));
  if (step.axes.empty()) return step;
  const Sbp x = from[step.axes[0]], y = to[step.axes[0]];
  for (int a : step.axes)
    if (from[a] != x || to[a] != y) return std::nullopt;
  for (const Sbp& s : {x, y}) {
    if (s.kind != K::kSplit) continue;
    for (size_t a = step.axes[0] + 1; a < from.size(); ++a)
      if (extents[a] > 1 && from[a] == to[a] && from[a] == s) {
        step.kind = StepKind::kFetch;
        return step;
      }
  }
  if (x.kind == K::kPartial && y.kind == K::kPartial) return std::nullopt;  // another reducer
  step.kind = kind_of(x, y);
  return step;
}

// For layouts without names: the boxes stay, and some of the partial axes are made whole.
std::optional<NamedStep> step_making_whole(const Layout& from, const Layout& to) {
  NamedStep step{StepKind::kAllReduce, {}};
  for (size_t a = 0; a < from.kinds.size(); ++a) {
    if (from.kinds[a] == to.kinds[a]) continue;
    if (to.kinds[a]) return std::nullopt;
    if (from.mesh.extents[a] > 1) step.axes.push_back(static_cast<int>(a));
  }
  if (step.axes.empty() || from.boxes != to.boxes) return std::nullopt;
  return step;
}

// Positions that differ on `axes` only, in row-major order; only groups with a listed device.
std::vector<std::vector<int>> groups_over(const Mesh& mesh, const std::vector<int>& axes,
                                          const DeviceMask& device_mask) {
  std::vector<std::vector<int>> groups;
  std::vector<int> group_of(mesh.positions(), -1);
  for (int p = 0; p < mesh.positions(); ++p) {
    std::vector<int> c = mesh.coordinates(p);
    for (int a : axes) c[a] = 0;
    int first = mesh.position(c);
    if (first == p) {
      group_of[p] = static_cast<int>(groups.size());
      groups.emplace_back();
    }
    groups[group_of[first]].push_back(p);
  }
  if (device_mask)
    std::erase_if(groups, [&](const std::vector<int>& group) {
      return std::none_of(group.begin(), group.end(), [&](int p) { return (*device_mask)[mesh.devices[p].index()]; });
    });
  return groups;
}

}  // namespace

std::optional<NamedStep> step_between(const NamedLayout& from, const NamedLayout& to) {
  if (from.layout.mesh != to.layout.mesh || from.layout.radices != to.layout.radices) return std::nullopt;
  if (from.name && to.name) return step_between_names(*from.name, *to.name, from.layout.mesh.extents);
  return step_making_whole(from.layout, to.layout);
}

int64_t step_elements(const NamedStep& step, const Layout& from, const Layout& to, const ElementCounter& counter) {
  int64_t group = 1;
  for (int a : step.axes) group *= from.mesh.extents[a];
  switch (step.kind) {
    case StepKind::kLocal:
      return 0;
    case StepKind::kAllReduce:
      return capped_product(2 * (group - 1), counter.total(to.boxes) / group);  // the members' boxes are equal
    case StepKind::kReduceScatter:
      return capped_product(group - 1, counter.total(to.boxes));
    default:
      return counter.total(to.boxes) - counter.common(to.boxes, from.boxes);
  }
}

int64_t direct_elements(const NamedLayout& from, const NamedLayout& to, const ElementCounter& counter) {
  if (auto step = step_between(from, to); !is_fetch(step)) return step_elements(*step, from.layout, to.layout, counter);
  return fetch_elements(from.layout, to.layout, counter);
}

Step fetch_step(const Layout& from, const Layout& to, int64_t element_bytes, const ElementCounter& counter) {
  Fetch fetch = make_fetch(from, to, counter.cluster, counter.device_mask);
  const int64_t moved = counter.device_mask ? fetch_elements(from, to, counter) : fetch.moved;
  return {StepKind::kFetch, from, to, {}, std::move(fetch.pieces), std::move(fetch.radices), moved * element_bytes};
}

Step direct_step(const NamedLayout& from, const NamedLayout& to, int64_t element_bytes, const ElementCounter& counter) {
  auto step = step_between(from, to);
  if (!is_fetch(step) && step->kind != StepKind::kLocal)
    return {step->kind,
            from.layout,
            to.layout,
            groups_over(from.layout.mesh, step->axes, counter.device_mask),
            {},
            from.layout.radices,
            step_elements(*step, from.layout, to.layout, counter) * element_bytes};
  Step made = fetch_step(from.layout, to.layout, element_bytes, counter);
  if (!is_fetch(step) && made.bytes != 0)
    ensure(false, "a local step from {} to {} moves {} bytes", to_string(from.layout), to_string(to.layout),
           made.bytes);
  if (made.bytes == 0) made.kind = StepKind::kLocal;
  return made;
}

}  // namespace partita::boxing
