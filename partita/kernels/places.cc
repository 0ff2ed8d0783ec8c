// Runs the kernel of places: numbers of places, counted from the front, and whether each is one.
#include "partita/base/error.h"
#include "partita/kernel_plan/registered.h"
#include "partita/kernels/tensors.h"
#include "partita/tdl/evaluate.h"

namespace partita {
namespace {

int64_t& element(const ShardMemory& held, std::span<const int64_t> at) {
  int64_t offset = 0;
  for (size_t a = 0; a < at.size(); ++a) offset += (at[a] - held.shard.box[a].lo) * held.shard.strides[a];
  return reinterpret_cast<int64_t*>(held.data)[offset];
}

}  // namespace

void Places::run(const KernelMemory& given) const {
  const KernelCall& call = given.call;
  tdl::for_each_point(box, [&](std::span<const int64_t> at) {
    int64_t number = 0;
    for (size_t a = 0; a < at.size(); ++a) number = number * shape[a] + at[a];
    const int64_t extent = extents[static_cast<size_t>(number) % extents.size()];
    const int64_t value = element(given.held[ids], at);
    const bool inside = -extent <= value && value < extent;
    if (!inside) {
      const Outside outside{call.step, call.task->op, ids, number, value, {-extent, extent}};
      if (!call.outside)
        fail("{}: element {} is {}; {} to {} are taken", call.task->name, number, value, -extent, extent - 1);
      call.outside->add(outside);
    }
    element(given.held[result], at) = !inside ? 0 : value < 0 ? value + extent : value;
  });
}

}  // namespace partita
