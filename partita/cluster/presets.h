// The built-in clusters, as YAML in the schema of docs/cluster.md.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace partita {

// The YAML of "p2.8xlarge", "dgx-h100", "dgx-h100:N" or "local:N"; empty if `reference` is none of them. Bad input if the
// count is not a positive number.
std::optional<std::string> preset_text(std::string_view reference);

}  // namespace partita
