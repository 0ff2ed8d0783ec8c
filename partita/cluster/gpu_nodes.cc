// Nodes of 8 GPUs behind NVLink switches: figures from the data sheets, and what their collective library takes.
#include "partita/cluster/gpu_nodes.h"

#include <fmt/format.h>

namespace partita {

namespace {

// Where the rows of `collectives` are from. The formulas are those of NCCL 2.30's own model (cost/collective.h), and so
// are the hops of trees, 0.6, 1.25 and 4.0 us, those between nodes, 2.7, 4 and 14 us (ring), 5, 8.5 and 14 us (tree),
// and a tree's bandwidth of 0.92 of a ring's. That model chooses; it is off in what small and medium calls take. So
// launch_us, hop_us and bandwidth of rings, pairs and NVLS are fitted to published times, one set for an architecture:
// nccl-tests on 2, 4 and 8 GPUs of HGX nodes (NVIDIA's aiconfigurator, 512 B to 512 MB; A100 with NCCL 2.27, H100 and
// B200 with 2.23 and 2.29), 8 H100 (NVIDIA's dgxc-benchmarking, AWS's and Azure's guides, 8 B to 16 GB), and 16 H100
// and B200 on two nodes (dstack's documentation). docs/cluster.md has the errors. NVLS begins with 5 H100 and 6 B200.
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

// Where the figures of kernels are from (cost/kernel.h). Multiprocessors: NVIDIA's architecture white papers. Clock:
// the one that the data sheet's peak of matrix products belongs to. reached, launch_overhead_us and fused_attention:
// fitted to published times, and rounded; docs/cluster.md has the errors. Products in bfloat16 and float16 and
// attention of H100, H200, B200 and A100 are NVIDIA's aiconfigurator's, beside DeepGEMM's, Azure's benchmarking guides'
// and Stas Bekman's; memory is gpu-benches' and BabelStream's. fused_attention is of the kernel that a training step
// has on the architecture: FlashAttention 2 (A100), 3 (H100, H200), 4 (B200). No times of products in float32 and
// float64 were found for A100 and later: their parts are nominal. sustained and beside_collectives are fitted to whole
// published steps, one set for a device type (docs/training.md has rows and errors); B200 has no rows, and none.

// NVIDIA A100 data sheet: 9.7, 19.5 and, with tensor cores, 312 TFLOP/s; 40 GB at 1,555 or 80 GB at 2,039 GB/s; NVLink
// of 600 GB/s, both directions together.
constexpr std::string_view kA100 = R"(
  A100:
    kind: gpu
    peak_tflop_per_s: {float32: 19.5, float64: 9.7, float16: 312, bfloat16: 312}
    memory_gibytes: {memory}       # of {sold}; docs/cluster.md
    memory_bandwidth_gbytes_per_s: {bandwidth}
    efficiency: 0.7          # nominal; of what `reached` does not name
    multiprocessors: 108
    clock_ghz: 1.41
    reached: {float32: 0.9, float64: 0.9, float16: 0.87, bfloat16: 0.87, memory: {reached}}
    fused_attention: 1.0
    sustained: 0.9
    beside_collectives: 0.7
    launch_overhead_us: 4.5
)";

// NVIDIA H100 SXM5 specification: 80 GB at 3.35 TB/s; 34, 67 and, with tensor cores, 989 TFLOP/s, half of what it gives
// for sparse matrices; NVLink of 900 GB/s, both directions together.
constexpr std::string_view kH100 = R"(
  H100:
    kind: gpu
    peak_tflop_per_s: {float32: 67, float64: 34, float16: 989, bfloat16: 989}
    memory_gibytes: 78       # of 80; docs/cluster.md
    memory_bandwidth_gbytes_per_s: 3350
    efficiency: 0.7          # nominal; of what `reached` does not name
    multiprocessors: 132
    clock_ghz: 1.83
    reached: {float32: 0.85, float64: 0.85, float16: 0.82, bfloat16: 0.82, memory: 0.88}
    fused_attention: 1.05
    sustained: 0.75
    beside_collectives: 0.6
    unaligned: {2: 0.17, 4: 0.3}
    launch_overhead_us: 3
)";

// NVIDIA H200 data sheet: H100 with 141 GB at 4.8 TB/s.
constexpr std::string_view kH200 = R"(
  H200:
    kind: gpu
    peak_tflop_per_s: {float32: 67, float64: 34, float16: 989, bfloat16: 989}
    memory: 141GB
    memory_bandwidth_gbytes_per_s: 4800
    efficiency: 0.7          # nominal; of what `reached` does not name
    multiprocessors: 132
    clock_ghz: 1.83
    reached: {float32: 0.85, float64: 0.85, float16: 0.82, bfloat16: 0.82, memory: 0.87}
    fused_attention: 1.05
    sustained: 0.95
    beside_collectives: 0.6
    unaligned: {2: 0.17, 4: 0.3}
    launch_overhead_us: 3
)";

// NVIDIA DGX B200 data sheet, an eighth of it: 180 GB at 8 TB/s; 2,250 TFLOP/s in bfloat16, half of what it gives for
// sparse matrices; 75 in float32 and 37 in float64 (HGX B200); NVLink of 1.8 TB/s, both directions together.
constexpr std::string_view kB200 = R"(
  B200:
    kind: gpu
    peak_tflop_per_s: {float32: 75, float64: 37, float16: 2250, bfloat16: 2250}
    memory: 180GB
    memory_bandwidth_gbytes_per_s: 8000
    efficiency: 0.7          # nominal; of what `reached` does not name
    multiprocessors: 148
    clock_ghz: 1.86
    reached: {float32: 0.85, float64: 0.85, float16: 0.74, bfloat16: 0.74, memory: 0.82}
    fused_attention: 1.2
    launch_overhead_us: 3
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

std::string put(std::string_view template_text, std::string_view hole, std::string_view value) {
  std::string text(template_text);
  for (size_t at; (at = text.find(hole)) != std::string::npos;) text.replace(at, hole.size(), value);
  return text;
}

std::string a100(std::string_view sold, std::string_view gibytes, std::string_view gbytes_per_s,
                 std::string_view reached) {
  const std::string memory = put(put(kA100, "{sold}", sold), "{memory}", gibytes);
  return put(put(memory, "{bandwidth}", gbytes_per_s), "{reached}", reached);
}

}  // namespace

// V100 has no public table of times; A100's are taken. Rings over the hybrid cube mesh of a DGX-1, six wires of 25 GB/s
// a GPU, measured 129 GB/s at 128 MiB.
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
//   NVIDIA DGX A100, H100 and B200 user guides: a ConnectX port of 200 (A100) or 400 Gb/s a GPU, PCIe 4 or 5 x16; two
//   EPYC 7742 and 1 TB, Xeon 8480C or 8570 and 2 TB. DGX H200 is DGX H100 but for its GPUs;
//   Amazon EC2: p4d.24xlarge has 8 A100 of 40 GB, 96 virtual cores of Xeon 8275CL, 1,152 GiB, 400 Gb/s of EFA in all;
//   p5.48xlarge has 8 H100 of 80 GB, 192 virtual cores of EPYC 7R13, 2 TiB, 3,200 Gb/s of EFA.
// Latencies from node to node, half on either side: of 8 bytes' all-reduce on two nodes of 8 (the library's own hops
// left out). InfiniBand: 30 us with H100, 36 with B200; EFA: 164 us with A100, 69 with H100.
const std::vector<GpuNodes>& gpu_nodes() {
  constexpr double kInfiniBandUs = 1.75;
  static const std::vector<GpuNodes> kNodes = {
      {"dgx-a100", "8 A100 of 80 GB on NVLink; dgx-a100:N is N nodes, joined by InfiniBand", "A100",
       a100("80", "78", "2039", "0.85"), kAmpereLibrary, "EPYC-7742", kEpyc7742, 300, 25, kInfiniBandUs, 28},
      {"dgx-a100-40gb", "the same with 40 GB", "A100", a100("40", "38", "1555", "0.9"), kAmpereLibrary, "EPYC-7742",
       kEpyc7742, 300, 25, kInfiniBandUs, 28},
      {"dgx-h100", "8 H100 on NVLink; dgx-h100:N is N nodes, joined by InfiniBand", "H100", std::string(kH100),
       kHopperLibrary, "Xeon-8480C", kXeon8480, 450, 50, kInfiniBandUs, 55},
      {"dgx-h200", "8 H200 likewise; dgx-h200:N", "H200", std::string(kH200), kHopperLibrary, "Xeon-8480C", kXeon8480,
       450, 50, kInfiniBandUs, 55},
      {"dgx-b200", "8 B200 likewise; dgx-b200:N", "B200", std::string(kB200), kBlackwellLibrary, "Xeon-8570", kXeon8570,
       900, 50, kInfiniBandUs, 55},
      {"p4d", "Amazon EC2: 8 A100 of 40 GB; p4d:N is N nodes on EFA", "A100", a100("40", "38", "1555", "0.9"),
       kAmpereLibrary, "Xeon-8275CL", kXeon8275, 300, 6.25, 34, 14},
      {"p5", "Amazon EC2: 8 H100; p5:N is N nodes on EFA", "H100", std::string(kH100), kHopperLibrary, "EPYC-7R13",
       kEpyc7R13, 450, 50, 11.5, 55},
  };
  return kNodes;
}

std::string yaml_of(const GpuNodes& nodes, std::string_view reference, int count) {
  return fmt::format(
      R"(name: {}
device_types:{}    collectives:  # of NCCL, fitted to published times; docs/cluster.md{}{}topology:
  link: {{bandwidth_gbytes_per_s: {}, latency_us: {}, per_device: true}}  # the network
  children:
    - name: node
      count: {}
      link: {{bandwidth_gbytes_per_s: {}, latency_us: 1}}  # NVLink
      host: {{type: {}, link: {{bandwidth_gbytes_per_s: {}, latency_us: 5, per_device: true}}}}  # PCIe
      children:
        - {{name: gpu, count: {}, type: {}}}
)",
      reference, nodes.types, nodes.library, nodes.host_types, nodes.network_gbytes_per_s, nodes.network_latency_us,
      count, nodes.nvlink_gbytes_per_s, nodes.host, nodes.pcie_gbytes_per_s, kGpusOfNode, nodes.type);
}

}  // namespace partita
