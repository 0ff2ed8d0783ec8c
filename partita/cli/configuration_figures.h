// Prints the configurations that were compared for a plan.
#pragma once
#include <nlohmann/json.hpp>

#include "partita/pipeline/planned.h"

namespace partita {

// The ten best, the frontier of step and memory, what was simulated. Nothing, if none were compared.
void print_configurations(const Planned& planned);
// The key `configurations` of `plan --json` (docs/reference/cli.md).
void add_configurations(nlohmann::ordered_json& json, const Planned& planned);

}  // namespace partita
