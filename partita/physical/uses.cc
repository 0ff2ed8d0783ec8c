// Numbers nodes, and finds the writers and readers of each use (docs/inside/PHYSICAL.md section 1).
#include "partita/physical/uses.h"

#include <algorithm>
#include <map>
#include <utility>

#include "partita/base/align.h"
#include "partita/base/error.h"

namespace partita {
namespace {

// By collective: its participant of the lowest TaskId.
std::map<CollectiveId, TaskId> leaders(const PhysicalGraph& graph) {
  std::map<CollectiveId, TaskId> result;
  for (std::size_t t = 0; t < graph.tasks.size(); ++t)
    if (const auto* participant = std::get_if<CollectiveWork>(&graph.tasks[t].work))
      result.try_emplace(participant->collective, t);
  return result;
}

}  // namespace

NodeTable number_nodes(const PhysicalGraph& graph) {
  const auto leader = leaders(graph);
  NodeTable table;
  table.first.resize(graph.tasks.size());
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    const Task& task = graph.tasks[t];
    if (const auto* participant = std::get_if<CollectiveWork>(&task.work)) {
      const TaskId first = leader.at(participant->collective);
      if (first != TaskId(t)) {
        if (graph.task(first).rate != task.rate)
          fail("task '{}': acts {} times a step, '{}' of the same collective {} times", task.name, task.rate,
               graph.task(first).name, graph.task(first).rate);
        table.first[t] = table.first[first.index()];
        for (int firing = 0; firing < task.rate; ++firing)
          table.members[table.number(first, firing)].push_back(TaskId(t));
        continue;
      }
    }
    table.first[t] = table.size();
    for (int firing = 0; firing < task.rate; ++firing) {
      table.nodes.push_back({TaskId(t), firing});
      table.members.push_back({TaskId(t)});
    }
  }
  return table;
}

Node node_of(const PhysicalGraph& graph, TaskId task, int firing) {
  const auto* participant = std::get_if<CollectiveWork>(&graph.task(task).work);
  if (!participant) return {task, firing};
  for (std::size_t t = 0; t < task.index(); ++t) {
    const auto* other = std::get_if<CollectiveWork>(&graph.tasks[t].work);
    if (other && other->collective == participant->collective) return {TaskId(t), firing};
  }
  return {task, firing};
}

int64_t addend_bytes(const PhysicalGraph& graph, const Task& task) {
  if (task.rate == 1) return 0;
  int64_t bytes = 0;
  for (const Access& write : task.writes) {
    const Register& reg = graph.reg(write.reg);
    if (!reg.accumulated) continue;
    int64_t largest = write.boxes.empty() ? reg.bytes : 0;
    for (const Box& box : write.boxes) largest = std::max(largest, volume(box) * bytes_of(reg.dtype));
    bytes += align_up(largest, kAlignBytes);
  }
  return bytes;
}

UseRange uses_of(const Register& reg, int rate, int firing, bool is_new) {
  if (reg.carried) return is_new ? UseRange{1, 2} : UseRange{0, 1};
  if (reg.uses == 1) return {0, 1};
  if (rate == reg.uses) return {firing, firing + 1};
  if (rate != 1)
    fail("register '{}': has {} uses a step, but a task that acts {} times a step touches it", reg.name, reg.uses,
         rate);
  return {0, reg.uses};
}

Uses::Uses(const PhysicalGraph& graph, const NodeTable& table) {
  first_.push_back(0);
  for (std::size_t r = 0; r < graph.registers.size(); ++r) {
    const Register& reg = graph.registers[r];
    for (int n = 0; n < (reg.carried ? 2 : reg.uses); ++n) uses_.push_back({RegisterId(r), n, {}, {}});
    first_.push_back(uses_.size());
  }
  // Two lists a use, its writers and its readers: first how many, then which.
  std::vector<std::size_t> end(2 * uses_.size(), 0);
  const auto each = [&](auto add) {
    for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
      const Task& task = graph.tasks[t];
      for (int firing = 0; firing < task.rate; ++firing) {
        const Node node = table.nodes[table.number(TaskId(t), firing)];
        const auto touch = [&](RegisterId id, bool is_new, bool writes, bool reads) {
          const UseRange range = uses_of(graph.reg(id), task.rate, firing, is_new);
          for (int n = range.first; n < range.last; ++n) {
            const std::size_t use = first_[id.index()] + n;
            if (writes) add(2 * use, node);
            if (reads) add(2 * use + 1, node);
          }
        };
        for (const Access& read : task.reads) touch(read.reg, read.fresh, false, true);
        for (const Access& write : task.writes) touch(write.reg, true, true, false);
        for (RegisterId scratch : task.scratch) touch(scratch, true, true, true);
      }
    }
  };
  each([&](std::size_t list, const Node&) { ++end[list]; });
  std::size_t sum = 0;
  for (std::size_t& e : end) sum = std::exchange(e, sum) + sum;  // for now where each begins
  nodes_.resize(sum);
  each([&](std::size_t list, const Node& node) { nodes_[end[list]++] = node; });
  const auto different = [&](std::size_t list) {
    const auto begin = nodes_.begin() + static_cast<std::ptrdiff_t>(list == 0 ? 0 : end[list - 1]),
               past = nodes_.begin() + static_cast<std::ptrdiff_t>(end[list]);
    std::sort(begin, past);
    return std::span<const Node>(begin, std::unique(begin, past));
  };
  for (std::size_t u = 0; u < uses_.size(); ++u) {
    uses_[u].writers = different(2 * u);
    uses_[u].readers = different(2 * u + 1);
  }
}

std::vector<int> places(const PhysicalGraph& graph, const NodeTable& table) {
  std::vector<int> place(table.size(), -1);
  for (std::size_t i = 0; i < graph.order.size(); ++i) {
    const Node& node = graph.order[i];
    if (!node.task.valid() || node.task.index() >= graph.tasks.size() || node.firing < 0 ||
        node.firing >= graph.task(node.task).rate)
      fail("order: place {} holds task {} act {}, which does not exist", i, node.task.value, node.firing);
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
  return task.rate == 1 ? task.name : fmt::format("{}#{}", task.name, node.firing);
}

}  // namespace partita
