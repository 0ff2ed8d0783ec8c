// Writes the built-in clusters as YAML, with figures from the data sheets and papers that are named.
#include "partita/cluster/presets.h"

#include <charconv>
#include <sstream>

#include "partita/base/error.h"
#include "partita/cluster/cluster.h"
#include "partita/cluster/gpu_nodes.h"
#include "partita/cluster/gpus.h"

namespace partita {

namespace {

// Sources:
//   Tofu section 7.1: 8 K80s of 12 GB, 21 GB/s peer to peer, 10 GB/s between CPU and GPU, 488 GB of host memory;
//   SoyBean section 6.1: the 21 GB/s are both directions together;
//   FlexFlow figure 6b: the two halves of a board share a PCIe switch, the boards another.
constexpr std::string_view kP2 = R"(name: p2.8xlarge
device_types:
{K80}  E5-2686v4:  # 32 virtual cores: 16 cores, 2.3 GHz, 32 float32 operations a cycle
    kind: cpu
    peak_tflop_per_s: {float32: 1.18, float64: 0.59}
    memory_gibytes: 488
    memory_bandwidth_gbytes_per_s: 77
    efficiency: 0.6
    launch_overhead_us: 1
topology:
  link: {bandwidth_gbytes_per_s: 10, latency_us: 5}
  host: {type: E5-2686v4, link: {bandwidth_gbytes_per_s: 10, latency_us: 5}}
  children:
    - name: board
      count: 4
      link: {bandwidth_gbytes_per_s: 10.5, latency_us: 5}
      children:
        - {name: gpu, count: 2, type: K80}
)";

// Sources:
//   FlexFlow section 8.1 and figure 6a: 4 nodes of two 10-core E5-2600 CPUs, 256 GB and four P100; NVLink in a node,
//   InfiniBand EDR between nodes: 100 Gb/s, where the paper prints GB/s;
//   NVIDIA's Tesla P100 white paper: links of 20 GB/s each way, four GPUs joined one link a pair.
// PCIe 3 x16 has 15.75 GB/s. The paper does not name the CPU; E5-2640 v4 is assumed: 20 cores, 2.4 GHz, 32 float32
// operations a cycle, 68.3 GB/s a socket.
constexpr std::string_view kFlexFlowP100 = R"(name: flexflow-p100
device_types:
{P100}  E5-2640v4:
    kind: cpu
    peak_tflop_per_s: {float32: 1.54, float64: 0.77}
    memory_gibytes: 256
    memory_bandwidth_gbytes_per_s: 136.6
    efficiency: 0.6
    launch_overhead_us: 1
topology:
  link: {bandwidth_gbytes_per_s: 12.5, latency_us: 2}  # InfiniBand, one port a node
  children:
    - name: node
      count: 4
      link: {bandwidth_gbytes_per_s: 15.75, latency_us: 5}  # PCIe
      host: {type: E5-2640v4, link: {bandwidth_gbytes_per_s: 15.75, latency_us: 5}}
      children:
        - {name: gpu, count: 4, type: P100}
links:  # NVLink
)";

// Source: FlexFlow section 8.1 and figure 6b.
//   16 nodes of two 10-core E5-2680 CPUs, 256 GB and four K80;
//   adjacent GPUs on a PCIe switch of their own, all four on another that they share;
//   InfiniBand between nodes: 56 Gb/s, where the paper prints GB/s.
// The GPU is half a board, as in p2.8xlarge. PCIe 3 x16 has 15.75 GB/s. E5-2680 v2: 20 cores, 2.8 GHz, 16 float32
// operations a cycle, 59.7 GB/s a socket.
constexpr std::string_view kFlexFlowK80 = R"(name: flexflow-k80
device_types:
{K80}  E5-2680v2:
    kind: cpu
    peak_tflop_per_s: {float32: 0.9, float64: 0.45}
    memory_gibytes: 256
    memory_bandwidth_gbytes_per_s: 119.4
    efficiency: 0.6
    launch_overhead_us: 1
topology:
  link: {bandwidth_gbytes_per_s: 7, latency_us: 2}  # InfiniBand, one port a node
  children:
    - name: node
      count: 16
      link: {bandwidth_gbytes_per_s: 15.75, latency_us: 5}
      host: {type: E5-2680v2, link: {bandwidth_gbytes_per_s: 15.75, latency_us: 5}}
      children:
        - name: board
          count: 2
          link: {bandwidth_gbytes_per_s: 15.75, latency_us: 5}
          children:
            - {name: gpu, count: 2, type: K80}
)";

// Sources:
//   NVIDIA's DGX-1 with Tesla V100 system architecture white paper: two E5-2698 v4 joined by two QPI links of 19.2 GB/s
//   each way, two PCIe 3 x16 switches a socket, two GPUs a switch;
//   each CPU: 20 cores, 2.2 GHz, 32 float32 operations a cycle, 76.8 GB/s; 512 GB together;
//   Tesla V100 SXM2 data sheet: NVLinks of 25 GB/s each way.
// The two sockets are one host here.
constexpr std::string_view kDgx1 = R"(name: {name}
device_types:
{V100}    collectives:{library}  E5-2698v4:
    kind: cpu
    peak_tflop_per_s: {float32: 2.82, float64: 1.41}
    memory_gibytes: 512
    memory_bandwidth_gbytes_per_s: 153.6
    efficiency: 0.6
    launch_overhead_us: 1
topology:
  link: {bandwidth_gbytes_per_s: 38.4, latency_us: 1}  # QPI
  host: {type: E5-2698v4, link: {bandwidth_gbytes_per_s: 63, latency_us: 1}}  # four PCIe links
  children:
    - name: socket
      count: 2
      link: {bandwidth_gbytes_per_s: 15.75, latency_us: 5}
      children:
        - name: switch
          count: 2
          link: {bandwidth_gbytes_per_s: 15.75, latency_us: 5}
          children:
            - {name: gpu, count: 2, type: V100}
links:  # NVLink, the hybrid cube mesh: one or two links a pair
)";

// OneFlow section 6: 4 machines, each with 8 V100 of 16 GB "interconnected with NVLink", on a 100 Gb/s RoCE network.
// The paper says no more of a machine; a DGX-1 is assumed (above), whose ports are one here.
constexpr std::string_view kOneFlowNodes = R"(topology:
  link: {bandwidth_gbytes_per_s: 12.5, latency_us: 3}  # RoCE, one port a node
  children:
    - name: node
      count: 4
)";

// Nominal figures: the same on every machine, so that plans are the same everywhere.
constexpr std::string_view kLocal = R"(name: local:{count}
device_types:
  core:
    kind: cpu
    peak_tflop_per_s: {float32: 0.05, float64: 0.025}
    memory_gibytes: 4
    memory_bandwidth_gbytes_per_s: 10
    efficiency: 0.8
    launch_overhead_us: 2
topology:
  link: {bandwidth_gbytes_per_s: 8, latency_us: 5}
  children:
    - {name: cpu, count: {count}, type: core}
)";

std::string fill_hole(std::string text, std::string_view hole, std::string_view value) {
  for (size_t at; (at = text.find(hole)) != std::string::npos;) text.replace(at, hole.size(), value);
  return text;
}

std::string wire(const std::string& a, const std::string& b, int gbytes_per_s) {
  return fmt::format("  - {{between: [{}, {}], bandwidth_gbytes_per_s: {}, latency_us: 1}}\n", a, b, gbytes_per_s);
}

std::string flexflow_p100() {
  std::string out = fill_hole(std::string(kFlexFlowP100), "{P100}", yaml_of(kP100));
  for (int node = 0; node < 4; ++node)
    for (int a = 0; a < 4; ++a)
      for (int b = a + 1; b < 4; ++b)
        out += wire(fmt::format("node{}.gpu{}", node, a), fmt::format("node{}.gpu{}", node, b), 20);
  return out;
}

// The NVLinks of a DGX-1 whose GPUs' names begin with `node`.
std::string hybrid_cube_mesh(const std::string& node) {
  // Links between GPUs a and b: the white paper's figure of the topology, as `nvidia-smi topo -m` prints it. Six a GPU.
  struct {
    int a, b, links;
  } constexpr kMesh[] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
                         {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
  auto gpu = [&](int i) { return fmt::format("{}socket{}.switch{}.gpu{}", node, i / 4, i / 2 % 2, i % 2); };
  std::string out;
  for (const auto& pair : kMesh) out += wire(gpu(pair.a), gpu(pair.b), 25 * pair.links);
  return out;
}

// Fills the holes of a part of kDgx1.
std::string dgx1_part(std::string_view part, std::string_view name, const Gpu& gpu) {
  return fill_hole(fill_hole(fill_hole(std::string(part), "{name}", name), "{V100}", yaml_of(gpu)), "{library}",
                   kVoltaLibrary);
}

std::string dgx1(std::string_view name, const Gpu& gpu) { return dgx1_part(kDgx1, name, gpu) + hybrid_cube_mesh(""); }

// Device types and links are those of dgx1(); each node holds the contents of its topology.
std::string oneflow_v100(std::string_view name) {
  constexpr std::string_view kTopology = "topology:\n";
  const size_t topology = kDgx1.find(kTopology), links = kDgx1.find("links:");
  std::string out = dgx1_part(kDgx1.substr(0, topology), name, kV100);
  out += kOneFlowNodes;
  std::istringstream inside(
      std::string(kDgx1.substr(topology + kTopology.size(), links - topology - kTopology.size())));
  for (std::string line; std::getline(inside, line);) out += "    " + line + "\n";
  out += kDgx1.substr(links);
  for (int node = 0; node < 4; ++node) out += hybrid_cube_mesh(fmt::format("node{}.", node));
  return out;
}

const GpuNodes* nodes_named(std::string_view name) {
  for (const GpuNodes& nodes : gpu_nodes())
    if (nodes.name == name) return &nodes;
  return nullptr;
}

// The presets that take no count.
std::optional<std::string> fixed_preset(std::string_view name) {
  if (name == "p2.8xlarge") return fill_hole(std::string(kP2), "{K80}", yaml_of(kK80));
  if (name == "flexflow-p100") return flexflow_p100();
  if (name == "flexflow-k80") return fill_hole(std::string(kFlexFlowK80), "{K80}", yaml_of(kK80));
  if (name == "dgx-1") return dgx1(name, kV100);
  if (name == "dgx-1-32gb") return dgx1(name, kV100Of32);
  if (name == "oneflow-v100") return oneflow_v100(name);
  return std::nullopt;
}

}  // namespace

std::string one_cluster_hint(std::string_view reference) {
  const bool several = reference.find(',') != std::string_view::npos;
  return several ? "; a command takes one cluster: give each by a command of its own" : "";
}

std::optional<std::string> preset_text(std::string_view reference) {
  size_t colon = reference.find(':');
  std::string_view base = reference.substr(0, colon);
  std::optional<std::string> fixed = fixed_preset(base);
  if (fixed && colon != std::string_view::npos)
    fail("cluster '{}': {} takes no count; use --devices to keep fewer devices", reference, base);
  if (fixed) return fixed;
  const GpuNodes* nodes = nodes_named(base);
  if (!nodes && base != "local") return std::nullopt;
  int count = 1;
  if (colon != std::string_view::npos) {
    std::string_view digits = reference.substr(colon + 1);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    if (error != std::errc() || end != digits.data() + digits.size() || count < 1 || count > kMostDevices)
      fail("cluster '{}': '{}' is not a count from 1 to {}; write for example {}:4{}", reference, digits, kMostDevices,
           base, one_cluster_hint(reference));
  }
  if (nodes) return yaml_of(*nodes, reference, count);
  if (colon == std::string_view::npos) fail("cluster 'local' needs a number of devices; write for example local:4");
  return fill_hole(std::string(kLocal), "{count}", std::to_string(count));
}

std::optional<std::string> preset_of_size(std::string_view reference, int devices) {
  const std::string_view base = reference.substr(0, reference.find(':'));
  const GpuNodes* nodes = nodes_named(base);
  const int each = nodes ? kGpusOfNode : 1;
  if ((!nodes && base != "local") || devices > kMostDevices / 2) return std::nullopt;
  return fmt::format("{}:{}", base, (devices + each - 1) / each);
}

std::vector<ClusterPreset> cluster_presets() {
  std::vector<ClusterPreset> presets = {
      {"p2.8xlarge", "Amazon EC2: 8 K80 halves, 2 a board, on PCIe switches (Tofu's and SoyBean's machine)"},
      {"flexflow-p100", "4 nodes of 4 P100 on NVLink, 100 Gb/s InfiniBand (FlexFlow's)"},
      {"flexflow-k80", "16 nodes of 4 K80 halves on PCIe switches, 56 Gb/s InfiniBand (FlexFlow's)"},
      {"dgx-1", "8 V100 of 16 GB in NVLink's hybrid cube mesh"},
      {"dgx-1-32gb", "the same with 32 GB"},
      {"oneflow-v100", "4 nodes like dgx-1, 100 Gb/s RoCE between them (OneFlow's)"}};
  for (const GpuNodes& nodes : gpu_nodes()) presets.push_back({std::string(nodes.name), std::string(nodes.summary)});
  presets.push_back({"local:N", "N devices on this machine, with nominal figures"});
  return presets;
}

}  // namespace partita
