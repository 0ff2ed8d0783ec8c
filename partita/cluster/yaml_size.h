// Bounds the size of a YAML text with its aliases written out. Internal to cluster/.
#pragma once
#include <string>

#include "partita/cluster/yaml.h"

namespace partita::cluster_file {

// More than any cluster needs: the widest has kMostDevices devices, each a map of three keys, and a link for each.
constexpr int64_t kMostNodes = 1'000'000;
constexpr int kDeepestNode = 100;

// Bad input, at its line, if a text has more nodes or nests deeper, aliases written out, or if an alias stands inside
// its own node. Text that is no YAML passes: loading it reports the error.
void validate_yaml_size(const Reader& r, const std::string& yaml);

}  // namespace partita::cluster_file
