// Tests the check that a plan keeps its pins: device by device, on a mesh of other axes too.
#include "partita/plan/pins_kept.h"

#include <gtest/gtest.h>

#include "planned.h"

namespace partita {
namespace {

Constraints all_choices(const Plan& plan) {
  Constraints out;
  for (size_t i = 0; i < plan.ops.size(); ++i) out.ops[OpId(i)] = plan.ops[i];
  out.kept = plan.kept;
  return out;
}

// The plan on a mesh of two axes of 2 in place of one of 4.
Plan on_two_axes(Plan plan) {
  for (OpChoice& choice : plan.ops) {
    choice.mesh.extents = {2, 2};
    choice.strategies.push_back(choice.strategies.front());
  }
  for (auto& [tensor, placement] : plan.kept) {
    placement.mesh.extents = {2, 2};
    placement.sbp.push_back(placement.sbp.front());
  }
  return plan;
}

struct PinsKept : testing::Test {
  const Planned p = planned("zoo:mlp?layers=2,width=8,batch=8", "zero?stage=1", "local:4", {"sgd", 0.01, 0.9, 1e-4});
  Constraints pins = all_choices(p.plan);

  std::string lost() const { return first_pin_not_kept(p.training, *p.resolved, pins); }
};

TEST_F(PinsKept, OnAFinerMesh) {
  ASSERT_FALSE(pins.kept.empty());
  EXPECT_EQ(lost(), "");
  const Resolved finer = resolve(p.training, on_two_axes(p.plan), p.cluster);
  EXPECT_EQ(first_pin_not_kept(p.training, finer, pins), "");
}

TEST_F(PinsKept, ByTheRightDevices) {
  const OpId id(0);
  pins.ops[id].mesh.devices = {DeviceId(1), DeviceId(0), DeviceId(2), DeviceId(3)};
  EXPECT_EQ(lost(), "op '" + p.training.op(id).name + "'");
}

TEST_F(PinsKept, ByTheSameSplit) {
  const OpId id(0);
  pins.ops[id].strategies = {{}};
  EXPECT_EQ(lost(), "op '" + p.training.op(id).name + "'");
}

// Two groups of two devices have other terms than one group of four.
TEST_F(PinsKept, WithTheSameTerms) {
  for (const auto& [id, choice] : pins.ops) {
    const ResolvedOp& resolved = p.resolved->ops[id.index()];
    if (!resolved.layouts.results[0].is_partial()) continue;
    pins.ops[id].mesh.extents = {2, 2};
    pins.ops[id].strategies = {{}, choice.strategies[0]};
    EXPECT_EQ(lost(), "op '" + p.training.op(id).name + "'");
    return;
  }
  FAIL() << "no gradient is a partial value";
}

TEST_F(PinsKept, InTheSameStage) {
  const OpId last(p.training.ops.size() - 1);
  pins.ops[last].stage = 1;
  EXPECT_EQ(lost(), "op '" + p.training.op(last).name + "'");
}

TEST_F(PinsKept, WhereATensorIsKept) {
  const TensorId id = pins.kept.begin()->first;
  pins.kept[id].sbp = {Sbp::broadcast()};
  if (p.plan.kept.at(id).sbp == pins.kept[id].sbp) pins.kept[id].sbp = {Sbp::split(0)};
  EXPECT_EQ(lost(), "tensor '" + p.training.tensor(id).name + "'");
}

}  // namespace
}  // namespace partita
