// Makes the one order over all nodes of a step (docs/inside/PHYSICAL.md section 2).
#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>

#include "partita/base/error.h"
#include "partita/physical/of_parameters.h"
#include "partita/physical/passes.h"

namespace partita {
namespace {

// The pipeline that the tasks' stages make.
Pipelining pipelining_of(const PhysicalGraph& graph, const LowerOptions& options) {
  int stages = 1;
  for (const Task& task : graph.tasks) stages = std::max(stages, task.stage + 1);
  const int v = options.virtual_stages;
  if (v < 1 || stages % v != 0)
    fail("physical graph '{}': {} virtual stages a device do not divide its {} stages: take a number that does",
         graph.name, v, stages);
  const Pipelining pipelining{options.schedule, stages / v, v, graph.micro_batches, options.more_in_flight};
  if (const auto why = pipelining_error(pipelining)) fail("physical graph '{}': {}", graph.name, *why);
  return pipelining;
}

int tick_of(const TickTable& table, const Task& task, int firing) {
  if (task.phase == Phase::kUpdate) return table.length;
  return (task.phase == Phase::kBackward ? table.backward : table.forward)[task.stage][firing];
}

// A task that is to run as soon as it is ready stands before all else. An update of a later stage, and the reduction of
// its gradient, do not. The stage before waits for results of the last backward pass, which go over the same links, and
// then has yet to run its own.
int first_tick(const TickTable& table, const Task& task) {
  return task.phase == Phase::kUpdate && task.stage > 0 ? table.backward[task.stage - 1].back() : -1;
}

// (tick, the op's place in the graph, - distance to its reader): the least comes first.
using Key = std::tuple<int, int, int>;

// Successors of each node, without repetitions.
using Successors = std::vector<std::vector<int>>;

void sort_unique(Successors& successors) {
  for (auto& list : successors) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
}

bool is_transfer(const Task& task) {
  return std::holds_alternative<CopyWork>(task.work) || std::holds_alternative<CombineWork>(task.work) ||
         std::holds_alternative<CollectiveWork>(task.work);
}

std::vector<int> indegrees(const Successors& successors) {
  std::vector<int> result(successors.size(), 0);
  for (const auto& list : successors)
    for (int to : list) ++result[to];
  return result;
}

// Describes a cycle among the nodes that no topological order can hold, for the message.
std::string describe_cycle(const PhysicalGraph& graph, const NodeTable& table, const Successors& successors,
                           const std::vector<int>& left) {
  int at = 0;
  while (left[at] == 0) ++at;
  // Every node left has a predecessor left, so walking backwards repeats a node.
  std::vector<int> predecessor(table.size(), -1), seen(table.size(), -1), walk;
  for (int v = 0; v < table.size(); ++v)
    if (left[v] > 0)
      for (int to : successors[v]) predecessor[to] = v;
  while (seen[at] < 0) {
    seen[at] = static_cast<int>(walk.size());
    walk.push_back(at);
    at = predecessor[at];
  }
  std::string text = to_string(graph, table.nodes[at]);
  for (std::size_t i = walk.size(); i-- > static_cast<std::size_t>(seen[at]);)
    text += " -> " + to_string(graph, table.nodes[walk[i]]);
  return text;
}

// The precedence that the order must follow. `data` goes from writers to readers. `all` adds a task's next firing, and
// goes from the readers of a carried register's old value to its writers.
struct Precedence {
  Successors data, all;
};
Precedence precedence_of(const PhysicalGraph& graph, const NodeTable& table, const Uses& uses) {
  const int size = table.size();
  Precedence p{Successors(size), Successors(size)};
  for (std::size_t r = 0; r < uses.size(); ++r) {
    for (const Use& use : uses[r])
      for (const Node& writer : use.writers)
        for (const Node& reader : use.readers)
          if (writer != reader) p.data[table.number(writer)].push_back(table.number(reader));
    if (graph.registers[r].carried)
      for (const Node& reader : uses[r][0].readers)
        for (const Node& writer : uses[r][1].writers)
          if (writer != reader) p.all[table.number(reader)].push_back(table.number(writer));
  }
  sort_unique(p.data);
  for (int v = 0; v < size; ++v) {
    p.all[v].insert(p.all[v].end(), p.data[v].begin(), p.data[v].end());
    if (table.nodes[v].firing + 1 < graph.task(table.nodes[v].task).rate) p.all[v].push_back(v + 1);
  }
  sort_unique(p.all);
  return p;
}

// Returns some order of the nodes that follows them.
std::vector<int> any_order(const PhysicalGraph& graph, const NodeTable& table, const Successors& all) {
  std::vector<int> left = indegrees(all), order;
  order.reserve(all.size());
  for (int v = 0; v < table.size(); ++v)
    if (left[v] == 0) order.push_back(v);
  for (std::size_t i = 0; i < order.size(); ++i)
    for (int to : all[order[i]])
      if (--left[to] == 0) order.push_back(to);
  if (static_cast<int>(order.size()) < table.size())
    fail("physical graph '{}': tasks wait for each other: {}", graph.name, describe_cycle(graph, table, all, left));
  return order;
}

// When a task stands: its own turn, unless the options or a given order say otherwise.
Task::Turn turn_of(const Task& task, bool given, const LowerOptions& options) {
  Task::Turn turn = task.turn;
  if (task.phase == Phase::kUpdate && turn == Task::Turn::kInPlace) turn = Task::Turn::kEager;
  if (given && turn == Task::Turn::kEager && std::holds_alternative<KernelWork>(task.work)) turn = Task::Turn::kInPlace;
  if (given && turn == Task::Turn::kEager && is_transfer(task)) turn = Task::Turn::kLazy;
  if (!options.control_edges && turn == Task::Turn::kLazy && is_transfer(task)) turn = Task::Turn::kEager;
  return turn;
}

// The key of a gather ahead of its reader: before all others there except gathers for earlier readers.
Key ahead_of(const std::vector<int>& gathers_ahead, TaskId gather, const Key& reader) {
  if (gathers_ahead[gather.index()] < 0) return reader;
  constexpr int kBefore = std::numeric_limits<int>::min() / 2;
  const auto [tick, place, distance] = reader;
  return std::min(reader, {tick, gathers_ahead[gather.index()], kBefore + place});
}

// By number. Readers come before writers, since a lazy task's key follows from its readers'.
std::vector<Key> keys_of(const PhysicalGraph& graph, const NodeTable& table, const Precedence& precedence,
                         const TickTable& ticks, const LowerOptions& options) {
  const std::vector<int> plain = any_order(graph, table, precedence.all);
  std::vector<Key> keys(table.size());
  std::vector<char> ahead(table.size(), false);  // gathers, and nodes made for them alone
  for (std::size_t i = plain.size(); i-- > 0;) {
    const int v = plain[i];
    const Node& node = table.nodes[v];
    const Task& task = graph.task(node.task);
    const bool placed = !options.op_places.empty() && task.op.valid();
    const bool given = placed && graph.micro_batches == 1;
    const int place = placed ? options.op_places[task.op.index()] : task.op.value;
    const Key as_ready{first_tick(ticks, task), place, 0};
    switch (turn_of(task, given, options)) {
      case Task::Turn::kInPlace:
        keys[v] = {given ? 0 : tick_of(ticks, task, node.firing), place, 0};
        for (int reader : precedence.data[v]) {  // a cast of a weight stands before the gather of its result
          const auto& [tick, op, distance] = keys[reader];
          if (const Key before{tick, op, distance - 1}; ahead[reader] && before < keys[v])
            keys[v] = before, ahead[v] = true;
        }
        break;
      case Task::Turn::kEager:
        keys[v] = !options.control_edges && task.phase == Phase::kUpdate && !is_transfer(task)
                      ? Key{ticks.length, place, 0}
                      : as_ready;
        break;
      case Task::Turn::kLazy: {
        Key first{std::numeric_limits<int>::max(), 0, 0};
        for (int reader : precedence.data[v]) {
          const auto& [tick, op, distance] = keys[reader];
          first = std::min(first, Key{tick, op, distance - 1});
        }
        // Transfers that its link sends after it may be read sooner.
        if (options.transfer_places && (*options.transfer_places)[node.task.index()] >= 0)
          for (int next : precedence.all[v])
            if ((*options.transfer_places)[table.nodes[next].task.index()] >= 0) first = std::min(first, keys[next]);
        keys[v] = precedence.data[v].empty() ? as_ready : first;
        if (!given && is_gather_of_parameters(graph, task) && !options.gathers_ahead.empty()) {
          keys[v] = ahead_of(options.gathers_ahead, node.task, keys[v]);
          ahead[v] = true;
        }
      }
    }
  }
  return keys;
}

std::vector<Key> keys_by_time(const std::vector<int>& start_places) {
  std::vector<Key> keys;
  for (const int place : start_places) keys.emplace_back(0, place, 0);
  return keys;
}

// By number: the node's rank by (name of its task, firing), for nodes with equal keys.
std::vector<int> ranks_by_name(const PhysicalGraph& graph, const NodeTable& table) {
  std::vector<int> by_name(table.size()), rank(table.size());
  std::iota(by_name.begin(), by_name.end(), 0);
  std::sort(by_name.begin(), by_name.end(), [&](int a, int b) {
    const Node &x = table.nodes[a], &y = table.nodes[b];
    return std::tie(graph.task(x.task).name, x.firing) < std::tie(graph.task(y.task).name, y.firing);
  });
  for (int i = 0; i < table.size(); ++i) rank[by_name[i]] = i;
  return rank;
}

// Section 5.5. Holds a rank of several virtual stages to its list of forwards and backwards. On each device, the first
// kernel of one waits for the last kernel of the one before. Credits belong to a register, and so to a virtual stage.
// They do not bound the micro-batches in flight over all virtual stages, and a task that is ready a moment early would
// go before one that the next rank waits for.
void hold_to_list(PhysicalGraph& graph) {
  struct Last {
    Node node;
    std::tuple<int, Phase, int> what;  // virtual stage, phase, micro-batch
  };
  std::vector<Last> last(graph.device_count);
  for (const Node& node : graph.order) {
    const Task& task = graph.task(node.task);
    if (graph.queues[task.queue.index()].kind != QueueKind::kCompute || task.turn != Task::Turn::kInPlace ||
        task.rate != graph.micro_batches || task.phase == Phase::kUpdate)
      continue;
    const std::tuple what(task.stage, task.phase, node.firing);
    Last& before = last[task.device.index()];
    if (before.node.task.valid() && before.what != what)
      graph.edges.push_back({before.node, node, false, EdgeKind::kPlan});
    before = {node, what};
  }
}

// For a kept schedule: the transfers of each link stand in the plan's order.
void add_turns_of_links(const PhysicalGraph& graph, const NodeTable& table, const std::vector<int>& places,
                        Successors& all) {
  std::vector<std::vector<TaskId>> of_queue(graph.queues.size());
  for (size_t t = 0; t < graph.tasks.size(); ++t)
    if (places[t] >= 0) of_queue[graph.tasks[t].queue.index()].push_back(TaskId(t));
  for (std::vector<TaskId>& turns : of_queue) {
    std::sort(turns.begin(), turns.end(), [&](TaskId a, TaskId b) {
      return std::tie(places[a.index()], graph.task(a).key) < std::tie(places[b.index()], graph.task(b).key);
    });
    for (size_t i = 1; i < turns.size(); ++i) all[table.number(turns[i - 1], 0)].push_back(table.number(turns[i], 0));
  }
  sort_unique(all);
}

// For a kept schedule: each device and link runs the task that stands next. A host loads and gives outputs when it can.
void hold_to_order(PhysicalGraph& graph) {
  std::vector<Node> last(graph.queues.size());
  for (const Node& node : graph.order) {
    const Queue& queue = graph.queues[graph.task(node.task).queue.index()];
    const bool computes = std::holds_alternative<KernelWork>(graph.task(node.task).work);
    if (queue.kind != QueueKind::kCompute && queue.kind != QueueKind::kLink && !computes) continue;
    Node& before = last[graph.task(node.task).queue.index()];
    if (before.task.valid()) graph.edges.push_back({before, node, false, EdgeKind::kPlan});
    before = node;
  }
}

}  // namespace

void make_order(PhysicalGraph& graph, const NodeTable& table, const Uses& uses, const LowerOptions& options) {
  Precedence precedence = precedence_of(graph, table, uses);
  if (options.transfer_places) add_turns_of_links(graph, table, *options.transfer_places, precedence.all);
  const Pipelining pipelining = pipelining_of(graph, options);
  const std::vector<Key> keys = options.start_places.empty()
                                    ? keys_of(graph, table, precedence, tick_table(pipelining), options)
                                    : keys_by_time(options.start_places);
  const std::vector<int> rank = ranks_by_name(graph, table);
  using Entry = std::tuple<Key, int, int>;  // key, rank of the name, node
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  std::vector<int> left = indegrees(precedence.all);
  for (int v = 0; v < table.size(); ++v)
    if (left[v] == 0) ready.push({keys[v], rank[v], v});
  graph.order.clear();
  graph.order.reserve(table.nodes.size());
  while (!ready.empty()) {
    const int v = std::get<2>(ready.top());
    ready.pop();
    graph.order.push_back(table.nodes[v]);
    for (int to : precedence.all[v])
      if (--left[to] == 0) ready.push({keys[to], rank[to], to});
  }
  if (pipelining.virtual_stages > 1) hold_to_list(graph);
  if (options.transfer_places) hold_to_order(graph);
}

}  // namespace partita
