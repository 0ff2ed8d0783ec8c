// Tests the count of devices that a plan leaves without work, and their types.
#include "partita/pipeline/idle_devices.h"

#include <gtest/gtest.h>

#include <string>

#include "partita/base/error.h"
#include "tests/golden/planned.h"

namespace partita {
namespace {

std::string mixed_cluster() {
  return std::string(PARTITA_SOURCE_DIR) + "/tests/data/cases/heterogeneous_pipeline/hetero.yaml";  // 4 A100, 4 V100
}

TEST(IdleDevices, AreSaidByType) {
  const Planned one = planned("zoo:mlp?batch=8", "single", mixed_cluster());
  const IdleDevices idle = idle_devices(one);
  EXPECT_EQ(idle.count, 7);
  EXPECT_EQ(idle.holding, 0);
  ASSERT_EQ(idle.types.size(), 2U);
  EXPECT_EQ(idle.types[0].type, "A100");
  EXPECT_EQ(idle.types[0].idle, 3);
  EXPECT_EQ(idle.types[0].all, 4);
  EXPECT_EQ(idle_text(one), "7 of 8 devices compute nothing: 3 of 4 A100, all 4 V100");
  EXPECT_EQ(idle_text(planned("zoo:mlp?batch=8", "data-parallel", mixed_cluster())), "");
  EXPECT_EQ(idle_text(planned("zoo:mlp?batch=8", "pipeline?stages=2", mixed_cluster())), "");
}

// A table that is kept on a device on which no operation runs: it is read, and written, over links.
TEST(IdleDevices, MayHoldTensors) {
  Planned p = planned("zoo:mlp?batch=8", "single", "local:2");
  const TensorId weight = p.plan.kept.begin()->first;
  p.plan.kept.at(weight).mesh.devices = {DeviceId(1)};
  p.resolved = std::make_shared<const Resolved>(resolve(p.training, p.plan, p.cluster));
  EXPECT_EQ(idle_devices(p).holding, 1);
  EXPECT_EQ(idle_text(p), "1 of 2 devices computes nothing: 1 of 2 core, of which 1 holds tensors");
}

TEST(IdleDevices, AreNotOfAnEstimate) { EXPECT_EQ(idle_text(planned("zoo:mlp?batch=8", "small-batch", "dgx-1")), ""); }

}  // namespace
}  // namespace partita
