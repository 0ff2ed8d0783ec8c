// Declares the commands of the command line and their options.
#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "partita/cli/arguments.h"
#include "partita/graph/registry.h"

namespace partita {

// Options whose values need more than CLI11's own reading.
struct RawOptions {
  std::vector<std::string> bind;
  std::string batch, dtype = "float32", objective = text_of(Objective::kComm), searches;
  std::optional<double> time_limit;
  std::optional<int64_t> max_steps;
  std::optional<std::string> loss, memory_limit, bucket;
};

// Adds every command, with the variables for its options' values. `a` and `raw` must stay until `app` has parsed.
void add_commands(CLI::App& app, Arguments& a, RawOptions& raw, const OpRegistry& registry);

}  // namespace partita
