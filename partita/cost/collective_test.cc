// Tests times of collectives, worked out by hand.
#include "partita/cost/collective.h"

#include <gtest/gtest.h>

#include "partita/base/error.h"

namespace partita {
namespace {

// Nodes of `each` GPUs on a switch of 100 GB/s and 1 us a link, with a port of 10 GB/s and 2 us each. `rows` are those
// of the GPU's collectives.
Cluster nodes(int count, int each, const std::string& rows = "", const std::string& links = "") {
  return parse_cluster(
      "name: nodes\n"
      "device_types:\n"
      "  G:\n"
      "    kind: gpu\n"
      "    peak_tflop_per_s: {float32: 1, float64: 1}\n"
      "    memory_gibytes: 1\n"
      "    memory_bandwidth_gbytes_per_s: 1\n"
      "    efficiency: 1\n"
      "    launch_overhead_us: 0\n" +
          (rows.empty() ? "" : "    collectives:\n" + rows) +
          "  C: {kind: cpu, peak_tflop_per_s: {float32: 1, float64: 1}, memory_gibytes: 1, "
          "memory_bandwidth_gbytes_per_s: 1, efficiency: 1, launch_overhead_us: 0}\n"
          "topology:\n"
          "  link: {bandwidth_gbytes_per_s: 10, latency_us: 2, per_device: true}\n"
          "  children:\n"
          "    - name: node\n"
          "      count: " +
          std::to_string(count) +
          "\n      link: {bandwidth_gbytes_per_s: 100, latency_us: 1}\n"
          "      host: {type: C, link: {bandwidth_gbytes_per_s: 10, latency_us: 1}}\n"
          "      children:\n"
          "        - {name: gpu, count: " +
          std::to_string(each) + ", type: G}\n" + links,
      "nodes.yaml");
}

std::vector<DeviceId> devices(std::initializer_list<int> ids) {
  std::vector<DeviceId> out;
  for (int i : ids) out.emplace_back(size_t(i));
  return out;
}

double us(const Cluster& cluster, StepKind kind, const std::vector<DeviceId>& group, double sent_bytes) {
  return CollectiveTimes(cluster).of(kind, group).costs.ns(sent_bytes) / 1e3;
}

constexpr const char* kSimple =
    "      - {algorithm: ring, protocol: Simple, launch_us: 10, hop_us: 3, network_hop_us: 5, bandwidth: 0.8, "
    "network_bandwidth: 0.5}\n"
    "      - {algorithm: pairwise, launch_us: 4, hop_us: 1, network_hop_us: 6, bandwidth: 0.5, network_bandwidth: "
    "0.25}\n";

// Without rows of a library: hops wait for their routes' latency, 2 us, and links carry at their full rates.
TEST(Collective, PlainRingInANode) {
  const Cluster c = nodes(1, 4);
  const std::vector<DeviceId> all = devices({0, 1, 2, 3});
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllGather, all, 3e6), 3 * 2 + 30);
  EXPECT_DOUBLE_EQ(us(c, StepKind::kReduceScatter, all, 3e6), 3 * 2 + 30);
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllReduce, all, 6e6), 6 * 2 + 60);
  // Each sends its 3 MB in three directions, over its one link.
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllToAll, all, 3e6), 3 * 2 + 30);
  EXPECT_EQ(CollectiveTimes(c).of(StepKind::kAllGather, all).names, std::vector<std::string>{"ring"});
}

// On two nodes both ports of each are used. Half of each device's bytes pass over either, in 3 MB / 2 / 10 GB/s.
TEST(Collective, EveryPortOfANodeIsUsedAtOnce) {
  const Cluster c = nodes(2, 2);
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllGather, devices({0, 1, 2, 3}), 3e6), 3 * 4 + 150);
  // In any order of the devices.
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllGather, devices({0, 2, 1, 3}), 3e6), 3 * 4 + 150);
  // One device a node has one port.
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllGather, devices({0, 2}), 1e6), 4 + 100);
}

TEST(Collective, ARowOfTheLibraryHasItsHopsAndRates) {
  const Cluster c = nodes(2, 2, kSimple);
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllGather, devices({0, 1}), 8e6), 10 + 3 + 8e6 / 80e3);
  // 3 hops, one of them between nodes, with the 4 us of its route; 1.5 MB over a port at half its rate.
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllGather, devices({0, 1, 2, 3}), 3e6), 10 + 2 * 3 + (5 + 4) + 300);
  // 6 hops, two of them between nodes.
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllReduce, devices({0, 1, 2, 3}), 3e6), 10 + 4 * 3 + 2 * (5 + 4) + 300);
  // 2 of the 3 MB of each go to the other node, at a quarter of 10 GB/s.
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllToAll, devices({0, 1, 2, 3}), 3e6), 4 + 3 * 1 + (6 + 4) + 2e6 / 2.5e3);
  EXPECT_EQ(CollectiveTimes(c).of(StepKind::kAllReduce, devices({0, 1})).names,
            std::vector<std::string>{"ring Simple"});
}

TEST(Collective, TheFastestForTheBytesCounts) {
  const Cluster c =
      nodes(1, 4,
            std::string(kSimple) +
                "      - {algorithm: tree, protocol: LL, launch_us: 1, hop_us: 0.5, bandwidth: 0.1}\n"
                "      - {algorithm: nvls, launch_us: 40, hop_us: 0, bandwidth: 0.9, least_devices: 4}\n");
  const std::vector<DeviceId> all = devices({0, 1, 2, 3});
  CollectiveTimes times(c);
  const Collective& reduce = times.of(StepKind::kAllReduce, all);
  auto name = [&](double bytes) { return reduce.names[reduce.costs.fastest(bytes)]; };
  EXPECT_EQ(name(100), "tree LL");
  EXPECT_EQ(name(3e5), "ring Simple");
  EXPECT_EQ(name(3e8), "nvls");
  // Each sends 6 MB for S = 4 MB: the tree passes 2 S at 10 GB/s, the switch S at 90.
  EXPECT_DOUBLE_EQ(reduce.costs.durations[1].fixed_ns + 6e6 * reduce.costs.durations[1].moving_ns, 1e3 * (1 + 3 + 800));
  EXPECT_DOUBLE_EQ(reduce.costs.durations[2].fixed_ns + 6e6 * reduce.costs.durations[2].moving_ns,
                   1e3 * (40 + 4e6 / 90e3));
  // Fewer devices than the switch takes; and only rings for other collectives.
  EXPECT_EQ(times.of(StepKind::kAllReduce, devices({0, 1, 2})).names.size(), 2u);
  EXPECT_EQ(times.of(StepKind::kAllGather, all).names, std::vector<std::string>{"ring Simple"});
}

// A tree of two nodes sends S from each node, of three and more 2 S at most.
TEST(Collective, ATreeBetweenNodes) {
  const std::string tree =
      std::string(kSimple) + "      - {algorithm: tree, launch_us: 0, hop_us: 1, network_hop_us: 3}\n";
  auto of = [&](int n) {
    const Cluster c = nodes(n, 2, tree);
    std::vector<DeviceId> all;
    for (int d = 0; d < 2 * n; ++d) all.emplace_back(size_t(d));
    const AlgorithmCosts costs = CollectiveTimes(c).of(StepKind::kAllReduce, all).costs;
    const double sent = 2 * (2 * n - 1) / (2.0 * n) * 1e6;  // S = 1 MB
    return (costs.durations[1].fixed_ns + sent * costs.durations[1].moving_ns) / 1e3;
  };
  EXPECT_DOUBLE_EQ(of(2), 2 * (1 + (3 + 4)) + 1e6 / 20e3);
  EXPECT_DOUBLE_EQ(of(4), 2 * (1 + 2 * (3 + 4)) + 2e6 / 20e3);
}

TEST(Collective, HierarchicalWhereTheFileSaysSo) {
  const Cluster c = nodes(2, 2, std::string(kSimple) + "      - {algorithm: hierarchical, launch_us: 2, hop_us: 1}\n");
  const Collective reduce = CollectiveTimes(c).of(StepKind::kAllReduce, devices({0, 1, 2, 3}));
  ASSERT_EQ(reduce.names.back(), "hierarchical");
  // Each sends 3 MB for S = 2 MB: 2 hops of 1 MB in the node; 2 hops between nodes, of 1 MB over two ports.
  const Duration& d = reduce.costs.durations.back();
  EXPECT_NEAR(d.fixed_ns + 3e6 * d.moving_ns, 1e3 * (2 + 2 * 1 + 2 * 4 + 2e6 / 100e3 + 2e6 / 20e3), 1e-6);
}

// Rings run over links of their own if there are any: two links between each two of three devices, one each way.
TEST(Collective, RingsOverWires) {
  const Cluster c = nodes(1, 3, "",
                          "links:\n"
                          "  - {between: [node0.gpu0, node0.gpu1], bandwidth_gbytes_per_s: 200, latency_us: 1}\n"
                          "  - {between: [node0.gpu1, node0.gpu2], bandwidth_gbytes_per_s: 200, latency_us: 1}\n"
                          "  - {between: [node0.gpu0, node0.gpu2], bandwidth_gbytes_per_s: 200, latency_us: 1}\n");
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllGather, devices({0, 1, 2}), 4e6), 2 * 1 + 10);
  EXPECT_EQ(CollectiveTimes(c).of(StepKind::kAllGather, devices({0, 1, 2})).occupies.size(), 6u);
}

// The hybrid cube mesh: six rings of 25 GB/s through all eight GPUs (NCCL finds as many), four through a half, and one
// each way through every second GPU.
TEST(Collective, RingsOfTheHybridCubeMesh) {
  const Cluster c = load_cluster("dgx-1");
  auto rate = [&](std::initializer_list<int> group) { return 1 / ring_links(c, devices(group)).inside_s / 25e9; };
  EXPECT_DOUBLE_EQ(rate({0, 1, 2, 3, 4, 5, 6, 7}), 6);
  EXPECT_DOUBLE_EQ(rate({0, 1, 2, 3}), 4);
  EXPECT_DOUBLE_EQ(rate({0, 2, 4, 6}), 2);
  EXPECT_DOUBLE_EQ(rate({0, 3}), 2);
  EXPECT_DOUBLE_EQ(rate({0, 1}), 1);
}

// Groups that take no link in common run at once: those of one place in each node have their own ports.
TEST(Collective, StridedGroupsHaveTheirOwnPorts) {
  const Cluster c = nodes(2, 2);
  CollectiveTimes times(c);
  const std::vector<LinkId> a = times.of(StepKind::kAllReduce, devices({0, 2})).occupies,
                            b = times.of(StepKind::kAllReduce, devices({1, 3})).occupies;
  for (LinkId l : a) EXPECT_EQ(std::count(b.begin(), b.end(), l), 0) << c.link(l).name;
  EXPECT_EQ(a.size(), 4u);
}

TEST(Collective, OfOneDeviceIsNothing) {
  const Cluster c = nodes(1, 2);
  EXPECT_EQ(CollectiveTimes(c).of(StepKind::kAllReduce, devices({1})).costs.whole_ns(1e6), 1);
}

// Two nodes of two, each of its own type with these rows of collectives.
Cluster two_types(const std::string& first, const std::string& second) {
  const std::string figures =
      "peak_tflop_per_s: {float32: 1, float64: 1}, memory_gibytes: 1, memory_bandwidth_gbytes_per_s: 1, "
      "efficiency: 1, launch_overhead_us: 0";
  auto type = [&](const std::string& name, const std::string& rows) {
    return "  " + name + ": {kind: gpu, " + figures + (rows.empty() ? "" : ", collectives: [" + rows + "]") + "}\n";
  };
  auto node = [](const std::string& name, const std::string& type) {
    return "    - name: " + name +
           "\n"
           "      link: {bandwidth_gbytes_per_s: 100, latency_us: 1}\n"
           "      host: {type: C, link: {bandwidth_gbytes_per_s: 10, latency_us: 1}}\n"
           "      children:\n"
           "        - {name: gpu, count: 2, type: " +
           type + "}\n";
  };
  return parse_cluster("name: two\ndevice_types:\n" + type("G", first) + type("H", second) + "  C: {kind: cpu, " +
                           figures +
                           "}\n"
                           "topology:\n"
                           "  link: {bandwidth_gbytes_per_s: 10, latency_us: 2, per_device: true}\n"
                           "  children:\n" +
                           node("a", "G") + node("b", "H"),
                       "two.yaml");
}

// An algorithm that only some of a group's devices have is not taken. The slower of two rows counts, in either order.
TEST(Collective, DevicesOfTwoTypesTakeWhatBothHave) {
  const std::string some =
      "{algorithm: ring, protocol: LL, launch_us: 2, hop_us: 1, bandwidth: 0.1}, {algorithm: ring, protocol: Simple, "
      "launch_us: 10, hop_us: 3, bandwidth: 0.8}, {algorithm: nvls, launch_us: 1}, {algorithm: pairwise, launch_us: 4}";
  const std::string others =
      "{algorithm: ring, protocol: Simple, launch_us: 20, hop_us: 3, bandwidth: 0.8}, {algorithm: tree, launch_us: 1}, "
      "{algorithm: pairwise, launch_us: 7}";
  const std::vector<DeviceId> all = devices({0, 1, 2, 3});
  for (const Cluster& c : {two_types(some, others), two_types(others, some)}) {
    EXPECT_EQ(CollectiveTimes(c).of(StepKind::kAllReduce, all).names, std::vector<std::string>{"ring Simple"});
    // 6 hops, two of them between nodes; 1.5 MB over a port.
    EXPECT_DOUBLE_EQ(us(c, StepKind::kAllReduce, all, 3e6), 20 + 4 * 3 + 2 * 4 + 150);
    EXPECT_DOUBLE_EQ(us(c, StepKind::kAllToAll, all, 0), 7 + 3 * 4);
  }
  EXPECT_EQ(CollectiveTimes(two_types(some, others)).of(StepKind::kAllReduce, devices({0, 1})).names.size(), 3u);
  // Without rows a device has a ring that waits for its routes, 6 x 4 us, at the links' rates.
  for (const Cluster& c : {two_types(some, ""), two_types("", some)}) {
    const Collective reduce = CollectiveTimes(c).of(StepKind::kAllReduce, all);
    EXPECT_EQ(reduce.names, (std::vector<std::string>{"ring", "ring"}));
    EXPECT_DOUBLE_EQ(us(c, StepKind::kAllReduce, all, 0), 24);
    const DeviceId a(size_t(0)), b(size_t(2));
    EXPECT_DOUBLE_EQ(transfer_costs(c, a, b, c.route(a, b), 1e6).ns(1) / 1e3, 4 + 4 + 100);
    EXPECT_DOUBLE_EQ(transfer_costs(c, b, a, c.route(b, a), 1e6).ns(1) / 1e3, 4 + 4 + 100);
  }
}

constexpr const char* kDirect = "      - {algorithm: direct, launch_us: 0}\n";

// A tensor has 4 MB, and each of 4 devices owns 1 MB of it. A device receives 3 MB of terms from the others over its
// link of 100 GB/s, and sends its sum of 1 MB to 3 devices: 30 us each, after 3 messages with a latency of 2 us.
TEST(Direct, InANodeEachPartGoesToItsOwnerAndBack) {
  const Cluster c = nodes(1, 4, kDirect);
  const std::vector<DeviceId> all = devices({0, 1, 2, 3});
  EXPECT_DOUBLE_EQ(us(c, StepKind::kReduceScatter, all, 3e6), 3 * 2 + 30);
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllGather, all, 3e6), 3 * 2 + 30);
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllReduce, all, 6e6), 2 * (3 * 2 + 30));
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllToAll, all, 3e6), 3 * 2 + 30) << "which moves the same as a reduce-scatter";
  // Two devices: half of 4 MB there and back.
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllReduce, devices({0, 1}), 4e6), 2 * (2 + 20));
  EXPECT_EQ(CollectiveTimes(c).of(StepKind::kAllReduce, all).names, std::vector<std::string>{"direct"});
}

// Two nodes of two: 2 of the 3 MB that each sends go to the other node, while a ring sends 1.5. So a port of 10 GB/s
// takes 200 us in place of 150.
TEST(Direct, SendsMoreBetweenNodesThanRings) {
  const std::vector<DeviceId> all = devices({0, 1, 2, 3});
  const Cluster direct = nodes(2, 2, kDirect), rings = nodes(2, 2);
  EXPECT_DOUBLE_EQ(us(direct, StepKind::kReduceScatter, all, 3e6), 3 * 4 + 200);
  EXPECT_DOUBLE_EQ(us(rings, StepKind::kReduceScatter, all, 3e6), 3 * 4 + 150);
  EXPECT_DOUBLE_EQ(us(direct, StepKind::kAllReduce, all, 6e6), 2 * (3 * 4 + 200));
  double ports = 0, others = 0;
  CollectiveTimes times(direct);
  for (const LinkLoad& load : times.of(StepKind::kAllReduce, all).loads)
    (direct.link(load.link).bandwidth_bytes_per_s < 50e9 ? ports : others) += load.inside + load.between;
  EXPECT_DOUBLE_EQ(ports, 4 * 2 * 2 / 3.0) << "of a byte that each of four sends, 2/3 go up one port and down another";
  EXPECT_DOUBLE_EQ(others, 4 * 2 * 1 / 3.0);
}

// Four boards of two GPUs on switches (p2.8xlarge): 6 of the 7 shards that a GPU sends leave its board, by a link that
// the board's two share. So the board's link has 12/7 of the bytes that a GPU sends, while rings send as much as one
// GPU does.
TEST(Direct, BoardsShareTheirLinks) {
  const std::string text = load_cluster("p2.8xlarge").text;
  const size_t at = text.find("    launch_overhead_us: ");
  ASSERT_NE(at, std::string::npos);
  std::string with = text;
  with.insert(at, std::string("    collectives:\n") + kDirect);
  const Cluster rings = load_cluster("p2.8xlarge"), direct = parse_cluster(with, "direct.yaml");
  const std::vector<DeviceId> all = devices({0, 1, 2, 3, 4, 5, 6, 7});
  const double latency = 14 * 20;  // 7 messages and 7 back, over 4 links of 5 us
  EXPECT_NEAR(us(rings, StepKind::kAllReduce, all, 70e6), latency + 7000, 1e-6);
  EXPECT_NEAR(us(direct, StepKind::kAllReduce, all, 70e6), latency + 12000, 1e-6);
  // Neither link nor ring is shared by the two of one board.
  EXPECT_DOUBLE_EQ(us(direct, StepKind::kAllReduce, devices({0, 1}), 1e6),
                   us(rings, StepKind::kAllReduce, devices({0, 1}), 1e6));
}

// With hop_us messages take that, and a route between nodes its latency once an exchange.
TEST(Direct, ARowHasItsHopsAndRates) {
  const Cluster c = nodes(2, 2,
                          "      - {algorithm: direct, protocol: Simple, launch_us: 10, hop_us: 3, network_hop_us: 5, "
                          "bandwidth: 0.8, network_bandwidth: 0.5, least_devices: 2, own_part: 0.6}\n");
  // 4 MB: each copies its own 2 at the links' rate, 0.6 times as long as to send them.
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllGather, devices({0, 1}), 2e6), 10 + 3 + 1.6 * 2e6 / 80e3);
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllGather, devices({0, 1, 2, 3}), 3e6), 10 + 3 * 3 + (5 + 4) + 2e6 / 5e3);
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllReduce, devices({0, 1, 2, 3}), 6e6), 10 + 6 * 3 + 2 * (5 + 4) + 4e6 / 5e3);
  for (const auto kind : {StepKind::kAllReduce, StepKind::kAllToAll})
    EXPECT_EQ(CollectiveTimes(c).of(kind, devices({0, 1})).names, std::vector<std::string>{"direct Simple"});
  const DeviceId a(size_t(0)), b(size_t(1));
  EXPECT_DOUBLE_EQ(transfer_costs(c, a, b, c.route(a, b), 1e6).ns(1) / 1e3, 10 + 3 + 1e6 / 80e3);
}

// If the library takes its row from four devices of a node on, two still exchange without rings.
TEST(Direct, HasNoRingsForFewDevicesEither) {
  const Cluster c = nodes(2, 2, "      - {algorithm: direct, launch_us: 10, least_devices: 4}\n");
  const Collective reduce = CollectiveTimes(c).of(StepKind::kAllReduce, devices({0, 1, 2, 3}));
  EXPECT_EQ(reduce.names, std::vector<std::string>{"direct"});
  EXPECT_DOUBLE_EQ(reduce.costs.ns(6e6) / 1e3, 2 * (3 * 4 + 200));
}

// A faster link makes no exchange longer.
TEST(Direct, IsMonotoneInBandwidth) {
  for (const int factor : {2, 3, 10}) {
    Cluster c = nodes(2, 3, kDirect), faster = c;
    for (size_t l = 0; l < c.links.size(); ++l) {
      faster.links[l].bandwidth_bytes_per_s = factor * c.links[l].bandwidth_bytes_per_s;
      for (const auto kind : {StepKind::kAllReduce, StepKind::kAllGather, StepKind::kReduceScatter})
        for (const auto& group : {devices({0, 1}), devices({0, 3}), devices({0, 1, 2, 3, 4, 5})})
          EXPECT_LE(us(faster, kind, group, 6e6), us(c, kind, group, 6e6)) << c.links[l].name << " x " << factor;
    }
  }
}

// In a group with others, a device with a direct library has the ring of those without rows.
TEST(Direct, WithDevicesOfAnotherLibraryIsARing) {
  const std::string direct = "{algorithm: direct, launch_us: 2}",
                    ring = "{algorithm: ring, launch_us: 3}, {algorithm: pairwise, launch_us: 4}";
  const std::vector<DeviceId> all = devices({0, 1, 2, 3});
  for (const Cluster& c : {two_types(direct, ring), two_types(ring, direct), two_types(direct, "")}) {
    EXPECT_EQ(CollectiveTimes(c).of(StepKind::kAllReduce, all).names, std::vector<std::string>{"ring"});
    const double launch_us = c.devices[0].library && c.devices[2].library ? 3 : 0;
    EXPECT_DOUBLE_EQ(us(c, StepKind::kAllReduce, all, 3e6), launch_us + 6 * 4 + 150);
  }
  const Cluster c = two_types(direct, "{algorithm: direct, launch_us: 5}");
  EXPECT_DOUBLE_EQ(us(c, StepKind::kAllReduce, all, 6e6), 5 + 6 * 4 + 400) << "the slower row of both";
}

TEST(Transfer, BetweenGpusByTheRowsOfTheirLibrary) {
  const Cluster c = nodes(2, 2, kSimple);
  auto us_of = [&](int from, int to) {
    const DeviceId a(static_cast<size_t>(from)), b(static_cast<size_t>(to));
    return transfer_costs(c, a, b, c.route(a, b), 1e6).ns(1) / 1e3;
  };
  EXPECT_DOUBLE_EQ(us_of(0, 1), 4 + 1 + 1e6 / 50e3);
  EXPECT_DOUBLE_EQ(us_of(0, 2), 4 + 1 + 6 + 4 + 1e6 / 2.5e3);
  EXPECT_DOUBLE_EQ(us_of(4, 0), 2 + 1e6 / 10e3) << "from the host: latency and bandwidth of the route";
}

}  // namespace
}  // namespace partita
