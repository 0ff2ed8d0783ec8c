// Makes the simulator's nodes: the queues and links that each occupies, and for how long.
#include "partita/sim/nodes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <variant>

#include "partita/physical/uses.h"
#include "partita/profile/profile.h"
#include "partita/sim/warmth.h"

namespace partita {

std::map<LinkId, int> queues_of_links(const PhysicalGraph& graph) {
  std::map<LinkId, int> queue_of;
  for (size_t q = 0; q < graph.queues.size(); ++q)
    if (graph.queues[q].kind == QueueKind::kLink) queue_of[graph.queues[q].link] = static_cast<int>(q);
  return queue_of;
}

SimNode collective_node(const PhysicalGraph& graph, const CostModel& cost, std::vector<TaskId> participants,
                        const std::map<LinkId, int>& queue_of) {
  SimNode node;
  node.tasks = std::move(participants);
  std::sort(node.tasks.begin(), node.tasks.end(), [&](TaskId a, TaskId b) {
    return std::get<CollectiveWork>(graph.task(a).work).rank < std::get<CollectiveWork>(graph.task(b).work).rank;
  });
  std::set<int> queues;
  for (TaskId p : node.tasks) {
    const Task& participant = graph.task(p);
    queues.insert(participant.queue.value);
    node.static_queues.push_back(participant.queue.value);
    if (cost.cluster().device(participant.device).kernels.beside_collectives < 1)
      node.devices.push_back(participant.device);
    node.sent_bytes = std::max(node.sent_bytes, participant.bytes);
  }
  node.collective = &cost.collective_of(graph, node.tasks);
  for (LinkId l : node.collective->occupies)
    if (const auto queue = queue_of.find(l); queue != queue_of.end()) queues.insert(queue->second);
  node.queues.assign(queues.begin(), queues.end());
  node.duration_ns = cost.collective_ns(graph, node.tasks);
  node.threads = static_cast<int>(node.tasks.size());
  return node;
}

namespace {

void join(std::vector<SimNode>& nodes, int from, int to, bool next) {
  (next ? nodes[from].next : nodes[from].now).push_back(to);
  (next ? nodes[to].waits_next : nodes[to].waits_now) += 1;
}

}  // namespace

std::vector<SimNode> sim_nodes(const PhysicalGraph& graph, const CostModel& cost) {
  const NodeTable table = number_nodes(graph);
  const std::map<LinkId, int> queue_of = queues_of_links(graph);
  const Profile* profile = cost.cluster().profile.get();
  const bool cached = profile && profile->machine.cache_bytes > 0;
  const std::vector<CacheFractions> caches =
      cached ? cache_fractions(graph, profile->machine.cache_bytes, profile->machine.shared_cache_bytes)
             : std::vector<CacheFractions>(graph.order.size());
  std::vector<SimNode> nodes;
  for (const Node& n : graph.order) {
    const Task& task = graph.task(n.task);
    if (std::holds_alternative<CollectiveWork>(task.work)) {
      nodes.push_back(collective_node(graph, cost, table.members[table.number(n)], queue_of));
    } else {
      SimNode& node = nodes.emplace_back();
      node.tasks = {n.task};
      node.queues = {task.queue.value};
      const TaskTime time = cost.task_time(graph, task);
      const CacheFractions& fractions = caches[nodes.size() - 1];
      node.duration_ns = time.ns + std::llround((1 - fractions.warm) * static_cast<double>(time.cold_ns - time.ns) +
                                                fractions.far * static_cast<double>(time.far_ns - time.cold_ns));
      node.together = time.together, node.estimated = time.estimated;
      node.overlapped_speed = cost.cluster().device(task.device).kernels.beside_collectives;
      if (node.overlapped_speed < 1 && graph.queues[task.queue.index()].kind == QueueKind::kCompute)
        node.devices = {task.device};
    }
  }
  const std::vector<int> place = places(graph, table);
  for (const Edge& e : graph.edges) join(nodes, place[table.number(e.from)], place[table.number(e.to)], e.next);
  // A task has one counter: its firings run one after another, edge or not (physical.h).
  for (const Node& n : graph.order) {
    const int rate = graph.task(n.task).rate;
    const int after = place[table.number(n.task, (n.firing + 1) % rate)];
    join(nodes, place[table.number(n)], after, n.firing + 1 == rate);
  }
  return nodes;
}

}  // namespace partita
