// Writes pieces of formulas as text.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

namespace partita {

inline std::string join(const std::vector<std::string>& items, const char* separator = ", ") {
  return fmt::format("{}", fmt::join(items, separator));
}

// " where i < 3, j < 5"; nothing without bounds.
inline std::string where(const std::vector<std::string>& bounds) {
  return bounds.empty() ? "" : " where " + join(bounds);
}

}  // namespace partita
