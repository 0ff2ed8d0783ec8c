// Internal to cluster/: presets of nodes of 8 GPUs behind NVLink switches, which come in any number.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "partita/cluster/gpus.h"

namespace partita {

// As "dgx-h100": such a cluster in one node, and as dgx-h100:N in N.
struct GpuNodes {
  std::string_view name, summary;
  const Gpu* gpu;
  std::string_view library, host, host_types;
  double nvlink_gbytes_per_s, network_gbytes_per_s;
  double network_latency_us;  // of each of the two links from node to node
  double pcie_gbytes_per_s;
};

const std::vector<GpuNodes>& gpu_nodes();
// A cluster file of so many of these nodes, whose name is the reference.
std::string yaml_of(const GpuNodes& nodes, std::string_view reference, int count);

// The collectives of V100 on NVLink: rows of a device type, indented as such.
extern const std::string_view kVoltaLibrary;

inline constexpr int kGpusOfNode = 8;

}  // namespace partita
