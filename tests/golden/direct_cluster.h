// Makes a preset without a library whose GPUs exchange directly (docs/reference/cluster.md), for tests.
#pragma once
#include <string>

#include "partita/base/error.h"
#include "partita/cluster/cluster.h"

namespace partita {

inline Cluster direct_cluster(const std::string& preset, int devices = 0) {
  std::string text = load_cluster(preset).text;
  const std::string key = "    launch_overhead_us: ";  // of the first type, the GPU
  const size_t at = text.find(key);
  ensure(at != std::string::npos && text.find("\n    collectives:") == std::string::npos, "{} has no such type",
         preset);
  text.insert(at, "    collectives: [{algorithm: direct, launch_us: 0}]\n");
  return parse_cluster(text, preset, devices);
}

}  // namespace partita
