// Finds the known names that differ least from an unknown one.
#include "partita/base/nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace partita {
namespace {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& known, size_t count) {
  std::vector<std::pair<int, std::string>> nearest;
  for (const std::string& k : known) nearest.emplace_back(edit_distance(name, k), k);
  std::sort(nearest.begin(), nearest.end());
  nearest.erase(std::unique(nearest.begin(), nearest.end()), nearest.end());
  std::vector<std::string> names;
  for (const auto& [distance, k] : nearest)
    if (names.size() < count) names.push_back(k);
  return names;
}

std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& known, size_t count) {
  std::vector<std::string> names = nearest_names(name, known, count);
  std::erase_if(names, [&](const std::string& k) {
    return 2 * edit_distance(name, k) > static_cast<int>(std::max(name.size(), k.size()));
  });
  return names;
}

}  // namespace partita
