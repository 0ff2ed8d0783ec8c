// Enumerates tuples: every way to choose one value in each place.
#pragma once
#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

namespace partita {

// Calls visit(at) for every `at` with 0 <= at[i] < counts[i], the last fastest. Never if a count is 0; once, with an
// empty tuple, if there are no counts.
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

// Calls visit(at) once for every tuple but `here`. If there are more than `most`, visits only near ones: tuples that
// differ from `here` in one place or two, and those that are one value up to a place and one value from it on.
template <typename Visit>
void for_each_tuple_near(const std::vector<std::size_t>& here, const std::vector<std::size_t>& counts, double most,
                         const Visit& visit) {
  double all = 1;
  for (std::size_t c : counts) all *= static_cast<double>(c);
  if (all <= most) {
    for_each_tuple(counts, [&](const std::vector<std::size_t>& at) {
      if (at != here) visit(at);
    });
    return;
  }
  std::set<std::vector<std::size_t>> near;
  for (std::size_t a = 0; a < counts.size(); ++a)
    for (std::size_t x = 0; x < counts[a]; ++x)
      for (std::size_t b = a; b < counts.size(); ++b)
        for (std::size_t y = 0; y < counts[b]; ++y) {
          std::vector<std::size_t> at = here;
          at[a] = x, at[b] = y;
          near.insert(std::move(at));
        }
  const std::size_t common = *std::min_element(counts.begin(), counts.end());
  for (std::size_t x = 0; x < common; ++x)
    for (std::size_t y = 0; y < common; ++y)
      for (std::size_t place = 1; place <= counts.size(); ++place) {
        std::vector<std::size_t> at(counts.size(), y);
        std::fill_n(at.begin(), place, x);
        near.insert(std::move(at));
      }
  near.erase(here);
  for (const std::vector<std::size_t>& at : near) visit(at);
}

}  // namespace partita
