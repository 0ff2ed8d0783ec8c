// `swap`, the swapping baseline of Tofu's comparison: every device has the model to itself and swaps with its host.
#include "partita/search/estimates/swap.h"

#include <algorithm>
#include <map>
#include <optional>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/physical/in_place.h"
#include "partita/physical/kept_gradients.h"
#include "partita/physical/lower_local.h"
#include "partita/physical/passes.h"
#include "partita/search/estimates/replicas.h"
#include "partita/sim/simulate.h"

namespace partita {

SwapProgram swap_program(const PhysicalGraph& graph, DeviceId device) {
  const NodeTable table = number_nodes(graph);
  const std::vector<int> place = places(graph, table);
  std::vector<int> last(graph.registers.size(), -1), until = last;  // places: of the last use; of kept gradients' end
  const Uses uses(graph, table);
  const KeptUntil<int> kept_until(graph, kept_gradients(graph, table), -1,
                                  [&](int node, DeviceId) { return place[static_cast<size_t>(node)]; });
  for (const Use& use : uses.all()) {
    until[use.reg.index()] = kept_until.of(use);
    for (const auto* users : {&use.writers, &use.readers})
      for (const Node& n : *users) last[use.reg.index()] = std::max(last[use.reg.index()], place[table.number(n)]);
  }

  SwapProgram program;
  const InPlace in_place(graph);
  std::vector<int> block(graph.registers.size(), -1);
  auto block_of = [&](RegisterId id) {
    int& b = block[id.index()];
    if (b >= 0) return b;
    const Register& reg = graph.reg(id);
    b = static_cast<int>(program.blocks.size());
    program.blocks.push_back({reg.name, reg.device == device ? reg.stride_bytes() * reg.count : 0,
                              reg.carried || reg.constant, until[id.index()]});
    return b;
  };
  for (size_t i = 0; i < graph.order.size(); ++i) {
    const Task& task = graph.task(graph.order[i].task);
    ensure(task.rate == 1 && !std::holds_alternative<CollectiveWork>(task.work),
           "swap: '{}' is not on one device in one piece", task.name);
    std::map<int, bool> touched;  // block -> written
    for (const Access& read : task.reads) touched[block_of(read.reg)] |= false;
    for (const Access& write : task.writes) {
      if (block[write.reg.index()] < 0)
        for (const Access& read : task.reads)
          if (last[read.reg.index()] == static_cast<int>(i) && in_place.can_alias(read.reg, write.reg)) {
            block[write.reg.index()] = block[read.reg.index()];
            program.blocks[block[read.reg.index()]].until = until[write.reg.index()];
            break;
          }
      touched[block_of(write.reg)] = true;
    }
    for (RegisterId scratch : task.scratch) touched[block_of(scratch)] = true;
    program.ops.emplace_back();
    for (const auto& [b, written] : touched) program.ops.back().push_back({b, written});
  }
  return program;
}

PhysicalGraph with_copies(PhysicalGraph graph, const SwapProgram& program, const SwapSchedule& schedule,
                          const Cluster& cluster, DeviceId device) {
  const DeviceId host = cluster.device(device).host;
  auto copy = [&](size_t number, int block, bool in) {
    Task task;
    const DeviceId from = in ? host : device, to = in ? device : host;
    task.name = fmt::format("swap {} {} #{}", in ? "in" : "out", program.blocks[block].name, number);
    task.device = to;
    task.route = cluster.route(from, to);
    task.work = CopyWork{};
    task.bytes = program.blocks[block].bytes;
    const LinkId narrowest = cluster.narrowest(from, to);
    for (size_t q = 0; q < graph.queues.size(); ++q)
      if (graph.queues[q].kind == QueueKind::kLink && graph.queues[q].link == narrowest) task.queue = QueueId(q);
    graph.tasks.push_back(std::move(task));
    return Node{TaskId(graph.tasks.size() - 1), 0};
  };
  const std::vector<Node> ops = graph.order;
  graph.order.clear();
  graph.edges.clear();
  std::vector<Node> node;  // by action
  for (const SwapAction& action : schedule.actions) {
    switch (action.kind) {
      case SwapAction::Kind::kOp:
        node.push_back(ops[action.subject]);
        break;
      case SwapAction::Kind::kDrop:
        node.push_back({});
        continue;
      default:
        node.push_back(copy(node.size(), action.subject, action.kind == SwapAction::Kind::kIn));
    }
    graph.order.push_back(node.back());
    for (int before : action.after) graph.edges.push_back({node[before], node.back(), false, EdgeKind::kReuse});
  }
  return graph;
}

namespace {

// One device's step.
struct Swapped {
  SwapSchedule schedule;
  int64_t step_time_ns = 0;
};

constexpr char kWhere[] = "while a step was swapped";

// The step on one device. Nothing, and the reason, if one op needs more than the device has.
std::optional<Swapped> swapped_on(const Graph& graph, const Cluster& share, DeviceId device, const Watch& watch,
                                  std::string& reason) {
  watch.poll(kWhere);
  const Device& d = share.device(device);
  if (d.host == device)
    throw DoesNotApply(fmt::format(
        "cluster '{}': device '{}' computes in its host's memory; there is nothing to swap to", share.name, d.name));
  const Resolved resolved = resolve(graph, plan_on(graph, share, device), share);
  PhysicalGraph physical = lower_local(graph, resolved, share, watch).graph;
  make_order(physical);
  make_counts(physical);
  const SwapProgram program = swap_program(physical, device);
  const WorkingSet most = largest_working_set(program);
  if (most.bytes > d.memory_bytes) {
    reason = fmt::format("'{}' needs {} at once, {} more than '{}' has",
                         physical.task(physical.order[most.op].task).name, megabytes(static_cast<double>(most.bytes)),
                         megabytes(static_cast<double>(most.bytes - d.memory_bytes)), d.name);
    return std::nullopt;
  }
  watch.poll(kWhere);
  Swapped s;
  s.schedule = swap_schedule(program, d.memory_bytes);
  s.step_time_ns =
      simulate(with_copies(std::move(physical), program, s.schedule, share, device), CostModel(share), 1, watch)
          .step_time_ns;
  return s;
}

SearchResult search(const Problem& problem, const Budget& budget, Rng&) {
  const Watch watch = budget.watch();
  const int64_t samples = samples_a_device(problem);
  const Cluster share = own_share(problem.cluster);
  const Graph graph = step_of(problem, samples);
  const std::vector<DeviceId> alike = representatives(share);
  SearchResult result;
  std::map<DeviceId, Swapped> swapped;  // by representative
  for (DeviceId device : alike) {
    if (swapped.contains(device)) continue;
    auto one = swapped_on(graph, share, device, watch, result.reason);
    if (!one) return result;
    swapped[device] = std::move(*one);
  }
  Estimate estimate{samples * problem.cluster.compute_count, 0, 0, 0};
  std::map<DeviceId, int64_t> host_bytes;
  for (size_t d = 0; d < alike.size(); ++d) {
    const Swapped& s = swapped.at(alike[d]);
    estimate.step_time_ns = std::max(estimate.step_time_ns, s.step_time_ns);
    estimate.peak_memory_bytes = std::max(estimate.peak_memory_bytes, s.schedule.peak_bytes);
    estimate.host_bytes += s.schedule.in_bytes + s.schedule.out_bytes;
    host_bytes[share.devices[d].host] += s.schedule.host_peak_bytes;
  }
  for (const auto& [host, bytes] : host_bytes)
    if (const Device& h = share.device(host); bytes > h.memory_bytes) {
      result.reason =
          fmt::format("the devices of host '{}' keep {} there, {} more than it has", h.name,
                      megabytes(static_cast<double>(bytes)), megabytes(static_cast<double>(bytes - h.memory_bytes)));
      return result;
    }
  const SwapSchedule& first = swapped.at(alike[0]).schedule;
  result.counters["swap_in_bytes"] = static_cast<double>(first.in_bytes);
  result.counters["swap_out_bytes"] = static_cast<double>(first.out_bytes);
  result.notes.push_back(fmt::format("{} samples a device; '{}' takes {} from its host in a step and puts {} there",
                                     samples, share.devices[0].name, megabytes(static_cast<double>(first.in_bytes)),
                                     megabytes(static_cast<double>(first.out_bytes))));
  if (!first.steady)
    result.notes.push_back(
        fmt::format("no two of {} steps swapped alike; these are the last one's figures", kSwapSteps));
  result.estimate = estimate;
  return result;
}

}  // namespace

SearchEntry swap_search() {
  return {.name = "swap",
          .source = "Tofu section 7.1",
          .summary =
              "every device has the model to itself, what does not fit is in host memory: the least recently used "
              "goes, what comes next is prefetched, all devices share the host's links; nothing is exchanged",
          .search = search,
          .estimates = true};
}

}  // namespace partita
