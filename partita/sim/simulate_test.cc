// Tests timelines worked out by hand, the order rules, and properties of the timelines of random nets.
#include "partita/sim/simulate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/graph/kept_gradients.h"
#include "partita/physical/testing/builder.h"
#include "partita/physical/testing/random_net.h"

namespace partita {
namespace {

using testing::one_byte_a_ns;
using testing::PhysicalBuilder;
using testing::run_passes;

// "task step start end", a line an event; with firings "task#firing step start end".
std::string timeline(const PhysicalGraph& graph, const Trace& trace) {
  std::string text;
  for (const Event& e : trace.events)
    text += fmt::format("{} {} {} {}\n",
                        graph.task(e.task).rate == 1 ? graph.task(e.task).name
                                                     : fmt::format("{}#{}", graph.task(e.task).name, e.firing),
                        e.step, e.start_ns, e.end_ns);
  return text;
}

std::string run(PhysicalBuilder& b, int devices, int steps = 1) {
  const Cluster cluster = one_byte_a_ns(devices);
  EXPECT_EQ(refuse(b.graph), std::nullopt);
  return timeline(b.graph, simulate(b.graph, CostModel(cluster), steps));
}

// Two devices, two transfers in opposite directions, and a join:
//   gpu0: a [0,10) b [10,30)            d [65,70)
//   0-1:          x [10,50)   1-0: y [25,65)
//   gpu1: c [0,25)            e [50,60)
TEST(Timeline, TwoDevicesAndTheirTransfers) {
  PhysicalBuilder b(2);
  const RegisterId ra = b.reg("ra", 0, 10), rb = b.reg("rb", 0, 1), rx = b.reg("rx", 1, 10), rc = b.reg("rc", 1, 10),
                   ry = b.reg("ry", 0, 10), re = b.reg("re", 1, 1);
  const auto bytes = [&](TaskId task, int64_t ns) { b.graph.task(task).bytes = ns; };
  bytes(b.add("a", 0, {}, {ra}), 10);
  bytes(b.add("b", 0, {ra}, {rb}), 20);
  bytes(b.copy("x", ra, rx), 40);
  bytes(b.add("c", 1, {}, {rc}), 25);
  bytes(b.copy("y", rc, ry), 40);
  bytes(b.add("e", 1, {rx}, {re}), 10);
  bytes(b.add("d", 0, {rb, ry}, {}), 5);
  run_passes(b.graph, {.share_bytes = false});
  EXPECT_EQ(run(b, 2),
            "a 0 0 10\n"
            "c 0 0 25\n"
            "b 0 10 30\n"
            "x 0 10 50\n"
            "y 0 25 65\n"
            "e 0 50 60\n"
            "d 0 65 70\n");
}

// The same from text, so that nothing of it is the builder's.
TEST(Timeline, FromText) {
  const PhysicalGraph graph = parse_physical(R"(physical "by hand"
micro_batches 1
devices 2 compute 2
queue gpu0.compute compute 0
queue gpu1.compute compute 1
queue 0-1 link 1
register h device 0 float32 axes [4] box [0,4) bytes 16 offset 0 count 1 uses 1
register g device 0 float32 axes [4] box [0,4) bytes 16 offset 64 count 1 uses 1
register h@1 device 1 float32 axes [4] box [0,4) bytes 16 offset 0 count 1 uses 1
register g@1 device 1 float32 axes [4] box [0,4) bytes 16 offset 64 count 1 uses 1
register sum device 1 float32 axes [4] box [0,4) bytes 16 offset 128 count 1 uses 1
task h op 0 forward device 0 queue gpu0.compute rate 1 stage 0 turn in-place flops 7 bytes 3
  combine sum
  write h
task send_h op 1 forward device 1 queue 0-1 rate 1 stage 0 turn lazy flops 0 bytes 16
  copy
  route 1
  read h
  write h@1
task g op 2 forward device 0 queue gpu0.compute rate 1 stage 0 turn in-place flops 2 bytes 9
  combine sum
  write g
task send_g op 3 forward device 1 queue 0-1 rate 1 stage 0 turn lazy flops 0 bytes 16
  copy
  route 1
  read g
  write g@1
task sum op 4 forward device 1 queue gpu1.compute rate 1 stage 0 turn in-place flops 1 bytes 1
  combine sum
  read h@1
  read g@1
  write sum
task end op 5 forward device 1 queue gpu1.compute rate 1 stage 0 turn in-place flops 0 bytes 0
  combine sum
  read sum
order
  h g send_h send_g sum end
edge h -> send_h data
edge g -> send_g data
edge send_h -> sum data
edge send_g -> sum data
edge sum -> end data
edge send_h -> h reuse next
edge send_g -> g reuse next
edge sum -> send_h reuse next
edge sum -> send_g reuse next
edge end -> sum reuse next
peak_bytes 128 192
)");
  ASSERT_EQ(refuse(graph), std::nullopt);
  const Cluster cluster = one_byte_a_ns(2);
  const Trace trace = simulate(graph, CostModel(cluster), 1);
  // h: 7 FLOPs and 3 bytes at once: the roofline takes the longer. `end` has no work, and takes its one tick.
  EXPECT_EQ(timeline(graph, trace),
            "h 0 0 7\n"
            "send_h 0 7 23\n"
            "g 0 7 16\n"
            "send_g 0 23 39\n"
            "sum 0 39 40\n"
            "end 0 40 41\n");
  EXPECT_EQ(trace.step_time_ns, 41);
  EXPECT_EQ(trace.link_bytes, (std::vector<int64_t>{0, 32, 0, 0}));
  // h is written again when it has been sent, h@1 when it has been read.
  EXPECT_EQ(timeline(graph, simulate(graph, CostModel(cluster), 2)),
            "h 0 0 7\n"
            "send_h 0 7 23\n"
            "g 0 7 16\n"
            "h 1 23 30\n"
            "send_g 0 23 39\n"
            "g 1 39 48\n"
            "sum 0 39 40\n"
            "send_h 1 40 56\n"
            "end 0 40 41\n"
            "send_g 1 56 72\n"
            "sum 1 72 73\n"
            "end 1 73 74\n");
}

// `links` transfers of 100 bytes out of device 0, all over one link or each over its own.
int64_t last_end(bool one_link) {
  PhysicalBuilder b(3);
  for (int i = 0; i < 2; ++i) {
    const RegisterId from = b.constant(fmt::format("from{}", i), 0, 25),
                     to = b.reg(fmt::format("to{}", i), one_link ? 1 : i + 1, 25);
    b.copy(fmt::format("send{}", i), from, to);
    b.add(fmt::format("use{}", i), one_link ? 1 : i + 1, {to}, {});
  }
  run_passes(b.graph, {.share_bytes = false});
  const Cluster cluster = one_byte_a_ns(3);
  int64_t end = 0;
  for (const Event& e : simulate(b.graph, CostModel(cluster)).events)
    if (b.graph.task(e.task).name.starts_with("send")) end = std::max(end, e.end_ns);
  return end;
}

TEST(Timeline, TwoTransfersOnOneLinkTakeTwiceAsLong) {
  EXPECT_EQ(last_end(false), 100);
  EXPECT_EQ(last_end(true), 200);
}

// ---------------------------------------------------------------- the order rules

// When `long` ends, `early` (low in the order, ready only since a moment ago) goes before `waiting`, ready all along.
TEST(Order, ADynamicQueueRunsTheLowestReady) {
  PhysicalBuilder b(2);
  const RegisterId s = b.constant("s", 1, 5), t = b.reg("t", 0, 5);
  const TaskId send = b.copy("send", s, t), busy = b.add("long", 0, {}, {}), early = b.add("early", 0, {t}, {}),
               waiting = b.add("waiting", 0, {}, {});
  b.graph.task(busy).bytes = 20;
  b.graph.task(early).bytes = b.graph.task(waiting).bytes = 7;
  b.graph.order = {{send, 0}, {busy, 0}, {early, 0}, {waiting, 0}};
  const auto rest = [&] {
    make_counts(b.graph);
    plan_memory(b.graph);
    make_edges(b.graph);
  };
  rest();
  EXPECT_EQ(run(b, 2), "send 0 0 20\nlong 0 0 20\nearly 0 20 27\nwaiting 0 27 34\n");
  b.graph.task(send).bytes = 21;  // one tick later: it does not stand idle for it
  EXPECT_EQ(run(b, 2), "send 0 0 21\nlong 0 0 20\nwaiting 0 20 27\nearly 0 27 34\n");
  b.graph.task(send).bytes = 20;
  b.graph.order = {{send, 0}, {busy, 0}, {waiting, 0}, {early, 0}};
  rest();
  EXPECT_EQ(run(b, 2), "send 0 0 20\nlong 0 0 20\nwaiting 0 20 27\nearly 0 27 34\n");
}

// The second of two collectives of one group is ready first, and waits for its turn.
TEST(Order, AStaticQueueRunsItsShareInOrder) {
  PhysicalBuilder b(2);
  std::vector<RegisterId> x, y, sx, sy;
  for (int d = 0; d < 2; ++d) {
    x.push_back(b.reg(fmt::format("x{}", d), d, 5));
    y.push_back(b.constant(fmt::format("y{}", d), d, 5));
    sx.push_back(b.reg(fmt::format("sx{}", d), d, 5));
    sy.push_back(b.reg(fmt::format("sy{}", d), d, 5));
    b.graph.task(b.add(fmt::format("make{}", d), d, {}, {x[d]})).bytes = 30 + 20 * d;
  }
  for (const auto& participants : {b.all_reduce("first", x, sx), b.all_reduce("second", y, sy)})
    for (TaskId t : participants) b.graph.task(t).bytes = 10;
  for (std::size_t t : {0, 1, 2, 4}) b.graph.order.push_back({TaskId(t), 0});
  make_counts(b.graph);
  plan_memory(b.graph, {.share_bytes = false});
  make_edges(b.graph);
  // `first` begins when the last participant has come (make1 at 50), on both its queues.
  EXPECT_EQ(run(b, 2),
            "make0 0 0 30\nmake1 0 0 50\nfirst@0 0 50 60\nfirst@1 0 50 60\nsecond@0 0 60 70\nsecond@1 0 60 70\n");
}

// A reduction of gradients comes first in the order and is ready late. It holds up no sum of activations, which are on
// other queues. The one behind it on its own queue waits.
TEST(Order, EachKindOfGroupHasAStaticQueueOfItsOwn) {
  using Of = PhysicalBuilder::Of;
  for (const Of of : {Of::kActivations, Of::kParameters}) {
    PhysicalBuilder b(4);
    std::vector<RegisterId> g, sg, a, sa;
    for (int d : {0, 2}) {
      g.push_back(b.reg(fmt::format("g{}", d), d, 5));
      sg.push_back(b.reg(fmt::format("sg{}", d), d, 5));
      b.graph.task(b.add(fmt::format("make{}", d), d, {}, {g.back()})).bytes = 30 + 10 * d;
    }
    for (int d : {0, 1}) {
      a.push_back(b.constant(fmt::format("a{}", d), d, 5));
      sa.push_back(b.reg(fmt::format("sa{}", d), d, 5));
    }
    const auto late = b.all_reduce("gradients", g, sg, 1, Of::kParameters),
               early = b.all_reduce("tensor", a, sa, 1, of);
    for (TaskId t : late) b.graph.task(t).bytes = 100;
    for (TaskId t : early) b.graph.task(t).bytes = 10;
    for (TaskId t : {TaskId(0), TaskId(1), late[0], early[0]}) b.graph.order.push_back({t, 0});
    make_counts(b.graph);
    plan_memory(b.graph, {.share_bytes = false});
    make_edges(b.graph);
    EXPECT_EQ(run(b, 4), of == Of::kActivations ? "make0 0 0 30\nmake2 0 0 50\ntensor@0 0 0 10\ntensor@1 0 0 10\n"
                                                  "gradients@0 0 50 150\ngradients@2 0 50 150\n"
                                                : "make0 0 0 30\nmake2 0 0 50\ngradients@0 0 50 150\n"
                                                  "gradients@2 0 50 150\ntensor@0 0 150 160\ntensor@1 0 150 160\n");
  }
}

// A collective takes the links between ring neighbours when its last participant has come, and not before. A transfer
// that is ready meanwhile goes first, and one that comes later waits.
TEST(Order, ACollectiveHoldsItsLinksFromWhenTheLastHasCome) {
  PhysicalBuilder b(2);
  const RegisterId x0 = b.constant("x0", 0, 5), x1 = b.reg("x1", 1, 5), s0 = b.reg("s0", 0, 5), s1 = b.reg("s1", 1, 5),
                   c = b.constant("c", 0, 5), before = b.reg("before", 1, 5), after = b.reg("after", 1, 5),
                   late = b.reg("late", 0, 5);
  b.graph.task(b.add("make", 1, {}, {x1})).bytes = 30;
  b.graph.task(b.add("late", 0, {}, {late})).bytes = 35;
  for (TaskId t : b.all_reduce("sum", {x0, x1}, {s0, s1})) b.graph.task(t).bytes = 12;
  b.graph.task(b.copy("before", c, before)).bytes = 25;
  b.graph.task(b.copy("after", late, after)).bytes = 4;
  for (std::size_t t : {0, 1, 2, 4, 5}) b.graph.order.push_back({TaskId(t), 0});
  make_counts(b.graph);
  plan_memory(b.graph, {.share_bytes = false});
  make_edges(b.graph);
  EXPECT_EQ(run(b, 2), "make 0 0 30\nlate 0 0 35\nbefore 0 0 25\nsum@0 0 30 42\nsum@1 0 30 42\nafter 0 42 46\n");
  // A transfer that is on the link when the last has come is waited for.
  b.graph.task(TaskId(4)).bytes = 33;
  EXPECT_EQ(run(b, 2), "make 0 0 30\nlate 0 0 35\nbefore 0 0 33\nsum@0 0 33 45\nsum@1 0 33 45\nafter 0 45 49\n");
}

// Two groups that share a device follow each other. A third, apart from both, runs at the same time.
TEST(Order, GroupsThatShareADeviceFollowEachOther) {
  PhysicalBuilder b(5);
  const auto group = [&](const std::string& name, const std::vector<int>& devices, int64_t ns) {
    std::vector<RegisterId> from, to;
    for (int d : devices) {
      from.push_back(b.constant(fmt::format("{}.x{}", name, d), d, 1));
      to.push_back(b.reg(fmt::format("{}.y{}", name, d), d, 1));
    }
    const auto participants = b.all_reduce(name, from, to);
    for (TaskId t : participants) b.graph.task(t).bytes = ns;
    b.graph.order.push_back({participants[0], 0});
  };
  group("a", {0, 1}, 10);
  group("b", {1, 2}, 20);
  group("c", {3, 4}, 7);
  make_counts(b.graph);
  plan_memory(b.graph);
  make_edges(b.graph);
  EXPECT_EQ(run(b, 5), "a@0 0 0 10\na@1 0 0 10\nc@3 0 0 7\nc@4 0 0 7\nb@1 0 10 30\nb@2 0 10 30\n");
}

// ---------------------------------------------------------------- steps and firings

// A register of `count` slots between a producer of 10 and a transfer of 30 ns, four micro-batches, two steps.
std::string pipeline(int count, int64_t* step_time = nullptr) {
  PhysicalBuilder b(2, 4);
  const RegisterId x = b.reg("x", 0, 1, 4), y = b.reg("y", 1, 1, 4);
  const TaskId make = b.add("make", 0, {}, {x}, 4), send = b.copy("send", x, y, 4);
  b.add("use", 1, {y}, {}, 4);
  b.graph.task(make).bytes = 10;
  b.graph.task(send).bytes = 30;
  make_order(b.graph);
  b.graph.reg(x).count = count;
  b.graph.reg(y).count = 4;
  plan_memory(b.graph, {.share_bytes = false});
  make_edges(b.graph);
  EXPECT_EQ(refuse(b.graph), std::nullopt);
  const Cluster cluster = one_byte_a_ns(2);
  Trace trace = simulate(b.graph, CostModel(cluster), 2);
  if (step_time) *step_time = trace.step_time_ns;
  std::erase_if(trace.events, [](const Event& e) { return e.task == TaskId(2); });
  return timeline(b.graph, trace);
}

TEST(Steps, OneSlotNoOverlapTwoSlotsOverlapAlsoFromStepToStep) {
  int64_t one = 0, two = 0;
  EXPECT_EQ(pipeline(1, &one),
            "make#0 0 0 10\nsend#0 0 10 40\nmake#1 0 40 50\nsend#1 0 50 80\nmake#2 0 80 90\nsend#2 0 90 120\nmake#3 0 "
            "120 130\nsend#3 0 130 160\n"
            "make#0 1 160 170\nsend#0 1 170 200\nmake#1 1 200 210\nsend#1 1 210 240\nmake#2 1 240 250\nsend#2 1 250 "
            "280\nmake#3 1 280 290\nsend#3 1 290 320\n");
  EXPECT_EQ(pipeline(2, &two),
            "make#0 0 0 10\nmake#1 0 10 20\nsend#0 0 10 40\nmake#2 0 40 50\nsend#1 0 40 70\nmake#3 0 70 80\nsend#2 0 "
            "70 100\nmake#0 1 100 110\nsend#3 0 100 130\n"
            "make#1 1 130 140\nsend#0 1 130 160\nmake#2 1 160 170\nsend#1 1 160 190\nmake#3 1 190 200\nsend#2 1 190 "
            "220\nsend#3 1 220 250\n");
  EXPECT_EQ(one, 160);  // (320 + the last use's tick) / 2
  EXPECT_EQ(two, 125);
}

// A task has one counter: its second firing waits for its first, although its own operand was there long before.
TEST(Steps, ActsOfATaskFollowEachOther) {
  PhysicalBuilder b(1, 2);
  const RegisterId x = b.reg("x", 0, 1, 2);
  const TaskId make = b.add("make", 0, {}, {x}, 2), use = b.add("use", 0, {x}, {}, 2);
  b.graph.order = {{make, 0}, {make, 1}, {use, 0}, {use, 1}};
  b.graph.reg(x).count = 2;
  plan_memory(b.graph);
  make_edges(b.graph);
  std::swap(b.graph.order[2], b.graph.order[3]);
  std::erase_if(b.graph.edges, [&](const Edge& e) { return e.kind == EdgeKind::kFiring; });
  const Cluster cluster = one_byte_a_ns(1);
  const std::string got = timeline(b.graph, simulate(b.graph, CostModel(cluster)));
  EXPECT_LT(got.find("use#0"), got.find("use#1")) << got;
}

// Carried w: a reader of the old value, an update, and the next step's reader waits for it.
TEST(Steps, ACarriedRegisterJoinsThem) {
  PhysicalBuilder b(1);
  const RegisterId w = b.carried("w", 0, 1), g = b.reg("g", 0, 1);
  b.graph.task(b.add("read", 0, {w}, {g})).bytes = 5;
  b.graph.task(b.add("update", 0, {w, g}, {w})).bytes = 3;
  run_passes(b.graph);
  EXPECT_EQ(run(b, 1, 3), "read 0 0 5\nupdate 0 5 8\nread 1 8 13\nupdate 1 13 16\nread 2 16 21\nupdate 2 21 24\n");
}

// ---------------------------------------------------------------- memory

TEST(Memory, OverTime) {
  PhysicalBuilder b(1);
  const RegisterId w = b.carried("w", 0, 25), x = b.reg("x", 0, 10), y = b.reg("y", 0, 20), z = b.reg("z", 0, 5),
                   s = b.reg("s", 0, 3);
  const auto lasts = [&](TaskId t, int64_t ns) { b.graph.task(t).bytes = ns; };
  lasts(b.add("make", 0, {w}, {x}), 10);
  lasts(b.add("use", 0, {x}, {y}), 20);
  const TaskId both = b.add("both", 0, {x, y}, {z});
  lasts(both, 5);
  b.graph.task(both).scratch = {s};
  b.graph.reg(s).boxes.clear();
  lasts(b.add("last", 0, {z}, {}), 1);
  run_passes(b.graph, {.share_bytes = false});
  const Cluster cluster = one_byte_a_ns(1);
  const Trace trace = simulate(b.graph, CostModel(cluster));
  std::vector<std::pair<int64_t, int64_t>> samples;
  for (const MemorySample& m : trace.memory) samples.push_back({m.time_ns, m.bytes});
  EXPECT_EQ(samples, (std::vector<std::pair<int64_t, int64_t>>{{0, 140}, {10, 220}, {30, 252}, {35, 120}, {36, 100}}));
}

// Four tasks of 10 ns each. w's gradient, 60 bytes, stays until v's update has ended.
TEST(Memory, KeptGradientsUntilTheLastUpdate) {
  PhysicalBuilder b(1);
  const RegisterId v = b.carried("v", 0, 10), w = b.carried("w", 0, 15), gv = b.reg("gv", 0, 10),
                   gw = b.reg("gw", 0, 15);
  std::vector<Event> events;
  const auto runs = [&](TaskId task) {
    Event e;
    e.task = task;
    e.start_ns = 10 * static_cast<int64_t>(events.size()), e.end_ns = e.start_ns + 10;
    events.push_back(e);
    return task;
  };
  runs(b.add("make gw", 0, {w}, {gw}));
  const TaskId update_w = runs(b.add("update w", 0, {w, gw}, {w}));
  runs(b.add("make gv", 0, {v}, {gv}));
  const TaskId update_v = runs(b.add("update v", 0, {v, gv}, {v}));
  for (const TaskId update : {update_w, update_v}) {
    b.graph.task(update).work = KernelWork{.attributes = {{kKeptGradient, 1}}};
    b.graph.task(update).reads[1].tensor = 1;
  }
  run_passes(b.graph);
  std::vector<std::pair<int64_t, int64_t>> samples;
  for (const MemorySample& m : memory_over_time(b.graph, events)) samples.push_back({m.time_ns, m.bytes});
  EXPECT_EQ(samples, (std::vector<std::pair<int64_t, int64_t>>{{0, 160}, {20, 200}, {40, 100}}));
}

TEST(Memory, AResultOverItsOperandCountsOnce) {
  PhysicalBuilder b(1);
  const RegisterId x = b.reg("x", 0, 16), y = b.reg("y", 0, 16);
  b.add("make", 0, {}, {x});
  b.graph.task(b.add("relu", 0, {x}, {y})).elementwise = true;
  b.add("last", 0, {y}, {});
  run_passes(b.graph);
  ASSERT_EQ(b.graph.reg(x).offset, b.graph.reg(y).offset);
  const Cluster cluster = one_byte_a_ns(1);
  int64_t peak = 0;
  for (const MemorySample& m : simulate(b.graph, CostModel(cluster), 3).memory) peak = std::max(peak, m.bytes);
  EXPECT_EQ(peak, 64);
}

// ---------------------------------------------------------------- random nets

// The slow obvious simulator: at every instant all nodes are tried in order. The fast one must agree event for event.
std::vector<Event> slow(const PhysicalGraph& graph, const CostModel& cost, int steps) {
  const NodeTable table = number_nodes(graph);
  const std::vector<int> place = places(graph, table);
  const int64_t n = static_cast<int64_t>(graph.order.size());
  const auto members = [&](int64_t x) {
    std::vector<TaskId> tasks = table.members[table.number(graph.order[x % n])];
    if (tasks.size() > 1)
      std::sort(tasks.begin(), tasks.end(), [&](TaskId a, TaskId b) {
        return std::get<CollectiveWork>(graph.task(a).work).rank < std::get<CollectiveWork>(graph.task(b).work).rank;
      });
    return tasks;
  };
  std::map<Node, std::vector<Edge>> into;
  for (const Edge& e : graph.edges) into[e.to].push_back(e);
  std::vector<int64_t> end(n * steps, -1);
  std::vector<Event> events;
  std::map<QueueId, int64_t> free_at;
  std::map<QueueId, std::vector<int64_t>> shares;  // of static queues
  std::map<QueueId, std::size_t> next;
  for (int64_t x = 0; x < n * steps; ++x)
    for (TaskId t : members(x))
      if (graph.queues[graph.task(t).queue.index()].is_static()) shares[graph.task(t).queue].push_back(x);
  const auto over = [&](int64_t step, const Node& node, int64_t now) {
    if (step < 0) return true;
    const int64_t at = end[step * n + place[table.number(node)]];
    return at >= 0 && at <= now;
  };
  std::set<int64_t> times{0};
  while (!times.empty()) {
    const int64_t now = *times.begin();
    times.erase(times.begin());
    for (int64_t x = 0; x < n * steps; ++x) {
      if (end[x] >= 0) continue;
      const Node node = graph.order[x % n];
      const int64_t step = x / n;
      const int rate = graph.task(node.task).rate;
      bool can =
          node.firing > 0 ? over(step, {node.task, node.firing - 1}, now) : over(step - 1, {node.task, rate - 1}, now);
      for (const Edge& e : into[node]) can = can && over(step - e.next, e.from, now);
      if (!can) continue;
      std::set<QueueId> queues;
      const std::vector<TaskId> tasks = members(x);
      for (TaskId t : tasks) {
        const Task& task = graph.task(t);
        queues.insert(task.queue);
        if (!graph.queues[task.queue.index()].is_static()) continue;
        can = can && shares[task.queue][next[task.queue]] == x;
        for (std::size_t q = 0; q < graph.queues.size(); ++q)
          if (graph.queues[q].kind == QueueKind::kLink && graph.queues[q].link == task.route[0])
            queues.insert(QueueId(q));
      }
      for (QueueId q : queues) can = can && free_at[q] <= now;
      if (!can) continue;
      const bool together = std::holds_alternative<CollectiveWork>(graph.task(node.task).work);
      end[x] = now + (together ? cost.collective_ns(graph, tasks) : cost.task_ns(graph, graph.task(node.task)));
      times.insert(end[x]);
      for (QueueId q : queues) free_at[q] = end[x];
      for (TaskId t : tasks) {
        if (graph.queues[graph.task(t).queue.index()].is_static()) ++next[graph.task(t).queue];
        events.push_back({t, static_cast<int>(step), node.firing, now, end[x]});
      }
    }
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.start_ns, a.task, a.step, a.firing) < std::tie(b.start_ns, b.task, b.step, b.firing);
  });
  return events;
}

TEST(RandomNets, TheFastSimulatorIsTheSlowOne) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Rng rng(seed);
    testing::RandomNet net = testing::random_net(rng);
    run_passes(net.graph,
               {.schedule = net.schedule, .virtual_stages = net.virtual_stages, .transfer_slack = seed % 2 == 1});
    for (Task& task : net.graph.tasks) task.bytes = rng.between(0, 40);
    Cluster cluster = one_byte_a_ns(net.graph.device_count);
    for (Link& link : cluster.links) link.latency_us = rng.below(2) ? 0.003 : 0;
    const CostModel cost(cluster);
    const Trace trace = simulate(net.graph, cost, 3);
    ASSERT_EQ(trace.events, slow(net.graph, cost, 3)) << "seed " << seed << ": " << net.features;
    ASSERT_EQ(trace, simulate(net.graph, cost, 3));
    std::vector<int64_t> peak(net.graph.device_count, 0);
    for (const MemorySample& m : trace.memory) peak[m.device.index()] = std::max(peak[m.device.index()], m.bytes);
    for (int d = 0; d < net.graph.device_count; ++d)
      ASSERT_LE(peak[d], net.graph.peak_bytes[d]) << "seed " << seed << ", device " << d;
  }
}

// 20,000 tasks: layers on eight devices, each followed by an all-reduce and a transfer to the neighbour.
TEST(Speed, TwentyThousandTasks) {
  constexpr int kDevices = 8, kLayers = 840;
  PhysicalBuilder b(kDevices);
  std::vector<RegisterId> h;
  for (int d = 0; d < kDevices; ++d) h.push_back(b.constant(fmt::format("h@{}", d), d, 4));
  for (int l = 0; l < kLayers; ++l) {
    std::vector<RegisterId> z, sum, next;
    for (int d = 0; d < kDevices; ++d) {
      z.push_back(b.reg(fmt::format("z{}@{}", l, d), d, 4));
      sum.push_back(b.reg(fmt::format("s{}@{}", l, d), d, 4));
      next.push_back(b.reg(fmt::format("h{}@{}", l, d), d, 4));
      b.graph.task(b.add(fmt::format("mm{}@{}", l, d), d, {h[d]}, {z[d]})).bytes = 100 + d;
      b.graph.order.push_back({TaskId(b.graph.tasks.size() - 1), 0});
    }
    b.graph.order.push_back({b.all_reduce(fmt::format("reduce{}", l), z, sum)[0], 0});
    for (int d = 0; d < kDevices; ++d) {
      b.copy(fmt::format("shift{}@{}", l, d), sum[(d + 1) % kDevices], next[d]);
      b.graph.order.push_back({TaskId(b.graph.tasks.size() - 1), 0});
    }
    h = next;
    // Data edges are enough for one step.
    for (int d = 0; d < kDevices; ++d) {
      const std::size_t first = b.graph.tasks.size() - 3 * kDevices;
      const auto edge = [&](std::size_t from, std::size_t to) {
        b.graph.edges.push_back({{TaskId(from), 0}, {TaskId(to), 0}, false, EdgeKind::kData});
      };
      edge(first + d, first + kDevices);
      edge(first + kDevices, first + 2 * kDevices + d);
      if (l > 0) edge(first - kDevices + d, first + d);
    }
  }
  ASSERT_GE(b.graph.tasks.size(), 20000u);
  const Cluster cluster = one_byte_a_ns(kDevices);
  const auto start = std::chrono::steady_clock::now();
  const Trace trace = simulate(b.graph, CostModel(cluster));
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{} tasks simulated in {:.0f} ms\n", b.graph.tasks.size(), ms);
  EXPECT_EQ(trace.events.size(), b.graph.tasks.size());
  EXPECT_EQ(trace.step_time_ns, kLayers * (107 + 1 + 16));
  EXPECT_LT(ms, 5000);  // a sanitized build, on a busy machine; release takes a hundredth
}

}  // namespace
}  // namespace partita
