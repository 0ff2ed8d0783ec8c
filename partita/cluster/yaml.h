// Reads YAML strictly: every error names the file, the line and the remedy. Internal to cluster/.
//
// Example: "f.yaml:5: device type 'K80': unknown key 'memory_gibyte'; did you mean 'memory_gibytes'?" is validate_map()
// with the keys of a device type, at the line of the key.
#pragma once
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

#include "partita/base/error.h"

namespace partita::cluster_file {

struct Reader {
  std::string origin;  // the file's or preset's name

  template <typename... Args>
  [[noreturn]] void fail_at(const YAML::Node& node, fmt::format_string<Args...> format, Args&&... args) const {
    fail("{}:{}: {}", origin, std::max(1, node.Mark().line + 1), fmt::format(format, std::forward<Args>(args)...));
  }
};

int edit_distance(std::string_view a, std::string_view b);

// Suggests "did you mean 'x'?": the name probably meant, a few letters away or the same quantity in another unit. Else
// lists the known names.
template <typename Keys>
std::string suggestion(std::string_view key, const Keys& known) {
  constexpr size_t kLongestMeant = 200;  // no known name is so long, and distances take time
  std::string best;
  int best_score = std::numeric_limits<int>::max();
  for (std::string_view k : known) {
    if (key.size() > kLongestMeant) break;
    int distance = edit_distance(key, k);
    size_t common = 0;
    while (common < std::min(key.size(), k.size()) && key[common] == k[common]) ++common;
    bool close = distance <= std::max<int>(1, static_cast<int>(k.size()) / 4) ||
                 (common >= 4 && common * 2 >= std::min(key.size(), k.size()));
    if (int score = distance - 2 * static_cast<int>(common); close && score < best_score) {
      best = k;
      best_score = score;
    }
  }
  if (!best.empty()) return fmt::format("did you mean '{}'?", best);
  return fmt::format("known are {}", fmt::join(known, ", "));
}

// `what` names the node in messages.

// Checks that the node is a map with these keys and no others, each once.
void validate_map(const Reader& r, const YAML::Node& node, const std::string& what,
                  std::initializer_list<std::string_view> required,
                  std::initializer_list<std::string_view> optional = {});
std::string read_word(const Reader& r, const YAML::Node& node, const std::string& what);
// Reads a word that can be part of a device's name: without dots, blanks, commas, brackets and stars.
std::string read_name(const Reader& r, const YAML::Node& node, const std::string& what);
// Rates, amounts and fractions are positive, times may be zero. Both are bounded, so that derived figures stay a number
// of nanoseconds: positive ones 1e-6 to 1e12, others at most 1e9.
enum class Sign { kPositive, kNotNegative };
double read_figure(const Reader& r, const YAML::Node& node, const std::string& what, Sign sign);
int read_count(const Reader& r, const YAML::Node& node, const std::string& what);  // from 1 to kMostDevices
bool read_flag(const Reader& r, const YAML::Node& node, const std::string& what);

}  // namespace partita::cluster_file
