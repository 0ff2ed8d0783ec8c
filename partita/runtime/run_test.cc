// Tests the threads engine: random nets compute the same as their tasks one after another; back pressure; errors.
#include "partita/runtime/run.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "partita/base/error.h"
#include "partita/physical/testing/builder.h"
#include "partita/physical/testing/random_net.h"
#include "partita/runtime/testing/mix_kernels.h"

namespace partita {
namespace {

using testing::PhysicalBuilder;
using testing::RandomNet;
using testing::run_in_order;
using testing::run_passes;

// ---------------------------------------------------------------- random nets against their order

// The outputs and the carried values of a run, as numbers.
struct Result {
  std::map<std::tuple<TensorId, int64_t, std::string>, std::vector<double>> outputs;  // (tensor, step, box)
  std::vector<std::vector<double>> carried;                                           // by register
  bool operator==(const Result&) const = default;
};

std::vector<double> numbers(const View& view) {
  std::vector<double> result;
  testing::for_each(view,
                    [&](const auto&, std::byte* element) { result.push_back(testing::number_at(view, element)); });
  return result;
}

// The threads' runs have bytes that are shared; the runs in order have none, so that they can't go wrong in the same
// way.
Result run_net(const PhysicalGraph& graph, int64_t steps, bool threads, RunReport* report = nullptr) {
  const Memory memory(graph);
  for (size_t r = 0; r < graph.registers.size(); ++r) {
    if (!graph.registers[r].carried) continue;
    const View view = memory.view({RegisterId(r)}, 0, 1);
    testing::for_each(view, [&](const std::vector<int64_t>& at, std::byte* element) {
      testing::put(view, element, static_cast<double>((3 * at[0] + 5 * at[1] + graph.registers[r].tensor.value) % 13));
    });
  }
  testing::MixKernels kernels;
  Result result;
  std::mutex mutex;
  Hooks hooks;
  hooks.kernels = &kernels;
  hooks.load = [](TensorId input, int64_t step, const View& into) {
    testing::for_each(into, [&](const std::vector<int64_t>& at, std::byte* element) {
      testing::put(into, element, static_cast<double>((7 * at[0] + 11 * at[1] + 3 * step + input.value) % 19));
    });
  };
  hooks.take = [&](TensorId output, int64_t step, const View& value) {
    std::lock_guard<std::mutex> lock(mutex);
    result.outputs[{output, step, to_string(value.box)}] = numbers(value);
  };
  if (threads) {
    RunReport got = run_threads(graph, memory, hooks, {.steps = steps, .trace = report != nullptr});
    if (report) *report = std::move(got);
  } else {
    run_in_order(graph, memory, hooks, steps);
  }
  result.carried.resize(graph.registers.size());
  for (size_t r = 0; r < graph.registers.size(); ++r)
    if (graph.registers[r].carried) result.carried[r] = numbers(memory.view({RegisterId(r)}, 0, 1));
  return result;
}

// Checks the firings in the trace: each once, none of one queue at once, each device's memory within the plan's peak.
void check_report(const PhysicalGraph& graph, const RunReport& report, int64_t steps) {
  std::map<std::tuple<int32_t, int, int>, int> times;
  std::map<int32_t, int64_t> free_at;
  for (const Event& e : report.trace.events) {
    times[{e.task.value, e.step, e.firing}] += 1;
    EXPECT_LE(e.start_ns, e.end_ns);
    int64_t& free = free_at[graph.task(e.task).queue.value];  // events come by start
    EXPECT_GE(e.start_ns, free) << graph.task(e.task).name;
    free = e.end_ns;
  }
  int64_t firings = 0;
  for (const Task& task : graph.tasks) firings += task.rate * steps;
  EXPECT_EQ(static_cast<int64_t>(times.size()), firings);
  EXPECT_EQ(report.trace.events.size(), times.size());
  for (size_t d = 0; d < graph.peak_bytes.size(); ++d)
    EXPECT_LE(report.peak_bytes[d], graph.peak_bytes[d]) << "device " << d;
  std::vector<int64_t> kept(graph.peak_bytes.size(), 0);
  for (const Register& reg : graph.registers)
    if (reg.carried || reg.constant) kept[reg.device.index()] += reg.bytes;
  std::map<int32_t, int64_t> least;
  for (const MemorySample& s : report.trace.memory) {
    int64_t& bytes = least.try_emplace(s.device.value, s.bytes).first->second;
    bytes = std::min(bytes, s.bytes);
  }
  for (const auto& [device, bytes] : least) EXPECT_GE(bytes, kept[device]) << "device " << device;
}

// On 1 to 8 devices beside the host, in turn.
void run_nets(uint64_t first, uint64_t last) {
  std::map<int, int> nets;  // by devices
  for (uint64_t seed = first; seed < last; ++seed) {
    const int devices = static_cast<int>(seed % 8) + 1;
    Rng rng(seed);
    const std::map<int, std::vector<int>> stages{{1, {1}},    {2, {1, 2}},    {3, {1, 3}}, {4, {1, 2, 4}},
                                                 {5, {1, 5}}, {6, {1, 2, 3}}, {7, {1, 7}}, {8, {1, 2, 4}}};
    const std::vector<int>& choices = stages.at(devices);
    testing::NetOptions options;
    options.stages = choices[rng.below(choices.size())];
    options.devices_per_stage = devices / *options.stages;
    options.layers = std::max<int>(*options.stages, static_cast<int>(rng.between(1, 3)));
    RandomNet net = testing::random_net(rng, options);
    PhysicalGraph apart = net.graph;
    run_passes(net.graph,
               {.schedule = net.schedule, .virtual_stages = net.virtual_stages, .transfer_slack = seed % 2 == 1});
    run_passes(apart, {.share_bytes = false, .schedule = net.schedule, .virtual_stages = net.virtual_stages});
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, net.features));
    ASSERT_EQ(refuse(net.graph), std::nullopt);
    RunReport report;
    const Result threads = run_net(net.graph, 3, true, &report), in_order = run_net(apart, 3, false);
    ASSERT_FALSE(threads.outputs.empty());
    ASSERT_EQ(threads.outputs, in_order.outputs);
    ASSERT_EQ(threads.carried, in_order.carried);
    check_report(net.graph, report, 3);
    if (::testing::Test::HasFailure()) return;
    nets[devices] += 1;
  }
  EXPECT_EQ(nets.size(), 8u);
}

TEST(Threads, RandomNetsComputeWhatTheirTasksDoInOrder) { run_nets(0, 300); }
TEST(LongThreads, RandomNetsComputeWhatTheirTasksDoInOrder) { run_nets(300, 10000); }

// ---------------------------------------------------------------- back pressure

// `uses` a step of one register: loaded on one queue of the device, given out on another.
PhysicalGraph producer_and_consumer(int uses, int count) {
  PhysicalBuilder b(1, uses);
  const RegisterId x = b.reg("x", 0, 16, uses);
  b.graph.tasks.resize(2);
  const auto task = [&](int number, const char* name, QueueId queue, Work work) {
    Task& t = b.graph.tasks[number];
    t.name = name;
    t.op = OpId(number);
    t.device = DeviceId(0);
    t.queue = queue;
    t.rate = uses;
    t.work = work;
  };
  task(0, "produce", QueueId(0), LoadWork{TensorId(0)});
  task(1, "consume", QueueId(3), OutputWork{TensorId(0)});  // the link 0-0: a second dynamic queue
  b.graph.tasks[0].writes = {{x}};
  b.graph.tasks[1].reads = {{x}};
  make_order(b.graph);
  b.graph.reg(x).count = count;
  plan_memory(b.graph);
  make_edges(b.graph);
  EXPECT_EQ(refuse(b.graph), std::nullopt);
  return b.graph;
}

// Waits until `there` holds. A run that hangs fails instead of standing.
void await(const std::function<bool()>& there, const char* what) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!there()) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error(fmt::format("waited in vain for {}", what));
    std::this_thread::yield();
  }
}

// Start and end of every firing over all steps, of both tasks.
struct Times {
  std::vector<std::pair<int64_t, int64_t>> produced, consumed;
};
Times times_of(const Trace& trace, int uses, int64_t steps) {
  Times times;
  times.produced.resize(uses * steps), times.consumed.resize(uses * steps);
  for (const Event& e : trace.events)
    (e.task == TaskId(0) ? times.produced : times.consumed)[e.step * uses + e.firing] = {e.start_ns, e.end_ns};
  return times;
}

// The consumer holds each piece until the producer has gone as far as it can: `count` ahead, and no farther.
TEST(BackPressure, TheProducerRunsItsCountAheadAndNoFarther) {
  for (int count : {1, 2, 3, 8}) {
    constexpr int kUses = 8;
    constexpr int64_t kSteps = 3, kTotal = kUses * kSteps;
    const PhysicalGraph graph = producer_and_consumer(kUses, count);
    const Memory memory(graph);
    std::atomic<int64_t> begun{0}, consumed{0}, farthest{0};
    Hooks hooks;
    hooks.load = [&](TensorId, int64_t, const View& into) {
      const int64_t number = begun++;
      farthest = std::max<int64_t>(farthest, number + 1 - consumed);
      fill_view(into, static_cast<double>(number));
    };
    std::vector<double> seen;
    hooks.take = [&](TensorId, int64_t, const View& value) {
      const int64_t number = consumed;
      // Slots are kUses mod count apart at the turn of a step; there the first uses wait for the last of their own
      // slots.
      const int64_t ahead = kUses % count == 0 ? count : 1;
      await([&] { return begun >= std::min(kTotal, number + ahead); }, "the producer");
      seen.push_back(numbers(value)[0]);
      ++consumed;
    };
    const RunReport report = run_threads(graph, memory, hooks, {.steps = kSteps, .trace = true});
    EXPECT_LE(farthest, count);
    if (kUses % count == 0) {
      EXPECT_EQ(farthest, count);
    }
    ASSERT_EQ(seen.size(), static_cast<size_t>(kTotal));
    for (int64_t i = 0; i < kTotal; ++i) EXPECT_EQ(seen[i], static_cast<double>(i));
    const Times times = times_of(report.trace, kUses, kSteps);
    for (int64_t i = 0; i + count < kTotal; ++i)
      EXPECT_GE(times.produced[i + count].first, times.consumed[i].second)
          << "count " << count << ", piece " << i << ": the trace shows it overwritten early";
  }
}

TEST(BackPressure, OneSlotNoOverlapTwoSlotsOverlap) {
  constexpr int kUses = 8;
  constexpr int64_t kSteps = 2, kTotal = kUses * kSteps;
  for (int count : {1, 2}) {
    const PhysicalGraph graph = producer_and_consumer(kUses, count);
    const Memory memory(graph);
    std::atomic<int64_t> producing{0}, consuming{0};  // begun
    Hooks hooks;
    // With two slots each waits, inside its firing, until the other has begun its own: only overlap lets them go on.
    hooks.load = [&](TensorId, int64_t, const View&) {
      const int64_t number = producing++;
      if (count == 2 && number > 0) await([&] { return consuming >= number; }, "the consumer");
    };
    hooks.take = [&](TensorId, int64_t, const View&) {
      const int64_t number = consuming++;
      if (count == 2 && number + 1 < kTotal) await([&] { return producing >= number + 2; }, "the producer");
    };
    const RunReport report = run_threads(graph, memory, hooks, {.steps = kSteps, .trace = true});
    const Times times = times_of(report.trace, kUses, kSteps);
    int overlaps = 0;
    for (const auto& p : times.produced)
      for (const auto& c : times.consumed) overlaps += std::max(p.first, c.first) < std::min(p.second, c.second);
    EXPECT_EQ(overlaps, count == 1 ? 0 : kTotal - 1);
  }
}

// A participant that waits for others on one static queue stops nothing on the device's other one. The gradients of
// device 1 come only when the sum of activations, behind theirs in the order, has been given out.
TEST(Threads, EachStaticQueueOfADeviceGoesOnByItself) {
  PhysicalBuilder b(2);
  std::vector<RegisterId> g, sg, a, sa;
  for (int d = 0; d < 2; ++d) {
    g.push_back(b.reg(fmt::format("g{}", d), d, 4));
    sg.push_back(b.reg(fmt::format("sg{}", d), d, 4));
    a.push_back(b.constant(fmt::format("a{}", d), d, 4));
    sa.push_back(b.reg(fmt::format("sa{}", d), d, 4));
  }
  b.add("early", 0, {}, {g[0]});
  const TaskId late = b.add("late", 1, {}, {g[1]});
  b.graph.task(late).work = LoadWork{TensorId(0)};
  const auto gradients = b.all_reduce("gradients", g, sg, 1, PhysicalBuilder::Of::kParameters),
             activations = b.all_reduce("activations", a, sa);
  const TaskId out = b.add("out", 0, {sa[0]}, {});
  b.graph.task(out).work = OutputWork{TensorId(1)};
  for (TaskId t : {TaskId(0), late, gradients[0], activations[0], out}) b.graph.order.push_back({t, 0});
  make_counts(b.graph);
  plan_memory(b.graph, {.share_bytes = false});  // nor does one wait for the other's bytes
  make_edges(b.graph);
  ASSERT_EQ(refuse(b.graph), std::nullopt);
  const Memory memory(b.graph);
  std::atomic<int64_t> given{0};
  Hooks hooks;
  hooks.load = [&](TensorId, int64_t step, const View& into) {
    await([&] { return given > step; }, "the sum of activations");
    fill_view(into, 1);
  };
  hooks.take = [&](TensorId, int64_t, const View&) { ++given; };
  run_threads(b.graph, memory, hooks, {.steps = 3});
  EXPECT_EQ(given, 3);
}

// ---------------------------------------------------------------- errors

// One task on each of several queues stops; all threads end, and the error comes out as it was.
TEST(Threads, WhatAHookThrowsStopsEveryThread) {
  for (int64_t at = 0; at < 5; ++at) {
    const PhysicalGraph graph = producer_and_consumer(4, 2);
    const Memory memory(graph);
    Hooks hooks;
    hooks.load = [&](TensorId, int64_t step, const View&) {
      if (step == at) throw Error(ExitCode::kBadInput, fmt::format("no data for step {}", step));
    };
    hooks.take = [](TensorId, int64_t, const View&) {};
    try {
      run_threads(graph, memory, hooks, {.steps = 1000});
      FAIL() << "nothing was thrown";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kBadInput);
      EXPECT_EQ(std::string(e.what()), fmt::format("no data for step {}", at));
    }
  }
}

TEST(Threads, WhatAKernelThrowsStopsEveryThread) {
  struct Failing final : Kernels {
    testing::MixKernels mix;
    std::atomic<int> calls{0};
    void run(const KernelCall& call) override {
      if (++calls == 40) throw std::out_of_range("kernel 40");
      mix.run(call);
    }
  };
  Rng rng(5);
  RandomNet net = testing::random_net(rng, {.stages = 2, .devices_per_stage = 2});
  run_passes(net.graph, {.schedule = net.schedule, .virtual_stages = net.virtual_stages});
  const Memory memory(net.graph);
  Failing kernels;
  Hooks hooks{&kernels, [](TensorId, int64_t, const View& into) { fill_view(into, 1); },
              [](TensorId, int64_t, const View&) {}};
  EXPECT_THROW(run_threads(net.graph, memory, hooks, {.steps = 50}), std::out_of_range);
}

TEST(Threads, AGraphThatHangsIsReported) {
  PhysicalBuilder b(2);
  const RegisterId x = b.reg("x", 0, 4), y = b.reg("y", 1, 4), z = b.reg("z", 1, 4);
  b.add("make", 0, {}, {x});
  b.copy("send", x, y);
  b.add("use", 1, {y}, {z});
  b.add("end", 1, {z}, {});
  run_passes(b.graph);
  b.graph.edges.push_back({b.node("use"), b.node("send"), false, EdgeKind::kPlan});
  const Memory memory(b.graph);
  try {
    run_threads(b.graph, memory, {}, {.steps = 2});
    FAIL() << "it ended";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kBug);
    EXPECT_NE(std::string(e.what()).find("send step 0 act 0 waits for"), std::string::npos) << e.what();
  }
}

TEST(Threads, NoStepsIsNothing) {
  const PhysicalGraph graph = producer_and_consumer(2, 1);
  const Memory memory(graph);
  EXPECT_TRUE(run_threads(graph, memory, {}, {.steps = 0, .trace = true}).trace.events.empty());
}

}  // namespace
}  // namespace partita
