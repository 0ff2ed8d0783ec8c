// Compares devices by the figures that determine times.
#include "partita/cluster/same_type.h"

namespace partita {

bool is_same_type(const Device& a, const Device& b) {
  return a.kind == b.kind && a.model == b.model && a.peak_flops_per_s == b.peak_flops_per_s &&
         a.memory_bandwidth_bytes_per_s == b.memory_bandwidth_bytes_per_s && a.efficiency == b.efficiency &&
         a.kernels == b.kernels && a.launch_overhead_us == b.launch_overhead_us && a.library == b.library;
}

}  // namespace partita
