#include "partita/physical/testing/mutate.h"

#include <algorithm>
#include <map>

#include "partita/base/error.h"
#include "partita/physical/passes.h"
#include "partita/physical/testing/builder.h"

namespace partita::testing {
namespace {

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
      if (graph.queues[graph.task(member).queue.index()].is_static())
        queues[graph.task(member).queue.value].push_back(i);
  std::erase_if(queues, [](const auto& q) { return q.second.size() < 2; });
  if (queues.empty()) return false;
  const auto& queue = std::next(queues.begin(), static_cast<std::ptrdiff_t>(rng.below(queues.size())))->second;
  const std::size_t i = rng.below(queue.size() - 1);
  std::swap(graph.order[queue[i]], graph.order[queue[i + 1]]);
  return true;
}

// A collective, with all participants, to the other static queue of each device.
bool another_static_queue(PhysicalGraph& graph, Rng& rng) {
  std::vector<CollectiveId> collectives;
  for (const Task& task : graph.tasks)
    if (const auto* participant = std::get_if<CollectiveWork>(&task.work); participant && participant->rank == 0)
      collectives.push_back(participant->collective);
  if (collectives.empty()) return false;
  const CollectiveId moved = collectives[rng.below(collectives.size())];
  for (Task& task : graph.tasks) {
    const auto* participant = std::get_if<CollectiveWork>(&task.work);
    if (!participant || participant->collective != moved) continue;
    for (std::size_t q = 0; q < graph.queues.size(); ++q)
      if (graph.queues[q].is_static() && graph.queues[q].device == task.device && QueueId(q) != task.queue) {
        task.queue = QueueId(q);
        break;
      }
  }
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

}  // namespace

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all{{"dropped edge", drop_edge},
                                         {"added edge", add_edge},
                                         {"swap in a static queue", swap_in_static_queue},
                                         {"another static queue", another_static_queue},
                                         {"swap in the order", swap_in_order},
                                         {"one slot less", one_slot_less},
                                         {"one slot more", one_slot_more},
                                         {"moved offset", move_register}};
  return all;
}

std::string verdict(const PhysicalGraph& graph) {
  try {
    verify(graph);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    return error.what();
  }
  return refuse(graph).value_or("accepted");
}

void remove_task(PhysicalGraph& graph, TaskId gone) {
  const auto is_gone = [&](const Node& node) { return node.task == gone; };
  const auto moved = [&](Node& node) {
    if (node.task.value > gone.value) --node.task.value;
  };
  std::erase_if(graph.order, is_gone);
  std::erase_if(graph.edges, [&](const Edge& e) { return is_gone(e.from) || is_gone(e.to); });
  for (Node& node : graph.order) moved(node);
  for (Edge& edge : graph.edges) moved(edge.from), moved(edge.to);
  graph.tasks.erase(graph.tasks.begin() + static_cast<std::ptrdiff_t>(gone.index()));
}

RandomNet lowered_net(uint64_t seed) {
  Rng rng(seed);
  RandomNet net = random_net(rng);
  run_passes(net.graph,
             {.schedule = net.schedule, .virtual_stages = net.virtual_stages, .transfer_slack = seed % 2 == 1});
  return net;
}

MutantRuns run_mutants(uint64_t first, uint64_t last, int draws, int schedules,
                       const std::function<TaggedRun(const PhysicalGraph&, Rng&)>& run) {
  MutantRuns result;
  const std::size_t count = mutations().size() * static_cast<std::size_t>(draws);
  for (uint64_t seed = first; seed < last && result.wrong.empty(); ++seed) {
    const RandomNet net = lowered_net(seed);
    for (std::size_t i = 0; i < count; ++i) {
      const auto [name, mutate] = mutations()[i / static_cast<std::size_t>(draws)];
      Rng rng(seed * 1000 + i);
      PhysicalGraph mutant = net.graph;
      if (!mutate(mutant, rng)) continue;
      MutantCounts& tally = result.tallies[name];
      const auto why = refuse(mutant);
      ++(why ? tally.refused : tally.accepted);
      for (int k = 0; k < schedules; ++k) {
        const TaggedRun ran = run(mutant, rng);
        if (ran.outcome == Outcome::kDone) continue;
        if (!why && result.wrong.empty())
          result.wrong =
              fmt::format("seed {}, mutant {} ({}) was admitted, and {}\n{}", seed, i, name, ran.what, net.features);
        ++(ran.outcome == Outcome::kHang ? tally.hang : tally.corrupt);
        break;
      }
    }
  }
  for (const auto& [name, tally] : result.tallies)
    fmt::print(
        "{:24} {:4} accepted, all ran right; {:4} refused, of which {:3} hung and {:3} were corrupt in {} runs\n", name,
        tally.accepted, tally.refused, tally.hang, tally.corrupt, schedules);
  return result;
}

}  // namespace partita::testing
