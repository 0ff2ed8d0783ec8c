// Every way to choose one of several for each of several.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

namespace partita {

// Calls visit(at) for every `at` with 0 <= at[i] < counts[i], the last fastest. None where a count is 0; one, empty, where there are no counts.
template <typename Visit>
void for_each_tuple(const std::vector<std::size_t>& counts, const Visit& visit) {
  if (std::find(counts.begin(), counts.end(), 0u) != counts.end()) return;
  std::vector<std::size_t> at(counts.size(), 0);
  for (;;) {
    visit(static_cast<const std::vector<std::size_t>&>(at));
    std::size_t i = counts.size();
    while (i > 0 && ++at[i - 1] == counts[i - 1]) at[--i] = 0;
    if (i == 0) return;
  }
}

}  // namespace partita
