// Offers the presets of nodes of 8 GPUs behind NVLink switches, in any number of nodes. Internal to cluster/.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "partita/cluster/gpus.h"

namespace partita {

// A kind of node. The preset "dgx-h100" is one such node, dgx-h100:N is N of them.
struct GpuNodes {
  std::string_view name, summary;
  const Gpu* gpu;
  std::string_view library, host, host_types;
  double nvlink_gbytes_per_s, network_gbytes_per_s;
  double network_latency_us;  // of each of the two links from node to node
  double pcie_gbytes_per_s;
};

const std::vector<GpuNodes>& gpu_nodes();
// Writes the cluster file of `count` of these nodes; the cluster's name is the reference.
std::string yaml_of(const GpuNodes& nodes, std::string_view reference, int count);

// The collectives of V100 on NVLink: rows of a device type, indented as such.
extern const std::string_view kVoltaLibrary;

inline constexpr int kGpusOfNode = 8;

}  // namespace partita
