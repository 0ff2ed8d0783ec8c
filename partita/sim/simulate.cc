#include "partita/sim/simulate.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "partita/base/error.h"
#include "partita/physical/lower.h"

namespace partita {

namespace {

// One node of a step: its tasks (of a collective, all participants), what it occupies, how long.
struct SimNode {
  std::vector<TaskId> tasks;
  std::vector<int> queues;         // all that must be free
  std::vector<int> static_queues;  // of these, where it must be next in order
  int64_t duration_ns = 0;
  std::vector<int> now, next;      // successors in this step and the next
  int waits_now = 0, waits_next = 0;
};

std::vector<SimNode> make_nodes(const PhysicalGraph& graph, const CostModel& cost) {
  std::map<int32_t, std::vector<TaskId>> participants;
  for (size_t t = 0; t < graph.tasks.size(); ++t)
    if (auto* work = std::get_if<CollectiveWork>(&graph.tasks[t].work)) {
      auto& members = participants[work->collective.value];
      members.resize(work->size);
      members[work->rank] = TaskId(t);
    }
  std::map<int32_t, int> queue_of_link;
  for (size_t q = 0; q < graph.queues.size(); ++q)
    if (graph.queues[q].kind == QueueKind::kLink) queue_of_link[graph.queues[q].link.value] = static_cast<int>(q);
  std::vector<SimNode> nodes;
  std::map<Node, int> place;
  for (const Node& n : graph.order) {
    SimNode node;
    const Task& task = graph.task(n.task);
    if (auto* work = std::get_if<CollectiveWork>(&task.work)) {
      node.tasks = participants[work->collective.value];
      std::set<int> queues;
      for (TaskId p : node.tasks) {
        const Task& part = graph.task(p);
        queues.insert(part.queue.value);
        node.static_queues.push_back(part.queue.value);
        if (part.route.empty()) continue;
        LinkId narrowest = *std::min_element(part.route.begin(), part.route.end(), [&](LinkId a, LinkId b) {
          return cost.cluster().link(a).bandwidth_bytes_per_s < cost.cluster().link(b).bandwidth_bytes_per_s;
        });
        queues.insert(queue_of_link.at(narrowest.value));
      }
      node.queues.assign(queues.begin(), queues.end());
      node.duration_ns = cost.collective_ns(graph, node.tasks);
    } else {
      node.tasks = {n.task};
      node.queues = {task.queue.value};
      node.duration_ns = cost.task_ns(graph, task);
    }
    place[n] = static_cast<int>(nodes.size());
    nodes.push_back(std::move(node));
  }
  for (const Edge& e : graph.edges) {
    int from = place.at(e.from), to = place.at(e.to);
    (e.next ? nodes[from].next : nodes[from].now).push_back(to);
    (e.next ? nodes[to].waits_next : nodes[to].waits_now) += 1;
  }
  return nodes;
}

}  // namespace

Trace simulate(const PhysicalGraph& graph, const CostModel& cost, int steps) {
  std::vector<SimNode> nodes = make_nodes(graph, cost);
  int64_t n = static_cast<int64_t>(nodes.size());
  std::vector<std::vector<int64_t>> static_order(graph.queues.size());  // of all steps
  for (int64_t s = 0; s < steps; ++s)
    for (int64_t i = 0; i < n; ++i)
      for (int q : nodes[i].static_queues) static_order[q].push_back(s * n + i);
  std::vector<size_t> cursor(graph.queues.size(), 0);
  std::vector<bool> busy(graph.queues.size(), false);
  std::vector<int> waits(n * steps);
  std::set<int64_t> ready;  // (step, place): the lowest in the order first
  for (int64_t x = 0; x < n * steps; ++x) {
    waits[x] = nodes[x % n].waits_now + (x >= n ? nodes[x % n].waits_next : 0);
    if (waits[x] == 0) ready.insert(x);
  }

  Trace trace;
  trace.steps = steps;
  trace.link_bytes.assign(cost.cluster().links.size(), 0);
  using End = std::pair<int64_t, int64_t>;  // (time, node)
  std::priority_queue<End, std::vector<End>, std::greater<>> running;
  int64_t now = 0, done = 0;
  auto start_what_can = [&] {
    for (auto it = ready.begin(); it != ready.end();) {
      int64_t x = *it;
      const SimNode& node = nodes[x % n];
      bool can = std::none_of(node.queues.begin(), node.queues.end(), [&](int q) { return busy[q]; }) &&
                 std::all_of(node.static_queues.begin(), node.static_queues.end(), [&](int q) { return static_order[q][cursor[q]] == x; });
      if (!can) {
        ++it;
        continue;
      }
      for (int q : node.queues) busy[q] = true;
      for (int q : node.static_queues) ++cursor[q];
      running.push({now + node.duration_ns, x});
      int act = graph.order[x % n].act;
      for (TaskId t : node.tasks) {
        trace.events.push_back({t, static_cast<int>(x / n), act, now, now + node.duration_ns});
        if (x < n)
          for (LinkId l : graph.task(t).route) trace.link_bytes[l.index()] += graph.task(t).bytes;
      }
      it = ready.erase(it);
    }
  };
  start_what_can();
  while (!running.empty()) {
    now = running.top().first;
    while (!running.empty() && running.top().first == now) {
      int64_t x = running.top().second;
      running.pop();
      ++done;
      const SimNode& node = nodes[x % n];
      for (int q : node.queues) busy[q] = false;
      auto arrive = [&](int64_t y) {
        if (--waits[y] == 0) ready.insert(y);
      };
      for (int y : node.now) arrive(x / n * n + y);
      if (x / n + 1 < steps)
        for (int y : node.next) arrive((x / n + 1) * n + y);
    }
    start_what_can();
  }
  ensure(done == n * steps, "simulation stopped after {} of {} nodes: the graph was not admitted", done, n * steps);
  std::sort(trace.events.begin(), trace.events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.start_ns, a.task, a.step, a.act) < std::tie(b.start_ns, b.task, b.step, b.act);
  });
  trace.step_time_ns = steps > 0 ? now / steps : 0;
  trace.memory = memory_over_time(graph, trace.events);
  return trace;
}

std::vector<MemorySample> memory_over_time(const PhysicalGraph& graph, const std::vector<Event>& events) {
  // (task, act) -> representative node, so that uses can be looked up by what ran.
  std::map<std::pair<Node, int>, std::pair<int64_t, int64_t>> span;  // (node, step) -> (start, end)
  int steps = 0;
  for (const Event& e : events) {
    Node node = node_of(graph, e.task, e.act);
    auto [it, fresh] = span.try_emplace({node, e.step}, e.start_ns, e.end_ns);
    if (!fresh) it->second = {std::min(it->second.first, e.start_ns), std::max(it->second.second, e.end_ns)};
    steps = std::max(steps, e.step + 1);
  }
  std::map<std::pair<int64_t, int32_t>, int64_t> change;  // (time, device) -> bytes
  std::vector<std::vector<Use>> uses = all_uses(graph);
  for (const Register& reg : graph.registers)
    if (reg.carried || reg.constant) change[{0, reg.device.value}] += reg.bytes;
  for (const auto& of_register : uses)
    for (const Use& use : of_register) {
      const Register& reg = graph.reg(use.reg);
      if (reg.carried || reg.constant || use.writers.empty()) continue;
      for (int s = 0; s < steps; ++s) {
        int64_t from = INT64_MAX, to = 0;
        for (const Node& w : use.writers)
          if (auto it = span.find({w, s}); it != span.end()) from = std::min(from, it->second.first), to = std::max(to, it->second.second);
        for (const Node& r : use.readers)
          if (auto it = span.find({r, s}); it != span.end()) to = std::max(to, it->second.second);
        if (from == INT64_MAX) continue;
        change[{from, reg.device.value}] += reg.bytes;
        change[{to, reg.device.value}] -= reg.bytes;
      }
    }
  std::vector<MemorySample> samples;
  std::map<int32_t, int64_t> live;
  for (const auto& [at, bytes] : change) {
    if (bytes == 0) continue;
    live[at.second] += bytes;
    DeviceId device;
    device.value = at.second;
    samples.push_back({device, at.first, live[at.second]});
  }
  return samples;
}

}  // namespace partita
