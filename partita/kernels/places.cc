// Numbers of places, counted from the front: the kernel that looks whether each is one.
#include "partita/kernels/places.h"

#include "partita/base/error.h"
#include "partita/tdl/evaluate.h"

namespace partita {
namespace {

int64_t& element(const Held& held, std::span<const int64_t> at) {
  int64_t offset = 0;
  for (size_t a = 0; a < at.size(); ++a) offset += (at[a] - held.part.box[a].lo) * held.part.strides[a];
  return reinterpret_cast<int64_t*>(held.data)[offset];
}

}  // namespace

void run_places(const CountedPlan& plan, const Box& box, const KernelCall& call, const std::vector<Held>& held) {
  const Shape& shape = call.work->bound->tensors[plan.ids].factored;
  tdl::for_each_point(box, [&](std::span<const int64_t> at) {
    int64_t number = 0;
    for (size_t a = 0; a < at.size(); ++a) number = number * shape[a] + at[a];
    const int64_t extent = plan.extents[static_cast<size_t>(number) % plan.extents.size()];
    const int64_t value = element(held[plan.ids], at);
    const bool inside = -extent <= value && value < extent;
    if (!inside) {
      const Outside outside{call.step, call.task->op, plan.ids, number, value, {-extent, extent}};
      if (!call.outside)
        fail("{}: element {} is {}; {} to {} are taken", call.task->name, number, value, -extent, extent - 1);
      call.outside->add(outside);
    }
    element(held[plan.result], at) = !inside ? 0 : value < 0 ? value + extent : value;
  });
}

}  // namespace partita
