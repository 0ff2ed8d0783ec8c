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
  std::vector<int> now, next;  // successors in this step and the next
  int waits_now = 0, waits_next = 0;
};

// In the order of a step.
std::vector<SimNode> make_nodes(const PhysicalGraph& graph, const CostModel& cost) {
  const NodeTable table = number_nodes(graph);
  const std::vector<int> place = places(graph, table);
  std::map<LinkId, int> queue_of_link;
  for (size_t q = 0; q < graph.queues.size(); ++q)
    if (graph.queues[q].kind == QueueKind::kLink) queue_of_link[graph.queues[q].link] = static_cast<int>(q);
  std::vector<SimNode> nodes;
  for (const Node& n : graph.order) {
    SimNode node;
    const Task& task = graph.task(n.task);
    if (std::holds_alternative<CollectiveWork>(task.work)) {
      node.tasks = table.members[table.number(n)];
      std::sort(node.tasks.begin(), node.tasks.end(), [&](TaskId a, TaskId b) {
        return std::get<CollectiveWork>(graph.task(a).work).rank < std::get<CollectiveWork>(graph.task(b).work).rank;
      });
      std::set<int> queues;
      for (TaskId p : node.tasks) {
        const Task& part = graph.task(p);
        queues.insert(part.queue.value);
        node.static_queues.push_back(part.queue.value);
        if (part.route.empty()) continue;
        LinkId narrowest = *std::min_element(part.route.begin(), part.route.end(), [&](LinkId a, LinkId b) {
          return cost.cluster().link(a).bandwidth_bytes_per_s < cost.cluster().link(b).bandwidth_bytes_per_s;
        });
        queues.insert(queue_of_link.at(narrowest));
      }
      node.queues.assign(queues.begin(), queues.end());
      node.duration_ns = cost.collective_ns(graph, node.tasks);
    } else {
      node.tasks = {n.task};
      node.queues = {task.queue.value};
      node.duration_ns = cost.task_ns(graph, task);
    }
    nodes.push_back(std::move(node));
  }
  for (const Edge& e : graph.edges) {
    int from = place[table.number(e.from)], to = place[table.number(e.to)];
    (e.next ? nodes[from].next : nodes[from].now).push_back(to);
    (e.next ? nodes[to].waits_next : nodes[to].waits_now) += 1;
  }
  // A task has one counter: its acts run one after another, edge or not (physical.h).
  for (const Node& n : graph.order) {
    const int rate = graph.task(n.task).rate;
    const int from = place[table.number(n)], to = place[table.number(n.task, (n.act + 1) % rate)];
    const bool next = n.act + 1 == rate;
    (next ? nodes[from].next : nodes[from].now).push_back(to);
    (next ? nodes[to].waits_next : nodes[to].waits_now) += 1;
  }
  return nodes;
}

}  // namespace

Trace simulate(const PhysicalGraph& graph, const CostModel& cost, int steps, const Watch& watch) {
  Polling polling(watch, "while a plan was simulated");
  std::vector<SimNode> nodes = make_nodes(graph, cost);
  int64_t n = static_cast<int64_t>(nodes.size());
  std::vector<std::vector<int64_t>> static_order(graph.queues.size());  // of all steps
  for (int64_t s = 0; s < steps; ++s)
    for (int64_t i = 0; i < n; ++i)
      for (int q : nodes[i].static_queues) static_order[q].push_back(s * n + i);
  std::vector<size_t> cursor(graph.queues.size(), 0);
  std::vector<bool> busy(graph.queues.size(), false);
  std::vector<int> waits(n * steps);
  // Numbers are step * n + place: the lowest in the order first. What is ready stands at each of its queues.
  std::vector<std::set<int64_t>> ready(graph.queues.size());
  std::set<int64_t> candidates;  // what might start now, as far as is known
  auto arrive = [&](int64_t x) {
    for (int q : nodes[x % n].queues) ready[q].insert(x);
    candidates.insert(x);
  };
  for (int64_t x = 0; x < n * steps; ++x) {
    waits[x] = nodes[x % n].waits_now + (x >= n ? nodes[x % n].waits_next : 0);
    if (waits[x] == 0) arrive(x);
  }

  Trace trace;
  trace.steps = steps;
  trace.link_bytes.assign(cost.cluster().links.size(), 0);
  using End = std::pair<int64_t, int64_t>;  // (time, node)
  std::priority_queue<End, std::vector<End>, std::greater<>> running;
  int64_t now = 0, done = 0;
  // As if all that is ready were tried, in order: what can't start gives way to the next at each of its free queues.
  auto start_what_can = [&] {
    while (!candidates.empty()) {
      int64_t x = *candidates.begin();
      candidates.erase(candidates.begin());
      const SimNode& node = nodes[x % n];
      bool can = std::none_of(node.queues.begin(), node.queues.end(), [&](int q) { return busy[q]; }) &&
                 std::all_of(node.static_queues.begin(), node.static_queues.end(),
                             [&](int q) { return static_order[q][cursor[q]] == x; });
      if (!can) {
        for (int q : node.queues)
          if (auto after = ready[q].upper_bound(x); !busy[q] && after != ready[q].end()) candidates.insert(*after);
        continue;
      }
      for (int q : node.queues) {
        busy[q] = true;
        ready[q].erase(x);
      }
      for (int q : node.static_queues) ++cursor[q];
      running.push({now + node.duration_ns, x});
      int act = graph.order[x % n].act;
      for (TaskId t : node.tasks) {
        trace.events.push_back({t, static_cast<int>(x / n), act, now, now + node.duration_ns});
        if (x < n)
          for (LinkId l : graph.task(t).route) trace.link_bytes[l.index()] += graph.task(t).bytes;
      }
    }
  };
  start_what_can();
  while (!running.empty()) {
    polling.step();
    now = running.top().first;
    std::vector<int> freed;
    while (!running.empty() && running.top().first == now) {
      int64_t x = running.top().second;
      running.pop();
      ++done;
      const SimNode& node = nodes[x % n];
      for (int q : node.queues) {
        busy[q] = false;
        freed.push_back(q);
      }
      auto heard = [&](int64_t y) {
        if (--waits[y] == 0) arrive(y);
      };
      for (int y : node.now) heard(x / n * n + y);
      if (x / n + 1 < steps)
        for (int y : node.next) heard((x / n + 1) * n + y);
    }
    for (int q : freed)
      if (!ready[q].empty()) candidates.insert(*ready[q].begin());
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
  const NodeTable table = number_nodes(graph);
  struct Span {
    int64_t from = INT64_MAX, to = 0;  // start of the first participant, end of the last
  };
  int steps = 0;
  for (const Event& e : events) steps = std::max(steps, e.step + 1);
  std::vector<Span> spans(static_cast<size_t>(table.size()) * steps);
  auto span = [&](int node, int step) -> Span& { return spans[static_cast<size_t>(step) * table.size() + node]; };
  for (const Event& e : events) {
    Span& s = span(table.number(e.task, e.act), e.step);
    s = {std::min(s.from, e.start_ns), std::max(s.to, e.end_ns)};
  }
  // A result that is written over its operand takes its place when the task ends.
  auto over_operand = [&](const Node& writer, const Use& use) {
    const Task& task = graph.task(writer.task);
    const Register& reg = graph.reg(use.reg);
    return task.elementwise && std::any_of(task.reads.begin(), task.reads.end(), [&](const Access& read) {
             const Register& operand = graph.reg(read.reg);
             const int from = uses_of(operand, task.rate, writer.act, read.fresh).first;
             return read.reg != use.reg && operand.device == reg.device && operand.bytes == reg.bytes &&
                    operand.slot_offset(operand.slot(from)) == reg.slot_offset(reg.slot(use.number));
           });
  };
  std::map<std::pair<int64_t, int32_t>, int64_t> change;  // (time, device) -> bytes
  for (const Register& reg : graph.registers)
    if (reg.carried || reg.constant) change[{0, reg.device.value}] += reg.bytes;
  const Uses uses(graph, table);
  for (const Use& use : uses.all()) {
    const Register& reg = graph.reg(use.reg);
    if (reg.carried || reg.constant) continue;
    for (int s = 0; s < steps; ++s) {
      Span live;
      for (const Node& w : use.writers) {
        const Span& at = span(table.number(w), s);
        if (at.to == 0) continue;  // it did not run
        live = {std::min(live.from, over_operand(w, use) ? at.to : at.from), std::max(live.to, at.to)};
      }
      for (const Node& r : use.readers) live.to = std::max(live.to, span(table.number(r), s).to);
      if (live.from == INT64_MAX) continue;
      change[{live.from, reg.device.value}] += reg.bytes;
      change[{live.to, reg.device.value}] -= reg.bytes;
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
