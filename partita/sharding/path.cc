// Finds the cheapest path of steps between two layouts: costs steps, and compares paths over two meshes.
#include "partita/sharding/path.h"

#include "partita/sharding/members.h"
#include "partita/sharding/waypoints.h"

namespace partita::boxing {

Cost cost_of_step(int64_t elements, bool is_fetch) {
  if (elements == kUnreachable) return {};
  return {elements, elements > 0, elements > 0 && is_fetch, 1};
}

Cost plus(const Cost& a, const Cost& b) {
  if (a.elements == kUnreachable || b.elements == kUnreachable) return {};
  return {a.elements + b.elements, a.moving + b.moving, a.fetches + b.fetches, a.steps + b.steps};
}

Cost step_cost(const NamedLayout& from, const NamedLayout& to, const ElementCounter& counter) {
  auto step = step_between(from, to);
  if (from.layout.kinds == to.layout.kinds)
    return cost_of_step(counter.total(to.layout.boxes) - counter.common(to.layout.boxes, from.layout.boxes),
                        is_fetch(step));
  if (!step && has_partial_values(to.layout)) return {};
  return cost_of_step(direct_elements(from, to, counter), is_fetch(step));
}

Cost last_step_cost(const NamedLayout& from, const NamedLayout& end, const ElementCounter& counter) {
  if (same_placement(from.layout, end.layout)) return {0, 0, 0, 0};
  return cost_of_step(direct_elements(from, end, counter), is_fetch(step_between(from, end)));
}

NamedLayout with_whole_values(const NamedLayout& partial) {
  NamedLayout whole{partial.layout, std::nullopt};
  for (tdl::Kind& k : whole.layout.kinds) k.reset();
  return whole;
}

uint64_t partial_axes_between(const Layout& from, const Layout& to) {
  const bool join = from.mesh == to.mesh && has_partial_values(to) && to.reducer() == from.reducer();
  return partial_axes(from) | (join ? partial_axes(to) : 0);
}

std::vector<Sbp> all_splits(const Layout& layout) {
  std::vector<Sbp> splits;
  const Shape shape = layout.factored_shape();
  for (size_t s = 0, f = 0; s < layout.radices.size(); ++s)
    for (size_t sub = 0; sub < layout.radices[s].size(); ++sub, ++f)
      if (shape[f] > 1) splits.push_back(Sbp::split(static_cast<int>(s), static_cast<int>(sub)));
  return splits;
}

Path cheapest_path(const NamedLayout& from, const NamedLayout& to, const ElementCounter& counter) {
  if (from.layout.mesh.extents.size() > kAllAxes) return guided_path(from, to, counter);
  const uint64_t axes = partial_axes_between(from.layout, to.layout);
  Waypoints waypoints(from.layout, axes, counter);
  Reach reach(from, axes, waypoints);
  return path_to(reach, to);
}

Path cheapest_path_between_meshes(const NamedLayout& from, const NamedLayout& to, const ElementCounter& counter) {
  Path best = cheapest_path(from, to, counter);
  if (from.layout.mesh == to.layout.mesh || has_partial_values(to.layout) || !to.name) return best;
  bool share = false;
  for (DeviceId d : to.layout.mesh.devices) share = share || from.layout.mesh.position_of(d) >= 0;
  if (!share) return best;
  size_t axes = to.name->size();
  for (size_t which = 0; which <= axes; ++which) {  // partial on one axis, then on all
    NdSbp name = *to.name;
    for (size_t a = 0; a < axes; ++a) {
      if (name[a].kind == Sbp::Kind::kPartial) name[a] = Sbp::broadcast();  // on one position
      if (a == which || which == axes) name[a] = Sbp::partial(from.layout.reducer());
    }
    NamedLayout middle{make_layout(to.layout.mesh, name, to.layout.radices), name};
    if (!has_partial_values(middle.layout)) continue;
    int64_t moved = fetch_elements(from.layout, middle.layout, counter);
    if (moved > best.cost.elements) continue;
    Path rest = cheapest_path(middle, to, counter);
    Cost cost = plus(cost_of_step(moved, true), rest.cost);
    if (cost < best.cost) {
      rest.through.insert(rest.through.begin(), from);
      rest.cost = cost;
      best = std::move(rest);
    }
  }
  return best;
}

}  // namespace partita::boxing
