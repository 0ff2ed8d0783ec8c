// Describes a tensor's stored axes as factors: per axis its radices, most significant first. Their product is its
// extent.
#pragma once
#include <algorithm>
#include <vector>

#include "partita/base/box.h"

namespace partita {

// Gives every axis itself as its only radix.
inline std::vector<Shape> unfactored(const Shape& shape) {
  std::vector<Shape> radices;
  for (int64_t extent : shape) radices.push_back({extent});
  return radices;
}

inline bool is_factored(const std::vector<Shape>& radices) {
  return std::any_of(radices.begin(), radices.end(), [](const Shape& r) { return r.size() > 1; });
}

}  // namespace partita
