// The registered kernel of expert_place, on a plan of physical/registered.h.
#pragma once
#include "partita/kernels/tensors.h"
#include "partita/physical/registered.h"

namespace partita {

void run_expert_place(const PlacePlan& plan, const std::vector<Held>& held);

}  // namespace partita
