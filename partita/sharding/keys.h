// Internal to sharding/: layouts as keys of a memory. A key holds everything that a conversion depends on; meshes, and
// what boxes are along one dimension, are numbers in it, so that it is short.
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
