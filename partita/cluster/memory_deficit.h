// Compares peaks of memory with what devices have. Every answer to "does it fit" is this one.
//
// Example: two devices of 16 GB each have peaks of 14 and 18 GB. The deficit is 2 GB, on the second.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/cluster/cluster.h"

namespace partita {

struct MemoryDeficit {
  DeviceId device;    // the compute device that lacks most, the first of equals; if none lacks memory, the fullest
  int64_t bytes = 0;  // its peak less its memory; at most 0: the plan fits
  bool fits() const { return bytes <= 0; }
};

// `peak_bytes`: by device, in bytes; 0 of devices that nobody looked at. Hosts are not counted: what a step keeps on
// them, its inputs and outputs, is the same in every plan.
MemoryDeficit memory_deficit(const std::vector<int64_t>& peak_bytes, const Cluster& cluster);

}  // namespace partita
