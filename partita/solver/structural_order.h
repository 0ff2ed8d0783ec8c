// Orders variables the same way in all parts of a network that are alike.
//
// Example: two copies of a path a - b - c have equal costs on a and c. Between b and c they have another table than
// between a and b. By their costs a and c look alike; by their edges they do not. In both copies the order is, say, c,
// b, a, whatever the numbers of the variables.
#pragma once
#include <vector>

#include "partita/network/network.h"

namespace partita::solver {

// Orders all variables, part by part, each part's by their looks: costs, and the edges within the part, by colour
// refinement. One of those that still look alike is separated from the others, and so on. (McKay does so, Practical
// graph isomorphism, 1981; here along one path only.) If two parts that are alike get different orders, they are solved
// twice. `costs`: by variable.
std::vector<int> structural_order(const Network& network, const std::vector<Table>& costs,
                                  const std::vector<int>& part_of);

}  // namespace partita::solver
