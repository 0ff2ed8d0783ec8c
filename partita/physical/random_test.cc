// Tests the passes on random nets: they are admitted, and run on tagged memory without a hang and without foreign
// elements. Admission refuses mutants of them unless they run right.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>

#include "partita/base/error.h"
#include "partita/physical/passes.h"
#include "partita/physical/testing/builder.h"
#include "partita/physical/testing/mutate.h"
#include "partita/physical/testing/random_net.h"
#include "partita/physical/testing/tagged_run.h"

namespace partita {
namespace {

using testing::lowered_net;
using testing::Outcome;
using testing::RandomNet;
using testing::run_tagged;
using testing::TaggedRun;

// Tells whether some device has collectives on two queues.
bool has_two_static_queues(const PhysicalGraph& graph) {
  std::map<DeviceId, QueueId> first;
  return std::any_of(graph.tasks.begin(), graph.tasks.end(), [&](const Task& task) {
    return std::holds_alternative<CollectiveWork>(task.work) &&
           first.try_emplace(task.device, task.queue).first->second != task.queue;
  });
}

void run_nets(uint64_t first, uint64_t last, int schedules) {
  int both = 0, shared = 0, interleaved = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    const RandomNet net = lowered_net(seed);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, net.features));
    ASSERT_NO_THROW(verify(net.graph));
    const auto why = refuse(net.graph);
    ASSERT_FALSE(why.has_value()) << *why;
    for (int k = 0; k < schedules; ++k) {
      Rng rng(seed * 100 + static_cast<uint64_t>(k));
      const TaggedRun run = run_tagged(net.graph, rng, {.in_order = k % 3 == 2});
      ASSERT_EQ(run.outcome, Outcome::kDone) << run.what;
    }
    interleaved += net.virtual_stages > 1;
    both += has_two_static_queues(net.graph);
    int64_t bytes = 0, peak = 0;
    for (const Register& reg : net.graph.registers) bytes += reg.count * reg.stride_bytes();
    for (int64_t p : net.graph.peak_bytes) peak += p;
    shared += peak < bytes;
  }
  EXPECT_GT(both, static_cast<int>(last - first) / 10);
  EXPECT_GT(interleaved, static_cast<int>(last - first) / 10);
  EXPECT_GT(shared, static_cast<int>(last - first) / 2);
}

TEST(RandomNets, AreAdmittedAndRun) { run_nets(0, 150, 3); }
TEST(LongRandomNets, AreAdmittedAndRun) { run_nets(1000, 6000, 4); }

void run_mutants(uint64_t first, uint64_t last, int schedules) {
  auto [tallies, wrong] = testing::run_mutants(
      first, last, 2, schedules, [](const PhysicalGraph& graph, Rng& rng) { return run_tagged(graph, rng); });
  EXPECT_EQ(wrong, "");
  for (const char* name : {"dropped edge", "added edge", "swap in a static queue", "another static queue",
                           "swap in the order", "one slot less", "moved offset"})
    EXPECT_GT(tallies[name].refused, 0) << name;
  EXPECT_GT(tallies["dropped edge"].corrupt, 0);
  EXPECT_GT(tallies["added edge"].hang, 0);
  EXPECT_GT(tallies["added edge"].accepted, 0);
  EXPECT_GT(tallies["swap in a static queue"].hang, 0);
  EXPECT_GT(tallies["one slot less"].corrupt, 0);
  EXPECT_GT(tallies["moved offset"].corrupt, 0);
}

TEST(RandomNets, MutantsThatAreAdmittedRunRight) { run_mutants(0, 60, 3); }
TEST(LongRandomNets, MutantsThatAreAdmittedRunRight) { run_mutants(1000, 3000, 4); }

// The executor finds this by itself: a register that is acknowledged when a task begins is overwritten while it is
// read.
TEST(RandomNets, EarlyReleaseIsCorrupt) {
  int corrupt = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const RandomNet net = lowered_net(seed);
    Rng rng(seed);
    corrupt += run_tagged(net.graph, rng, {.release_at_start = true}).outcome == Outcome::kCorrupt;
  }
  EXPECT_EQ(corrupt, 10);
}

TEST(RandomNets, PrintAndParseTheSame) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const RandomNet net = lowered_net(seed);
    const std::string text = print(net.graph);
    const PhysicalGraph again = parse_physical(text);
    EXPECT_EQ(print(again), text) << "seed " << seed;
    EXPECT_EQ(again.registers, net.graph.registers);
    EXPECT_EQ(again.edges, net.graph.edges);
    EXPECT_FALSE(refuse(again).has_value());
  }
}

}  // namespace
}  // namespace partita
