// Which part of its whole value every element of every register is (docs/PHYSICAL.md section 6).
#pragma once
#include "partita/physical/physical.h"

namespace partita {

// Whatever must be whole is made of each of its terms once: of every member's partial value, and where a conversion to
// partial values fills with the identity, of one member's element. Throws, naming the task that needs it whole. Tasks
// without a formula make what they like. Fields, boxes and regions have been verified.
void check_shares(const PhysicalGraph& graph);

}  // namespace partita
