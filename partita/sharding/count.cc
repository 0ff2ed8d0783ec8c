// Counts the elements that a fetch moves between devices.
#include "partita/sharding/count.h"

#include "partita/sharding/fetch.h"
#include "partita/sharding/members.h"

namespace partita::boxing {

namespace {

// Counts a fetch into whole values.
int64_t elements_into_whole(const Layout& from, const Layout& to) {
  const bool same_devices = from.mesh.devices == to.mesh.devices;
  const int64_t members = partial_member_count(from);
  int64_t moved = 0;
  for (int t = 0; t < to.mesh.positions(); ++t) {
    const int s = same_devices ? t : from.mesh.position_of(to.mesh.devices[t]);
    moved += members * volume(to.boxes[t]) - (s >= 0 ? common_elements(to.boxes[t], from.boxes[s]) : 0);
  }
  return moved;
}

// Counts it between two factorings, when a position's box may be several over a common one.
int64_t elements_across_factorings(const Layout& from, const Layout& to) {
  const std::vector<Shape> radices = step_radices(from, to);
  const std::vector<std::vector<Box>> have = boxes_by_position(from, radices), want = boxes_by_position(to, radices);
  const bool same_devices = from.mesh.devices == to.mesh.devices;
  const int64_t members = partial_member_count(from);
  int64_t moved = 0;
  for (int t = 0; t < to.mesh.positions(); ++t) {
    const int s = same_devices ? t : from.mesh.position_of(to.mesh.devices[t]);
    for (const Box& wanted : want[t]) {
      moved += members * volume(wanted);
      if (s >= 0)
        for (const Box& own : have[s]) moved -= common_elements(wanted, own);
    }
  }
  return moved;
}

}  // namespace

CountMemory& ElementCounter::memory(const std::vector<int>& extents) const {
  if (!last_ || last_->first != extents) last_ = &*memories_.try_emplace(extents, extents).first;
  return last_->second;
}

int64_t fetch_elements(const Layout& from, const Layout& to, const ElementCounter& counter) {
  if (has_partial_values(to)) {
    if (from.radices != to.radices) return make_fetch(from, to, counter.cluster).moved;
    if (from.mesh == to.mesh) return counter.into_parts(from, to);
    const bool few = from.mesh.positions() <= kMaskBits && to.mesh.positions() <= kMaskBits;
    return few ? elements_into_parts(from, to) : make_fetch(from, to, counter.cluster).moved;
  }
  if (from.radices != to.radices) return elements_across_factorings(from, to);
  if (from.mesh == to.mesh)
    return capped_product(partial_member_count(from), counter.total(to.boxes)) - counter.common(to.boxes, from.boxes);
  return elements_into_whole(from, to);
}

}  // namespace partita::boxing
