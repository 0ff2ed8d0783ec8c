// Compares peak memory with the devices' capacity, for everything that asks whether a plan fits.
//
// Example: two devices of 16 GB each have peaks of 14 and 18 GB. The deficit is 2 GB, on the second.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/cluster/cluster.h"

namespace partita {

struct MemoryDeficit {
  DeviceId device;    // the compute device that lacks most, the first of equals; if none lacks memory, the fullest
  int64_t bytes = 0;  // its peak less its memory; if at most 0, the plan fits
  bool fits() const { return bytes <= 0; }
};

// Finds the device that lacks most memory. `peak_bytes` is by device; 0 for devices that nobody looked at. Hosts are
// not counted: a step keeps the same inputs and outputs on them in every plan.
MemoryDeficit memory_deficit(const std::vector<int64_t>& peak_bytes, const Cluster& cluster);

}  // namespace partita
