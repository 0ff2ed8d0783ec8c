// Says whether an operation's indices may be factored (graph/factors.h), for lowering and planning.
#pragma once
#include "partita/graph/graph.h"
#include "partita/kernel_plan/registered.h"

namespace partita {

// Not if it has a kernel of its own: such a kernel knows indices by name.
inline bool may_factor(const Op& op) { return !is_registered(op.definition); }

}  // namespace partita
