// Reads YAML strictly: maps with known keys, words, figures, counts and flags.
#include "partita/cluster/yaml.h"

#include <cmath>
#include <cstdlib>
#include <numeric>
#include <set>
#include <vector>

#include "partita/cluster/cluster.h"

namespace partita::cluster_file {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0]++;
    for (size_t j = 1; j <= b.size(); ++j) {
      int above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

void validate_map(const Reader& r, const YAML::Node& node, const std::string& what,
                  std::initializer_list<std::string_view> required, std::initializer_list<std::string_view> optional) {
  if (!node.IsMap()) r.fail_at(node, "{} must be a map of keys and values", what);
  std::vector<std::string_view> known(required);
  known.insert(known.end(), optional);
  std::set<std::string> seen;
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) r.fail_at(entry.first, "{}: a key must be a plain word", what);
    const std::string& key = entry.first.Scalar();
    if (std::find(known.begin(), known.end(), key) == known.end())
      r.fail_at(entry.first, "{}: unknown key '{}'; {}", what, key, suggestion(key, known));
    if (!seen.insert(key).second) r.fail_at(entry.first, "{}: '{}' is given twice; remove one", what, key);
  }
  for (std::string_view key : required)
    if (!seen.count(std::string(key)))
      r.fail_at(node, "{} lacks '{}'; add it (docs/reference/cluster.md has an example)", what, key);
}

std::string read_word(const Reader& r, const YAML::Node& node, const std::string& what) {
  if (!node.IsScalar() || node.Scalar().empty()) r.fail_at(node, "{} must be a name", what);
  return node.Scalar();
}

std::string read_name(const Reader& r, const YAML::Node& node, const std::string& what) {
  std::string name = read_word(r, node, what);
  if (name.find_first_of(". \t*[],") != std::string::npos)
    r.fail_at(node, "{} '{}' may not hold dots, blanks, commas, brackets or stars: dots join the names of levels", what,
              name);
  return name;
}

double read_figure(const Reader& r, const YAML::Node& node, const std::string& what, Sign sign) {
  if (!node.IsScalar()) r.fail_at(node, "{} must be one number", what);
  const std::string& text = node.Scalar();
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size() || !std::isfinite(value))
    r.fail_at(node, "{} is '{}', which is not a number; the unit stands in the key, give only the figure", what, text);
  if (sign == Sign::kPositive ? value <= 0 : value < 0)
    r.fail_at(node, "{} is {}; it must be {}", what, text, sign == Sign::kPositive ? "positive" : "zero or more");
  constexpr double kLeastPositive = 1e-6, kMostPositive = 1e12, kMostOthers = 1e9;
  if (sign == Sign::kPositive && (value < kLeastPositive || value > kMostPositive))
    r.fail_at(node, "{} is {}; it must be from {:g} to {:g}", what, text, kLeastPositive, kMostPositive);
  if (sign == Sign::kNotNegative && value > kMostOthers)
    r.fail_at(node, "{} is {}; it must be at most {:g}", what, text, kMostOthers);
  return value;
}

int read_count(const Reader& r, const YAML::Node& node, const std::string& what) {
  double value = read_figure(r, node, what, Sign::kPositive);
  if (value != std::floor(value) || value > kMostDevices)
    r.fail_at(node, "{} is {}; it must be a whole number from 1 to {}", what, node.Scalar(), kMostDevices);
  return static_cast<int>(value);
}

bool read_flag(const Reader& r, const YAML::Node& node, const std::string& what) {
  if (node.IsScalar() && node.Scalar() == "true") return true;
  if (node.IsScalar() && node.Scalar() == "false") return false;
  r.fail_at(node, "{} must be true or false", what);
}

}  // namespace partita::cluster_file
