// What each op of a joint problem may do: the values of its variable.
//
// Worked example: y[i, j] = sum(k) a[i, k] * b[k, j] on a mesh of one axis over two devices. Its values are `i`, `j`
// and `k`: for `i` its layouts are a: S(0), b: B, y: S(0); for `k` they are a: S(1), b: S(0), y: P(sum). In bytes each
// costs 0, and `replicate` is left out, since others divide the work. In time each costs its kernel's ns, and
// `replicate` is a fourth value.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "partita/search/joint/limits.h"
#include "partita/search/search.h"

namespace partita {

// One entry a value of the op's variable. Ops of one formula share theirs. There is a value for every strategy that
// divides the op's work on every mesh axis; element-wise ops may also pass partial values on. In bytes, replicated work
// costs nothing: it is offered on an axis only where nothing divides the work there. In time it is always offered, at
// what it takes.
struct OpSpace {
  std::vector<std::vector<tdl::AxisStrategy>> strategies;  // per value, one a mesh axis
  std::vector<OpLayouts> layouts;                          // per value
  std::vector<int64_t> costs;                              // per value: its inner conversions; in time its kernels too;
                                                           // as often as it acts
};

// What the network chooses from.
struct JointSpace {
  Mesh mesh;
  // By OpId: what an op may do, one strategy a mesh axis. Empty: everything that divides its work. What does not exist
  // is passed over.
  std::vector<std::vector<std::vector<tdl::AxisStrategy>>> strategies;
};

// By OpId. Bad input where a pin is for another mesh or does not exist; throws GivenUp over a limit.
std::vector<std::shared_ptr<const OpSpace>> op_spaces(const Problem& problem, const JointSpace& space,
                                                      JointCosts& costs, const LimitKeeper& keeper);

}  // namespace partita
