// Which part of its whole value every element of every register is (docs/inside/PHYSICAL.md section 6). A share is a
// matter of partial values; for registers that share bytes see plan_memory (passes.h).
//
// Example: y@gpu0 and y@gpu1 are the partial sums of a matmul split along k. An all-reduce over both makes y whole, and
// relu may read it. Without it, or with gpu0 taking part twice: "task 'relu@gpu0': reads [0,8) of 'y@gpu0' where it
// must be whole, and it is not each of its terms once".
#pragma once
#include "partita/physical/physical.h"

namespace partita {

// Whatever must be whole is made of each of its terms once: of every member's partial value, and where a conversion to
// partial values fills with the identity, of one member's element. Throws, naming the task that needs it whole. Tasks
// without a formula make what they like. Fields, boxes and regions have been verified.
void check_shares(const PhysicalGraph& graph);

}  // namespace partita
