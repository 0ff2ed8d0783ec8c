// What the registered kernels make of a call: shared by the declaration of their scratch (registered.cc) and by
// themselves (kernels/windows.cc, kernels/experts.cc, kernels/places.cc). A plan is empty where there is no kernel, or
// where it declines the call; the generic stage kernel runs it then.
#pragma once
#include <optional>

#include "partita/physical/workspace.h"

namespace partita {

// One spatial axis of a convolution or pooling: element `at` of the input lies under element k of the window that makes
// element `out` of the result where at = out * stride + k * dilation - before.
struct WindowAxis {
  int64_t stride = 1, dilation = 1, before = 0;
  Interval out, at, window;  // global; `at`: the part that is held, or wanted

  // The elements of `out` whose element k of the window is in `at`, and the first of those there.
  Interval outs(int64_t k) const;
  int64_t input(int64_t o, int64_t k) const { return o * stride + k * dilation - before; }
};

struct WindowPlan {
  int x = -1, w = -1, g = -1, b = -1;  // tensors of the formula, as the kernel names them
  Part input;  // of x, over [n, (groups,) channels, rows, columns]: the formula may have factored its axes
  int result = -1, index = -1;  // written: the result, and max_pool's index
  WindowAxis rows, columns;
  Interval n, q, c, o;  // q: groups, [0, 1) where there are none
  bool grouped = false;
  int64_t block = 1;             // rows of the result, or channels, that are done at once
  DType real = DType::kFloat32;  // what is computed in: operands of another dtype are copied, so is the result
  int64_t scratch_bytes = 0;
};

// Of expert_place: [g, t, k] over these ranges, counting the choices [g, u, l].
struct PlacePlan {
  int ix = -1, result = -1;
  Interval g, t, k, u, l;
};

// Of places: numbers among extents[0] places, or among extents[k] at k along the last axis.
struct CountedPlan {
  int ids = 0, result = -1;
  std::vector<int64_t> extents;
};

std::optional<CountedPlan> plan_places(const KernelWork& work, const std::vector<Interval>& ranges,
                                       const KernelParts& held);
std::optional<PlacePlan> plan_expert_place(const KernelWork& work, const std::vector<Interval>& ranges,
                                           const KernelParts& held);
std::optional<WindowPlan> plan_windows(const KernelWork& work, const std::vector<Interval>& ranges,
                                       const KernelParts& held);

}  // namespace partita
