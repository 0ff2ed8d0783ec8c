// Finds the device that lacks most memory.
#include "partita/cluster/memory_deficit.h"

#include "partita/base/error.h"

namespace partita {

MemoryDeficit memory_deficit(const std::vector<int64_t>& peak_bytes, const Cluster& cluster) {
  ensure(peak_bytes.size() >= static_cast<size_t>(cluster.compute_count), "peaks of {} devices, of {} that compute",
         peak_bytes.size(), cluster.compute_count);
  MemoryDeficit most;
  for (int d = 0; d < cluster.compute_count; ++d) {
    const auto i = static_cast<size_t>(d);
    const int64_t bytes = peak_bytes[i] - cluster.devices[i].memory_bytes;
    if (!most.device.valid() || bytes > most.bytes) most = {DeviceId(i), bytes};
  }
  return most;
}

}  // namespace partita
