// Compares peak memory with the devices' capacity, for everything that asks whether a plan fits.
//
// Example: two devices of 16 GB each have peaks of 14 and 18 GB. The deficit is 2 GB, on the second.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/cluster/cluster.h"

namespace partita {

// Returns by how many bytes a peak exceeds the device's memory; at most 0 if it fits.
inline int64_t memory_deficit(int64_t peak_bytes, const Device& device) { return peak_bytes - device.memory_bytes; }

struct MemoryDeficit {
  DeviceId device;    // the device that lacks most, the first of equals; if none lacks memory, the fullest
  int64_t bytes = 0;  // its peak less its memory; if at most 0, the plan fits
  bool fits() const { return bytes <= 0; }
};

// Finds the device that lacks most memory, hosts included: ops may run on them. `peak_bytes` is by device, of the
// compute devices at least; 0 for devices that nobody looked at.
MemoryDeficit memory_deficit(const std::vector<int64_t>& peak_bytes, const Cluster& cluster);

}  // namespace partita
