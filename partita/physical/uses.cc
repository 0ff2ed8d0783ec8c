// Nodes and uses (docs/PHYSICAL.md section 1).
#include <algorithm>
#include <map>

#include "partita/base/error.h"
#include "partita/physical/lower.h"

namespace partita {
namespace {

// The participant of the lowest TaskId, by collective.
std::map<CollectiveId, TaskId> leaders(const PhysicalGraph& graph) {
  std::map<CollectiveId, TaskId> result;
  for (std::size_t t = 0; t < graph.tasks.size(); ++t)
    if (const auto* part = std::get_if<CollectiveWork>(&graph.tasks[t].work)) result.try_emplace(part->collective, t);
  return result;
}

void sort_unique(std::vector<Node>& nodes) {
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
}

}  // namespace

NodeTable number_nodes(const PhysicalGraph& graph) {
  const auto leader = leaders(graph);
  NodeTable table;
  table.first.resize(graph.tasks.size());
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    const Task& task = graph.tasks[t];
    if (const auto* part = std::get_if<CollectiveWork>(&task.work)) {
      const TaskId first = leader.at(part->collective);
      if (first != TaskId(t)) {
        if (graph.task(first).rate != task.rate)
          fail("task '{}': acts {} times a step, '{}' of the same collective {} times", task.name, task.rate,
               graph.task(first).name, graph.task(first).rate);
        table.first[t] = table.first[first.index()];
        for (int act = 0; act < task.rate; ++act) table.members[table.number(first, act)].push_back(TaskId(t));
        continue;
      }
    }
    table.first[t] = table.size();
    for (int act = 0; act < task.rate; ++act) {
      table.nodes.push_back({TaskId(t), act});
      table.members.push_back({TaskId(t)});
    }
  }
  return table;
}

Node node_of(const PhysicalGraph& graph, TaskId task, int act) {
  const auto* part = std::get_if<CollectiveWork>(&graph.task(task).work);
  if (!part) return {task, act};
  for (std::size_t t = 0; t < task.index(); ++t) {
    const auto* other = std::get_if<CollectiveWork>(&graph.tasks[t].work);
    if (other && other->collective == part->collective) return {TaskId(t), act};
  }
  return {task, act};
}

UseRange uses_of(const Register& reg, int rate, int act, bool is_new) {
  if (reg.carried) return is_new ? UseRange{1, 2} : UseRange{0, 1};
  if (reg.uses == 1) return {0, 1};
  if (rate == reg.uses) return {act, act + 1};
  if (rate != 1) fail("register '{}': has {} uses a step, but a task that acts {} times a step touches it", reg.name, reg.uses, rate);
  return {0, reg.uses};
}

std::vector<std::vector<Use>> all_uses(const PhysicalGraph& graph) {
  std::vector<std::vector<Use>> result(graph.registers.size());
  for (std::size_t r = 0; r < result.size(); ++r) {
    const Register& reg = graph.registers[r];
    result[r].resize(reg.carried ? 2 : reg.uses);
    for (std::size_t n = 0; n < result[r].size(); ++n) result[r][n] = {RegisterId(r), static_cast<int>(n), {}, {}};
  }
  const NodeTable table = number_nodes(graph);
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    const Task& task = graph.tasks[t];
    for (int act = 0; act < task.rate; ++act) {
      const Node node = table.nodes[table.number(TaskId(t), act)];
      auto each = [&](RegisterId id, bool is_new, auto add) {
        const UseRange range = uses_of(graph.reg(id), task.rate, act, is_new);
        for (int n = range.first; n < range.last; ++n) add(result[id.index()][n]);
      };
      for (const Access& read : task.reads) each(read.reg, read.fresh, [&](Use& use) { use.readers.push_back(node); });
      for (const Access& write : task.writes) each(write.reg, true, [&](Use& use) { use.writers.push_back(node); });
      for (RegisterId scratch : task.scratch)
        each(scratch, true, [&](Use& use) {
          use.writers.push_back(node);
          use.readers.push_back(node);
        });
    }
  }
  for (auto& uses : result)
    for (Use& use : uses) {
      sort_unique(use.writers);
      sort_unique(use.readers);
    }
  return result;
}

std::vector<int> places(const PhysicalGraph& graph, const NodeTable& table) {
  std::vector<int> place(table.size(), -1);
  for (std::size_t i = 0; i < graph.order.size(); ++i) {
    const Node& node = graph.order[i];
    if (!node.task.valid() || node.task.index() >= graph.tasks.size() || node.act < 0 || node.act >= graph.task(node.task).rate)
      fail("order: place {} holds task {} act {}, which does not exist", i, node.task.value, node.act);
    int& there = place[table.number(node)];
    if (there >= 0) fail("order: {} stands twice, at places {} and {}", to_string(graph, node), there, i);
    there = static_cast<int>(i);
  }
  for (int v = 0; v < table.size(); ++v)
    if (place[v] < 0) fail("order: {} is missing", to_string(graph, table.nodes[v]));
  return place;
}

std::string to_string(const PhysicalGraph& graph, const Node& node) {
  const Task& task = graph.task(node.task);
  return task.rate == 1 ? task.name : fmt::format("{}#{}", task.name, node.act);
}

}  // namespace partita
