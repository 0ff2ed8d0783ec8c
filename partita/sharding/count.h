// Counts the elements that a fetch moves between devices, without its pieces if these do not matter. Internal to
// sharding/.
//
// Example: rows [0,2) and [2,4) -> rows [0,3) and [1,4) on the same two devices. Either wants 3 rows and has 2 of them,
// so one row is moved to each. Partial values are wanted once from each member.
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "partita/cluster/cluster.h"
#include "partita/sharding/count_partial.h"
#include "partita/sharding/step.h"

namespace partita::boxing {

// The inputs of counting besides the layouts, with a memory or without. Not thread-safe.
class ElementCounter {
 public:
  ElementCounter(const Cluster& of, bool remembers, DeviceMask devices = nullptr)
      : cluster(of), device_mask(std::move(devices)), remembers_(remembers) {}

  int64_t total(const Boxes& boxes) const {  // elements of all positions together
    return remembers_ ? memory(boxes.extents()).volumes.of(boxes, boxes) : total_volume(boxes);
  }
  int64_t common(const Boxes& a, const Boxes& b) const {  // of the intersections, over all positions
    return remembers_ ? memory(a.extents()).volumes.of(a, b) : common_volume(a, b);
  }
  int64_t into_parts(const Layout& from, const Layout& to) const {  // on one mesh, over one factoring
    return elements_into_parts_on_one_mesh(from, to, remembers_ ? &memory(to.mesh.extents) : nullptr);
  }
  // Replaces the boxes by equal ones that are quicker to find.
  void make_known(Layout& layout) const {
    if (remembers_) layout.boxes = memory(layout.mesh.extents).volumes.known(layout.boxes);
  }

  const Cluster& cluster;
  const DeviceMask device_mask;

 private:
  CountMemory& memory(const std::vector<int>& extents) const;

  bool remembers_;
  mutable std::map<std::vector<int>, CountMemory> memories_;  // by the mesh's extents
  mutable std::pair<const std::vector<int>, CountMemory>* last_ = nullptr;
};

int64_t fetch_elements(const Layout& from, const Layout& to, const ElementCounter& counter);

}  // namespace partita::boxing
