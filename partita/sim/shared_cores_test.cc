// Tests steps on a machine that was profiled, by hand: cores that devices share, messages between queues, caches.
#include <gtest/gtest.h>

#include "partita/base/testing/error_of.h"
#include "partita/physical/testing/builder.h"
#include "partita/sim/running.h"
#include "partita/sim/simulate.h"
#include "partita/sim/warmth.h"

namespace partita {
namespace {

using testing::one_byte_a_ns;
using testing::PhysicalBuilder;
using testing::run_passes;

// A cluster whose local work takes a nanosecond a byte, as measured, with all cores busy `together` times as long.
Cluster profiled(int devices, Machine machine, double together = 1) {
  Cluster cluster = one_byte_a_ns(devices);
  for (Device& device : cluster.devices) device.model = "core";
  Profile profile;
  profile.device = "core";
  profile.machine = std::move(machine);
  std::vector<Curve::Point> points;
  for (const double bytes : {10.0, 100.0, 1000.0, 10000.0})
    points.push_back({bytes, {.us = bytes / 1e3, .runs = 1, .together_us = together * bytes / 1e3}, 0});
  profile.curves[{"copy", 0}] = fit_curve(std::move(points));
  cluster.profile = std::make_shared<const Profile>(std::move(profile));
  return cluster;
}

// A kernel of so many bytes on each device, at once.
PhysicalBuilder at_once(const std::vector<int64_t>& bytes) {
  PhysicalBuilder b(static_cast<int>(bytes.size()));
  for (size_t d = 0; d < bytes.size(); ++d) {
    const int device = static_cast<int>(d);
    const RegisterId r = b.reg(fmt::format("r{}", d), device, 1);
    b.graph.task(b.add(fmt::format("k{}", d), device, {}, {r})).bytes = bytes[d];
  }
  run_passes(b.graph);
  return b;
}

int64_t step_ns(const PhysicalBuilder& b, const Cluster& cluster) {
  return simulate(b.graph, CostModel(cluster)).step_time_ns;
}

TEST(SharedCores, TakeTurnsWhereThereAreTooFew) {
  EXPECT_EQ(step_ns(at_once({1000, 1000}), profiled(2, {.cores = 2})), 1000);
  EXPECT_EQ(step_ns(at_once({1000, 1000}), profiled(2, {.cores = 1})), 2000);
  // 300 each at half speed until 600; then the rest of the longer one by itself.
  EXPECT_EQ(step_ns(at_once({300, 1000}), profiled(2, {.cores = 1})), 1300);
  // Three on two cores: 400 at 2/3 until 600, then two with 600 left on two cores.
  EXPECT_EQ(step_ns(at_once({400, 1000, 1000}), profiled(3, {.cores = 2})), 1200);
}

TEST(SharedCores, ShareMemoryToo) {
  // 1.5 times as long together: 600 of each until 900, then 400 isolated.
  EXPECT_EQ(step_ns(at_once({600, 1000}), profiled(2, {.cores = 2}, 1.5)), 1300);
}

TEST(SharedCores, RefuseStepsWithoutAnEnd) {
  constexpr const char* kTooLong = "the predicted step takes more than 3 years";
  constexpr const char* kTask = "'k0' takes more than 115 days";
  const PhysicalBuilder two = at_once({1000, 1000});
  // Two together take so many times as long that no number of nanoseconds is enough.
  EXPECT_NE(error_of([&] { step_ns(two, profiled(2, {.cores = 2}, 1e300)); }).find(kTooLong), std::string::npos);
  EXPECT_NE(error_of([&] { step_ns(two, profiled(2, {.cores = 2}, 1e15)); }).find(kTooLong), std::string::npos);
  for (const double task_us : {1e15, 1e300}) {
    EXPECT_NE(error_of([&] { step_ns(two, profiled(2, {.cores = 2, .task_us = task_us})); }).find(kTask),
              std::string::npos);
    EXPECT_NE(error_of([&] { step_ns(two, profiled(2, {.task_us = task_us})); }).find(kTask), std::string::npos);
  }
  Cluster slow = one_byte_a_ns(2);
  for (Device& device : slow.devices) device.launch_overhead_us = 1e15;
  EXPECT_NE(error_of([&] { step_ns(two, slow); }).find(kTask), std::string::npos);
  // 29 kernels of 100 days, one after another.
  PhysicalBuilder chain(1);
  RegisterId last = chain.reg("r", 0, 1);
  chain.add("k", 0, {}, {last});
  for (int i = 0; i < 28; ++i) {
    const RegisterId next = chain.reg(fmt::format("r{}", i), 0, 1);
    chain.add(fmt::format("k{}", i), 0, {last}, {next});
    last = next;
  }
  run_passes(chain.graph);
  for (Device& device : slow.devices) device.launch_overhead_us = 9e12;
  EXPECT_NE(error_of([&] { step_ns(chain, slow); }).find(kTooLong), std::string::npos);
}

TEST(SharedCores, ADeviceAloneIsAsWithoutThem) {
  PhysicalBuilder b(1);
  RegisterId last = b.reg("r", 0, 1);
  b.graph.task(b.add("k", 0, {}, {last})).bytes = 40;
  for (int i = 0; i < 5; ++i) {
    const RegisterId next = b.reg(fmt::format("r{}", i), 0, 1);
    b.graph.task(b.add(fmt::format("k{}", i), 0, {last}, {next})).bytes = 100 + i;
    last = next;
  }
  run_passes(b.graph);
  const Trace shared = simulate(b.graph, CostModel(profiled(1, {.cores = 1})), 3),
              own = simulate(b.graph, CostModel(one_byte_a_ns(1)), 3);
  EXPECT_EQ(shared.events, own.events);
}

TEST(Messages, TakeTheirTimeBetweenQueuesAlone) {
  PhysicalBuilder b(2);
  const RegisterId a = b.reg("a", 0, 1), c = b.reg("c", 0, 1), there = b.reg("there", 1, 1), d = b.reg("d", 1, 1);
  b.graph.task(b.add("one", 0, {}, {a})).bytes = 100;
  b.graph.task(b.add("two", 0, {a}, {c})).bytes = 100;
  b.graph.task(b.copy("move", c, there)).bytes = 50;
  b.graph.task(b.add("three", 1, {there}, {d})).bytes = 100;
  run_passes(b.graph);
  EXPECT_EQ(step_ns(b, profiled(2, {.cores = 2})), 350);
  EXPECT_EQ(step_ns(b, profiled(2, {.cores = 2, .message_us = 0.02})), 390);
}

// A queue that is busy has the message by the time it is done.
TEST(Messages, CostNothingToAQueueThatIsBusy) {
  PhysicalBuilder b(2);
  const RegisterId a = b.reg("a", 0, 1), there = b.reg("there", 1, 1), x = b.reg("x", 1, 1), y = b.reg("y", 1, 1);
  b.graph.task(b.add("one", 0, {}, {a})).bytes = 100;
  b.graph.task(b.copy("move", a, there)).bytes = 50;
  b.graph.task(b.add("busy", 1, {}, {x})).bytes = 500;
  b.graph.task(b.add("then", 1, {there, x}, {y})).bytes = 100;
  run_passes(b.graph);
  EXPECT_EQ(step_ns(b, profiled(2, {.cores = 2, .message_us = 0.03})), 600);
}

// The example of warmth.h: registers of 1 MB, a cache of 2 MB, and kernels that touch one each.
TEST(Warmth, IsWhatWasTouchedNotLongAgo) {
  constexpr int64_t kElements = 1 << 18;
  PhysicalBuilder b(1);
  const RegisterId ra = b.reg("ra", 0, kElements), rb = b.reg("rb", 0, kElements), rc = b.reg("rc", 0, kElements),
                   rd = b.reg("rd", 0, kElements);
  b.add("a", 0, {}, {ra});
  b.add("b", 0, {}, {rb});
  b.add("a again", 0, {ra}, {});
  b.add("c", 0, {}, {rc});
  b.add("d", 0, {}, {rd});
  b.add("b again", 0, {rb, rd}, {});
  for (Task& task : b.graph.tasks) task.work = KernelWork{};
  run_passes(b.graph, {.share_bytes = false});
  ASSERT_EQ(b.graph.order.size(), 6u);
  const std::vector<CacheFractions> cached = cache_fractions(b.graph, 2 << 20, 0);
  EXPECT_EQ(cached[2].warm, 1);    // a again: only b came between
  EXPECT_EQ(cached[3].warm, 0);    // c was touched a step ago
  EXPECT_EQ(cached[5].warm, 0.5);  // d is there, b is not
  EXPECT_EQ(cached[5].far, 0);
  // Between b and b again come a, c and d, 4 MB with b itself; between c and c of the step before all others.
  const auto far_with = [&](int64_t shared_bytes) {
    return cache_fractions(b.graph, 2 << 20, static_cast<double>(shared_bytes));
  };
  EXPECT_EQ(far_with(1 << 20)[5].warm, 0.5);
  EXPECT_EQ(far_with(1 << 20)[5].far, 0.75);  // all of b, half of d, which is as large as the cache
  EXPECT_EQ(far_with(4 << 20)[5].far, 0.25);  // the cache ends as often before as after
  EXPECT_EQ(far_with(1 << 20)[3].far, 1);     // c
  EXPECT_EQ(far_with(16 << 20)[3].far, 0);
}

// A register twice as large as the cache: of its halves, the one that was written last is there.
TEST(Warmth, IsOfThePartThatIsRead) {
  constexpr int64_t kHalf = 1 << 19;
  PhysicalBuilder b(1);
  const RegisterId x = b.reg("x", 0, 2 * kHalf);
  const auto half = [&](int n) { return Access{x, false, {Box{{n * kHalf, (n + 1) * kHalf}}}}; };
  b.add("low", 0, {}, {x});
  b.add("high", 0, {}, {x});
  b.add("high again", 0, {x}, {});
  b.add("low again", 0, {x}, {});
  for (Task& task : b.graph.tasks) task.work = KernelWork{};
  for (const int t : {0, 1}) b.graph.tasks[static_cast<size_t>(t)].writes = {half(t)};
  for (const int t : {2, 3}) b.graph.tasks[static_cast<size_t>(t)].reads = {half(3 - t)};
  run_passes(b.graph, {.share_bytes = false});
  const std::vector<CacheFractions> cached = cache_fractions(b.graph, 2 << 20, 0);
  ASSERT_EQ(b.graph.order.size(), 4u);
  EXPECT_EQ(cached[2].warm, 1);
  EXPECT_EQ(cached[3].warm, 0);
}

}  // namespace
}  // namespace partita
