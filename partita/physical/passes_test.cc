// Tests the passes and admission on graphs made by hand.
#include "partita/physical/passes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "partita/base/error.h"
#include "partita/physical/testing/builder.h"

namespace partita {
namespace {

using testing::PhysicalBuilder;
using testing::pipeline;
using testing::run_passes;

std::string order_text(const PhysicalGraph& graph) {
  std::string text;
  for (const Node& node : graph.order) text += (text.empty() ? "" : " ") + to_string(graph, node);
  return text;
}

std::vector<std::string> edges_text(const PhysicalGraph& graph) {
  std::vector<std::string> lines;
  for (const Edge& e : graph.edges)
    lines.push_back(to_string(graph, e.from) + (e.next ? " => " : " -> ") + to_string(graph, e.to));
  std::sort(lines.begin(), lines.end());
  return lines;
}

void expect_within(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

std::string refusal(const PhysicalGraph& graph) { return refuse(graph).value_or("admitted"); }

TEST(Order, FollowsTheGraphAndPutsLazyTasksBeforeTheirReader) {
  PhysicalBuilder b(2);
  const RegisterId w = b.reg("w", 1, 8), moved = b.reg("moved", 0, 8), x = b.reg("x", 0, 8), y = b.reg("y", 0, 8),
                   z = b.reg("z", 0, 8);
  b.add("make_w", 1, {}, {w});
  b.copy("fetch_w", w, moved);
  b.add("make_x", 0, {}, {x});
  b.add("make_y", 0, {x}, {y});
  b.add("join", 0, {y, moved}, {z});
  make_order(b.graph);
  EXPECT_EQ(order_text(b.graph), "make_w make_x make_y fetch_w join");
  make_order(b.graph, {.control_edges = false});
  EXPECT_EQ(order_text(b.graph), "make_w fetch_w make_x make_y join");
}

TEST(Order, AnUpdateStandsAsSoonAsItsGradientIsWhole) {
  PhysicalBuilder b(1);
  const RegisterId w = b.carried("w", 0, 8), v = b.carried("v", 0, 8), g = b.reg("g", 0, 8), h = b.reg("h", 0, 8);
  b.graph.task(b.add("grad_w", 0, {w}, {g})).phase = Phase::kBackward;
  b.graph.task(b.add("grad_v", 0, {v}, {h})).phase = Phase::kBackward;
  b.graph.task(b.add("update_w", 0, {g, w}, {w})).phase = Phase::kUpdate;
  b.graph.task(b.add("update_v", 0, {h, v}, {v})).phase = Phase::kUpdate;
  for (Task& task : b.graph.tasks) task.work = KernelWork{};
  make_order(b.graph);
  EXPECT_EQ(order_text(b.graph), "grad_w update_w grad_v update_v");
  make_order(b.graph, {.control_edges = false});
  EXPECT_EQ(order_text(b.graph), "grad_w grad_v update_w update_v");
}

TEST(Order, AReaderOfTheOldValueStandsBeforeItsReplacement) {
  PhysicalBuilder b(1);
  const RegisterId w = b.carried("w", 0, 8), a = b.reg("a", 0, 8);
  b.graph.task(b.add("update", 0, {w}, {w})).phase = Phase::kUpdate;
  b.add("read", 0, {w}, {a});
  make_order(b.graph);
  EXPECT_EQ(order_text(b.graph), "read update");
}

TEST(Order, NamesACycle) {
  PhysicalBuilder b(1);
  const RegisterId x = b.reg("x", 0, 8), y = b.reg("y", 0, 8);
  b.add("a", 0, {y}, {x});
  b.add("b", 0, {x}, {y});
  try {
    make_order(b.graph);
    FAIL() << "ordered a cycle";
  } catch (const Error& error) {
    expect_within(error.what(), "a -> b -> a");
  }
}

// Lists a device's tasks in order: "f0 b1" the forward of micro-batch 0, then the backward of 1. With `with_stages`:
// "f2.0" the forward of virtual stage 2 for micro-batch 0.
std::string share(const PhysicalGraph& graph, int device, bool with_stages = false) {
  std::string text;
  for (const Node& node : graph.order) {
    const Task& task = graph.task(node.task);
    if (task.device != DeviceId(device) || !task.route.empty()) continue;
    text +=
        with_stages ? fmt::format("{}.{} ", task.name, node.firing) : fmt::format("{}{} ", task.name[0], node.firing);
  }
  return text;
}

// The unit-time runs of three stages and four micro-batches, as drawn in the papers: the last and the first stage.
TEST(Order, Schedules) {
  const auto of = [](Schedule schedule, int stage, int micro_batches = 4) {
    PhysicalBuilder b = pipeline(micro_batches, 3);
    make_order(b.graph, {.schedule = schedule});
    return share(b.graph, stage);
  };
  EXPECT_EQ(of(Schedule::kGpipe, 0), "f0 f1 f2 f3 b0 b1 b2 b3 ");
  EXPECT_EQ(of(Schedule::k1F1B, 0), "f0 f1 f2 b0 f3 b1 b2 b3 ");
  EXPECT_EQ(of(Schedule::k1F1B, 1), "f0 f1 b0 f2 b1 f3 b2 b3 ");
  EXPECT_EQ(of(Schedule::k1F1B, 2), "f0 b0 f1 b1 f2 b2 f3 b3 ");
  EXPECT_EQ(of(Schedule::kDefault, 0), "f0 b0 f1 b1 f2 b2 f3 b3 ");
  EXPECT_EQ(of(Schedule::k1F1B, 0, 2), "f0 f1 b0 b1 ");
  EXPECT_EQ(of(Schedule::k1F1B, 1, 2), "f0 f1 b0 b1 ");
  EXPECT_EQ(of(Schedule::k1F1B, 2, 2), "f0 b0 f1 b1 ");
}

// Two devices with two virtual stages each, 0 and 2, 1 and 3.
TEST(Order, Interleaved) {
  PhysicalBuilder b = pipeline(4, 2, 2);
  make_order(b.graph, {.schedule = Schedule::kInterleaved, .virtual_stages = 2});
  EXPECT_EQ(share(b.graph, 0, true),
            "f0.0 f0.1 f2.0 f2.1 f0.2 b2.0 f0.3 b2.1 f2.2 b0.0 f2.3 b0.1 b2.2 b2.3 b0.2 b0.3 ");
  EXPECT_EQ(share(b.graph, 1, true),
            "f1.0 f1.1 f3.0 b3.0 f3.1 b3.1 f1.2 b1.0 f1.3 b1.1 f3.2 b3.2 f3.3 b3.3 b1.2 b1.3 ");
}

TEST(Order, WhatDoesNotFitTheSchedule) {
  const auto error_of = [](const LowerOptions& options) -> std::string {
    PhysicalBuilder b = pipeline(3, 2, 2);
    try {
      make_order(b.graph, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      return error.what();
    }
    return "ordered";
  };
  EXPECT_EQ(error_of({.schedule = Schedule::kInterleaved, .virtual_stages = 4}), "ordered");
  EXPECT_EQ(error_of({.schedule = Schedule::kInterleaved, .virtual_stages = 3}),
            "physical graph 'by hand': 3 virtual stages a device do not divide its 4 stages: take a number that does");
  expect_within(error_of({.schedule = Schedule::kInterleaved, .virtual_stages = 2}),
                "physical graph 'by hand': schedule 'interleaved' takes micro-batches in groups");
  expect_within(error_of({.schedule = Schedule::kGpipe, .virtual_stages = 2}), "take 'interleaved'");
}

// The plan's order of ops holds for each micro-batch; the schedule decides which micro-batch comes next.
TEST(Order, APlansOwnWithSeveralMicroBatches) {
  PhysicalBuilder b(1, 2);
  std::vector<RegisterId> regs;
  for (const char* name : {"x", "y", "dx", "dy"}) regs.push_back(b.reg(name, 0, 8, 2));
  b.add("x", 0, {}, {regs[0]}, 2);
  b.add("y", 0, {}, {regs[1]}, 2);
  b.graph.task(b.add("dx", 0, {regs[0]}, {regs[2]}, 2)).phase = Phase::kBackward;
  b.graph.task(b.add("dy", 0, {regs[1]}, {regs[3]}, 2)).phase = Phase::kBackward;
  make_order(b.graph, {.op_places = {1, 0, 2, 3}});
  EXPECT_EQ(order_text(b.graph), "y#0 x#0 dx#0 dy#0 y#1 x#1 dx#1 dy#1");
  make_order(b.graph, {.schedule = Schedule::kGpipe, .op_places = {1, 0, 3, 2}});
  EXPECT_EQ(order_text(b.graph), "y#0 x#0 y#1 x#1 dy#0 dx#0 dy#1 dx#1");
}

TEST(Counts, AreTheLeastThatTheOrderAllows) {
  const auto count = [](PhysicalBuilder& b, Schedule schedule, const std::string& name) {
    make_order(b.graph, {.schedule = schedule});
    make_counts(b.graph);
    for (const Register& reg : b.graph.registers)
      if (reg.name == name) return reg.count;
    return -1;
  };
  PhysicalBuilder b = pipeline(6, 3);
  EXPECT_EQ(count(b, Schedule::kGpipe, "act0"), 6);
  EXPECT_EQ(count(b, Schedule::k1F1B, "act0"), 3);
  EXPECT_EQ(count(b, Schedule::k1F1B, "act1"), 2);
  EXPECT_EQ(count(b, Schedule::k1F1B, "act2"), 1);
  EXPECT_EQ(count(b, Schedule::kDefault, "act0"), 1);
}

// By hand from the order above: before b2.0, virtual stage 2 has two forwards; f0.0 to f0.3 come before b0.0.
TEST(Counts, OfEachChunk) {
  PhysicalBuilder b = pipeline(8, 2, 2);
  run_passes(b.graph, {.schedule = Schedule::kInterleaved, .virtual_stages = 2});
  EXPECT_EQ(refusal(b.graph), "admitted");
  std::vector<int> counts(4);
  for (const Register& reg : b.graph.registers)
    if (reg.name.starts_with("act")) counts[reg.name[3] - '0'] = reg.count;
  EXPECT_EQ(counts, (std::vector<int>{4, 3, 2, 1}));
}

TEST(Counts, ARegisterReadOnceAStepHoldsAllItsUses) {
  PhysicalBuilder b(1, 3);
  const RegisterId x = b.reg("x", 0, 8, 3), y = b.reg("y", 0, 8);
  b.add("make", 0, {}, {x}, 3);
  b.add("gather", 0, {x}, {y});
  run_passes(b.graph);
  EXPECT_EQ(b.graph.reg(x).count, 3);
  EXPECT_EQ(refusal(b.graph), "admitted");
}

TEST(Counts, Slack) {
  PhysicalBuilder b = pipeline(6, 3);
  const LowerOptions options{.schedule = Schedule::k1F1B, .transfer_slack = true};
  run_passes(b.graph, options);
  EXPECT_EQ(b.graph.registers[0].count, 4);
  EXPECT_EQ(refusal(b.graph), "admitted");
}

TEST(Memory, SharesBytesOfUsesThatDoNotMeet) {
  PhysicalBuilder b(1);
  std::vector<RegisterId> chain;
  for (int i = 0; i < 6; ++i) {
    chain.push_back(b.reg("r" + std::to_string(i), 0, 16));
    b.add("t" + std::to_string(i), 0, i ? std::vector{chain[i - 1]} : std::vector<RegisterId>{}, {chain[i]});
  }
  run_passes(b.graph);
  EXPECT_EQ(b.graph.peak_bytes, std::vector<int64_t>{128});
  EXPECT_EQ(refusal(b.graph), "admitted");
  run_passes(b.graph, {.share_bytes = false});
  EXPECT_EQ(b.graph.peak_bytes, std::vector<int64_t>{6 * 64});
  EXPECT_EQ(refusal(b.graph), "admitted");
}

TEST(Memory, AnElementwiseResultLiesOnItsLastOperand) {
  for (const bool elementwise : {false, true}) {
    PhysicalBuilder b(1);
    const RegisterId x = b.reg("x", 0, 16), y = b.reg("y", 0, 16);
    b.add("make", 0, {}, {x});
    b.graph.task(b.add("relu", 0, {x}, {y})).elementwise = elementwise;
    run_passes(b.graph);
    EXPECT_EQ(b.graph.peak_bytes[0], elementwise ? 64 : 128);
    EXPECT_EQ(refusal(b.graph), "admitted");
    if (elementwise) b.graph.tasks[1].elementwise = false;
    b.graph.reg(y).offset = 0;
    if (elementwise) expect_within(refusal(b.graph), "relu writes 'y' over its operand 'x'");
  }
}

TEST(Memory, CarriedAndConstantRegistersShareWithNone) {
  PhysicalBuilder b(1);
  const RegisterId w = b.carried("w", 0, 16), c = b.constant("c", 0, 16), x = b.reg("x", 0, 16), y = b.reg("y", 0, 16),
                   z = b.reg("z", 0, 16);
  b.add("first", 0, {c}, {x});
  b.add("second", 0, {x}, {y});
  b.add("third", 0, {y, w}, {z});
  run_passes(b.graph);
  EXPECT_EQ(b.graph.peak_bytes[0], 4 * 64);  // z on x
  EXPECT_EQ(b.graph.reg(z).offset, b.graph.reg(x).offset);
  EXPECT_EQ(refusal(b.graph), "admitted");
  b.graph.reg(z).offset = b.graph.reg(c).offset;
  make_edges(b.graph);
  expect_within(refusal(b.graph), "'c' lives from step to step");
}

TEST(Memory, PlacesSlotAgainstSlot) {
  PhysicalBuilder b(1, 3);
  const RegisterId x = b.reg("x", 0, 16, 3), y = b.reg("y", 0, 16, 3), z = b.reg("z", 0, 16, 3),
                   sum = b.reg("sum", 0, 8);
  b.graph.reg(sum).accumulated = true;
  b.add("a", 0, {}, {x}, 3);
  b.add("b", 0, {x}, {y}, 3);
  b.add("c", 0, {y}, {z}, 3);
  b.add("d", 0, {z}, {sum}, 3);
  run_passes(b.graph);
  EXPECT_EQ(b.graph.reg(x).offset, 0);
  EXPECT_EQ(b.graph.reg(y).offset, 64);
  EXPECT_EQ(b.graph.reg(z).offset, 0);      // each use after x's of its firing and before that of the next
  EXPECT_EQ(b.graph.reg(sum).offset, 128);  // lives over all firings
  EXPECT_EQ(refusal(b.graph), "admitted");
}

TEST(Edges, OfTheTableOfSectionFive) {
  {  // m to m, count 2 of 4 uses
    PhysicalBuilder b(2, 3);
    const RegisterId x = b.reg("x", 0, 8, 3), y = b.reg("y", 1, 8, 3);
    b.add("w", 0, {}, {x}, 3);
    b.copy("r", x, y, 3);
    make_order(b.graph);
    make_counts(b.graph);
    b.graph.reg(x).count = 2;
    plan_memory(b.graph);
    make_edges(b.graph);
    EXPECT_EQ(edges_text(b.graph), (std::vector<std::string>{
                                       "r#0 -> r#1",
                                       "r#0 -> w#2",
                                       "r#1 -> r#2",
                                       "r#2 => w#0",
                                       "w#0 -> r#0",
                                       "w#0 -> w#1",
                                       "w#1 -> r#1",
                                       "w#1 -> w#2",
                                       "w#2 -> r#2",
                                   }));
    EXPECT_EQ(refusal(b.graph), "admitted");
  }
  {  // 1 to m
    PhysicalBuilder b(1, 2);
    const RegisterId x = b.reg("x", 0, 8), y = b.reg("y", 0, 8, 2);
    b.add("w", 0, {}, {x});
    b.add("r", 0, {x}, {y}, 2);
    run_passes(b.graph, {.share_bytes = false});
    EXPECT_EQ(edges_text(b.graph), (std::vector<std::string>{"r#0 -> r#1", "r#1 => w", "w -> r#0"}));
  }
  {  // m to 1, accumulated
    PhysicalBuilder b(1, 2);
    const RegisterId x = b.reg("x", 0, 8), y = b.reg("y", 0, 8);
    b.graph.reg(x).accumulated = true;
    b.add("w", 0, {}, {x}, 2);
    b.add("r", 0, {x}, {y});
    run_passes(b.graph, {.share_bytes = false});
    EXPECT_EQ(edges_text(b.graph), (std::vector<std::string>{"r => w#0", "w#0 -> w#1", "w#1 -> r"}));
  }
  {  // carried: readers of old and new, one update that reads it too
    PhysicalBuilder b(1);
    const RegisterId w = b.carried("w", 0, 8), x = b.reg("x", 0, 8), y = b.reg("y", 0, 8);
    b.add("old", 0, {w}, {x});
    b.add("update", 0, {w}, {w});
    const TaskId reader = b.add("new", 0, {w}, {y});
    b.graph.task(reader).reads[0].fresh = true;
    run_passes(b.graph, {.share_bytes = false});
    EXPECT_EQ(edges_text(b.graph),
              (std::vector<std::string>{"new => update", "old -> update", "update -> new", "update => old"}));
    EXPECT_EQ(refusal(b.graph), "admitted");
  }
}

TEST(Edges, EachOneIsNeeded) {
  for (const Schedule schedule : {Schedule::kDefault, Schedule::kGpipe, Schedule::k1F1B}) {
    PhysicalBuilder b = pipeline(3, 3);
    run_passes(b.graph, {.schedule = schedule});
    ASSERT_EQ(refusal(b.graph), "admitted");
    for (std::size_t e = 0; e < b.graph.edges.size(); ++e) {
      PhysicalGraph without = b.graph;
      without.edges.erase(without.edges.begin() + static_cast<std::ptrdiff_t>(e));
      expect_within(refusal(without), "no edges make");
    }
  }
}

// Collectives of {0,1}, {1,2}, {2,0}, each queue in another order: every group waits for the next.
TEST(Admission, RefusesCrossedCollectivesOfThreeOverlappingGroups) {
  PhysicalBuilder b(3);
  std::vector<RegisterId> out;
  const std::vector<std::pair<int, int>> groups{{0, 1}, {1, 2}, {2, 0}};
  const std::vector<std::string> names{"A", "B", "C"};
  for (int g = 0; g < 3; ++g) {
    const auto [d, e] = groups[g];
    const RegisterId x = b.reg(names[g] + "x", d, 8), y = b.reg(names[g] + "y", e, 8);
    const RegisterId p = b.reg(names[g] + "p", d, 8), q = b.reg(names[g] + "q", e, 8);
    b.add(names[g] + "makex", d, {}, {x});
    b.add(names[g] + "makey", e, {}, {y});
    b.all_reduce(names[g], {x, y}, {p, q});
  }
  run_passes(b.graph, {.share_bytes = false});
  ASSERT_EQ(refusal(b.graph), "admitted");
  // Device 1 runs A before B, device 2 B before C; device 0 is made to run C before A.
  const Node a = b.node("A@0"), c = b.node("C@2");
  std::erase_if(b.graph.edges, [&](const Edge& e) { return e.kind == EdgeKind::kQueue && e.from == a && e.to == c; });
  b.graph.edges.push_back({c, a, false, EdgeKind::kQueue});
  EXPECT_EQ(refusal(b.graph),
            "edge C@2 -> A@0 points backwards in the order: no one can begin in the cycle A@0 -> B@1 -> C@2 -> A@0");
}

// Two devices that are one group for activations and one for parameters, as text. Sums of activations stand first,
// third and fourth in the order, those of parameters second and fifth.
constexpr char kTwoStaticQueues[] = R"(physical "two static queues"
micro_batches 1
devices 2 compute 2
queue gpu0.compute compute 0
queue gpu0.collective.activations collective 0
queue gpu0.collective.parameters collective 0
queue gpu1.compute compute 1
queue gpu1.collective.activations collective 1
queue gpu1.collective.parameters collective 1
queue gpu0-gpu1 link 0
queue gpu1-gpu0 link 1
)";
PhysicalGraph two_static_queues() {
  const std::pair<const char*, const char*> sums[] = {
      {"a", "activations"}, {"g", "parameters"}, {"b", "activations"}, {"c", "activations"}, {"h", "parameters"}};
  std::string registers, tasks, order = "order\n";
  int64_t offset = 0;
  int number = 0;
  for (const auto& [name, queue] : sums) {
    for (int d = 0; d < 2; ++d) {
      for (const char* what : {"x", "y"})
        registers += fmt::format(
            "register {0}{1}{2} device {2} float32 axes [4] box [0,4) bytes 16 offset {3} count 1 uses 1{4}\n", name,
            what, d, offset + (*what == 'y' ? 64 : 0), *what == 'x' ? " constant" : "");
      tasks += fmt::format(
          "task {0}{1} op {2} backward device {1} queue gpu{1}.collective.{3} rate 1 stage 0 turn lazy flops 0 bytes "
          "16\n"
          "  collective {2} all-reduce rank {1} of 2 partial sum\n  route {1}\n  read {0}x{1}\n  write {0}y{1}\n",
          name, d, number, queue);
    }
    order += fmt::format("  {}0\n", name);
    offset += 128;
    ++number;
  }
  return parse_physical(kTwoStaticQueues + registers + tasks + order + "peak_bytes 592 592\n");
}

// Each static queue is a part of the one order, and its neighbours wait for each other. No task waits for a neighbour
// on the device's other queue.
TEST(Admission, OfTwoStaticQueuesADevice) {
  PhysicalGraph graph = two_static_queues();
  expect_within(refusal(graph), "static queue gpu");
  make_edges(graph);
  EXPECT_EQ(edges_text(graph), (std::vector<std::string>{"a0 -> b0", "b0 -> c0", "c0 => a0", "g0 -> h0", "h0 => g0"}));
  EXPECT_EQ(refusal(graph), "admitted");
  verify(graph);
  EXPECT_EQ(print(parse_physical(print(graph))), print(graph));
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    PhysicalGraph without = graph;
    without.edges.erase(without.edges.begin() + static_cast<std::ptrdiff_t>(e));
    expect_within(refusal(without), graph.edges[e].from == graph.order[1] || graph.edges[e].to == graph.order[1]
                                        ? "static queue gpu0.collective.parameters runs them in this order"
                                        : "static queue gpu0.collective.activations runs them in this order");
  }
}

// Two queues of one device would wait for each other.
TEST(Admission, RefusesAStaticQueueAgainstTheOrderOfAnother) {
  PhysicalGraph graph = two_static_queues();
  make_edges(graph);
  const Node a = graph.order[0], g = graph.order[1], b = graph.order[2], h = graph.order[4];
  PhysicalGraph crossed = graph;
  crossed.edges.push_back({b, g, false, EdgeKind::kPlan});  // b before g, and h before a
  crossed.edges.push_back({h, a, false, EdgeKind::kPlan});
  EXPECT_EQ(refusal(crossed),
            "edge b0 -> g0 points backwards in the order: no one can begin in the cycle g0 -> h0 -> a0 -> b0 -> g0");
  // On the other queue it has other neighbours, and no edges to them.
  PhysicalGraph moved = graph;
  for (TaskId t : {TaskId(2), TaskId(3)}) moved.task(t).queue = moved.task(TaskId(t.index() % 2)).queue;
  EXPECT_EQ(refusal(moved),
            "no edges make g0 wait for a0: static queue gpu0.collective.activations runs them in this order");
}

// The second stage's backward needs two forwards in flight; with one slot the second forward waits for the first
// backward.
TEST(Admission, RefusesACreditCycle) {
  PhysicalBuilder b = pipeline(2, 2);
  run_passes(b.graph, {.share_bytes = false, .schedule = Schedule::kGpipe});
  ASSERT_EQ(refusal(b.graph), "admitted");
  for (Register& reg : b.graph.registers)
    if (reg.name == "act1") reg.count = 1;
  // Credit: b1#0 gives the slot back to f1#1; and GPipe's order, as a plan may ask: all forwards before the first
  // backward.
  b.graph.edges.push_back({b.node("f1", 1), b.node("b1", 0), false, EdgeKind::kPlan});
  b.graph.edges.push_back({b.node("b1", 0), b.node("f1", 1), false, EdgeKind::kReuse});
  EXPECT_EQ(refusal(b.graph),
            "edge b1#0 -> f1#1 points backwards in the order: no one can begin in the cycle f1#1 -> b1#0 -> f1#1");
}

TEST(Admission, RefusesSharedBytesWithoutControlEdges) {
  PhysicalBuilder b(1);
  const RegisterId x = b.reg("x", 0, 16), y = b.reg("y", 0, 16), z = b.reg("z", 0, 16);
  b.add("make_x", 0, {}, {x});
  b.add("read_x", 0, {x}, {y});
  b.add("make_z", 0, {}, {z});
  run_passes(b.graph);
  EXPECT_EQ(b.graph.reg(z).offset, b.graph.reg(x).offset);
  ASSERT_EQ(refusal(b.graph), "admitted");
  std::erase_if(b.graph.edges, [](const Edge& e) { return e.kind == EdgeKind::kReuse && !e.next; });
  EXPECT_EQ(refusal(b.graph), "no edges make make_z wait for make_x: 'x' and 'z' share bytes on device 0");
}

// If a device has several virtual stages, the control edges that keep it to its list are left, unless others imply
// them.
TEST(Edges, OfAListOfChunks) {
  PhysicalBuilder b = pipeline(2, 2, 2);
  run_passes(b.graph, {.share_bytes = false, .schedule = Schedule::kInterleaved, .virtual_stages = 2});
  EXPECT_EQ(share(b.graph, 1, true), "f1.0 f1.1 f3.0 b3.0 f3.1 b3.1 b1.0 b1.1 ");
  std::vector<std::string> plan;
  for (const Edge& e : b.graph.edges)
    if (e.kind == EdgeKind::kPlan) plan.push_back(to_string(b.graph, e.from) + " -> " + to_string(b.graph, e.to));
  std::sort(plan.begin(), plan.end());
  EXPECT_EQ(plan,
            (std::vector<std::string>{"b2#1 -> b0#0", "b3#1 -> b1#0", "f0#1 -> f2#0", "f1#1 -> f3#0", "f2#1 -> b2#0"}));
  EXPECT_EQ(refusal(b.graph), "admitted");
}

TEST(Admission, RefusesAnOrderThatIsNotEachNodeOnce) {
  PhysicalBuilder b = pipeline(2, 2);
  run_passes(b.graph);
  PhysicalGraph twice = b.graph, incomplete = b.graph;
  twice.order.push_back(twice.order[0]);
  expect_within(refusal(twice), "stands twice");
  incomplete.order.pop_back();
  expect_within(refusal(incomplete), "is missing");
}

TEST(Admission, Capacity) {
  PhysicalBuilder b(2);
  const RegisterId x = b.reg("x", 0, 16), y = b.reg("y", 1, 100);
  b.add("make_x", 0, {}, {x});
  b.add("make_y", 1, {}, {y});
  run_passes(b.graph);
  Cluster cluster;
  cluster.name = "small";
  cluster.devices.resize(2);
  cluster.devices[0] = {.name = "a", .memory_bytes = 64};
  cluster.devices[1] = {.name = "b", .memory_bytes = 399};
  EXPECT_EQ(refusal(b.graph), "admitted");
  try {
    check_capacity(b.graph, cluster);
    FAIL() << "what does not fit was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInfeasible);
    expect_within(error.what(), "b needs 400 bytes and has 399 (1 missing)");
  }
  cluster.devices[1].memory_bytes = 400;
  check_capacity(b.graph, cluster);
}

TEST(Text, PrintsAndParsesTheSame) {
  PhysicalBuilder b = pipeline(3, 3);
  b.graph.name = "with \"quotes\" and spaces";
  b.graph.tasks[0].name = "odd name#1";
  b.graph.registers[0].name = "a\\b";
  b.graph.registers[0].boxes = {{{0, 5}}, {{5, 10}}, {{10, 16}}};
  b.all_reduce("ar", {RegisterId(0), RegisterId(2)}, {b.reg("p", 0, 16, 3), b.reg("q", 1, 16, 3)}, 3);
  b.graph.tasks[1].flops = 0.1 + 0.2;
  make_order(b.graph);
  const std::string text = print(b.graph);
  const PhysicalGraph again = parse_physical(text);
  EXPECT_EQ(print(again), text);
  EXPECT_EQ(again.tasks[1].flops, b.graph.tasks[1].flops);
  EXPECT_EQ(again.registers, b.graph.registers);
}

TEST(Text, ErrorsNameTheLine) {
  const auto error_of = [](const char* text) -> std::string {
    try {
      parse_physical(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "parsed";
  };
  EXPECT_EQ(error_of("physical a\nqueue q compute 0\n"), "physical graph, line 2: device 0 is not one of 0");
  EXPECT_EQ(error_of("physical a\ndevices 1 compute 1\nqueue q slow 0\n"),
            "physical graph, line 3: 'slow' is no kind of queue");
  EXPECT_EQ(error_of("physical a\n\nedge x -> y data\n"), "physical graph, line 3: there is no task 'x'");
  expect_within(error_of("physical a\nformula 0 shapes [2,3]\n  f(x)[i] = x[i]\n"),
                "physical graph, line 2: formula: ");
  EXPECT_EQ(error_of(""), "physical graph: the text is empty");
}

}  // namespace
}  // namespace partita
