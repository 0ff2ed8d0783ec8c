// Writes pieces of formulas as text.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

namespace partita {

inline std::string join_texts(const std::vector<std::string>& items, const char* separator = ", ") {
  return fmt::format("{}", fmt::join(items, separator));
}

// " where i < 3, j < 5"; nothing without bounds.
inline std::string where_clause(const std::vector<std::string>& bounds) {
  return bounds.empty() ? "" : " where " + join_texts(bounds);
}

}  // namespace partita
