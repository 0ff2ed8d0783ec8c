// Checks one op's choice and kept layouts (docs/reference/plan.md), by the same rules for a plan, which check.h checks
// as a whole, and for pins (constraints.h).
#pragma once
#include <map>

#include "partita/plan/plan.h"

namespace partita {

// The owner of the choices. Errors begin with "plan: " or "pins: ", and the latter are PinErrors.
enum class Whose { kPlan, kPins };

// Throws bad input: a device is twice there or unknown, a mesh's extents and devices disagree. Or the op lacks a
// strategy name, or it has too many shards. `last`: the mesh that was checked last. Mostly the next one is the same.
void check_op_choice(Whose whose, const Op& op, const OpChoice& choice, const Cluster& cluster, Mesh& last);
// Throws bad input: a layout that does not exist, two reducers on one value, a tensor that replaces another.
void check_kept(Whose whose, const Graph& graph, const std::map<TensorId, Placement>& kept, const Cluster& cluster,
                Mesh& last);

}  // namespace partita
