// Writes lists as attributes of ops.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "partita/tdl/tdl.h"

namespace partita {

// A list as attributes: list_attributes("perm", {1, 0}) is {perm.0: 1, perm.1: 0}.
inline tdl::Attributes list_attributes(std::string_view name, const std::vector<int64_t>& values) {
  tdl::Attributes attributes;
  for (std::size_t i = 0; i < values.size(); ++i)
    attributes[fmt::format("{}.{}", name, i)] = static_cast<double>(values[i]);
  return attributes;
}

}  // namespace partita
