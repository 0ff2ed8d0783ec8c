// Tests that 200 graphs made wrong on purpose are each refused with the task or register that is wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "partita/base/error.h"
#include "partita/physical/testing/builder.h"
#include "partita/physical/testing/mutate.h"
#include "partita/physical/testing/random_net.h"

namespace partita {
namespace {

using testing::verdict;

template <typename F>
std::vector<std::size_t> tasks_where(const PhysicalGraph& graph, F&& holds) {
  std::vector<std::size_t> found;
  for (std::size_t t = 0; t < graph.tasks.size(); ++t)
    if (holds(graph.tasks[t])) found.push_back(t);
  return found;
}

// Names the change; empty if the graph has no place for it.
using Spoil = std::string (*)(PhysicalGraph& graph, Rng& rng);

std::string dropped_fetch(PhysicalGraph& graph, Rng& rng) {
  const auto copies = tasks_where(graph, [](const Task& t) { return std::holds_alternative<CopyWork>(t.work); });
  if (copies.empty()) return "";
  const std::size_t gone = copies[rng.below(copies.size())];
  const std::string name = graph.tasks[gone].name;
  testing::remove_task(graph, TaskId(gone));
  return name;
}

// One access of a kernel or a copy reaches one element less far on one axis.
std::string box_off_by_one(PhysicalGraph& graph, Rng& rng) {
  const auto fit = tasks_where(graph, [&](const Task& t) {
    return (std::holds_alternative<CopyWork>(t.work) || std::holds_alternative<KernelWork>(t.work)) &&
           !t.writes.empty() && !t.reads.empty();
  });
  Task& task = graph.tasks[fit[rng.below(fit.size())]];
  Access& access = rng.below(2) == 0 ? task.reads[rng.below(task.reads.size())] : task.writes[0];
  const Register& reg = graph.reg(access.reg);
  if (access.boxes.empty()) access.boxes = reg.boxes;
  Box& box = access.boxes[rng.below(access.boxes.size())];
  if (box.empty() || is_empty(box)) return "";
  Interval& axis = box[rng.below(box.size())];
  rng.below(2) == 0 ? ++axis.lo : --axis.hi;
  return task.name;
}

std::string wrong_reducer(PhysicalGraph& graph, Rng& rng) {
  const auto fit = tasks_where(graph, [](const Task& t) {
    const auto* collective = std::get_if<CollectiveWork>(&t.work);
    const auto* combine = std::get_if<CombineWork>(&t.work);
    return (collective && collective->partial) || (combine && t.reads.size() > 1);
  });
  if (fit.empty()) return "";
  Task& task = graph.tasks[fit[rng.below(fit.size())]];
  const tdl::Reducer wrong[] = {tdl::Reducer::kMax, tdl::Reducer::kMin, tdl::Reducer::kProd};
  const tdl::Reducer reducer = wrong[rng.below(3)];
  if (auto* combine = std::get_if<CombineWork>(&task.work)) combine->reducer = reducer;
  if (auto* mine = std::get_if<CollectiveWork>(&task.work)) {
    const CollectiveId id = mine->collective;
    const bool all = rng.below(2) == 0;  // of one participant, or of all
    mine->reducer = reducer;
    for (Task& t : graph.tasks)
      if (auto* part = std::get_if<CollectiveWork>(&t.work); all && part && part->collective == id)
        part->reducer = reducer;
  }
  return task.name;
}

// Moves a register onto bytes that live from step to step, or off the alignment.
std::string moved_offset(PhysicalGraph& graph, Rng& rng) {
  Register& reg = graph.registers[rng.below(graph.registers.size())];
  if (reg.bytes == 0) return "";
  if (rng.below(2) == 0) {
    reg.offset += 4;
    return reg.name;
  }
  for (const Register& other : graph.registers)
    if (other.device == reg.device && &other != &reg && (other.carried || reg.carried) && other.bytes > 0) {
      reg.offset = other.offset;
      return reg.name;
    }
  return "";
}

TEST(Verify, TwoHundredMutationsAreRefused) {
  const std::vector<std::pair<const char*, Spoil>> spoils{{"dropped fetch", dropped_fetch},
                                                          {"box off by one", box_off_by_one},
                                                          {"wrong reducer", wrong_reducer},
                                                          {"moved offset", moved_offset}};
  std::map<std::string, int> refused;
  int seed = 0;
  for (int done = 0; done < 200; ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    testing::RandomNet net = testing::random_net(rng);
    testing::run_passes(net.graph, {.schedule = net.schedule, .virtual_stages = net.virtual_stages});
    const std::string before = print(net.graph);
    const auto& [name, spoil] = spoils[static_cast<std::size_t>(done) % spoils.size()];
    const std::string where = spoil(net.graph, rng);
    if (where.empty()) continue;
    ASSERT_NE(print(net.graph), before) << "seed " << seed << ": " << name << " changed nothing";
    const std::string why = verdict(net.graph);
    ASSERT_NE(why, "accepted") << "seed " << seed << ", " << name << " at " << where << " (" << net.features << ")";
    EXPECT_NE(why.find('\''), std::string::npos) << "names nothing: " << why;
    ++refused[name];
    ++done;
  }
  for (const auto& [name, count] : refused) EXPECT_EQ(count, 50) << name;
}

// Breaks each rule once, and checks the message.
std::string verdict_of(void (*spoil)(PhysicalGraph&)) {
  testing::PhysicalBuilder b(2);
  const RegisterId x = b.reg("x", 0, 8), y = b.reg("y", 1, 8), p = b.reg("p", 0, 8), q = b.reg("q", 1, 8),
                   z = b.reg("z", 0, 8);
  const RegisterId part = b.reg("part", 0, 8), moved = b.reg("moved", 0, 8);
  b.add("make_x", 0, {}, {x});
  b.add("make_y", 1, {}, {y});
  b.all_reduce("sum", {x, y}, {p, q});
  b.copy("fetch", q, moved);
  b.add("join", 0, {p, moved}, {z});
  b.add("use", 0, {z}, {part});
  testing::run_passes(b.graph);
  EXPECT_EQ(verdict(b.graph), "accepted");
  spoil(b.graph);
  return verdict(b.graph);
}
Task& task_of(PhysicalGraph& graph, const std::string& name) {
  return *std::find_if(graph.tasks.begin(), graph.tasks.end(), [&](const Task& t) { return t.name == name; });
}

TEST(Verify, SaysWhatIsWrong) {
  EXPECT_EQ(verdict_of([](PhysicalGraph& g) {
              task_of(g, "fetch").writes[0].boxes = {{{0, 7}}};
            }),
            "task 'fetch': reads [0,8) of 'q' and writes [0,7) of 'moved'");
  EXPECT_EQ(verdict_of([](PhysicalGraph& g) {
              for (auto* a : {&task_of(g, "fetch").reads[0], &task_of(g, "fetch").writes[0]}) a->boxes = {{{0, 7}}};
            }),
            "task 'join': reads [0,8) of 'moved', of which nothing writes [7,8)");
  EXPECT_EQ(verdict_of([](PhysicalGraph& g) {
              std::get<CollectiveWork>(task_of(g, "sum@1").work).reducer = tdl::Reducer::kMax;
            }),
            "task 'sum@1': reduces by max, 'sum@0' in the same collective by sum");
  EXPECT_EQ(verdict_of([](PhysicalGraph& g) { std::get<CollectiveWork>(task_of(g, "sum@1").work).rank = 0; }),
            "task 'sum@1': rank 0 of 2 is taken or does not exist");
  EXPECT_EQ(verdict_of([](PhysicalGraph& g) { g.registers[1].bytes = 28; }),
            "register 'y': 28 bytes for 8 elements of float32");
  EXPECT_EQ(verdict_of([](PhysicalGraph& g) { g.registers[1].offset = 32; }),
            "register 'y': offset 32 is not a multiple of 64");
  EXPECT_EQ(verdict_of([](PhysicalGraph& g) { g.registers[1].device = DeviceId(7); }),
            "register 'y': device 7 does not exist");
  EXPECT_EQ(verdict_of([](PhysicalGraph& g) {
              task_of(g, "use").reads[0].boxes = {{{0, 9}}};
            }),
            "task 'use': box [0,9) is not inside 'z', which holds [0,8)");
  EXPECT_EQ(verdict_of([](PhysicalGraph& g) { task_of(g, "use").reads[0].reg = RegisterId(1); }),
            "task 'use': uses 'y' on another device; only a transfer with a route reads there");
  EXPECT_EQ(verdict_of([](PhysicalGraph& g) { task_of(g, "join").reads.push_back(task_of(g, "join").reads[0]); }),
            "task 'join': counts 'p' twice");
  EXPECT_EQ(verdict_of([](PhysicalGraph& g) {
              task_of(g, "join").reads[0].boxes = {{{0, 4}}};
            }),
            "task 'join': makes some elements of 1 terms and others of 2");
  EXPECT_EQ(verdict_of([](PhysicalGraph& g) { task_of(g, "use").writes[0].reg = RegisterId(4); }),
            "register 'z': 'join' and 'use' both write [0,8)");
}

// A bucket of two tensors; the second has the sums "r0" and "r1".
std::string bucket_verdict(void (*spoil)(PhysicalGraph&)) {
  testing::PhysicalBuilder b(2);
  std::vector<RegisterId> regs;
  for (const char* name : {"x", "y", "p", "q", "v", "w", "r", "s"})
    regs.push_back(b.reg(name, static_cast<int>(regs.size() % 2), regs.size() < 4 ? 8 : 6));
  for (const std::size_t made : {0, 4})
    for (const std::size_t d : {0, 1})
      b.add(fmt::format("make{}@{}", made, d), static_cast<int>(d), {}, {regs[made + d]});
  b.all_reduce("sum", {regs[0], regs[1]}, {regs[2], regs[3]});
  for (const std::size_t d : {0, 1}) {
    Task& task = b.graph.task(TaskId(4 + d));
    task.reads.push_back({regs[4 + d]});
    task.writes.push_back({regs[6 + d]});
    b.add(fmt::format("use@{}", d), static_cast<int>(d), {regs[2 + d]}, {b.reg(fmt::format("u{}", d), d, 8)});
  }
  testing::run_passes(b.graph);
  EXPECT_EQ(verdict(b.graph), "accepted");
  spoil(b.graph);
  return verdict(b.graph);
}

TEST(Verify, SaysWhatIsWrongWithABucket) {
  EXPECT_EQ(bucket_verdict([](PhysicalGraph& g) { task_of(g, "sum@1").reads.pop_back(); }),
            "task 'sum@1': a participant has as many reads as writes, not 1 and 2");
  EXPECT_EQ(bucket_verdict([](PhysicalGraph& g) {
              for (auto* accesses : {&task_of(g, "sum@1").reads, &task_of(g, "sum@1").writes}) accesses->clear();
            }),
            "task 'sum@1': a participant has as many reads as writes, not 0 and 0");
  EXPECT_EQ(bucket_verdict([](PhysicalGraph& g) {
              for (auto* accesses : {&task_of(g, "sum@1").reads, &task_of(g, "sum@1").writes}) accesses->pop_back();
            }),
            "task 'sum@1': exchanges 1 tensors, 'sum@0' in the same collective 2");
  EXPECT_EQ(bucket_verdict([](PhysicalGraph& g) {
              std::swap(task_of(g, "sum@1").reads[0], task_of(g, "sum@1").reads[1]);
              std::swap(task_of(g, "sum@1").writes[0], task_of(g, "sum@1").writes[1]);
            }),
            "task 'sum@1': 'w' and 's' differ in dtype or axes, among themselves or from the other participants'");
  EXPECT_EQ(bucket_verdict([](PhysicalGraph& g) {
              Task& task = task_of(g, "sum@0");
              task.reads[1] = task.reads[0];
              task.writes[1] = task.writes[0];
              task_of(g, "sum@1").reads[1] = task_of(g, "sum@1").reads[0];
              task_of(g, "sum@1").writes[1] = task_of(g, "sum@1").writes[0];
            }),
            "register 'p': 'sum@0' and 'sum@0' both write [0,8)");
  EXPECT_EQ(bucket_verdict([](PhysicalGraph& g) {
              task_of(g, "sum@1").reads[1].boxes = {{{0, 5}}};
            }),
            "task 'sum@0': gets [0,6), of which 'sum@1' holds only [0,5)");
}

}  // namespace
}  // namespace partita
