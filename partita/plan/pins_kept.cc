// Compares a resolved plan with its pins, device by device.
#include "partita/plan/pins_kept.h"

#include <algorithm>
#include <vector>

#include "partita/base/error.h"

namespace partita {

namespace {

// Tells whether every position holds the same box of the same partial value. The meshes may have other axes.
bool same_by_position(Layout pinned, const Layout& planned) {
  if (pinned.mesh.devices != planned.mesh.devices || pinned.is_partial() != planned.is_partial()) return false;
  if (pinned.is_partial()) {
    if (pinned.reducer() != planned.reducer()) return false;
    for (int position = 0; position < planned.mesh.positions(); ++position)
      if (pinned.partial_group(position) != planned.partial_group(position)) return false;
  }
  pinned.mesh = planned.mesh, pinned.kinds = planned.kinds;
  return same_placement(pinned, planned);
}

bool keeps(const ResolvedOp& planned, const Op& op, const OpChoice& pin, DerivationCache& cache) {
  if (planned.stage != pin.stage) return false;
  const auto derived = cache.get(op.bound, pin.mesh.extents, pin.strategies);
  ensure(derived != nullptr, "op '{}': its pin was not checked", op.name);
  const OpLayouts pinned = layouts_of(*op.bound, *derived, pin.mesh);
  return std::ranges::equal(pinned.operands, planned.layouts.operands, same_by_position) &&
         std::ranges::equal(pinned.results, planned.layouts.results, same_by_position);
}

}  // namespace

std::string first_pin_not_kept(const Graph& graph, const Resolved& resolved, const Constraints& constraints) {
  DerivationCache cache;
  for (const auto& [id, pin] : constraints.ops)
    if (!keeps(resolved.ops[id.index()], graph.op(id), pin, cache)) return fmt::format("op '{}'", graph.op(id).name);
  for (const auto& [id, pin] : constraints.kept)
    if (!same_by_position(layout_of(pin, graph.tensor(id).shape), resolved.kept_layouts[id.index()]))
      return fmt::format("tensor '{}'", graph.tensor(id).name);
  return "";
}

}  // namespace partita
