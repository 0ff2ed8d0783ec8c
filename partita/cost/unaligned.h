// Counts the time that a step loses if rows of products begin at no multiple of 16 bytes (`unaligned` of a device type,
// kernel.h).
//
// Example: GPT-2's vocabulary of 50,257 makes rows of so many elements. Its three products, each five times as long as
// they would be, are listed with the time that 50,264 would save.
#pragma once
#include <vector>

#include "partita/physical/physical.h"

namespace partita {

struct UnalignedProducts {
  std::vector<OpId> ops;  // those that lose most first
  int64_t lost_ns = 0;    // of one device's step, in kernels one after another
  int64_t row = 0;        // elements of a row of the first
};
// Returns the products on a device. None if times are from a profile, which does not show it.
UnalignedProducts unaligned_products(const PhysicalGraph& graph, const Cluster& cluster, DeviceId device);

}  // namespace partita
