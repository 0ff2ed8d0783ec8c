#include "partita/cluster/presets.h"

#include <charconv>

#include "partita/base/error.h"
#include "partita/cluster/cluster.h"

namespace partita {

namespace {

// Tofu section 7.1 (8 K80s of 12 GB, 21 GB/s peer to peer, which SoyBean section 6.1 says is both directions together,
// 10 GB/s between CPU and GPU, 488 GB of host memory); FlexFlow figure 6b (the two halves of a board share a PCIe switch,
// the boards another); NVIDIA's K80 board specification, halved (8.73 and 2.91 TFLOP/s at boost clock, 480 GB/s).
constexpr std::string_view kP2 = R"(name: p2.8xlarge
device_types:
  K80:  # one of the two GK210 of a board
    kind: gpu
    peak_tflop_per_s: {float32: 4.37, float64: 1.46}
    memory_gibytes: 12
    memory_bandwidth_gbytes_per_s: 240
    efficiency: 0.6        # nominal
    launch_overhead_us: 5  # nominal
  E5-2686v4:  # 32 virtual cores: 16 cores, 2.3 GHz, 32 float32 operations a cycle
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

// NVIDIA DGX H100 data sheet and H100 SXM5 specification: 80 GB at 3.35 TB/s, 67 and 34 TFLOP/s without tensor cores, 989 in
// float16 and bfloat16 with them (half the figure that it gives for sparse matrices), NVLink
// of 900 GB/s both directions together, one 400 Gb/s InfiniBand port a GPU, PCIe 5 x16, 2 TB of host memory.
constexpr std::string_view kDgx = R"(name: {name}
device_types:
  H100:
    kind: gpu
    peak_tflop_per_s: {float32: 67, float64: 34, float16: 989, bfloat16: 989}
    memory_gibytes: 80
    memory_bandwidth_gbytes_per_s: 3350
    efficiency: 0.7        # nominal
    launch_overhead_us: 4  # nominal
  Xeon-8480C:  # two of 56 cores, 2.0 GHz, 64 float32 operations a cycle
    kind: cpu
    peak_tflop_per_s: {float32: 14.3, float64: 7.2}
    memory_gibytes: 2048
    memory_bandwidth_gbytes_per_s: 614
    efficiency: 0.6
    launch_overhead_us: 1
topology:
  link: {bandwidth_gbytes_per_s: 50, latency_us: 3, per_device: true}  # InfiniBand
  children:
    - name: node
      count: {count}
      link: {bandwidth_gbytes_per_s: 450, latency_us: 1}  # NVLink
      host: {type: Xeon-8480C, link: {bandwidth_gbytes_per_s: 55, latency_us: 5, per_device: true}}  # PCIe
      children:
        - {name: gpu, count: 8, type: H100}
)";

// Nominal figures, the same on every machine, so that plans are; `partita profile` is there to measure.
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

std::string fill(std::string_view text, std::string_view name, int count) {
  std::string out(text);
  auto put = [&](std::string_view hole, const std::string& value) {
    for (size_t at; (at = out.find(hole)) != std::string::npos;) out.replace(at, hole.size(), value);
  };
  put("{name}", std::string(name));
  put("{count}", std::to_string(count));
  return out;
}

}  // namespace

std::optional<std::string> preset_text(std::string_view reference) {
  size_t colon = reference.find(':');
  std::string_view base = reference.substr(0, colon);
  if (base != "p2.8xlarge" && base != "dgx-h100" && base != "local") return std::nullopt;
  int count = 1;
  if (colon != std::string_view::npos) {
    std::string_view digits = reference.substr(colon + 1);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    if (error != std::errc() || end != digits.data() + digits.size() || count < 1 || count > 1024)
      fail("cluster '{}': '{}' is not a count from 1 to 1024; write for example {}:4", reference, digits, base);
  }
  if (base == "p2.8xlarge") {
    if (colon != std::string_view::npos)
      fail("cluster '{}': p2.8xlarge takes no count; use --devices to keep fewer than its 8 devices", reference);
    return std::string(kP2);
  }
  if (base == "dgx-h100") return fill(kDgx, reference, count);
  if (colon == std::string_view::npos) fail("cluster 'local' needs a number of devices; write for example local:4");
  return fill(kLocal, reference, count);
}

std::vector<ClusterPreset> cluster_presets() {
  return {{"p2.8xlarge", "Amazon EC2: 8 K80 halves, 2 a board, on PCIe switches (Tofu's and SoyBean's machine)"},
          {"dgx-h100", "8 H100 on NVLink; dgx-h100:N is N nodes, joined by InfiniBand"},
          {"local:N", "N devices on this machine, with nominal figures"}};
}

}  // namespace partita
