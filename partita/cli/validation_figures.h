// Prints how well a predicted step is known: published steps of the devices, and the band that they give.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "partita/cluster/validation.h"
#include "partita/pipeline/planned.h"

namespace partita {

// "35 published steps of H100: 8 of 10 took 0.96 to 1.30 times what is predicted".
std::string validation_text(const Validation& known);
// Returns how the model differs from those of published steps (docs/reproduction/published-steps.md), a line each; may
// be empty.
std::vector<std::string> beyond_validation(const Planned& planned);
// A line for each device type, with the band of the step's time.
void print_validation(const Planned& planned);
// `validation`, a list of device, runs, low and high; `beyond_validation`, if there is any; and step_time_low_us and
// step_time_high_us of all of them.
void add_validation(nlohmann::ordered_json& json, const Planned& planned);

}  // namespace partita
