// Finds results that take over an operand's bytes in an order by time (schedule/by_time.h), for plan_memory.
//
// In such an order, a kernel's operands and results are held until every task that starts before the kernel's end has
// started. So an operand that the kernel reads last and the result that may lie on it are held at the same places.
// Their bytes would lie apart, though the kernel ends one life and begins the other. If every other use of the operand
// is over before the kernel starts, the result continues in its bytes instead. Both are placed as one.
//
// Example: a sum of gradients, s1 = g0 + g1, s2 = s1 + g2, ..: while each is added, transfers start. All sums continue
// in g0's bytes.
#pragma once
#include <vector>

#include "partita/physical/held_bytes.h"
#include "partita/physical/in_place.h"

namespace partita {

// Returns, by register, the operand in whose bytes it continues; none: it has bytes of its own. Each operand has one
// such result at most. `place`: by number of the node.
std::vector<RegisterId> continued(const PhysicalGraph& graph, const NodeTable& table, const Uses& uses,
                                  const std::vector<int>& place, const Held& held, const InPlace& in_place);

}  // namespace partita
