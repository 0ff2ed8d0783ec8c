// Changes the last places of kernels' results, to see how far rounding alone can take a training run.
#include "partita/train/rounding.h"

#include <vector>

#include "partita/base/rng.h"
#include "partita/runtime/memory.h"

namespace partita {

namespace {

// Multiplies each element by 1 plus or minus `unit`. T: float64, or float32 for it and all shorter types.
template <class T>
void change(const View& write, double unit, Rng& rng) {
  const Shape sizes = extents(write.box);
  std::vector<T> factors(static_cast<size_t>(volume(sizes)));
  for (T& factor : factors) factor = static_cast<T>(1 + (rng.next() & 1 ? 1 : -1) * unit);
  const DType dtype = sizeof(T) == sizeof(double) ? DType::kFloat64 : DType::kFloat32;
  const View from{reinterpret_cast<std::byte*>(factors.data()), dtype, write.box, dense_strides(sizes), write.axes};
  combine_box(tdl::Reducer::kProd, from, write);
}

}  // namespace

void RoundingKernels::run(const KernelCall& call) {
  kernels_.run(call);
  if (call.task->phase != phase_) return;
  Rng rng(seed_ ^ hash_name(call.task->name) ^ (call.step + 1) * 0x9E3779B97F4A7C15ull ^
          static_cast<uint64_t>(call.firing) << 32);
  for (const View& write : call.writes) {
    if (!is_float(write.dtype) || is_empty(write.box)) continue;
    if (write.dtype == DType::kFloat64) change<double>(write, epsilon_of(write.dtype), rng);
    else change<float>(write, epsilon_of(write.dtype), rng);
  }
}

}  // namespace partita
