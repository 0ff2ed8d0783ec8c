// Finds the device that lacks most memory.
#include "partita/cluster/memory_deficit.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita {

MemoryDeficit memory_deficit(const std::vector<int64_t>& peak_bytes, const Cluster& cluster) {
  ensure(peak_bytes.size() >= static_cast<size_t>(cluster.compute_count), "peaks of {} devices, of {} that compute",
         peak_bytes.size(), cluster.compute_count);
  MemoryDeficit most;
  for (size_t i = 0; i < std::min(peak_bytes.size(), cluster.devices.size()); ++i) {
    const int64_t bytes = memory_deficit(peak_bytes[i], cluster.devices[i]);
    if (!most.device.valid() || bytes > most.bytes) most = {DeviceId(i), bytes};
  }
  return most;
}

}  // namespace partita
