// Lists the strategies of each op of a joint problem: the values of its variable.
//
// Worked example: y[i, j] = sum(k) a[i, k] * b[k, j] on a mesh of one axis over two devices. Its values are `i`, `j`
// and `k`. For `i` its layouts are a: S(0), b: B, y: S(0); for `k` they are a: S(1), b: S(0), y: P(sum). In bytes each
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
// costs nothing: it is offered on an axis only if nothing divides the work there. In time it is always offered, at its
// cost.
struct OpSpace {
  std::vector<std::vector<tdl::AxisStrategy>> strategies;  // per value, one a mesh axis
  std::vector<OpLayouts> layouts;                          // per value
  std::vector<int64_t> costs;  // per value: its inner conversions; in time its kernels too; for all its runs in a step
};

// The choices of the network.
struct JointSpace {
  Mesh mesh;
  // By OpId: the op's strategies, each with one entry a mesh axis. Empty: every strategy that divides its work. Those
  // that do not exist are skipped.
  std::vector<std::vector<std::vector<tdl::AxisStrategy>>> strategies;
};

// Returns the spaces by OpId. Bad input if a pin is for another mesh or does not exist; throws GivenUp over a limit.
std::vector<std::shared_ptr<const OpSpace>> op_spaces(const Problem& problem, const JointSpace& space,
                                                      JointCosts& costs, const LimitKeeper& keeper);

}  // namespace partita
