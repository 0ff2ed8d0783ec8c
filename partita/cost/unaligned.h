// What a step loses where rows of products begin at no multiple of 16 bytes (`unaligned` of a device type, kernel.h).
//
// Example: GPT-2's vocabulary of 50,257 makes rows of so many elements. Its three products, each five times as long as
// they would be, are listed with what 50,264 would save.
#pragma once
#include <vector>

#include "partita/physical/physical.h"

namespace partita {

struct UnalignedProducts {
  std::vector<OpId> ops;  // those that lose most first
  int64_t lost_ns = 0;    // of one device's step, in kernels one after another
  int64_t row = 0;        // elements of a row of the first
};
// Of the products on a device. None where times are from a profile, which does not tell.
UnalignedProducts unaligned_products(const PhysicalGraph& graph, const Cluster& cluster, DeviceId device);

}  // namespace partita
