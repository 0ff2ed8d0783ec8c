// Tests which collectives are joined, and that no bucket then waits for itself.
#include "partita/physical/bundle.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "partita/base/error.h"
#include "partita/physical/passes.h"
#include "partita/physical/testing/builder.h"
#include "partita/physical/testing/tagged_run.h"

namespace partita {
namespace {

constexpr int64_t kMB = int64_t{1} << 20;

void bundle(PhysicalGraph& graph, int64_t bytes, const std::vector<OpId>& order = {}) {
  std::vector<MicroBatchAxis> none(graph.registers.size());
  LocallyLowered lowered{std::move(graph), std::move(none)};
  bundle_collectives(lowered, bytes, order);
  graph = std::move(lowered.graph);
  EXPECT_EQ(lowered.micro_batch_axes.size(), graph.registers.size());
}

// Sums of gradients over two devices, each as soon as it is made, and their updates.
struct Sums {
  testing::PhysicalBuilder b{2};

  // Adds a gradient made of `from`, if there is one, with the elements of `bytes` bytes. Returns the sums.
  std::vector<RegisterId> add(const std::string& name, int64_t bytes, std::vector<RegisterId> from = {}) {
    std::vector<RegisterId> made, sums;
    for (int d = 0; d < 2; ++d) {
      made.push_back(b.reg(fmt::format("{}@{}", name, d), d, bytes / 4));
      sums.push_back(b.reg(fmt::format("{}.sum@{}", name, d), d, bytes / 4));
      std::vector<RegisterId> reads;
      if (!from.empty()) reads = {from[static_cast<std::size_t>(d)]};
      b.add(fmt::format("make_{}@{}", name, d), d, reads, {made.back()});
    }
    for (const TaskId t : b.all_reduce(name, made, sums, 1, testing::PhysicalBuilder::Of::kParameters)) {
      b.graph.task(t).phase = Phase::kUpdate;
      b.graph.task(t).turn = Task::Turn::kEager;
      b.graph.task(t).bytes = bytes;
    }
    return sums;
  }
  Task& sum(const std::string& name, int device) {
    const std::string task = fmt::format("{}@{}", name, device);
    return *std::find_if(b.graph.tasks.begin(), b.graph.tasks.end(), [&](const Task& t) { return t.name == task; });
  }
};

// By collective of device 0, in the order of tasks: its name, and its reads.
std::vector<std::string> collectives(const PhysicalGraph& graph) {
  std::vector<std::string> all;
  for (const Task& task : graph.tasks) {
    if (!std::holds_alternative<CollectiveWork>(task.work) || task.device.value != 0) continue;
    std::string text = task.name + ":";
    for (const Access& read : task.reads) text += " " + graph.reg(read.reg).name;
    all.push_back(text);
  }
  return all;
}

// Passes, admission and runs on tagged memory.
void expect_runs(PhysicalGraph graph) {
  testing::run_passes(graph);
  EXPECT_NO_THROW(verify(graph));
  EXPECT_EQ(refuse(graph).value_or("admitted"), "admitted");
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Rng rng(seed);
    const testing::TaggedRun run = testing::run_tagged(graph, rng);
    EXPECT_EQ(run.outcome, testing::Outcome::kDone) << run.what;
  }
}

using Texts = std::vector<std::string>;

TEST(Bundle, IsFullWithTheFirstThatReachesItsSize) {
  const auto made = [](int64_t bytes) {
    Sums sums;
    for (const auto& [name, size] : std::vector<std::pair<const char*, int64_t>>{
             {"a", 1000}, {"b", 2 * kMB}, {"c", 1000}, {"d", kMB}, {"e", kMB}, {"f", 2000}, {"g", kMB}})
      sums.add(name, size);
    bundle(sums.b.graph, bytes);
    expect_runs(sums.b.graph);
    return sums.b.graph;
  };
  // The first is full with 1 MB, the next with 2.
  const PhysicalGraph graph = made(2 * kMB);
  EXPECT_EQ(collectives(graph), (Texts{"a+1@0: a@0 b@0", "c+2@0: c@0 d@0 e@0", "f+1@0: f@0 g@0"}));
  const auto& first = *std::find_if(graph.tasks.begin(), graph.tasks.end(), [](auto& t) { return t.name == "a+1@1"; });
  EXPECT_EQ(first.bytes, 1000 + 2 * kMB);
  EXPECT_EQ(first.writes.size(), 2u);
  EXPECT_EQ(collectives(made(100 * kMB)), (Texts{"a+1@0: a@0 b@0", "c+4@0: c@0 d@0 e@0 f@0 g@0"}));
  // Less than the first could hold.
  EXPECT_EQ(collectives(made(1500)), (Texts{"a+1@0: a@0 b@0", "c+1@0: c@0 d@0", "e@0: e@0", "f@0: f@0", "g@0: g@0"}));
  EXPECT_EQ(collectives(made(0)).size(), 7u);
}

// Not in the order of tasks, but in that of the ops that make the gradients, or of the plan.
TEST(Bundle, FollowsTheOrderInWhichGradientsAreMade) {
  Sums sums;
  for (const char* name : {"a", "b", "c", "d"}) sums.add(name, 600'000);
  PhysicalGraph own = sums.b.graph, planned = own, turned = own;
  bundle(own, 600'000 * 2 - 1);
  EXPECT_EQ(collectives(own), (Texts{"a+1@0: a@0 b@0", "c+1@0: c@0 d@0"}));
  std::rotate(turned.tasks.begin(), turned.tasks.begin() + 4, turned.tasks.end());  // ops are as before
  bundle(turned, 600'000 * 2 - 1);
  EXPECT_EQ(collectives(turned), (Texts{"c+1@0: c@0 d@0", "a+1@0: a@0 b@0"}));
  std::vector<OpId> order;  // c, a, d, b
  for (const std::size_t first : {8, 0, 12, 4})
    for (std::size_t i = 0; i < 4; ++i) order.emplace_back(first + i);
  bundle(planned, 600'000 * 2 - 1, order);
  EXPECT_EQ(collectives(planned), (Texts{"c+1@0: c@0 a@0", "d+1@0: d@0 b@0"}));
}

// b is made of a's sum, d of c's: a and c are joined, and b and d.
TEST(Bundle, JoinsNoneThatWaitsForAnother) {
  Sums sums;
  const auto a = sums.add("a", 800);
  sums.add("b", 800, a);
  const auto c = sums.add("c", 800);
  sums.add("d", 800, c);
  sums.add("e", 800);
  bundle(sums.b.graph, kMB);
  EXPECT_EQ(collectives(sums.b.graph), (Texts{"a+2@0: a@0 c@0 e@0", "b+1@0: b@0 d@0"}));
  expect_runs(sums.b.graph);
}

// Collectives that differ from `a` in one property that joined ones share.
TEST(Bundle, JoinsWhatIsOfOneKind) {
  const auto joined = [](void (*change)(PhysicalGraph&, Task&)) {
    Sums sums;
    sums.add("a", 800);
    sums.add("b", 800);
    for (int d = 0; d < 2; ++d) change(sums.b.graph, sums.sum("b", d));
    bundle(sums.b.graph, kMB);
    return collectives(sums.b.graph).size() == 1;
  };
  EXPECT_TRUE(joined([](PhysicalGraph&, Task&) {}));
  EXPECT_TRUE(joined([](PhysicalGraph&, Task& t) { t.op = OpId(1); }));
  EXPECT_FALSE(joined([](PhysicalGraph&, Task& t) { t.phase = Phase::kForward; }));
  EXPECT_FALSE(joined([](PhysicalGraph&, Task& t) { t.phase = Phase::kBackward; }));
  EXPECT_FALSE(joined([](PhysicalGraph&, Task& t) { t.turn = Task::Turn::kLazy; }));
  EXPECT_FALSE(joined([](PhysicalGraph&, Task& t) { t.stage = 1; }));
  EXPECT_FALSE(joined([](PhysicalGraph&, Task& t) { t.rate = 2; }));
  EXPECT_FALSE(joined([](PhysicalGraph&, Task& t) { t.queue = QueueId(t.queue.index() - 2); }));  // of activations
  EXPECT_FALSE(joined([](PhysicalGraph& g, Task& t) { g.reg(t.reads[0].reg).dtype = DType::kBFloat16; }));
  EXPECT_FALSE(joined([](PhysicalGraph&, Task& t) { std::get<CollectiveWork>(t.work).reducer = tdl::Reducer::kMax; }));
  EXPECT_FALSE(
      joined([](PhysicalGraph&, Task& t) { std::get<CollectiveWork>(t.work).kind = StepKind::kReduceScatter; }));
  EXPECT_FALSE(joined([](PhysicalGraph&, Task& t) {
    auto& work = std::get<CollectiveWork>(t.work);
    work.rank = 1 - work.rank;
  }));
}

// Gathers of updated weights are joined; all-to-all exchanges are not.
TEST(Bundle, JoinsGathersThatAreNotPutOff) {
  const auto joined = [](StepKind kind, Task::Turn turn) {
    Sums sums;
    for (const char* name : {"a", "b"}) {
      sums.add(name, 800);
      for (int d = 0; d < 2; ++d) {
        std::get<CollectiveWork>(sums.sum(name, d).work).kind = kind;
        sums.sum(name, d).turn = turn;
      }
    }
    bundle(sums.b.graph, kMB);
    return collectives(sums.b.graph).size() == 1;
  };
  EXPECT_TRUE(joined(StepKind::kAllGather, Task::Turn::kEager));
  EXPECT_TRUE(joined(StepKind::kReduceScatter, Task::Turn::kLazy));
  EXPECT_FALSE(joined(StepKind::kAllToAll, Task::Turn::kEager));
}

// Weights that are gathered ahead of their readers (ZeRO-3), two at a time in the order of these: a sixteenth of all.
TEST(Bundle, JoinsGathersAheadOfTheirReaders) {
  const auto gathers = [](const BytesOfGroup& due_bytes) {
    Sums sums;
    constexpr int kWeights = 32;
    for (int w = 0; w < kWeights; ++w) {
      const std::string name = fmt::format("w{}", w);
      sums.add(name, 800);
      for (int d = 0; d < 2; ++d) {
        Task& task = sums.sum(name, d);
        std::get<CollectiveWork>(task.work).kind = StepKind::kAllGather;
        task.turn = Task::Turn::kLazy;
        task.phase = Phase::kForward;
        task.op = OpId(kWeights - w);
      }
    }
    std::vector<MicroBatchAxis> none(sums.b.graph.registers.size());
    LocallyLowered lowered{std::move(sums.b.graph), std::move(none)};
    bundle_collectives(lowered, 1, {}, due_bytes);
    return collectives(lowered.graph);
  };
  const std::vector<std::string> two = gathers([](const std::vector<DeviceId>&) { return kMB; });
  ASSERT_EQ(two.size(), 16u);
  EXPECT_NE(std::find(two.begin(), two.end(), "w31+1@0: w31@0 w30@0"), two.end());
  EXPECT_EQ(gathers({}).size(), 32u);
}

// With micro-batches, the addends of sums lie in one buffer, one tensor behind the other.
TEST(Bundle, HasOneBufferForWhatItAdds) {
  testing::PhysicalBuilder b(2, 2);
  for (const char* name : {"a", "b"}) {
    std::vector<RegisterId> made, sums;
    for (int d = 0; d < 2; ++d) {
      made.push_back(b.reg(fmt::format("{}@{}", name, d), d, 100, 2));
      sums.push_back(b.reg(fmt::format("{}.sum@{}", name, d), d, 100));
      b.graph.reg(sums.back()).accumulated = true;
      b.add(fmt::format("make_{}@{}", name, d), d, {}, {made.back()}, 2);
    }
    for (const TaskId t : b.all_reduce(name, made, sums, 2, testing::PhysicalBuilder::Of::kParameters)) {
      Task& task = b.graph.task(t);
      task.phase = Phase::kBackward;
      Register buffer;
      buffer.name = task.name + ".addend";
      buffer.device = task.device;
      buffer.bytes = addend_bytes(b.graph, task);
      buffer.uses = 2;
      b.graph.registers.push_back(buffer);
      task.scratch = {RegisterId(b.graph.registers.size() - 1)};
      task.addend = true;
    }
  }
  const std::size_t registers = b.graph.registers.size();
  bundle(b.graph, kMB);
  EXPECT_EQ(collectives(b.graph), (Texts{"a+1@0: a@0 b@0"}));
  EXPECT_EQ(b.graph.registers.size(), registers - 2);
  for (const Task& task : b.graph.tasks) {
    if (!task.addend) continue;
    ASSERT_EQ(task.scratch.size(), 1u);
    EXPECT_EQ(b.graph.reg(task.scratch[0]).bytes, 2 * 448);  // 400 bytes each, up to a multiple of 64
  }
  expect_runs(b.graph);
}

}  // namespace
}  // namespace partita
