// Tests the effect of each kind of task on the bytes, against values worked out here.
#include "partita/runtime/execute.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>

#include "partita/base/error.h"
#include "partita/physical/testing/builder.h"
#include "partita/runtime/run.h"
#include "partita/runtime/testing/mix_kernels.h"

namespace partita {
namespace {

using testing::PhysicalBuilder;
using testing::run_passes;

std::vector<double> numbers(const View& view) {
  std::vector<double> result;
  testing::for_each(view,
                    [&](const auto&, std::byte* element) { result.push_back(testing::number_at(view, element)); });
  return result;
}
void put_all(const View& view, const std::vector<double>& values) {
  size_t next = 0;
  testing::for_each(view, [&](const auto&, std::byte* element) { testing::put(view, element, values.at(next++)); });
  EXPECT_EQ(next, values.size());
}

// A register that holds `box` of a tensor, at a place of its own.
RegisterId place(PhysicalGraph& graph, const std::string& name, int device, Shape axes, Box box,
                 DType dtype = DType::kFloat32) {
  Register reg;
  reg.name = name;
  reg.device = DeviceId(device);
  reg.dtype = dtype;
  reg.axes = std::move(axes);
  reg.bytes = volume(box) * bytes_of(dtype);
  reg.boxes = {std::move(box)};
  graph.peak_bytes.resize(graph.device_count, 0);
  reg.offset = graph.peak_bytes[device];
  graph.peak_bytes[device] += reg.stride_bytes();
  graph.registers.push_back(reg);
  return RegisterId(graph.registers.size() - 1);
}
Task task_of(Work work, std::vector<Access> reads, std::vector<Access> writes) {
  Task task;
  task.name = "task";
  task.device = DeviceId(0);
  task.queue = QueueId(0);
  task.work = std::move(work);
  task.reads = std::move(reads);
  task.writes = std::move(writes);
  return task;
}
PhysicalGraph empty_graph(int devices) {
  PhysicalGraph graph;
  graph.device_count = graph.compute_count = devices;
  graph.peak_bytes.assign(devices, 0);
  return graph;
}

TEST(Copy, APartOfABoxAmongOtherAxesToo) {
  PhysicalGraph graph = empty_graph(2);
  const RegisterId a = place(graph, "a", 0, {4, 6}, {{1, 4}, {0, 6}}),
                   b = place(graph, "b", 1, {4, 6}, {{0, 4}, {2, 5}}),
                   c = place(graph, "c", 1, {4, 2, 3}, {{2, 3}, {0, 2}, {0, 3}});
  graph.tasks = {task_of(CopyWork{}, {{a, false, {{{2, 4}, {3, 5}}}}}, {{b, false, {{{2, 4}, {3, 5}}}}}),
                 task_of(CopyWork{}, {{a}}, {{c}})};
  const Memory memory(graph);
  std::vector<double> values;
  for (int i = 1; i < 4; ++i)
    for (int j = 0; j < 6; ++j) values.push_back(10 * i + j);
  put_all(memory.view({a}, 0, 1), values);
  const Hooks hooks;
  const Firings firings = prepare_firings(memory, hooks.kernels);
  const Executor executor(firings, hooks);
  executor.run(TaskId(0), 0, 0);
  EXPECT_EQ(numbers(memory.view({b}, 0, 1)), (std::vector<double>{0, 0, 0, 0, 0, 0, 0, 23, 24, 0, 33, 34}));
  executor.run(TaskId(1), 0, 0);
  EXPECT_EQ(numbers(memory.view({c}, 0, 1)), (std::vector<double>{20, 21, 22, 23, 24, 25}));
}

double reduce(tdl::Reducer reducer, double a, double b) {
  switch (reducer) {
    case tdl::Reducer::kSum:
      return a + b;
    case tdl::Reducer::kProd:
      return a * b;
    case tdl::Reducer::kMax:
      return std::max(a, b);
    case tdl::Reducer::kMin:
      return std::min(a, b);
  }
  return 0;
}
constexpr tdl::Reducer kReducers[] = {tdl::Reducer::kSum, tdl::Reducer::kProd, tdl::Reducer::kMax, tdl::Reducer::kMin};

// Boxes that overlap and leave a gap: the identity is where none reads.
TEST(Combine, EveryReducerAndDType) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt64, DType::kFloat16, DType::kBFloat16})
    for (tdl::Reducer reducer : kReducers) {
      PhysicalGraph graph = empty_graph(1);
      const RegisterId a = place(graph, "a", 0, {6}, {{0, 3}}, dtype), b = place(graph, "b", 0, {6}, {{2, 5}}, dtype),
                       c = place(graph, "c", 0, {6}, {{1, 6}}, dtype);
      graph.tasks = {task_of(CombineWork{reducer}, {{a}, {b}}, {{c}})};
      const Memory memory(graph);
      put_all(memory.view({a}, 0, 1), {-3, 2, 5});
      put_all(memory.view({b}, 0, 1), {-4, 7, 1});
      const Hooks hooks;
      Executor(prepare_firings(memory, nullptr), hooks).run(TaskId(0), 0, 0);
      const std::vector<double> got = numbers(memory.view({c}, 0, 1));
      EXPECT_EQ((std::vector(got.begin(), got.end() - 1)), (std::vector<double>{2, reduce(reducer, 5, -4), 7, 1}))
          << name_of(dtype);
      if (is_float(dtype)) {
        EXPECT_EQ(got[4], tdl::identity_of(reducer));
      } else {
        const double lowest = static_cast<double>(INT64_MIN), highest = static_cast<double>(INT64_MAX);
        EXPECT_EQ(got[4], reducer == tdl::Reducer::kMax   ? lowest
                          : reducer == tdl::Reducer::kMin ? highest
                                                          : tdl::identity_of(reducer));
      }
    }
}

// 256 and eight halves: each half alone is lost in bfloat16, whose numbers are 2 apart there.
TEST(Combine, ValuesOfTwoBytesAreRoundedOnce) {
  PhysicalGraph graph = empty_graph(1);
  std::vector<Access> reads;
  for (int i = 0; i < 9; ++i)
    reads.push_back({place(graph, fmt::format("a{}", i), 0, {1}, {{0, 1}}, DType::kBFloat16)});
  const RegisterId to = place(graph, "to", 0, {1}, {{0, 1}}, DType::kBFloat16);
  graph.tasks = {task_of(CombineWork{tdl::Reducer::kSum}, reads, {{to}})};
  const Memory memory(graph);
  for (int i = 0; i < 9; ++i) put_all(memory.view(reads[i], 0, 1), {i == 0 ? 256.0 : 0.5});
  const Hooks hooks;
  Executor(prepare_firings(memory, nullptr), hooks).run(TaskId(0), 0, 0);
  EXPECT_EQ(numbers(memory.view({to}, 0, 1)), std::vector<double>{260});
}

TEST(Combine, WithNoReadsItFills) {
  PhysicalGraph graph = empty_graph(1);
  const RegisterId c = place(graph, "c", 0, {3}, {{0, 3}});
  graph.tasks = {task_of(CombineWork{tdl::Reducer::kMax}, {}, {{c}})};
  const Memory memory(graph);
  const Hooks hooks;
  Executor(prepare_firings(memory, nullptr), hooks).run(TaskId(0), 0, 0);
  EXPECT_EQ(numbers(memory.view({c}, 0, 1)), std::vector<double>(3, -INFINITY));
}

TEST(Combine, ANaNStaysOne) {
  PhysicalGraph graph = empty_graph(1);
  const RegisterId a = place(graph, "a", 0, {2}, {{0, 2}}), b = place(graph, "b", 0, {2}, {{0, 2}}),
                   c = place(graph, "c", 0, {2}, {{0, 2}});
  for (tdl::Reducer reducer : {tdl::Reducer::kMax, tdl::Reducer::kMin}) {
    graph.tasks = {task_of(CombineWork{reducer}, {{a}, {b}}, {{c}})};
    const Memory memory(graph);
    put_all(memory.view({a}, 0, 1), {NAN, 1});
    put_all(memory.view({b}, 0, 1), {2, NAN});
    const Hooks hooks;
    Executor(prepare_firings(memory, nullptr), hooks).run(TaskId(0), 0, 0);
    for (double x : numbers(memory.view({c}, 0, 1))) EXPECT_TRUE(std::isnan(x));
  }
}

// ---------------------------------------------------------------- collectives

// One collective of three participants: its inputs and results. Values are of (participant, row, column).
std::vector<std::vector<double>> collect(StepKind kind, bool partial, tdl::Reducer reducer,
                                         const std::vector<Box>& held, const std::vector<Box>& gets) {
  const int n = static_cast<int>(held.size());
  PhysicalBuilder b(n);
  PhysicalGraph& graph = b.graph;
  const Shape axes{5, 7};
  std::vector<RegisterId> from, to;
  for (int d = 0; d < n; ++d) {
    from.push_back(place(graph, fmt::format("from{}", d), d, axes, held[d]));
    to.push_back(place(graph, fmt::format("to{}", d), d, axes, gets[d]));
    graph.reg(from[d]).constant = true;
  }
  for (TaskId t : b.all_reduce("c", from, to)) {
    auto& work = std::get<CollectiveWork>(graph.task(t).work);
    work.kind = kind;
    work.partial = partial;
    work.reducer = reducer;
  }
  run_passes(graph);
  EXPECT_EQ(refuse(graph), std::nullopt);
  const Memory memory(graph);
  for (int d = 0; d < n; ++d) {
    const View view = memory.view({from[d]}, 0, 1);
    testing::for_each(view, [&](const auto& at, std::byte* element) {
      testing::put(view, element,
                   (d % 2 ? -1 : 1) * (partial ? d + 1 : 1) * static_cast<double>(10 * at[0] + at[1] + 1));
    });
  }
  run_threads(graph, memory, {}, {.steps = 2});
  std::vector<std::vector<double>> result;
  for (int d = 0; d < n; ++d) result.push_back(numbers(memory.view({to[d]}, 0, 1)));
  return result;
}

const Box kWhole{{0, 5}, {0, 7}};
Box rows(int64_t lo, int64_t hi) { return {{lo, hi}, {0, 7}}; }
Box columns(int64_t lo, int64_t hi) { return {{0, 5}, {lo, hi}}; }
std::vector<double> expected(const Box& box, const std::function<double(int64_t, int64_t)>& value) {
  std::vector<double> result;
  for (int64_t i = box[0].lo; i < box[0].hi; ++i)
    for (int64_t j = box[1].lo; j < box[1].hi; ++j) result.push_back(value(i, j));
  return result;
}

TEST(Collective, AllReduceAndReduceScatterWithEveryReducer) {
  for (tdl::Reducer reducer : kReducers) {
    const auto value = [&](int64_t i, int64_t j) {
      const double x = static_cast<double>(10 * i + j + 1);
      return static_cast<double>(static_cast<float>(reduce(reducer, reduce(reducer, x, -2 * x), 3 * x)));
    };
    for (const auto& got :
         collect(StepKind::kAllReduce, true, reducer, {kWhole, kWhole, kWhole}, {kWhole, kWhole, kWhole}))
      EXPECT_EQ(got, expected(kWhole, value));
    const std::vector<Box> parts{rows(0, 1), rows(1, 3), rows(3, 5)};
    const auto scattered = collect(StepKind::kReduceScatter, true, reducer, {kWhole, kWhole, kWhole}, parts);
    for (int d = 0; d < 3; ++d) EXPECT_EQ(scattered[d], expected(parts[d], value));
  }
}

TEST(Collective, AllGatherOfUnevenAndEmptyParts) {
  const auto gathered = collect(StepKind::kAllGather, false, tdl::Reducer::kSum,
                                {columns(0, 3), columns(3, 3), columns(3, 7)}, {kWhole, kWhole, kWhole});
  for (const auto& got : gathered)
    EXPECT_EQ(got, expected(kWhole, [](int64_t i, int64_t j) { return static_cast<double>(10 * i + j + 1); }));
}

TEST(Collective, AllToAllFromRowsToColumns) {
  const std::vector<Box> parts{columns(0, 2), columns(2, 4), columns(4, 7)};
  const auto got = collect(StepKind::kAllToAll, false, tdl::Reducer::kSum, {rows(0, 2), rows(2, 4), rows(4, 5)}, parts);
  for (int d = 0; d < 3; ++d)
    EXPECT_EQ(got[d], expected(parts[d], [](int64_t i, int64_t j) {
                return (i >= 2 && i < 4 ? -1 : 1) * static_cast<double>(10 * i + j + 1);
              }));
}

// If several hold an element, that of the lowest rank is taken.
TEST(Collective, AnElementThatSeveralHoldIsTheFirstOnes) {
  const auto got = collect(StepKind::kAllGather, false, tdl::Reducer::kSum, {rows(0, 3), rows(2, 4), rows(3, 5)},
                           {kWhole, kWhole, kWhole});
  for (const auto& values : got)
    EXPECT_EQ(values, expected(kWhole, [](int64_t i, int64_t j) {
                return (i == 3 ? -1 : 1) * static_cast<double>(10 * i + j + 1);
              }));
}

// ---------------------------------------------------------------- firings and steps

// The values of each output, in order; those of the first element.
struct Taken {
  std::mutex mutex;
  std::map<int32_t, std::vector<double>> values;
  Hooks hooks(const LoadInput& load) {
    Hooks hooks;
    hooks.load = load;
    hooks.take = [this](TensorId output, int64_t, const View& value) {
      std::lock_guard<std::mutex> lock(mutex);
      values[output.value].push_back(numbers(value)[0]);
    };
    return hooks;
  }
};
TaskId input(PhysicalBuilder& b, const std::string& name, RegisterId reg, int rate) {
  const TaskId id = b.add(name, 0, {}, {reg}, rate);
  b.graph.task(id).work = LoadWork{TensorId(0)};
  return id;
}
TaskId output(PhysicalBuilder& b, const std::string& name, RegisterId reg, int rate, int number, bool fresh = false) {
  const TaskId id = b.add(name, b.graph.reg(reg).device.value, {reg}, {}, rate);
  b.graph.task(id).work = OutputWork{TensorId(static_cast<size_t>(number))};
  b.graph.task(id).reads[0].fresh = fresh;
  return id;
}

// Firings 1 to 3 add to the result of firing 0, in every step anew: by a combination, a copy and a collective.
TEST(Accumulated, LaterActsAdd) {
  PhysicalBuilder b(2, 4);
  const RegisterId x = b.reg("x", 0, 3, 4), there = b.reg("there", 1, 3, 4), sum = b.reg("sum", 0, 3),
                   copied = b.reg("copied", 1, 3), r0 = b.reg("r0", 0, 3), r1 = b.reg("r1", 1, 3);
  for (RegisterId id : {sum, copied, r0, r1}) b.graph.reg(id).accumulated = true;
  input(b, "load", x, 4);
  b.copy("send", x, there, 4);
  b.add("add", 0, {x, x}, {sum}, 4);
  b.copy("copy", x, copied, 4);
  b.all_reduce("reduce", {x, there}, {r0, r1}, 4);
  output(b, "give0", sum, 1, 0);
  output(b, "give1", copied, 1, 1);
  output(b, "give2", r0, 1, 2);
  output(b, "give3", r1, 1, 3);
  run_passes(b.graph);
  ASSERT_EQ(refuse(b.graph), std::nullopt);
  const Memory memory(b.graph);
  Taken taken;
  int64_t loaded = 0;
  const Hooks hooks = taken.hooks([&](TensorId, int64_t step, const View& into) {
    fill_view(into, static_cast<double>(100 * step + loaded++ % 4));
  });
  run_threads(b.graph, memory, hooks, {.steps = 3});
  const auto four = [](double times) {
    return std::vector<double>{6 * times, 406 * times, 806 * times};
  };  // 4 * 100 * step + 0 + 1 + 2 + 3
  EXPECT_EQ(taken.values[0], four(2));
  EXPECT_EQ(taken.values[1], four(1));
  EXPECT_EQ(taken.values[2], four(2));
  EXPECT_EQ(taken.values[3], four(2));
}

TEST(Accumulated, AKernelsLaterActsAdd) {
  struct Ones final : Kernels {
    void run(const KernelCall& call) override {
      for (const View& view : call.writes) fill_view(view, call.firing + 1);
    }
  };
  PhysicalBuilder b(1, 3);
  const RegisterId g = b.reg("g", 0, 6);
  b.graph.reg(g).accumulated = true;
  const TaskId kernel = b.add("kernel", 0, {}, {g}, 3);
  KernelWork work;
  work.bound = std::make_shared<const tdl::Bound>(tdl::bind("ones(a)[i] = a[i] * 0 + 1", {{6}}));
  b.graph.task(kernel).work = work;
  b.graph.task(kernel).writes[0].tensor = 1;
  output(b, "give", g, 1, 0);
  run_passes(b.graph);
  const Memory memory(b.graph);
  Taken taken;
  Hooks hooks = taken.hooks({});
  Ones kernels;
  hooks.kernels = &kernels;
  run_threads(b.graph, memory, hooks, {.steps = 2});
  EXPECT_EQ(taken.values[0], (std::vector<double>{6, 6}));
}

// w' = w + x in place: readers of the old w see it before, readers of the new one after, over four steps.
TEST(Carried, OldAndNew) {
  PhysicalBuilder b(1);
  const RegisterId w = b.carried("w", 0, 2), x = b.reg("x", 0, 2);
  input(b, "load", x, 1);
  output(b, "old", w, 1, 0);
  b.add("update", 0, {w, x}, {w});
  output(b, "new", w, 1, 1, true);
  run_passes(b.graph);
  ASSERT_EQ(refuse(b.graph), std::nullopt);
  const Memory memory(b.graph);
  put_all(memory.view({w}, 0, 1), {1000, 1000});
  Taken taken;
  const Hooks hooks =
      taken.hooks([](TensorId, int64_t step, const View& into) { fill_view(into, static_cast<double>(step + 1)); });
  run_threads(b.graph, memory, hooks, {.steps = 4});
  EXPECT_EQ(taken.values[0], (std::vector<double>{1000, 1001, 1003, 1006}));
  EXPECT_EQ(taken.values[1], (std::vector<double>{1001, 1003, 1006, 1010}));
}

// Steps are numbered from first_step, for data, outputs and random numbers.
TEST(Steps, AreCountedFromTheFirst) {
  struct Steps final : Kernels {
    std::vector<uint64_t> seen;
    void run(const KernelCall& call) override {
      EXPECT_EQ(call.seed, 7u);
      seen.push_back(call.step);
      fill_view(call.writes[0], 0);
    }
  };
  PhysicalBuilder b(1);
  const RegisterId x = b.reg("x", 0, 2), y = b.reg("y", 0, 2);
  input(b, "load", x, 1);
  const TaskId kernel = b.add("kernel", 0, {x}, {y});
  KernelWork work;
  work.bound = std::make_shared<const tdl::Bound>(tdl::bind("f(a)[i] = a[i]", {{2}}));
  b.graph.task(kernel).work = work;
  b.graph.task(kernel).reads[0].tensor = 0;
  b.graph.task(kernel).writes[0].tensor = 1;
  output(b, "give", x, 1, 0);
  run_passes(b.graph);
  const Memory memory(b.graph);
  Taken taken;
  Hooks hooks =
      taken.hooks([](TensorId, int64_t step, const View& into) { fill_view(into, static_cast<double>(step)); });
  Steps kernels;
  hooks.kernels = &kernels;
  hooks.seed = 7;
  hooks.first_step = 40;
  run_threads(b.graph, memory, hooks, {.steps = 3});
  EXPECT_EQ(taken.values[0], (std::vector<double>{40, 41, 42}));
  EXPECT_EQ(kernels.seen, (std::vector<uint64_t>{40, 41, 42}));
}

// An output that fires once a step gets a register of several uses piece by piece, each with its box.
TEST(Output, OfMicroBatchesOnceAStep) {
  PhysicalBuilder b(1, 3);
  const RegisterId x = b.reg("x", 0, 7, 3);
  Register& reg = b.graph.reg(x);
  reg.boxes = {{{0, 2}}, {{2, 4}}, {{4, 7}}};
  reg.bytes = 12;
  input(b, "load", x, 3);
  output(b, "give", x, 1, 0);
  run_passes(b.graph);
  ASSERT_EQ(refuse(b.graph), std::nullopt);
  const Memory memory(b.graph);
  std::vector<double> whole(7);
  Hooks hooks;
  hooks.load = [](TensorId, int64_t, const View& into) {
    testing::for_each(
        into, [&](const auto& at, std::byte* element) { testing::put(into, element, static_cast<double>(at[0] + 1)); });
  };
  hooks.take = [&](TensorId, int64_t, const View& value) {
    testing::for_each(value,
                      [&](const auto& at, std::byte* element) { whole[at[0]] += testing::number_at(value, element); });
  };
  run_threads(b.graph, memory, hooks, {});
  EXPECT_EQ(whole, (std::vector<double>{1, 2, 3, 4, 5, 6, 7}));
}

}  // namespace
}  // namespace partita
