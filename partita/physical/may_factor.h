// Which operations' indices may be factored (graph/factors.h).
#pragma once
#include "partita/graph/graph.h"
#include "partita/kernel_plan/registered.h"

namespace partita {

// A kernel of its own knows indices by name.
inline bool may_factor(const Op& op) { return !is_registered(op.definition); }

}  // namespace partita
