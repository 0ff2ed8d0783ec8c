// Internal to cluster/: how large a YAML text is once its aliases stand for what they name.
#pragma once
#include <string>

#include "partita/cluster/yaml.h"

namespace partita::cluster_file {

// More than any cluster needs: the widest has kMostDevices devices, each a map of three keys, and a link for each.
constexpr int64_t kMostNodes = 1'000'000;
constexpr int kDeepestNode = 100;

// Bad input, at its line, if a text has more nodes than that or nests deeper, aliases written out, or if an alias
// stands inside what it names. What is not YAML at all passes: loading it says so.
void expect_bounded(const Reader& r, const std::string& yaml);

}  // namespace partita::cluster_file
