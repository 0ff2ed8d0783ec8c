// Parses MODEL@BATCH[@BYTES] in a benchmark's words: a model's training step on a cluster whose devices have so much
// memory. Without BYTES no plan is too large.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "partita/base/error.h"
#include "partita/pipeline/pipeline.h"

namespace partita {

struct Asked {
  Graph graph;
  Cluster cluster;
};

// Returns a benchmark's exit code: its own, or that of the error that ends it, which is printed.
inline int exit_code_of(int (*benchmark)(int, char**), int argc, char** argv) {
  try {
    return benchmark(argc, argv);
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return static_cast<int>(e.code());
  }
}

// Takes `name VALUE` out of the words, and returns the value.
inline std::string taken(std::vector<std::string>& words, const std::string& name, const std::string& otherwise) {
  const auto at = std::find(words.begin(), words.end(), name);
  if (at == words.end() || at + 1 == words.end()) return otherwise;
  const std::string value = *(at + 1);
  words.erase(at, at + 2);
  return value;
}

inline bool names_model(const std::string& word) { return word.find('@') != std::string::npos; }

inline Asked asked_for(const std::string& word, const std::string& cluster) {
  const size_t at = word.find('@'), second = word.find('@', at + 1);
  if (at == std::string::npos) fail("{}: MODEL@BATCH[@BYTES]", word);
  Request request;
  request.model = word.substr(0, at);
  request.bindings["batch"] = word.substr(at + 1, second == std::string::npos ? std::string::npos : second - at - 1);
  Runner runner;
  Asked asked{training_graph(load_model(request, runner), request, runner), load_cluster(cluster)};
  const int64_t bytes = second == std::string::npos ? int64_t{1} << 50 : std::stoll(word.substr(second + 1));
  for (int d = 0; d < asked.cluster.compute_count; ++d) asked.cluster.devices[d].memory_bytes = bytes;
  return asked;
}

}  // namespace partita
