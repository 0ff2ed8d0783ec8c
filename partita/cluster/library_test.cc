// Tests the rows of collective libraries in cluster files, and the presets that have them.
#include "partita/cluster/library.h"

#include <gtest/gtest.h>

#include "partita/base/error.h"
#include "partita/cluster/cluster.h"
#include "partita/cluster/direct.h"
#include "partita/cluster/group.h"
#include "partita/cluster/rings.h"

namespace partita {
namespace {

std::string yaml(const std::string& rows) {
  return "name: small\n"
         "device_types:\n"
         "  core:\n"
         "    kind: cpu\n"
         "    peak_tflop_per_s: {float32: 1, float64: 0.5}\n"
         "    memory_gibytes: 1\n"
         "    memory_bandwidth_gbytes_per_s: 10\n"
         "    efficiency: 0.5\n"
         "    launch_overhead_us: 0\n"
         "    collectives:\n" +
         rows +
         "topology:\n"
         "  link: {bandwidth_gbytes_per_s: 2, latency_us: 5}\n"
         "  children:\n"
         "    - {name: cpu, count: 3, type: core}\n";
}

constexpr const char* kRing = "      - {algorithm: ring, protocol: LL, launch_us: 1, hop_us: 0.5, own_part: 0.25}\n";
constexpr const char* kPairs = "      - {algorithm: pairwise, launch_us: 2, bandwidth: 0.5, network_bandwidth: 0.75}\n";

std::string error_of(const std::string& rows) {
  try {
    parse_cluster(yaml(rows), "f.yaml");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kBadInput) << e.what();
    return e.what();
  }
  return "no error";
}

TEST(Library, RowsAreReadWithTheirDefaults) {
  const Cluster c = parse_cluster(yaml(std::string(kRing) + kPairs), "f.yaml");
  ASSERT_TRUE(c.devices[0].library);
  const std::vector<LibraryRow>& rows = *c.devices[0].library;
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name(), "ring LL");
  EXPECT_EQ(rows[0].hop_us, 0.5);
  EXPECT_EQ(rows[0].own_part, 0.25);
  EXPECT_EQ(rows[0].bandwidth, 1);
  EXPECT_EQ(rows[1].name(), "pairwise");
  EXPECT_EQ(rows[1].hop_us, std::nullopt);
  EXPECT_EQ(rows[1].network_bandwidth, 0.75);
  EXPECT_EQ(rows[1].least_devices, 2);
}

TEST(Library, BadRowsAreRefusedWithLineAndRemedy) {
  EXPECT_EQ(error_of(kRing),
            "f.yaml:11: device type 'core': collectives lacks a row whose algorithm is pairwise; add one, or have "
            "direct alone");
  EXPECT_EQ(error_of(std::string(kPairs)),
            "f.yaml:11: device type 'core': collectives lacks a row whose algorithm is ring; add one, or have direct "
            "alone");
  EXPECT_EQ(error_of(std::string(kRing) + kRing + kPairs),
            "f.yaml:12: device type 'core': collectives: ring LL is given twice; remove one");
  EXPECT_EQ(error_of("      - {algorithm: rings, launch_us: 1}\n"),
            "f.yaml:11: device type 'core': a row of collectives: algorithm is 'rings'; did you mean 'ring'?");
  EXPECT_EQ(
      error_of("      - {algorithm: ring}\n"),
      "f.yaml:11: device type 'core': a row of collectives lacks 'launch_us'; add it (docs/reference/cluster.md has an "
      "example)");
  EXPECT_EQ(
      error_of("      - {algorithm: ring, launch_us: 1, bandwidth: 80}\n"),
      "f.yaml:11: device type 'core': a row of collectives: bandwidth is 80; it is a part of a link's rate, about 1 "
      "at most");
  EXPECT_EQ(error_of("      - {algorithm: ring, launch_us: 1, hop_us: -1}\n"),
            "f.yaml:11: device type 'core': a row of collectives: hop_us is -1; it must be zero or more");
}

TEST(Library, DirectStandsForAllOthers) {
  const std::string direct = "      - {algorithm: direct, protocol: LL, launch_us: 1, hop_us: 0.5}\n";
  const Cluster c = parse_cluster(yaml(direct), "f.yaml"),
                rings = parse_cluster(yaml(std::string(kRing) + kPairs), "r");
  const std::vector<DeviceId> all = {DeviceId(0), DeviceId(1), DeviceId(2)};
  EXPECT_EQ((*c.devices[0].library)[0].launch_us, 1);
  EXPECT_TRUE(are_direct(c, all));
  EXPECT_FALSE(are_direct(rings, all));
  EXPECT_FALSE(are_direct(load_cluster("local:3"), all)) << "without rows there are rings";
  EXPECT_EQ(error_of(direct + kPairs),
            "f.yaml:12: device type 'core': collectives has a row of pairwise beside direct, which stands for all "
            "collectives and transfers; remove one of the two");
  EXPECT_EQ(error_of(kRing + direct),
            "f.yaml:11: device type 'core': collectives has a row of ring beside direct, which stands for all "
            "collectives and transfers; remove one of the two");
  EXPECT_EQ(error_of(direct + direct),
            "f.yaml:12: device type 'core': collectives: direct LL is given twice; remove one");
}

TEST(Library, PresetsOfGpusHaveOne) {
  for (const ClusterPreset& preset : cluster_presets()) {
    if (preset.name == "local:N") continue;
    const Cluster c = load_cluster(preset.name);
    const bool old = preset.name.starts_with("p2") || preset.name.starts_with("flexflow");
    EXPECT_EQ(c.devices[0].library != nullptr, !old) << preset.name;
    EXPECT_FALSE(c.devices.back().library) << preset.name << ": of hosts";
  }
  EXPECT_EQ(load_cluster("p5:3").compute_count, 24);
  EXPECT_NEAR(static_cast<double>(load_cluster("dgx-a100-40gb").devices[0].memory_bytes), 38.59 * 0x1p30, 1);
}

// There are as many rings as wires from a device, if these can be joined.
TEST(Rings, AreDisjoint) {
  EXPECT_EQ(disjoint_rings({{0, 3}, {3, 0}}).size(), 3u);
  EXPECT_EQ(disjoint_rings({{0, 1, 1}, {1, 0, 1}, {1, 1, 0}}).size(), 2u);
  EXPECT_EQ(disjoint_rings({{0, 1, 0}, {1, 0, 1}, {0, 1, 0}}).size(), 0u) << "a line is no ring";
  EXPECT_EQ(disjoint_rings({{0, 1, 0}, {0, 0, 1}, {1, 0, 0}}), (std::vector<std::vector<int>>{{0, 1, 2}}));
  EXPECT_TRUE(disjoint_rings({{0}}).empty());
  // All pairs of 5: the directed graph falls into 4 rings.
  std::vector<std::vector<int>> all(5, std::vector<int>(5, 1));
  for (int i = 0; i < 5; ++i) all[i][i] = 0;
  const auto rings = disjoint_rings(all);
  ASSERT_EQ(rings.size(), 4u);
  for (const std::vector<int>& ring : rings)
    for (size_t i = 0; i < ring.size(); ++i) EXPECT_GE(--all[ring[i]][ring[(i + 1) % 5]], 0);
}

// Each link carries the bytes counted by hand: two nodes of two, all ports at once.
TEST(GroupLinks, OfTwoNodes) {
  const Cluster c = load_cluster("dgx-h100:2");
  const GroupLinks g = ring_links(c, {DeviceId(8), DeviceId(0), DeviceId(9), DeviceId(1)});
  EXPECT_EQ(g.devices, 4);
  EXPECT_EQ(g.nodes, 2);
  EXPECT_EQ(g.per_node, 2);
  EXPECT_EQ(g.loads.size(), 4 * 2 + 4 * 2u) << "up and down, of the switch and of the port";
  for (const LinkLoad& load : g.loads) {
    const bool port = c.link(load.link).bandwidth_bytes_per_s == 50e9;
    EXPECT_DOUBLE_EQ(port ? load.between : load.inside, 0.5) << c.link(load.link).name;
    EXPECT_DOUBLE_EQ(port ? load.inside : load.between, 0) << c.link(load.link).name;
  }
  EXPECT_DOUBLE_EQ(g.inside_s, 1 / 450e9);
  EXPECT_DOUBLE_EQ(g.between_s, 1 / 100e9);
  EXPECT_DOUBLE_EQ(g.between_latency_us, 3.5);
  // A ring spends 0.5 / 450 GB/s of a second in the node, and 0.5 / 50 GB/s on a port: the ports alone are taken.
  EXPECT_EQ(busy_links(c, g).size(), 8u);
}

}  // namespace
}  // namespace partita
