// Checks that every value that must be whole has each of its terms once (docs/inside/PHYSICAL.md section 6). A share
// tells which terms of its whole value an element has. For registers that share bytes see plan_memory (passes.h).
//
// Example: y@gpu0 and y@gpu1 are the partial sums of a matmul split along k. An all-reduce over both makes y whole, and
// relu may read it. Without it, or with gpu0 taking part twice, the error is "task 'relu@gpu0': reads [0,8) of 'y@gpu0'
// where it must be whole, and it is not each of its terms once".
#pragma once
#include "partita/physical/physical.h"

namespace partita {

// Verifies that each value that must be whole is made of each of its terms once: of every member's partial value. If a
// conversion to partial values fills with the identity, it is made of one member's element. Throws, naming the task
// that needs it whole. Tasks without a formula may make anything. Fields, boxes and regions have been verified.
void check_shares(const PhysicalGraph& graph);

}  // namespace partita
