// Admits or refuses a lowered graph (docs/inside/PHYSICAL.md section 6): checks registers and edges by themselves, then
// proves that edges meet every need.
#include <algorithm>

#include "partita/cluster/memory_deficit.h"
#include "partita/physical/admission.h"
#include "partita/physical/passes.h"

namespace partita {
namespace {

using namespace admission;

void check_registers(const PhysicalGraph& graph) {
  for (const Register& reg : graph.registers) {
    if (reg.offset < 0) refuse_because("register '{}' is not placed", reg.name);
    if (reg.offset % kAlignBytes != 0)
      refuse_because("register '{}': offset {} is not a multiple of {}", reg.name, reg.offset, kAlignBytes);
    if (reg.count < 1 || reg.count > std::max(reg.uses, 1) || (reg.carried && reg.count != 1))
      refuse_because("register '{}': {} slots for {} uses a step", reg.name, reg.count, reg.uses);
  }
}

void check_node(const Admission& in, const Node& node) {
  if (!node.task.valid() || node.task.index() >= in.graph.tasks.size() || node.firing < 0 ||
      node.firing >= in.graph.task(node.task).rate || in.table.nodes[in.table.number(node)] != node)
    refuse_because("an edge names task {} act {}, which is not a node", node.task.value, node.firing);
}

// Names the cycle: the shortest way back along `now` edges.
std::string backward(const Admission& in, const Edge& edge) {
  std::vector<std::vector<int>> after(in.table.size());
  for (const Edge& e : in.graph.edges)
    if (!e.next) after[place(in, e.from)].push_back(place(in, e.to));
  const int start = place(in, edge.to), goal = place(in, edge.from);
  std::vector<int> from(in.table.size(), -1), reached{start};
  from[start] = start;
  for (std::size_t i = 0; i < reached.size() && from[goal] < 0; ++i)
    for (int to : after[reached[i]])
      if (from[to] < 0) {
        from[to] = reached[i];
        reached.push_back(to);
      }
  std::string text = fmt::format("edge {} -> {} points backwards in the order", name(in, goal), name(in, start));
  if (from[goal] < 0) return text + "; it closes no cycle, so that another order would serve";
  std::vector<int> cycle{goal};
  while (cycle.back() != start) cycle.push_back(from[cycle.back()]);
  std::string names;
  for (std::size_t i = cycle.size(); i-- > 0;) names += name(in, cycle[i]) + " -> ";
  return text + ": no one can begin in the cycle " + names + name(in, start);
}

// Checks that every `now` edge points forward.
void check_edges(const Admission& in) {
  for (const Edge& edge : in.graph.edges) {
    check_node(in, edge.from);
    check_node(in, edge.to);
    if (edge.from == edge.to)
      refuse_because("edge {} -> {} joins a node to itself", to_string(in.graph, edge.from),
                     to_string(in.graph, edge.to));
  }
  for (const Edge& edge : in.graph.edges)
    if (!edge.next && place(in, edge.from) >= place(in, edge.to)) refuse_because("{}", backward(in, edge));
}

void check(const PhysicalGraph& graph, const Watch& watch) {
  NodeTable table = number_nodes(graph);
  std::vector<int> place = places(graph, table);
  Uses uses(graph, table);
  const std::size_t blocks = 2 * static_cast<std::size_t>(table.size()) / kBlock + 1;
  Admission in{graph, std::move(table), std::move(place), std::move(uses), {}, {}, {}};
  in.needs.resize(blocks);
  in.waits.resize(blocks);
  check_registers(graph);
  check_edges(in);
  find_data_needs(in);
  watch.poll(kWhere);
  find_firing_needs(in);
  find_reuse_needs(in);
  prove(in, watch);
}

}  // namespace

std::optional<std::string> refuse(const PhysicalGraph& graph, const Watch& watch) {
  try {
    check(graph, watch);
  } catch (const Refusal& refusal) {
    return refusal.why;
  } catch (const Error& error) {  // the order is not each node once, or rates disagree
    if (error.code() != ExitCode::kBadInput) throw;
    return error.what();
  }
  return std::nullopt;
}

void check_capacity(const PhysicalGraph& graph, const Cluster& cluster) {
  if (static_cast<std::size_t>(graph.device_count) != cluster.devices.size())
    fail("physical graph '{}' is for {} devices, cluster '{}' has {}", graph.name, graph.device_count, cluster.name,
         cluster.devices.size());
  std::vector<int64_t> end(graph.device_count, 0);
  for (const Register& reg : graph.registers)
    end[reg.device.index()] = std::max(end[reg.device.index()], reg.slot_offset(reg.count - 1) + reg.bytes);
  std::string over;
  for (std::size_t d = 0; d < end.size(); ++d) {
    const Device& device = cluster.devices[d];
    if (const int64_t missing = memory_deficit(end[d], device); missing > 0)
      over += fmt::format("{}{} needs {} bytes and has {} ({} missing)", over.empty() ? "" : "; ", device.name, end[d],
                          device.memory_bytes, missing);
  }
  if (!over.empty())
    throw Error(ExitCode::kInfeasible, fmt::format("physical graph '{}' does not fit: {}", graph.name, over));
}

}  // namespace partita
