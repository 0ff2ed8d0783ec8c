// Runs a PhysicalGraph's nodes over time: free queues, ready nodes, starts and ends.
#include "partita/sim/simulate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "partita/base/error.h"
#include "partita/cost/whole_ns.h"
#include "partita/sim/nodes.h"
#include "partita/sim/running.h"

namespace partita {

namespace {

// Runs of nodes are numbered step * n + place, so that the lowest is the first in the order.
struct Simulation {
  const PhysicalGraph& graph;
  const std::vector<SimNode>& nodes;
  int64_t n, steps;
  std::vector<std::vector<int64_t>> static_order;  // by queue: the runs of all steps
  std::vector<size_t> cursor;                      // by queue: the next of these
  std::vector<char> busy;                          // by queue
  std::vector<int> waits;                          // by run: how many have to end before it
  std::vector<std::set<int64_t>> ready;            // by queue: runs that wait for nothing but queues
  std::vector<int64_t> began;                      // by run
  std::set<int64_t> candidates;                    // runs that might start now, as far as is known
  Running running;
  using Arrival = std::pair<int64_t, int64_t>;                                  // time and run
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> messages;  // under way
  int64_t message_ns = 0;  // from the end of a node to the start of one of other queues that waits for it
  int64_t now = 0, done = 0;

  const SimNode& node(int64_t run) const { return nodes[run % n]; }
};

void arrive(Simulation& sim, int64_t run) {
  for (int q : sim.node(run).queues) sim.ready[q].insert(run);
  sim.candidates.insert(run);
}

Simulation at_start(const PhysicalGraph& graph, const std::vector<SimNode>& nodes, int steps, const Machine& machine) {
  const size_t queues = graph.queues.size();
  Simulation sim{.graph = graph,
                 .nodes = nodes,
                 .n = static_cast<int64_t>(nodes.size()),
                 .steps = steps,
                 .static_order = {},
                 .cursor = {},
                 .busy = {},
                 .waits = {},
                 .ready = {},
                 .began = {},
                 .candidates = {},
                 .running = Running(machine.cores),
                 .messages = {},
                 .message_ns = whole_ns(machine.message_us * 1e3, 0)};
  sim.static_order.resize(queues);
  sim.cursor.resize(queues, 0);
  sim.busy.resize(queues, false);
  sim.ready.resize(queues);
  sim.waits.resize(sim.n * steps);
  sim.began.resize(sim.n * steps);
  for (int64_t run = 0; run < sim.n * steps; ++run) {
    const SimNode& node = sim.node(run);
    for (int q : node.static_queues) sim.static_order[q].push_back(run);
    sim.waits[run] = node.waits_now + (run >= sim.n ? node.waits_next : 0);
    if (sim.waits[run] == 0) arrive(sim, run);
  }
  return sim;
}

bool can_start(const Simulation& sim, int64_t run) {
  const SimNode& node = sim.node(run);
  return std::none_of(node.queues.begin(), node.queues.end(), [&](int q) { return sim.busy[q]; }) &&
         std::all_of(node.static_queues.begin(), node.static_queues.end(),
                     [&](int q) { return sim.static_order[q][sim.cursor[q]] == run; });
}

void start(Simulation& sim, int64_t run, Trace& trace) {
  const SimNode& node = sim.node(run);
  for (int q : node.queues) {
    sim.busy[q] = true;
    sim.ready[q].erase(run);
  }
  for (int q : node.static_queues) ++sim.cursor[q];
  sim.running.start(run, node, sim.now);
  sim.began[run] = sim.now;
  if (run >= sim.n) return;
  for (TaskId t : node.tasks) {
    if (node.collective) continue;
    for (LinkId l : sim.graph.task(t).route) trace.link_bytes[l.index()] += sim.graph.task(t).bytes;
  }
  if (!node.collective) return;
  for (const LinkLoad& load : node.collective->loads)
    trace.link_bytes[load.link.index()] +=
        std::llround(static_cast<double>(node.sent_bytes) * (load.inside + load.between));
}

const std::string& algorithm_of(const SimNode& node) {
  return node.collective->names[node.collective->costs.fastest(static_cast<double>(node.sent_bytes))];
}

// Starts runs as if all ready ones were tried in order. A run that cannot start gives way to the next at each of its
// free queues.
void start_what_can(Simulation& sim, Trace& trace) {
  while (!sim.candidates.empty()) {
    const int64_t run = *sim.candidates.begin();
    sim.candidates.erase(sim.candidates.begin());
    if (can_start(sim, run)) {
      start(sim, run, trace);
      continue;
    }
    for (int q : sim.node(run).queues)
      if (auto after = sim.ready[q].upper_bound(run); !sim.busy[q] && after != sim.ready[q].end())
        sim.candidates.insert(*after);
  }
}

// Notes that one of the runs that a run waits for has ended.
void heard(Simulation& sim, int64_t run) {
  if (--sim.waits[run] == 0) arrive(sim, run);
}

bool share_a_queue(const SimNode& a, const SimNode& b) {
  return std::any_of(a.queues.begin(), a.queues.end(),
                     [&](int q) { return std::find(b.queues.begin(), b.queues.end(), q) != b.queues.end(); });
}

void notify(Simulation& sim, const SimNode& node, int64_t run) {
  if (sim.message_ns == 0 || share_a_queue(node, sim.node(run))) heard(sim, run);
  else sim.messages.push({sim.now + sim.message_ns, run});
}

void end(Simulation& sim, int64_t run, Trace& trace) {
  ++sim.done;
  const SimNode& node = sim.node(run);
  const int64_t step = run / sim.n;
  for (TaskId t : node.tasks)
    trace.events.push_back({t, static_cast<int>(step), sim.graph.order[run % sim.n].firing, sim.began[run], sim.now});
  for (int q : node.queues) sim.busy[q] = false;
  for (int y : node.now) notify(sim, node, step * sim.n + y);
  if (step + 1 < sim.steps)
    for (int y : node.next) notify(sim, node, (step + 1) * sim.n + y);
}

// Moves on to the next time at which a run ends or a message comes, and handles all events of that time.
void move_on(Simulation& sim, Trace& trace) {
  int64_t next = sim.messages.empty() ? INT64_MAX : sim.messages.top().first;
  if (!sim.running.empty()) next = std::min(next, sim.running.next_end());
  validate_step_time(static_cast<double>(next));
  sim.now = next;
  const std::vector<int64_t> ended = sim.running.ended(next);
  for (int64_t run : ended) end(sim, run, trace);
  while (!sim.messages.empty() && sim.messages.top().first == next) {
    heard(sim, sim.messages.top().second);
    sim.messages.pop();
  }
  for (int64_t run : ended)
    for (int q : sim.node(run).queues)
      if (!sim.ready[q].empty()) sim.candidates.insert(*sim.ready[q].begin());
}

}  // namespace

Trace simulate(const PhysicalGraph& graph, const CostModel& cost, int steps, const Watch& watch) {
  Polling polling(watch, "while a plan was simulated");
  const std::vector<SimNode> nodes = sim_nodes(graph, cost);
  Trace trace;
  trace.steps = steps;
  trace.link_bytes.assign(cost.cluster().links.size(), 0);
  for (const SimNode& node : nodes)
    if (node.collective)
      for (TaskId t : node.tasks) trace.algorithms.emplace(t, algorithm_of(node));
  for (const SimNode& node : nodes)
    if (node.duration_ns >= kMostNs)
      fail("'{}' takes more than 115 days: a time or a rate in the cluster file or the profile is wrong",
           graph.task(node.tasks[0]).name);
  for (const SimNode& node : nodes)
    if (node.estimated) trace.estimated.insert(node.tasks.begin(), node.tasks.end());
  const std::shared_ptr<const Profile>& profile = cost.cluster().profile;
  Simulation sim = at_start(graph, nodes, steps, profile ? profile->machine : Machine());
  start_what_can(sim, trace);
  while (!sim.running.empty() || !sim.messages.empty()) {
    polling.step();
    move_on(sim, trace);
    start_what_can(sim, trace);
  }
  ensure(sim.done == sim.n * steps, "simulation stopped after {} of {} nodes: the graph was not admitted", sim.done,
         sim.n * steps);
  std::sort(trace.events.begin(), trace.events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.start_ns, a.task, a.step, a.firing) < std::tie(b.start_ns, b.task, b.step, b.firing);
  });
  trace.step_time_ns = steps > 0 ? sim.now / steps : 0;
  trace.memory = memory_over_time(graph, trace.events);
  return trace;
}

}  // namespace partita
