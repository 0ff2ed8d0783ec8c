// Finds the indices by which a run of stages can go in slices: its internal tensors then hold one slice.
//
//     n(x, g) -> dx, dw =                       b in slices:
//       z[b, j] = x[b, j] * x[b, j]               z, dx: of the slice alone
//       dw[j]   = sum(b) g[b, j] * z[b, j]        dw: added up over the slices
//       dx[b, j] = g[b, j] * z[b, j]
//
// Counterexample: m[] = sum(b) x[b] with a later x[b] - m[], which needs all of m.
#pragma once
#include <vector>

#include "partita/kernel_plan/request.h"

namespace partita {

// Loops around stages, the outermost first. In a slice of all `outer` indices run the stages `before`, then for each
// slice of the `inner` indices those `inside`, then those `after`.
struct SliceLoops {
  std::vector<int> outer;  // indices of the formula that every stage has on its left side
  // On the left side of some stages inside, and reduced by the others there. These add up over the slices, and only
  // stages `after` read them.
  std::vector<int> inner;
  std::vector<int> before, inside, after;  // stages
};
// Returns one for each set of inner indices that have the same role in every stage.
std::vector<SliceLoops> find_loops(const KernelRequest& request);

}  // namespace partita
