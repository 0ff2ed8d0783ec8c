// Counts the elements that a fetch into partial values moves, without its pieces. Internal to sharding/.
//
// Example: B -> P(sum) on 2 devices of one mesh moves none. For each element, one member of the group has it already,
// and the other holds the identity. P(sum) of devices 0, 1 -> P(sum) of devices 2, 3 moves each part once, 2 |T|.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "partita/sharding/layout.h"

namespace partita::boxing {

// Counts stop here: no chosen path moves as much.
inline constexpr int64_t kMostElements = int64_t{1} << 60;
inline int64_t capped_product(int64_t a, int64_t b) { return a != 0 && b > kMostElements / a ? kMostElements : a * b; }

// Counts between layouts over one factoring, on meshes of at most kMaskBits positions.
inline constexpr int kMaskBits = 64;
int64_t elements_into_parts(const Layout& from, const Layout& to);

// The memory that counts on one mesh share.
struct CountMemory {
  explicit CountMemory(const std::vector<int>& extents) : volumes(extents) {}
  CommonVolumes volumes;
  std::unordered_map<std::string, int64_t> most_there;  // by a group of mesh axes and dimensions
};
// Counts between layouts over one factoring and on one mesh, of any size. `memory` may be null.
int64_t elements_into_parts_on_one_mesh(const Layout& from, const Layout& to, CountMemory* memory);

}  // namespace partita::boxing
