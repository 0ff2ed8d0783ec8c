// Tests which differences between devices make their types differ.
#include "partita/cluster/same_type.h"

#include <gtest/gtest.h>

namespace partita {
namespace {

TEST(SameType, IsByFiguresAndNotByPlace) {
  const Cluster cluster = load_cluster("dgx-h100:2");
  Device a = cluster.devices[0], b = cluster.devices[9];
  ASSERT_NE(a.name, b.name);
  EXPECT_TRUE(is_same_type(a, b));
  b.memory_bytes /= 2;
  EXPECT_TRUE(is_same_type(a, b));
  b.launch_overhead_us += 1;
  EXPECT_FALSE(is_same_type(a, b));
  EXPECT_FALSE(is_same_type(a, load_cluster("dgx-a100").devices[0]));
}

TEST(SameType, IsNotThatOfDevicesWithOtherCollectives) {
  const Cluster cluster = load_cluster("dgx-h100");
  Device other = cluster.devices[1];
  ASSERT_NE(other.library, Library());
  other.library = Library();
  EXPECT_FALSE(is_same_type(cluster.devices[0], other));
}

}  // namespace
}  // namespace partita
