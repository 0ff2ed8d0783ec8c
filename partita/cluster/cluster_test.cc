// Tests cluster files, presets, routes, bad input, and the order of devices.
#include "partita/cluster/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <numeric>
#include <set>
#include <sstream>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/cluster/presets.h"

namespace partita {

namespace {

std::string route_text(const Cluster& c, std::string_view from, std::string_view to) {
  std::string text;
  for (LinkId l : c.route(c.find_device(from), c.find_device(to))) text += (text.empty() ? "" : " ") + c.link(l).name;
  return text;
}

std::string names(const Cluster& c, const std::vector<DeviceId>& ids) {
  std::string text;
  for (DeviceId d : ids) text += (text.empty() ? "" : " ") + c.device(d).name;
  return text;
}

// A small valid file. Each line has its own number, so that errors can be located.
const std::string kSmall =
    "name: small\n"                                                             // 1
    "device_types:\n"                                                           // 2
    "  core:\n"                                                                 // 3
    "    kind: cpu\n"                                                           // 4
    "    peak_tflop_per_s: {float32: 1, float64: 0.5}\n"                        // 5
    "    memory_gibytes: 1.5\n"                                                 // 6
    "    memory_bandwidth_gbytes_per_s: 10\n"                                   // 7
    "    efficiency: 0.5\n"                                                     // 8
    "    launch_overhead_us: 0\n"                                               // 9
    "topology:\n"                                                               // 10
    "  link: {bandwidth_gbytes_per_s: 2, latency_us: 5}\n"                      // 11
    "  children:\n"                                                             // 12
    "    - {name: cpu, count: 3, type: core}\n"                                 // 13
    "links:\n"                                                                  // 14
    "  - {between: [cpu0, cpu1], bandwidth_gbytes_per_s: 4, latency_us: 1}\n";  // 15

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& yaml, int devices = 0) {
  try {
    parse_cluster(yaml, "f.yaml", devices);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kBadInput) << e.what();
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST(Cluster, FiguresAreReadInTheUnitsOfTheirKeys) {
  Cluster c = parse_cluster(kSmall, "f.yaml");
  ASSERT_EQ(c.compute_count, 3);
  ASSERT_EQ(c.devices.size(), 3u);
  const Device& d = c.devices[1];
  EXPECT_EQ(d.name, "cpu1");
  EXPECT_EQ(d.model, "core");
  EXPECT_EQ(d.host, DeviceId(1));
  EXPECT_DOUBLE_EQ(d.peak_flops_per_s.at(DType::kFloat32), 1e12);
  EXPECT_DOUBLE_EQ(d.peak_flops_per_s.at(DType::kFloat64), 5e11);
  EXPECT_DOUBLE_EQ(d.peak_flops_per_s.at(DType::kInt64), 1e12);
  EXPECT_EQ(d.memory_bytes, 3LL << 29);
  EXPECT_DOUBLE_EQ(d.memory_bandwidth_bytes_per_s, 1e10);
  EXPECT_EQ(c.text, kSmall);
}

TEST(Cluster, RoutesGoOverTheLowestCommonSwitchAndExplicitLinksReplaceThem) {
  Cluster c = parse_cluster(kSmall, "f.yaml");
  EXPECT_EQ(route_text(c, "cpu0", "cpu2"), "cpu0->top top->cpu2");
  EXPECT_EQ(route_text(c, "cpu0", "cpu1"), "cpu0=>cpu1");
  EXPECT_EQ(route_text(c, "cpu1", "cpu0"), "cpu1=>cpu0");
  EXPECT_DOUBLE_EQ(c.bandwidth(DeviceId(0), DeviceId(1)), 4e9);
  EXPECT_DOUBLE_EQ(c.latency_us(DeviceId(0), DeviceId(2)), 10);
  EXPECT_TRUE(std::isinf(c.bandwidth(DeviceId(2), DeviceId(2))));
  EXPECT_FALSE(c.narrowest(DeviceId(2), DeviceId(2)).valid());
  // Two transfers that end at one device share its down link.
  EXPECT_EQ(c.route(DeviceId(0), DeviceId(2)).back(), c.route(DeviceId(1), DeviceId(2)).back());
}

TEST(Cluster, PresetP2HasTwoHalvesABoard) {
  Cluster c = load_cluster("p2.8xlarge");
  ASSERT_EQ(c.compute_count, 8);
  ASSERT_EQ(c.devices.size(), 9u);
  EXPECT_EQ(c.devices[3].name, "board1.gpu1");
  EXPECT_NEAR(static_cast<double>(c.devices[3].memory_bytes), 10.17 * 0x1p30, 1);
  EXPECT_EQ(c.device(c.devices[3].host).name, "host");
  EXPECT_EQ(route_text(c, "board0.gpu0", "board0.gpu1"), "board0.gpu0->board0 board0->board0.gpu1");
  EXPECT_EQ(route_text(c, "board0.gpu0", "board2.gpu1"),
            "board0.gpu0->board0 board0->top top->board2 board2->board2.gpu1");
  EXPECT_EQ(route_text(c, "board0.gpu0", "host"), "board0.gpu0->board0 board0->top top->host");
  EXPECT_DOUBLE_EQ(c.bandwidth(DeviceId(0), DeviceId(1)), 10.5e9);
  EXPECT_DOUBLE_EQ(c.bandwidth(DeviceId(0), DeviceId(2)), 10e9);
  EXPECT_EQ(c.link(c.narrowest(DeviceId(0), DeviceId(2))).name, "board0->top");
}

TEST(Cluster, PresetDgxHasALevelInTheNodeAndOneBetweenNodes) {
  Cluster one = load_cluster("dgx-h100");
  EXPECT_EQ(one.compute_count, 8);
  EXPECT_EQ(one.name, "dgx-h100");
  Cluster c = load_cluster("dgx-h100:2");
  ASSERT_EQ(c.compute_count, 16);
  ASSERT_EQ(c.devices.size(), 18u);
  EXPECT_EQ(route_text(c, "node0.gpu1", "node0.gpu2"), "node0.gpu1->node0 node0->node0.gpu2");
  EXPECT_EQ(route_text(c, "node0.gpu1", "node1.gpu2"), "node0.gpu1->top top->node1.gpu2");
  EXPECT_EQ(route_text(c, "node0.gpu1", "node0.host"), "node0.gpu1->node0.host");
  EXPECT_EQ(route_text(c, "node1.host", "node1.gpu0"), "node1.host->node1.gpu0");
  EXPECT_EQ(route_text(c, "node0.host", "node1.gpu0"), "node0.host->top top->node1.gpu0");
  EXPECT_DOUBLE_EQ(c.bandwidth(DeviceId(0), DeviceId(7)), 450e9);
  EXPECT_DOUBLE_EQ(c.bandwidth(DeviceId(0), DeviceId(8)), 50e9);
  EXPECT_EQ(c.device(c.devices[12].host).name, "node1.host");
}

TEST(Cluster, PresetFlexFlowP100HasNvlinkInTheNodeAndOnePortBetween) {
  Cluster c = load_cluster("flexflow-p100");
  ASSERT_EQ(c.compute_count, 16);
  ASSERT_EQ(c.devices.size(), 20u);
  EXPECT_NEAR(static_cast<double>(c.devices[0].memory_bytes), 14.9 * 0x1p30, 1);
  EXPECT_EQ(route_text(c, "node3.gpu0", "node3.gpu3"), "node3.gpu0=>node3.gpu3");
  EXPECT_DOUBLE_EQ(c.bandwidth(DeviceId(12), DeviceId(15)), 20e9);
  EXPECT_EQ(route_text(c, "node0.gpu1", "node2.gpu0"), "node0.gpu1->node0 node0->top top->node2 node2->node2.gpu0");
  EXPECT_EQ(c.link(c.narrowest(DeviceId(1), DeviceId(8))).name, "node0->top");
  EXPECT_DOUBLE_EQ(c.bandwidth(DeviceId(1), DeviceId(8)), 100e9 / 8);  // 100 Gb/s
  EXPECT_EQ(c.device(c.devices[5].host).name, "node1.host");
  EXPECT_EQ(load_cluster("flexflow-p100", 6).devices.size(), 8u);  // links of those that are gone go too
}

TEST(Cluster, PresetFlexFlowK80HasASwitchForAdjacentGpus) {
  Cluster c = load_cluster("flexflow-k80");
  ASSERT_EQ(c.compute_count, 64);
  ASSERT_EQ(c.devices.size(), 80u);
  EXPECT_EQ(route_text(c, "node1.board0.gpu0", "node1.board0.gpu1"),
            "node1.board0.gpu0->node1.board0 node1.board0->node1.board0.gpu1");
  EXPECT_EQ(c.route(DeviceId(0), DeviceId(2)).size(), 4u);  // over the shared switch
  EXPECT_EQ(c.link(c.narrowest(DeviceId(0), DeviceId(4))).name, "node0->top");
  EXPECT_DOUBLE_EQ(c.bandwidth(DeviceId(0), DeviceId(63)), 56e9 / 8);  // 56 Gb/s
}

TEST(Cluster, PresetDgx1IsTheHybridCubeMesh) {
  Cluster c = load_cluster("dgx-1");
  ASSERT_EQ(c.compute_count, 8);
  EXPECT_NEAR(static_cast<double>(c.devices[7].memory_bytes), 14.78 * 0x1p30, 1);
  EXPECT_NEAR(static_cast<double>(load_cluster("dgx-1-32gb").devices[7].memory_bytes), 30.75 * 0x1p30, 1);
  for (int a = 0; a < 8; ++a) {
    double out = 0;  // of every GPU's own links: six of 25 GB/s
    int peers = 0;
    for (int b = 0; b < 8; ++b)
      if (c.route(DeviceId(a), DeviceId(b)).size() == 1) out += c.bandwidth(DeviceId(a), DeviceId(b)), ++peers;
    EXPECT_DOUBLE_EQ(out, 150e9) << a;
    EXPECT_EQ(peers, 4) << a;  // three in the quad, one across
    EXPECT_EQ(c.route(DeviceId(a), DeviceId((a + 4) % 8)).size(), 1u) << a;
  }
  EXPECT_EQ(c.link(c.narrowest(DeviceId(0), DeviceId(5))).name,
            "socket0.switch0.gpu0->socket0.switch0");  // no NVLink: PCIe and QPI
  EXPECT_EQ(c.device(c.devices[6].host).name, "host");
}

TEST(Cluster, PresetOfOneFlowIsFourSuchNodes) {
  const Cluster c = load_cluster("oneflow-v100");
  ASSERT_EQ(c.compute_count, 32);
  EXPECT_NEAR(static_cast<double>(c.devices[31].memory_bytes), 14.78 * 0x1p30, 1);
  for (int node = 0; node < 4; ++node)
    for (int a = 0; a < 8; ++a) {
      EXPECT_EQ(c.route(DeviceId(8 * node + a), DeviceId(8 * node + (a + 4) % 8)).size(), 1u) << node << " " << a;
      EXPECT_DOUBLE_EQ(c.bandwidth(DeviceId(8 * node + a), DeviceId((8 * node + a + 8) % 32)), 12.5e9);  // 100 Gb/s
    }
  EXPECT_EQ(c.link(c.narrowest(DeviceId(0), DeviceId(8))).name, "node0->top");
}

TEST(Cluster, FewerDevicesKeepTheHostsThatTheyNeedAndTheTextSaysSo) {
  Cluster c = load_cluster("dgx-h100:2", 6);
  EXPECT_EQ(c.compute_count, 6);
  ASSERT_EQ(c.devices.size(), 7u);
  EXPECT_EQ(c.devices[6].name, "node0.host");
  Cluster again = parse_cluster(c.text, "plan");
  EXPECT_EQ(again.text, c.text);
  EXPECT_EQ(again.compute_count, 6);
  EXPECT_EQ(again.links.size(), c.links.size());
  EXPECT_EQ(again.routes, c.routes);
  EXPECT_EQ(load_cluster("local:4", 3).compute_count, 3);
  EXPECT_NE(error_of(kSmall, 4).find("has 3 devices, 4 are asked for"), std::string::npos);
}

TEST(Cluster, SeveralInOneAreRefusedWithAWayOut) {
  for (const char* several : {"a.json,b.json", "dgx-1,dgx-a100"}) try {
      load_cluster(several);
      ADD_FAILURE() << several;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("takes one cluster: give each by a command of its own"), std::string::npos)
          << e.what();
    }
}

TEST(Cluster, PresetsAreListedAndUnknownOnesAreBadInput) {
  EXPECT_EQ(cluster_presets().size(), 14u);
  for (const ClusterPreset& p : cluster_presets())
    EXPECT_GT(load_cluster(p.name == "local:N" ? "local:5" : p.name).compute_count, 0);
  EXPECT_EQ(load_cluster("local:5").devices[4].kind, DeviceKind::kCpu);
  for (std::string bad :
       {"local", "local:0", "local:x", "local:4x", "p2.8xlarge:2", "dgx-1:2", "p3.8xlarge", "/nowhere.yaml"})
    EXPECT_THROW(load_cluster(bad), Error) << bad;
  try {
    load_cluster("p3.8xlarge");
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "cluster 'p3.8xlarge' is neither a file that can be read nor a preset (p2.8xlarge, flexflow-p100, "
                 "flexflow-k80, dgx-1, dgx-1-32gb, oneflow-v100, dgx-a100, dgx-a100-40gb, dgx-h100, dgx-h200, "
                 "dgx-b200, p4d, p5, "
                 "local:N)");
  }
}

TEST(Cluster, BadFilesGetOneErrorWithLineAndRemedy) {
  struct Case {
    std::string from, to, message;
  };
  const Case cases[] = {
      {"bandwidth_gbytes_per_s: 2", "bandwidth_gbps: 2",
       "f.yaml:11: topology: link: unknown key 'bandwidth_gbps'; did you mean 'bandwidth_gbytes_per_s'?"},
      {"bandwidth_gbytes_per_s: 2", "bandwith_gbytes_per_s: 2",
       "f.yaml:11: topology: link: unknown key 'bandwith_gbytes_per_s'; did you mean 'bandwidth_gbytes_per_s'?"},
      {"latency_us: 5", "latency_ms: 5",
       "f.yaml:11: topology: link: unknown key 'latency_ms'; did you mean 'latency_us'?"},
      {"latency_us: 5", "speed: 5",
       "f.yaml:11: topology: link: unknown key 'speed'; known are bandwidth_gbytes_per_s, latency_us, per_device"},
      {", latency_us: 5", "",
       "f.yaml:11: topology: link lacks 'latency_us'; add it (docs/reference/cluster.md has an example)"},
      {"latency_us: 5", "latency_us: 5us",
       "f.yaml:11: topology: link: latency_us is '5us', which is not a number; the unit stands in the key, give only "
       "the figure"},
      {"latency_us: 5", "latency_us: -5", "f.yaml:11: topology: link: latency_us is -5; it must be zero or more"},
      {"latency_us: 5", "latency_us: 1e15", "f.yaml:11: topology: link: latency_us is 1e15; it must be at most 1e+09"},
      {"bandwidth_gbytes_per_s: 2", "bandwidth_gbytes_per_s: 1e-308",
       "f.yaml:11: topology: link: bandwidth_gbytes_per_s is 1e-308; it must be from 1e-06 to 1e+12"},
      {"float64: 0.5", "float64: 1e300",
       "f.yaml:5: device type 'core': peak_tflop_per_s: float64 is 1e300; it must be from 1e-06 to 1e+12"},
      {"latency_us: 5", "latency_us: [5]", "f.yaml:11: topology: link: latency_us must be one number"},
      {"latency_us: 5", "latency_us: 5, latency_us: 6",
       "f.yaml:11: topology: link: 'latency_us' is given twice; remove one"},
      {"memory_gibytes: 1.5", "memory_gbytes: 1.5",
       "f.yaml:6: device type 'core': unknown key 'memory_gbytes'; did you mean 'memory_gibytes'?"},
      {"memory_gibytes: 1.5", "memory_gibytes: 8589934592",
       "f.yaml:6: device type 'core': memory_gibytes is 8589934592; the figure is in GiB, not bytes"},
      {"memory_gibytes: 1.5", "memory_gibytes: 80GB",
       "f.yaml:6: device type 'core': memory_gibytes is '80GB'; the unit stands in the key, give only the figure, or "
       "write memory: 80GB"},
      {"memory_gibytes: 1.5", "memory: 80",
       "f.yaml:6: device type 'core': memory is '80'; it takes a figure with its unit, as 80GB or 80GiB"},
      {"memory_gibytes: 1.5", "memory: 80XB",
       "f.yaml:6: device type 'core': memory is '80XB'; it takes a figure with its unit, as 80GB or 80GiB"},
      {"memory_gibytes: 1.5", "memory: 80GB\n    memory_gibytes: 80",
       "f.yaml:6: device type 'core': 'memory' and 'memory_gibytes' are both given; remove one"},
      {"    memory_gibytes: 1.5\n", "",
       "f.yaml:4: device type 'core' lacks 'memory_gibytes'; add it (docs/reference/cluster.md has an example)"},
      {"float64: 0.5", "float8: 1",
       "f.yaml:5: device type 'core': peak_tflop_per_s: unknown key 'float8'; did you mean 'float32'?"},
      {"efficiency: 0.5", "efficiency: 50",
       "f.yaml:8: device type 'core': efficiency is 50; it is a fraction, at most 1"},
      {"efficiency: 0.5", "efficiency: 0.5\n    reached: {memory: 0.5}",
       "f.yaml:9: device type 'core': 'reached' says nothing without 'multiprocessors'; add that, or remove it"},
      {"efficiency: 0.5", "efficiency: 0.5\n    multiprocessors: 8",
       "f.yaml:9: device type 'core': 'multiprocessors' needs 'clock_ghz'; add it"},
      {"efficiency: 0.5", "efficiency: 0.5\n    multiprocessors: 8\n    clock_ghz: 1\n    reached: {memory: 85}",
       "f.yaml:11: device type 'core': reached: memory is 85; it is a fraction, at most 1"},
      {"efficiency: 0.5", "efficiency: 0.5\n    sustained: 0.5",
       "f.yaml:9: device type 'core': 'sustained' says nothing without 'multiprocessors'; add that, or remove it"},
      {"efficiency: 0.5", "efficiency: 0.5\n    multiprocessors: 8\n    clock_ghz: 1\n    sustained: 80",
       "f.yaml:11: device type 'core': sustained is 80; it is a fraction, at most 1"},
      {"efficiency: 0.5", "efficiency: 0.5\n    multiprocessors: 8\n    clock_ghz: 1\n    beside_collectives: 0",
       "f.yaml:11: device type 'core': beside_collectives is 0; it must be positive"},
      {"efficiency: 0.5", "efficiency: 0.5\n    validation: {runs: 1.5, low: 1, high: 2}",
       "f.yaml:9: device type 'core': validation: runs is 1.5; it must be a whole number"},
      {"efficiency: 0.5", "efficiency: 0.5\n    validation: {runs: 3, low: 2, high: 1}",
       "f.yaml:9: device type 'core': validation: low is 2, above high, 1"},
      {"efficiency: 0.5", "efficiency: 0.5\n    validation: {runs: 3, low: 2}",
       "f.yaml:9: device type 'core': validation lacks 'high'; add it (docs/reference/cluster.md has an example)"},
      {"efficiency: 0.5", "efficiency: 0.5\n    multiprocessors: 8\n    clock_ghz: 1\n    unaligned: {3: 0.5}",
       "f.yaml:11: device type 'core': unaligned: unknown key '3'; did you mean '2'?"},
      {"efficiency: 0.5", "efficiency: 0.5\n    multiprocessors: 8\n    clock_ghz: 1\n    unaligned: {2: 5}",
       "f.yaml:11: device type 'core': unaligned: 2 is 5; it is a fraction, at most 1"},
      {"efficiency: 0.5", "efficiency: 0.5\n    multiprocessors: 8\n    clock_ghz: 1\n    unaligned: {8: 0.25, 2: 0.5}",
       "f.yaml:11: device type 'core': unaligned: of 8 bytes it is 0.25, less than of fewer, 0.5"},
      {"kind: cpu", "kind: tpu", "f.yaml:4: device type 'core': kind is 'tpu'; it must be gpu or cpu"},
      {"kind: cpu", "kind: gpu",
       "f.yaml:13: level 'cpu0' is a GPU, but no level above it has a 'host'; add one: {type: .., link: {..}}"},
      {"type: core}", "type: cor}",
       "f.yaml:13: level 'cpu0': type is 'cor', which device_types does not have; did you mean 'core'?"},
      {"count: 3", "count: 2.5",
       "f.yaml:13: topology: count of 'cpu' is 2.5; it must be a whole number from 1 to 32768"},
      {"name: cpu,", "name: c.u,",
       "f.yaml:13: topology: name of a child 'c.u' may not hold dots, blanks, commas, brackets or stars: dots join the "
       "names of levels"},
      {"type: core}\n", "type: core}\n    - {name: cpu0, type: core}\n",
       "f.yaml:14: the name 'cpu0' is given to two places; rename one"},
      {"cpu1]", "cpu9]", "f.yaml:15: link: no device is named 'cpu9'; did you mean 'cpu0'?"},
      {"cpu1]", "cpu0]", "f.yaml:15: link: both ends are 'cpu0'"},
      {"[cpu0, cpu1]", "[cpu0]", "f.yaml:15: link: between must be a list of two devices"},
      {"name: small", "name: [small", "f.yaml:2: not YAML: end of sequence flow not found"},
      {"links:", "link:", "f.yaml:14: cluster: unknown key 'link'; did you mean 'links'?"},
  };
  for (const Case& c : cases) EXPECT_EQ(error_of(replaced(kSmall, c.from, c.to)), c.message);
  EXPECT_EQ(error_of(""), "f.yaml:1: cluster must be a map of keys and values");
  EXPECT_EQ(error_of(replaced(kSmall, "between: [cpu0, cpu1]", "from: cpu0, to: cpu1")), "no error");
}

TEST(Cluster, FiguresOfKernelsAreOptional) {
  const Cluster without = parse_cluster(kSmall, "f.yaml");
  EXPECT_EQ(without.devices[0].kernels.multiprocessors, 0);
  const Cluster with = parse_cluster(
      replaced(kSmall, "efficiency: 0.5",
               "efficiency: 0.5\n    multiprocessors: 8\n    clock_ghz: 1.5\n    reached: {float32: 0.75}\n"
               "    sustained: 0.9\n    beside_collectives: 0.625\n    unaligned: {2: 0.25, 8: 0.5}"),
      "f.yaml");
  const KernelFigures& k = with.devices[0].kernels;
  EXPECT_EQ(k.multiprocessors, 8);
  EXPECT_DOUBLE_EQ(k.clock_hz, 1.5e9);
  EXPECT_EQ(k.parts, (std::map<DType, double>{{DType::kFloat32, 0.75}}));
  EXPECT_DOUBLE_EQ(k.memory_part, 0.5);
  EXPECT_DOUBLE_EQ(k.fused_attention, 0);
  EXPECT_DOUBLE_EQ(k.sustained, 0.9);
  EXPECT_DOUBLE_EQ(k.beside_collectives, 0.625);
  EXPECT_EQ(k.unaligned, (std::map<int, double>{{2, 0.25}, {8, 0.5}}));
  EXPECT_DOUBLE_EQ(without.devices[0].kernels.sustained, 1);
  EXPECT_DOUBLE_EQ(without.devices[0].kernels.beside_collectives, 1);
}

TEST(Cluster, TheSlowestLinkIsCutFirst) {
  Cluster c = load_cluster("p2.8xlarge");
  EXPECT_EQ(names(c, slowest_link_first(c)),
            "board0.gpu0 board0.gpu1 board1.gpu0 board1.gpu1 board2.gpu0 board2.gpu1 board3.gpu0 board3.gpu1");
  // Fast pairs that do not stand side by side in the file are put side by side.
  std::string yaml = replaced(kSmall, "count: 3", "count: 4");
  yaml = replaced(yaml, "[cpu0, cpu1]", "[cpu0, cpu2]");
  yaml += "  - {between: [cpu1, cpu3], bandwidth_gbytes_per_s: 4, latency_us: 1}\n";
  Cluster pairs = parse_cluster(yaml, "f.yaml");
  EXPECT_EQ(names(pairs, slowest_link_first(pairs)), "cpu0 cpu2 cpu1 cpu3");
  // Groups of 1, 2 and 1: the halves fall between groups.
  std::string uneven = replaced(replaced(kSmall, "count: 3", "count: 4"), "[cpu0, cpu1]", "[cpu1, cpu2]");
  Cluster mixed = parse_cluster(uneven, "f.yaml");
  EXPECT_EQ(names(mixed, slowest_link_first(mixed)), "cpu1 cpu2 cpu0 cpu3");
}

// Computes the order by its definition: the pairs of one speed and faster ones join a group. Within it, the pairs of
// the next faster speed do.
std::vector<DeviceId> plain_order(const Cluster& c) {
  using Speed = std::pair<double, double>;  // -bandwidth, latency: the fastest first
  const int n = c.compute_count;
  auto speed = [&](int a, int b) -> Speed {
    const DeviceId x{size_t(a)}, y{size_t(b)};
    return {-std::min(c.bandwidth(x, y), c.bandwidth(y, x)), std::max(c.latency_us(x, y), c.latency_us(y, x))};
  };
  std::set<Speed> speeds;
  for (int a = 0; a < n; ++a)
    for (int b = 0; b < n; ++b)
      if (a != b) speeds.insert(speed(a, b));
  std::function<std::vector<int>(const std::vector<int>&, std::set<Speed>::iterator)> ordered =
      [&](const std::vector<int>& some, std::set<Speed>::iterator slowest) {
        if (some.size() == 1 || slowest == speeds.begin()) return some;
        const auto faster = std::prev(slowest);  // groups that pairs of this speed and faster ones join
        std::vector<std::vector<int>> groups;
        for (int d : some) {
          std::vector<int> joined = {d};
          std::erase_if(groups, [&](const std::vector<int>& g) {
            const bool meets = std::any_of(g.begin(), g.end(), [&](int e) { return speed(d, e) <= *faster; });
            if (meets) joined.insert(joined.end(), g.begin(), g.end());
            return meets;
          });
          groups.push_back(joined);
        }
        for (std::vector<int>& g : groups) {
          std::sort(g.begin(), g.end());
          g = ordered(g, faster);
        }
        std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
          return a.size() != b.size() ? a.size() > b.size()
                                      : *std::min_element(a.begin(), a.end()) < *std::min_element(b.begin(), b.end());
        });
        std::vector<int> all;
        for (const std::vector<int>& g : groups) all.insert(all.end(), g.begin(), g.end());
        return all;
      };
  std::vector<int> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  std::vector<DeviceId> order;
  for (int d : ordered(all, speeds.end())) order.push_back(DeviceId(size_t(d)));
  return order;
}

// Levels of several speeds and sizes, ports of devices' own, and explicit links.
TEST(Cluster, TheOrderOfRandomOnesIsThatOfAllPairs) {
  constexpr uint64_t kSeed = 41;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  for (int round = 0; round < 60; ++round) {
    auto link = [&] {
      return fmt::format("{{bandwidth_gbytes_per_s: {}, latency_us: {}{}}}", rng.between(1, 4), rng.between(0, 2),
                         rng.below(4) ? "" : ", per_device: true");
    };
    std::string yaml =
        "name: random\ndevice_types:\n  C: {kind: cpu, peak_tflop_per_s: {float32: 1, float64: 1}, memory_gibytes: 1, "
        "memory_bandwidth_gbytes_per_s: 1, efficiency: 1, launch_overhead_us: 0}\n";
    yaml += fmt::format("topology:\n  link: {}\n  children:\n", link());
    const int64_t switches = rng.between(1, 3);
    for (int64_t s = 0; s < switches; ++s)
      yaml += fmt::format("    - {{name: s{}_, count: {}, link: {}, children: [{{name: d, count: {}, type: C}}]}}\n", s,
                          rng.between(1, 3), link(), rng.between(1, 4));
    if (rng.below(2)) yaml += "    - {name: alone, type: C}\n";
    const Cluster bare = parse_cluster(yaml, "random.yaml");
    std::string wires;
    for (int a = 0; a < bare.compute_count && round % 3 > 0; ++a)
      for (int b = a + 1; b < bare.compute_count; ++b)
        if (rng.below(static_cast<uint64_t>(round % 3 * 2)) == 0) {
          const char* const ends = rng.below(4) ? "between: [{}, {}]" : "from: {}, to: {}";
          wires += fmt::format("  - {{{}, bandwidth_gbytes_per_s: {}, latency_us: 0}}\n",
                               fmt::format(fmt::runtime(ends), bare.devices[a].name, bare.devices[b].name),
                               rng.between(1, 8));
        }
    if (!wires.empty()) yaml += "links:\n" + wires;
    SCOPED_TRACE(yaml);
    const Cluster c = parse_cluster(yaml, "random.yaml");
    EXPECT_EQ(slowest_link_first(c), plain_order(c));
    for (int a = 0; a < c.compute_count; ++a)
      for (int b = 0; b < c.compute_count; ++b)
        EXPECT_EQ(c.route(DeviceId(size_t(a)), DeviceId(size_t(b))).empty(), a == b);
  }
}

TEST(Cluster, MemoryMayHaveItsUnitBesideIt) {
  EXPECT_EQ(parse_cluster(replaced(kSmall, "memory_gibytes: 1.5", "memory: 80GB"), "f.yaml").devices[0].memory_bytes,
            80'000'000'000);
  EXPECT_EQ(parse_cluster(replaced(kSmall, "memory_gibytes: 1.5", "memory: 1.5 GiB"), "f.yaml").devices[0].memory_bytes,
            3LL << 29);
}

TEST(Cluster, MoreDevicesThanThereAreNamesThePresetThatHasThem) {
  auto refused = [](const char* cluster, int devices) {
    try {
      load_cluster(cluster, devices);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(refused("dgx-h100", 16),
            "dgx-h100: cluster 'dgx-h100' has 8 devices, 16 are asked for; use at most 8, or --cluster dgx-h100:2");
  EXPECT_EQ(
      refused("dgx-h100:2", 17),
      "dgx-h100:2: cluster 'dgx-h100:2' has 16 devices, 17 are asked for; use at most 16, or --cluster dgx-h100:3");
  EXPECT_EQ(refused("local:4", 6),
            "local:4: cluster 'local:4' has 4 devices, 6 are asked for; use at most 4, or --cluster local:6");
  EXPECT_EQ(refused("dgx-1", 16), "dgx-1: cluster 'dgx-1' has 8 devices, 16 are asked for; use at most 8");
  EXPECT_EQ(load_cluster(*preset_of_size("dgx-h100", 16)).compute_count, 16);
}

TEST(Cluster, ThousandsOfNodes) {
  const Cluster c = load_cluster("dgx-h100:2048");
  ASSERT_EQ(c.compute_count, 16384);
  EXPECT_EQ(c.devices.size(), 16384u + 2048u);
  EXPECT_EQ(route_text(c, "node0.gpu1", "node0.gpu7"), "node0.gpu1->node0 node0->node0.gpu7");
  EXPECT_EQ(route_text(c, "node7.gpu1", "node2047.gpu7"), "node7.gpu1->top top->node2047.gpu7");
  EXPECT_EQ(route_text(c, "node2047.host", "node2047.gpu7"), "node2047.host->node2047.gpu7");
  const std::vector<DeviceId> order = slowest_link_first(c);
  ASSERT_EQ(order.size(), 16384u);
  for (size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], DeviceId(i));
}

TEST(Cluster, TheExampleOfTheDocumentationIsValid) {
  std::ifstream file(PARTITA_SOURCE_DIR "/docs/reference/cluster.md");
  std::stringstream text;
  text << file.rdbuf();
  std::string doc = text.str();
  size_t begin = doc.find("```yaml\n");
  ASSERT_NE(begin, std::string::npos);
  begin += 8;
  Cluster c = parse_cluster(doc.substr(begin, doc.find("```", begin) - begin), "docs/reference/cluster.md");
  EXPECT_EQ(c.compute_count, 8);
  EXPECT_EQ(c.devices.size(), 10u);
  EXPECT_EQ(route_text(c, "node0.gpu0", "node0.gpu1"), "node0.gpu0=>node0.gpu1");
  EXPECT_EQ(route_text(c, "node0.gpu0", "node1.gpu1"), "node0.gpu0->top top->node1.gpu1");
  EXPECT_EQ(route_text(c, "node0.gpu2", "node0.gpu3"), "node0.gpu2->node0 node0->node0.gpu3");
}

}  // namespace partita
