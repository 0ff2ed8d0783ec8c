// Tests the device that is said to lack memory, and by how much.
#include "partita/cluster/memory_deficit.h"

#include <gtest/gtest.h>

namespace partita {
namespace {

Cluster two_of(int64_t first, int64_t second) {
  Cluster cluster = load_cluster("local:2");
  cluster.devices[0].memory_bytes = first;
  cluster.devices[1].memory_bytes = second;
  return cluster;
}

TEST(MemoryDeficit, IsOfTheDeviceThatLacksMost) {
  const MemoryDeficit found = memory_deficit({14, 18}, two_of(16, 16));
  EXPECT_EQ(found.device, DeviceId(1));
  EXPECT_EQ(found.bytes, 2);
  EXPECT_FALSE(found.fits());
  EXPECT_EQ(memory_deficit({14, 18}, two_of(8, 16)).device, DeviceId(0));  // 6 to 2
}

TEST(MemoryDeficit, IsNoneIfPeaksAreNoMoreThanWhatDevicesHave) {
  const MemoryDeficit found = memory_deficit({16, 10}, two_of(16, 16));
  EXPECT_TRUE(found.fits());
  EXPECT_EQ(found.bytes, 0);
  EXPECT_EQ(found.device, DeviceId(0));
  EXPECT_EQ(memory_deficit({10, 10}, two_of(16, 20)).bytes, -6);
}

TEST(MemoryDeficit, CountsHosts) {
  Cluster cluster = load_cluster("p2.8xlarge", 2);
  const std::vector<int64_t> peaks(cluster.devices.size(), 10);
  ASSERT_GT(peaks.size(), 2u);
  EXPECT_TRUE(memory_deficit(peaks, cluster).fits());
  cluster.devices[2].memory_bytes = 7;
  const MemoryDeficit found = memory_deficit(peaks, cluster);
  EXPECT_EQ(found.device, DeviceId(2));
  EXPECT_EQ(found.bytes, 3);
}

}  // namespace
}  // namespace partita
