// Tests the actors under a deterministic scheduler: random nets run to their end without foreign elements, and so do
// mutants that pass verification.
#include "partita/runtime/actor.h"

#include <gtest/gtest.h>

#include <map>

#include "partita/base/error.h"
#include "partita/physical/testing/builder.h"
#include "partita/physical/testing/mutate.h"
#include "partita/physical/testing/random_net.h"
#include "partita/runtime/testing/scheduled_run.h"

namespace partita {
namespace {

using testing::lowered_net;
using testing::Outcome;
using testing::PhysicalBuilder;
using testing::RandomNet;
using testing::run_passes;
using testing::run_scheduled;
using testing::TaggedRun;

// `schedules` seeds a net.
void run_nets(uint64_t first, uint64_t last, int schedules) {
  int interleaved = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    const RandomNet net = lowered_net(seed);
    interleaved += net.virtual_stages > 1;
    for (int k = 0; k < schedules; ++k) {
      Rng rng(seed * 1000 + static_cast<uint64_t>(k));
      const TaggedRun run = run_scheduled(net.graph, rng);
      ASSERT_EQ(run.outcome, Outcome::kDone)
          << "net " << seed << ", schedule " << k << " (" << net.features << "): " << run.what;
    }
  }
  EXPECT_GT(interleaved, static_cast<int>(last - first) / 10);
}

TEST(Actors, RunRandomNetsUnderRandomSchedules) { run_nets(0, 1000, 1); }
TEST(LongActors, RunRandomNetsUnderRandomSchedules) { run_nets(1000, 6000, 10); }

void run_mutants(uint64_t first, uint64_t last, int schedules) {
  auto [tallies, wrong] = testing::run_mutants(
      first, last, 1, schedules, [](const PhysicalGraph& graph, Rng& rng) { return run_scheduled(graph, rng); });
  EXPECT_EQ(wrong, "");
  // The scheduler finds the expected faults, so that `ran right` is worth something.
  EXPECT_GT(tallies["added edge"].hang, 0);
  EXPECT_GT(tallies["added edge"].accepted, 0);
  EXPECT_GT(tallies["swap in a static queue"].hang, 0);
  EXPECT_GT(tallies["dropped edge"].corrupt, 0);
  EXPECT_GT(tallies["one slot less"].corrupt, 0);
  EXPECT_GT(tallies["moved offset"].corrupt, 0);
}

TEST(Actors, MutantsThatAreAdmittedRunRight) { run_mutants(0, 150, 4); }
TEST(LongActors, MutantsThatAreAdmittedRunRight) { run_mutants(1000, 3000, 6); }

// Three groups {0,1}, {1,2}, {2,0} with a collective each: in one order they end; crossed, each queue waits for
// another.
PhysicalGraph three_groups() {
  PhysicalBuilder b(3);
  for (int i = 0; i < 3; ++i) {
    const int d = i, e = (i + 1) % 3;
    const auto name = [&](const char* what, int device) { return fmt::format("{}{}@{}", what, i, device); };
    const RegisterId xd = b.reg(name("x", d), d, 4), xe = b.reg(name("x", e), e, 4), yd = b.reg(name("y", d), d, 4),
                     ye = b.reg(name("y", e), e, 4);
    b.add(name("make", d), d, {}, {xd});
    b.add(name("make", e), e, {}, {xe});
    b.all_reduce(fmt::format("sum{}", i), {xd, xe}, {yd, ye});
    b.add(name("use", d), d, {yd}, {});
    b.add(name("use", e), e, {ye}, {});
  }
  run_passes(b.graph);
  return b.graph;
}

TEST(Actors, OverlappingGroupsInOneOrder) {
  const PhysicalGraph graph = three_groups();
  ASSERT_FALSE(refuse(graph).has_value());
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Rng rng(seed);
    const TaggedRun run = run_scheduled(graph, rng);
    ASSERT_EQ(run.outcome, Outcome::kDone) << "seed " << seed << ": " << run.what;
  }
}

// An engine that only notes which firings begin; the test says when one ends.
struct Notes final : Engine {
  std::vector<std::pair<TaskId, int64_t>> begun;  // (task, step)
  std::vector<std::pair<int, Message>> sent;
  void send(int worker, Message message) override { sent.push_back({worker, message}); }
  bool execute(TaskId task, int64_t step, int) override {
    begun.push_back({task, step});
    return false;
  }
};

// A dynamic queue runs the ready firing that is lowest in the order, also if it has just heard of it.
TEST(Actors, ADynamicQueueRunsTheLowestReady) {
  PhysicalBuilder b(2);
  const RegisterId x = b.reg("x", 1, 4), y = b.reg("y", 0, 4), a = b.reg("a", 0, 4), c = b.reg("c", 0, 4);
  const TaskId far = b.add("far", 1, {}, {x}), copy = b.copy("copy", x, y), first = b.add("first", 0, {}, {a}),
               low = b.add("low", 0, {y}, {}), high = b.add("high", 0, {}, {c});
  b.graph.order = {{far, 0}, {copy, 0}, {first, 0}, {low, 0}, {high, 0}};
  make_counts(b.graph);
  plan_memory(b.graph, {.share_bytes = false});
  make_edges(b.graph);
  const ActorTable table(b.graph, 2);
  Rendezvous rendezvous(0);
  Notes notes;
  Worker worker(table, table.actors[low.index()].worker, rendezvous, notes);
  using Kind = Message::Kind;
  const auto next = [&] { return worker.advance() ? notes.begun.back() : std::pair(TaskId(), int64_t{-1}); };
  EXPECT_EQ(next(), std::pair(first, int64_t{0}));
  EXPECT_FALSE(worker.advance());  // it is busy
  worker.receive({Kind::kDone, copy, low});
  worker.receive({Kind::kCompleted, first, first});
  EXPECT_EQ(next(), std::pair(low, int64_t{0}));
  worker.receive({Kind::kCompleted, low, low});
  EXPECT_EQ(next(), std::pair(high, int64_t{0}));
  worker.receive({Kind::kCompleted, high, high});
  EXPECT_EQ(next(), std::pair(first, int64_t{1}));  // the next step's
  worker.receive({Kind::kCompleted, first, first});
  EXPECT_EQ(next(), std::pair(high, int64_t{1}));  // `low` has heard of one copy only
  worker.receive({Kind::kCompleted, high, high});
  EXPECT_FALSE(worker.advance());
  EXPECT_FALSE(worker.finished());
  worker.receive({Kind::kDone, copy, low});
  EXPECT_EQ(next(), std::pair(low, int64_t{1}));
  worker.receive({Kind::kCompleted, low, low});
  EXPECT_TRUE(worker.finished());
}

// A collective begins when its last participant has come, and goes on when its last is done: for all of them alike.
TEST(Actors, ACollectiveBeginsAndEndsForAllAtOnce) {
  PhysicalBuilder b(2);
  const RegisterId x0 = b.constant("x0", 0, 4), x1 = b.constant("x1", 1, 4), y0 = b.reg("y0", 0, 4),
                   y1 = b.reg("y1", 1, 4);
  const auto parts = b.all_reduce("sum", {x0, x1}, {y0, y1});
  run_passes(b.graph);
  struct Begins final : Engine {
    std::vector<TaskId> began_, finished_;
    std::vector<std::pair<int, Message>> sent;
    void send(int worker, Message message) override { sent.push_back({worker, message}); }
    bool execute(TaskId, int64_t, int) override { return false; }
    void began(TaskId task, int64_t, int) override { began_.push_back(task); }
    void finished(TaskId task, int64_t, int) override { finished_.push_back(task); }
  } engine;
  const ActorTable table(b.graph, 1);
  Rendezvous rendezvous(table.collectives.size());
  std::vector<Worker> workers{Worker(table, 0, rendezvous, engine), Worker(table, 1, rendezvous, engine)};
  EXPECT_TRUE(workers[1].advance());
  EXPECT_TRUE(engine.began_.empty());
  EXPECT_TRUE(workers[0].advance());
  EXPECT_EQ(engine.began_, parts);
  ASSERT_EQ(engine.sent.size(), 2u);
  for (const auto& [worker, message] : std::vector(engine.sent)) {
    EXPECT_EQ(message.kind, Message::Kind::kGo);
    workers[worker].receive(message);
  }
  engine.sent.clear();
  workers[0].receive({Message::Kind::kCompleted, parts[0], parts[0]});
  EXPECT_TRUE(engine.finished_.empty());
  EXPECT_TRUE(engine.sent.empty());
  workers[1].receive({Message::Kind::kCompleted, parts[1], parts[1]});
  EXPECT_EQ(engine.finished_, parts);
  for (const auto& [worker, message] : std::vector(engine.sent)) workers[worker].receive(message);
  EXPECT_TRUE(workers[0].finished() && workers[1].finished());
}

// Names what every worker waits for, when nothing moves.
TEST(Actors, AHangNamesWhatIsMissing) {
  PhysicalBuilder b(1);
  const RegisterId x = b.reg("x", 0, 4);
  b.add("make", 0, {}, {x});
  b.add("use", 0, {x}, {});
  run_passes(b.graph);
  b.graph.edges.push_back({b.node("use"), b.node("make"), false, EdgeKind::kPlan});
  ASSERT_TRUE(refuse(b.graph).has_value());
  Rng rng(1);
  const TaggedRun run = run_scheduled(b.graph, rng);
  EXPECT_EQ(run.outcome, Outcome::kHang);
  EXPECT_NE(run.what.find("make step 0 act 0 waits for use(0)"), std::string::npos) << run.what;
}

}  // namespace
}  // namespace partita
