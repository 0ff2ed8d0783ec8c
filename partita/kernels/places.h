// The registered kernel of places, on a plan of physical/registered.h.
#pragma once
#include "partita/kernels/tensors.h"
#include "partita/physical/registered.h"
#include "partita/runtime/kernel.h"

namespace partita {

// Over the box of the result. A number outside its extent is told to the call, and place 0 is taken for it.
void run_places(const CountedPlan& plan, const Box& box, const KernelCall& call, const std::vector<Held>& held);

}  // namespace partita
