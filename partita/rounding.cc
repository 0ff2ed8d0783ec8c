// Kernels with other last places, to see how far rounding alone can take a training run.
#include "partita/rounding.h"

#include <limits>
#include <vector>

#include "partita/base/rng.h"
#include "partita/runtime/memory.h"

namespace partita {

void RoundingKernels::run(const KernelCall& call) {
  kernels_.run(call);
  if (call.task->phase != Phase::kBackward) return;
  Rng rng(seed_ ^ hash_name(call.task->name) ^ (call.step + 1) * 0x9E3779B97F4A7C15ull ^ static_cast<uint64_t>(call.act) << 32);
  for (const View& write : call.writes) {
    if (write.dtype != DType::kFloat64 || is_empty(write.box)) continue;
    const Shape sizes = extents(write.box);
    std::vector<double> factors(static_cast<size_t>(volume(sizes)));
    for (double& factor : factors) factor = 1 + (rng.next() & 1 ? 1 : -1) * std::numeric_limits<double>::epsilon();
    const View from{reinterpret_cast<std::byte*>(factors.data()), DType::kFloat64, write.box, dense_strides(sizes), write.axes};
    combine_box(tdl::Reducer::kProd, from, write);
  }
}

}  // namespace partita
