// Turns layouts into keys of a memory. A key holds everything that a conversion depends on; it stays short because
// numbers stand for meshes, and for boxes along one dimension. Internal to sharding/.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "partita/sharding/layout.h"

namespace partita::boxing {

struct LayoutKeys {
  std::unordered_map<size_t, std::vector<std::pair<Mesh, int64_t>>> meshes;    // by hash, with their numbers
  std::unordered_map<size_t, std::vector<std::pair<Along, int64_t>>> numbers;  // by hash
  int64_t count = 0, mesh_count = 0;
};
std::string key_of(LayoutKeys& keys, const Layout& layout);

}  // namespace partita::boxing
