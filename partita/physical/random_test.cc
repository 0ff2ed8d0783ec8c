// Random nets through the passes: admitted, and run on tagged memory without a hang and without foreign elements; and
// mutants of them, which admission refuses unless they run right.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>

#include "partita/base/error.h"
#include "partita/physical/lower.h"
#include "partita/physical/testing/builder.h"
#include "partita/physical/testing/random_net.h"
#include "partita/physical/testing/tagged_run.h"

namespace partita {
namespace {

using testing::Outcome;
using testing::random_net;
using testing::RandomNet;
using testing::run_passes;
using testing::run_tagged;
using testing::TaggedRun;

RandomNet lowered(uint64_t seed) {
  Rng rng(seed);
  RandomNet net = random_net(rng);
  run_passes(net.graph, {.schedule = net.schedule, .transfer_slack = seed % 2 == 1});
  return net;
}

void run_nets(uint64_t first, uint64_t last, int schedules) {
  int collectives = 0, shared = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    const RandomNet net = lowered(seed);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, net.features));
    ASSERT_NO_THROW(verify(net.graph));
    const auto why = refuse(net.graph);
    ASSERT_FALSE(why.has_value()) << *why;
    for (int k = 0; k < schedules; ++k) {
      Rng rng(seed * 100 + static_cast<uint64_t>(k));
      const TaggedRun run = run_tagged(net.graph, rng, {.in_order = k % 3 == 2});
      ASSERT_EQ(run.outcome, Outcome::kDone) << run.what;
    }
    for (const Task& task : net.graph.tasks) collectives += std::holds_alternative<CollectiveWork>(task.work);
    int64_t bytes = 0, peak = 0;
    for (const Register& reg : net.graph.registers) bytes += reg.count * reg.stride_bytes();
    for (int64_t p : net.graph.peak_bytes) peak += p;
    shared += peak < bytes;
  }
  EXPECT_GT(collectives, 0);
  EXPECT_GT(shared, static_cast<int>(last - first) / 2);
}

TEST(RandomNets, AreAdmittedAndRun) { run_nets(0, 150, 3); }
TEST(LongRandomNets, AreAdmittedAndRun) { run_nets(1000, 6000, 4); }

// One change to an admitted graph; false where it does not apply.
using Mutation = bool (*)(PhysicalGraph& graph, Rng& rng);

bool drop_edge(PhysicalGraph& graph, Rng& rng) {
  graph.edges.erase(graph.edges.begin() + static_cast<std::ptrdiff_t>(rng.below(graph.edges.size())));
  return true;
}

bool add_edge(PhysicalGraph& graph, Rng& rng) {
  const Node from = graph.order[rng.below(graph.order.size())], to = graph.order[rng.below(graph.order.size())];
  if (from == to) return false;
  graph.edges.push_back({from, to, rng.below(4) == 0, EdgeKind::kPlan});
  return true;
}

bool swap_in_static_queue(PhysicalGraph& graph, Rng& rng) {
  const NodeTable table = number_nodes(graph);
  std::map<int, std::vector<std::size_t>> queues;  // places in the order
  for (std::size_t i = 0; i < graph.order.size(); ++i)
    for (TaskId member : table.members[table.number(graph.order[i])])
      if (graph.queues[graph.task(member).queue.index()].is_static()) queues[graph.task(member).queue.value].push_back(i);
  std::erase_if(queues, [](const auto& q) { return q.second.size() < 2; });
  if (queues.empty()) return false;
  const auto& queue = std::next(queues.begin(), static_cast<std::ptrdiff_t>(rng.below(queues.size())))->second;
  const std::size_t i = rng.below(queue.size() - 1);
  std::swap(graph.order[queue[i]], graph.order[queue[i + 1]]);
  return true;
}

bool swap_in_order(PhysicalGraph& graph, Rng& rng) {
  const std::size_t i = rng.below(graph.order.size() - 1), far[] = {1, 1, 3, 8};
  std::swap(graph.order[i], graph.order[std::min(graph.order.size() - 1, i + far[rng.below(4)])]);
  return true;
}

bool change_count(PhysicalGraph& graph, Rng& rng, int by) {
  std::vector<Register*> fit;
  for (Register& reg : graph.registers)
    if (reg.count + by >= 1 && reg.count + by <= reg.uses && !reg.carried && reg.bytes > 0) fit.push_back(&reg);
  if (fit.empty()) return false;
  fit[rng.below(fit.size())]->count += by;
  return true;
}
bool one_slot_less(PhysicalGraph& graph, Rng& rng) { return change_count(graph, rng, -1); }
bool one_slot_more(PhysicalGraph& graph, Rng& rng) { return change_count(graph, rng, 1); }

bool move_register(PhysicalGraph& graph, Rng& rng) {
  Register& reg = graph.registers[rng.below(graph.registers.size())];
  const Register& other = graph.registers[rng.below(graph.registers.size())];
  if (reg.device != other.device || reg.offset == other.offset || reg.bytes == 0) return false;
  reg.offset = other.offset;
  return true;
}

struct Tally {
  int refused = 0, hang = 0, corrupt = 0, accepted = 0;  // hang and corrupt: of the refused
};

void run_mutants(uint64_t first, uint64_t last, int schedules) {
  const std::vector<std::pair<const char*, Mutation>> mutations{
      {"dropped edge", drop_edge},     {"added edge", add_edge},          {"swap in a static queue", swap_in_static_queue}, {"swap in the order", swap_in_order},
      {"one slot less", one_slot_less}, {"one slot more", one_slot_more}, {"moved offset", move_register}};
  std::map<std::string, Tally> tallies;
  for (uint64_t seed = first; seed < last; ++seed) {
    const RandomNet net = lowered(seed);
    for (std::size_t i = 0; i < 2 * mutations.size(); ++i) {
      const auto& [name, mutate] = mutations[i / 2];
      Rng rng(seed * 1000 + i);
      PhysicalGraph mutant = net.graph;
      if (!mutate(mutant, rng)) continue;
      Tally& tally = tallies[name];
      const auto why = refuse(mutant);
      why ? ++tally.refused : ++tally.accepted;
      for (int k = 0; k < schedules; ++k) {
        const TaggedRun run = run_tagged(mutant, rng);
        if (run.outcome == Outcome::kDone) continue;
        ASSERT_TRUE(why.has_value()) << "seed " << seed << ", mutant " << i << " (" << name << ") was admitted, and " << run.what << "\n" << net.features;
        ++(run.outcome == Outcome::kHang ? tally.hang : tally.corrupt);
        break;
      }
    }
  }
  for (const auto& [name, tally] : tallies)
    fmt::print("{:24} {:4} accepted, all ran right; {:4} refused, of which {:3} hung and {:3} were corrupt in {} runs\n", name, tally.accepted, tally.refused,
               tally.hang, tally.corrupt, schedules);
  for (const char* name : {"dropped edge", "added edge", "swap in a static queue", "swap in the order", "one slot less", "moved offset"})
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

// The executor itself can tell: what is acknowledged when a task begins is overwritten while it is read.
TEST(RandomNets, EarlyReleaseIsCorrupt) {
  int corrupt = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const RandomNet net = lowered(seed);
    Rng rng(seed);
    corrupt += run_tagged(net.graph, rng, {.release_at_start = true}).outcome == Outcome::kCorrupt;
  }
  EXPECT_EQ(corrupt, 10);
}

TEST(RandomNets, PrintAndParseTheSame) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const RandomNet net = lowered(seed);
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
