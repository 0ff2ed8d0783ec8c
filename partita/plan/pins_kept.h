// Tells whether a plan keeps its pins, for the pipeline, which checks the plan of every search.
#pragma once
#include <string>

#include "partita/plan/constraints.h"
#include "partita/plan/resolve.h"

namespace partita {

// Names the first pin that a resolved plan does not keep: "op 'fc1'", "tensor 'w'"; empty if it keeps all. Every device
// must have the boxes and terms that the pin gives it. The plan's mesh may be finer than the pin's: 2x2 for 4.
std::string first_pin_not_kept(const Graph& graph, const Resolved& resolved, const Constraints& constraints);

}  // namespace partita
