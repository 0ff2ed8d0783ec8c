// Lists the presets of nodes of 8 GPUs behind NVLink switches: their links, hosts and collective libraries.
#include "partita/cluster/gpu_nodes.h"

#include <fmt/format.h>

namespace partita {

namespace {

// Sources of `collectives`. The formulas are those of NCCL 2.30's own model (cost/collective.h). So are the hops of
// trees, 0.6, 1.25 and 4.0 us, and the hops between nodes, 2.7, 4 and 14 us (ring), 5, 8.5 and 14 us (tree). So is a
// tree's bandwidth of 0.92 of a ring's. That model serves to choose an algorithm; its times of small and medium calls
// are off. Therefore launch_us, hop_us and bandwidth of rings, pairs and NVLS are fitted to published times, one set
// for an architecture: nccl-tests on 2, 4 and 8 GPUs of HGX nodes (NVIDIA's aiconfigurator, 512 B to 512 MB; A100 with
// NCCL 2.27, H100 and B200 with 2.23 and 2.29), 8 H100 (NVIDIA's dgxc-benchmarking, AWS's and Azure's guides, 8 B to 16
// GB), and 16 H100 and B200 on two nodes (dstack's documentation). docs/reference/cluster.md has the errors. NVLS
// begins with 5 H100 and 6 B200.
constexpr std::string_view kAmpereLibrary = R"(
      - {algorithm: ring, protocol: LL, launch_us: 8.2, hop_us: 0.85, network_hop_us: 2.7, bandwidth: 0.025, network_bandwidth: 0.033, own_part: 0.34}
      - {algorithm: ring, protocol: LL128, launch_us: 10, hop_us: 1, network_hop_us: 4, bandwidth: 0.32, network_bandwidth: 0.42, own_part: 0.34}
      - {algorithm: ring, protocol: Simple, launch_us: 28, hop_us: 3.7, network_hop_us: 14, bandwidth: 0.74, network_bandwidth: 0.96, own_part: 0.34}
      - {algorithm: tree, protocol: LL, launch_us: 8.2, hop_us: 0.6, network_hop_us: 5, bandwidth: 0.023, network_bandwidth: 0.033}
      - {algorithm: tree, protocol: LL128, launch_us: 10, hop_us: 1.25, network_hop_us: 8.5, bandwidth: 0.29, network_bandwidth: 0.42}
      - {algorithm: tree, protocol: Simple, launch_us: 28, hop_us: 4, network_hop_us: 14, bandwidth: 0.68, network_bandwidth: 0.96}
      - {algorithm: pairwise, protocol: LL128, launch_us: 12, hop_us: 0.3, network_hop_us: 4, bandwidth: 0.22, network_bandwidth: 0.5, own_part: 0.34}
      - {algorithm: pairwise, protocol: Simple, launch_us: 24, hop_us: 1, network_hop_us: 14, bandwidth: 0.69, network_bandwidth: 0.96, own_part: 0.34}
)";

constexpr std::string_view kHopperLibrary = R"(
      - {algorithm: ring, protocol: LL, launch_us: 5, hop_us: 0.73, network_hop_us: 2.7, bandwidth: 0.012, network_bandwidth: 0.014, own_part: 0.44}
      - {algorithm: ring, protocol: LL128, launch_us: 5.2, hop_us: 1, network_hop_us: 4, bandwidth: 0.36, network_bandwidth: 0.42, own_part: 0.44}
      - {algorithm: ring, protocol: Simple, launch_us: 17, hop_us: 1.4, network_hop_us: 14, bandwidth: 0.79, network_bandwidth: 0.92, own_part: 0.44}
      - {algorithm: tree, protocol: LL, launch_us: 5, hop_us: 0.6, network_hop_us: 5, bandwidth: 0.011, network_bandwidth: 0.014}
      - {algorithm: tree, protocol: LL128, launch_us: 5.2, hop_us: 1.25, network_hop_us: 8.5, bandwidth: 0.33, network_bandwidth: 0.42}
      - {algorithm: tree, protocol: Simple, launch_us: 17, hop_us: 4, network_hop_us: 14, bandwidth: 0.73, network_bandwidth: 0.92}
      - {algorithm: nvls, launch_us: 76, hop_us: 0, network_hop_us: 60, bandwidth: 0.6, network_bandwidth: 0.92, least_devices: 5}
      - {algorithm: pairwise, protocol: LL128, launch_us: 7, hop_us: 0.36, network_hop_us: 4, bandwidth: 0.27, network_bandwidth: 0.5, own_part: 0.44}
      - {algorithm: pairwise, protocol: Simple, launch_us: 11, hop_us: 1, network_hop_us: 14, bandwidth: 0.75, network_bandwidth: 0.92, own_part: 0.44}
)";

constexpr std::string_view kBlackwellLibrary = R"(
      - {algorithm: ring, protocol: LL, launch_us: 13, hop_us: 0.88, network_hop_us: 2.7, bandwidth: 0.038, network_bandwidth: 0.043, own_part: 0.7}
      - {algorithm: ring, protocol: LL128, launch_us: 8.6, hop_us: 1, network_hop_us: 4, bandwidth: 0.32, network_bandwidth: 0.36, own_part: 0.7}
      - {algorithm: ring, protocol: Simple, launch_us: 16, hop_us: 4.9, network_hop_us: 14, bandwidth: 0.82, network_bandwidth: 0.92, own_part: 0.7}
      - {algorithm: tree, protocol: LL, launch_us: 13, hop_us: 0.6, network_hop_us: 5, bandwidth: 0.035, network_bandwidth: 0.043}
      - {algorithm: tree, protocol: LL128, launch_us: 8.6, hop_us: 1.25, network_hop_us: 8.5, bandwidth: 0.29, network_bandwidth: 0.36}
      - {algorithm: tree, protocol: Simple, launch_us: 16, hop_us: 4, network_hop_us: 14, bandwidth: 0.75, network_bandwidth: 0.92}
      - {algorithm: nvls, launch_us: 74, hop_us: 0, network_hop_us: 60, bandwidth: 0.52, network_bandwidth: 0.92, least_devices: 6}
      - {algorithm: pairwise, protocol: LL128, launch_us: 9.4, hop_us: 0.38, network_hop_us: 4, bandwidth: 0.13, network_bandwidth: 0.5, own_part: 0.7}
      - {algorithm: pairwise, protocol: Simple, launch_us: 15, hop_us: 1, network_hop_us: 14, bandwidth: 0.65, network_bandwidth: 0.92, own_part: 0.7}
)";

// Hosts: cores x clock x operations of float32 a cycle; the memory channels of both sockets.
constexpr std::string_view kEpyc7742 = R"(  EPYC-7742:  # two of 64 cores, 2.25 GHz, 32 float32 operations a cycle
    kind: cpu
    peak_tflop_per_s: {float32: 9.2, float64: 4.6}
    memory_gibytes: 1024
    memory_bandwidth_gbytes_per_s: 409.6
    efficiency: 0.6
    launch_overhead_us: 1
)";
constexpr std::string_view kXeon8480 = R"(  Xeon-8480C:  # two of 56 cores, 2.0 GHz, 64 float32 operations a cycle
    kind: cpu
    peak_tflop_per_s: {float32: 14.3, float64: 7.2}
    memory_gibytes: 2048
    memory_bandwidth_gbytes_per_s: 614
    efficiency: 0.6
    launch_overhead_us: 1
)";
constexpr std::string_view kXeon8570 = R"(  Xeon-8570:  # two of 56 cores, 2.1 GHz, 64 float32 operations a cycle
    kind: cpu
    peak_tflop_per_s: {float32: 15.1, float64: 7.5}
    memory_gibytes: 2048
    memory_bandwidth_gbytes_per_s: 716.8
    efficiency: 0.6
    launch_overhead_us: 1
)";
constexpr std::string_view kXeon8275 = R"(  Xeon-8275CL:  # two of 24 cores, 3.0 GHz, 64 float32 operations a cycle
    kind: cpu
    peak_tflop_per_s: {float32: 9.2, float64: 4.6}
    memory_gibytes: 1152
    memory_bandwidth_gbytes_per_s: 281.6
    efficiency: 0.6
    launch_overhead_us: 1
)";
constexpr std::string_view kEpyc7R13 = R"(  EPYC-7R13:  # two of 48 cores, 2.65 GHz, 32 float32 operations a cycle
    kind: cpu
    peak_tflop_per_s: {float32: 8.1, float64: 4.1}
    memory_gibytes: 2048
    memory_bandwidth_gbytes_per_s: 409.6
    efficiency: 0.6
    launch_overhead_us: 1
)";

}  // namespace

// V100 has no public table of times, so A100's are used. Rings over the hybrid cube mesh of a DGX-1, six wires of 25
// GB/s a GPU, measured 129 GB/s at 128 MiB.
const std::string_view kVoltaLibrary = R"(
      - {algorithm: ring, protocol: LL, launch_us: 8.2, hop_us: 0.85, network_hop_us: 2.7, bandwidth: 0.03, network_bandwidth: 0.033, own_part: 0.34}
      - {algorithm: ring, protocol: LL128, launch_us: 10, hop_us: 1, network_hop_us: 4, bandwidth: 0.38, network_bandwidth: 0.42, own_part: 0.34}
      - {algorithm: ring, protocol: Simple, launch_us: 28, hop_us: 3.7, network_hop_us: 14, bandwidth: 0.88, network_bandwidth: 0.96, own_part: 0.34}
      - {algorithm: tree, protocol: LL, launch_us: 8.2, hop_us: 0.6, network_hop_us: 5, bandwidth: 0.028, network_bandwidth: 0.033}
      - {algorithm: tree, protocol: LL128, launch_us: 10, hop_us: 1.25, network_hop_us: 8.5, bandwidth: 0.35, network_bandwidth: 0.42}
      - {algorithm: tree, protocol: Simple, launch_us: 28, hop_us: 4, network_hop_us: 14, bandwidth: 0.81, network_bandwidth: 0.96}
      - {algorithm: pairwise, protocol: LL128, launch_us: 12, hop_us: 0.3, network_hop_us: 4, bandwidth: 0.26, network_bandwidth: 0.5, own_part: 0.34}
      - {algorithm: pairwise, protocol: Simple, launch_us: 24, hop_us: 1, network_hop_us: 14, bandwidth: 0.82, network_bandwidth: 0.96, own_part: 0.34}
)";

// Sources of the rest:
//   the data sheets of A100, H100 and B200: NVLink of 600, 900 and 1,800 GB/s, both directions together;
//   NVIDIA DGX A100, H100 and B200 user guides: a ConnectX port of 200 (A100) or 400 Gb/s a GPU, PCIe 4 or 5 x16; two
//   EPYC 7742 and 1 TB, Xeon 8480C or 8570 and 2 TB. DGX H200 is DGX H100 but for its GPUs;
//   Amazon EC2: p4d.24xlarge has 8 A100 of 40 GB, 96 virtual cores of Xeon 8275CL, 1,152 GiB, 400 Gb/s of EFA in all;
//   p5.48xlarge has 8 H100 of 80 GB, 192 virtual cores of EPYC 7R13, 2 TiB, 3,200 Gb/s of EFA.
// Latencies from node to node, half on either side, are those of an all-reduce of 8 bytes on two nodes of 8, less the
// library's own hops. InfiniBand: 30 us with H100, 36 with B200; EFA: 164 us with A100, 69 with H100.
const std::vector<GpuNodes>& gpu_nodes() {
  constexpr double kInfiniBandUs = 1.75;
  static const std::vector<GpuNodes> kNodes = {
      {"dgx-a100", "8 A100 of 80 GB on NVLink; dgx-a100:N is N nodes, joined by InfiniBand", &kA100, kAmpereLibrary,
       "EPYC-7742", kEpyc7742, 300, 25, kInfiniBandUs, 28},
      {"dgx-a100-40gb", "the same with 40 GB", &kA100Of40, kAmpereLibrary, "EPYC-7742", kEpyc7742, 300, 25,
       kInfiniBandUs, 28},
      {"dgx-h100", "8 H100 on NVLink; dgx-h100:N is N nodes, joined by InfiniBand", &kH100, kHopperLibrary,
       "Xeon-8480C", kXeon8480, 450, 50, kInfiniBandUs, 55},
      {"dgx-h200", "8 H200 likewise; dgx-h200:N", &kH200, kHopperLibrary, "Xeon-8480C", kXeon8480, 450, 50,
       kInfiniBandUs, 55},
      {"dgx-b200", "8 B200 likewise; dgx-b200:N", &kB200, kBlackwellLibrary, "Xeon-8570", kXeon8570, 900, 50,
       kInfiniBandUs, 55},
      {"p4d", "Amazon EC2: 8 A100 of 40 GB; p4d:N is N nodes on EFA", &kA100Of40, kAmpereLibrary, "Xeon-8275CL",
       kXeon8275, 300, 6.25, 34, 14},
      {"p5", "Amazon EC2: 8 H100; p5:N is N nodes on EFA", &kH100, kHopperLibrary, "EPYC-7R13", kEpyc7R13, 450, 50,
       11.5, 55},
  };
  return kNodes;
}

std::string yaml_of(const GpuNodes& nodes, std::string_view reference, int count) {
  return fmt::format(
      R"(name: {}
device_types:
{}    collectives:  # of NCCL, fitted to published times; docs/reference/cluster.md{}{}topology:
  link: {{bandwidth_gbytes_per_s: {}, latency_us: {}, per_device: true}}  # the network
  children:
    - name: node
      count: {}
      link: {{bandwidth_gbytes_per_s: {}, latency_us: 1}}  # NVLink
      host: {{type: {}, link: {{bandwidth_gbytes_per_s: {}, latency_us: 5, per_device: true}}}}  # PCIe
      children:
        - {{name: gpu, count: {}, type: {}}}
)",
      reference, yaml_of(*nodes.gpu), nodes.library, nodes.host_types, nodes.network_gbytes_per_s,
      nodes.network_latency_us, count, nodes.nvlink_gbytes_per_s, nodes.host, nodes.pcie_gbytes_per_s, kGpusOfNode,
      nodes.gpu->model);
}

}  // namespace partita
