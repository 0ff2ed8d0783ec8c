// Results that take over an operand's bytes in an order by time (schedule/by_time.h).
//
// There a kernel's operands and results are held until what starts before it ends has started. So an operand that is
// read last and the result that may lie on it are held at the same places, though one kernel ends the one and begins
// the other; their bytes would be apart. Where every other use of the operand is over before the kernel starts, the
// result goes on in its bytes instead, and both are placed as one.
//
// Example: a sum of gradients, s1 = g0 + g1, s2 = s1 + g2, ..: while each is added, transfers start. All sums go on in
// g0's bytes.
#pragma once
#include <vector>

#include "partita/physical/held_bytes.h"
#include "partita/physical/in_place.h"

namespace partita {

// By register: the operand whose bytes it goes on in; none: its own begin with it. Each is that of one result at most.
// `place`: by number of the node.
std::vector<RegisterId> continued(const PhysicalGraph& graph, const NodeTable& table, const Uses& uses,
                                  const std::vector<int>& place, const Held& held, const InPlace& in_place);

}  // namespace partita
