// For messages about a name that is unknown.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace partita {

// At most `count` of the known names, the least different (Levenshtein's distance) first, each once.
std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& known, size_t count = 3);
// Of these, those that differ in half of the letters of the longer of the two, or in fewer.
std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& known, size_t count = 3);

}  // namespace partita
