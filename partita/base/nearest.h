// Finds known names near an unknown one, for messages.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace partita {

// At most `count` of the known names, the least different (Levenshtein's distance) first, each once.
std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& known, size_t count = 3);
// Keeps those near names that differ in at most half of the letters of the longer of the two.
std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& known, size_t count = 3);

}  // namespace partita
