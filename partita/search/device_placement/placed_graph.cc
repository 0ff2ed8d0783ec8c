// Converts a training step to a placement problem, and a schedule to a plan.
#include "partita/search/device_placement/placed_graph.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "partita/base/error.h"
#include "partita/cluster/same_type.h"
#include "partita/graph/kept_gradients.h"
#include "partita/physical/passes.h"
#include "partita/plan/pin_error.h"
#include "partita/plan/rule_planner.h"
#include "partita/schedule/lower.h"
#include "partita/search/device_placement/placed_groups.h"
#include "partita/search/estimates/replicas.h"
#include "partita/sim/simulate.h"

namespace partita {

namespace {

constexpr double kNsPerUs = 1e3;
constexpr const char* kWhere = "while the step was measured on one device";

// The times of each operation, load and output on a device.
struct Durations {
  std::vector<int64_t> ops, loads, outputs;  // by OpId; by place in the graph's inputs and outputs
  int64_t peak_bytes = 0;
};

Durations durations_on(const Problem& problem, const CostModel& cost, DeviceId device, const Watch& watch) {
  const Graph& graph = problem.graph;
  LowerOptions options;
  options.watch = watch;
  const PhysicalGraph lowered = lower(graph, plan_on(graph, problem.cluster, device), problem.cluster, options);
  Durations took{std::vector<int64_t>(graph.ops.size(), 0), std::vector<int64_t>(graph.inputs.size(), 0),
                 std::vector<int64_t>(graph.outputs.size(), 0), lowered.peak_bytes[device.index()]};
  for (const Event& e : simulate(lowered, cost, 1, watch).events) {
    const Task& task = lowered.task(e.task);
    const int64_t ns = e.end_ns - e.start_ns;
    if (std::holds_alternative<LoadWork>(task.work)) took.loads[static_cast<size_t>(task.key.number)] += ns;
    else if (std::holds_alternative<OutputWork>(task.work)) took.outputs[static_cast<size_t>(task.key.number)] += ns;
    else if (std::holds_alternative<KernelWork>(task.work) && task.op.valid()) took.ops[task.op.index()] += ns;
  }
  return took;
}

class Maker {
 public:
  Maker(const Problem& problem, const CostModel& cost, const Watch& watch)
      : problem_(problem),
        graph_(problem.graph),
        cluster_(problem.cluster),
        group_(placed_groups(problem.graph)),
        kept_(kept_gradients(problem.graph)) {
    placed_.number.assign(graph_.ops.size(), -1);
    placed_.start.assign(graph_.tensors.size(), -1);
    sources_.resize(graph_.tensors.size());
    next_.resize(graph_.tensors.size());
    for (int d = 0; d < cluster_.compute_count; ++d) {
      int first = 0;
      while (!is_same_type(cluster_.devices[static_cast<size_t>(first)], cluster_.devices[static_cast<size_t>(d)]))
        ++first;
      if (first == d) took_[d] = durations_on(problem, cost, DeviceId(d), watch);
      type_.push_back(first);
    }
    add_devices(cost);
    for (size_t t = 0; t < graph_.tensors.size(); ++t)
      if (const TensorId old = graph_.tensors[t].replaces; old.valid()) next_[old.index()] = TensorId(t);
  }

  PlacedGraph make() {
    const Durations& took = took_.at(0);
    // A CPU device is its own host: it loads its own inputs.
    const bool hosts = cluster_.devices[0].host != DeviceId(0);
    for (size_t i = 0; hosts && i < graph_.inputs.size(); ++i) {
      const Tensor& input = graph_.tensor(graph_.inputs[i]);
      // An input goes whole to each device that reads it.
      const int load = add({input.name + ".load", on_host(took.loads[i]), 0, -1, {}});
      source(graph_.inputs[i]) = {load, add_result(input.bytes(), load), true, {}};
    }
    add_starts();
    for (size_t i = 0; i < graph_.ops.size(); ++i) add_op(OpId(i));
    for (size_t i = 0; hosts && i < graph_.outputs.size(); ++i) {
      const int op = add({graph_.tensor(graph_.outputs[i]).name + ".output", on_host(took.outputs[i]), 0, -1, {}});
      read(op, graph_.outputs[i], nullptr);
    }
    keep_groups_together();
    placed_.one_device_bytes = took.peak_bytes;
    validate(placed_.problem);
    return std::move(placed_);
  }

 private:
  void add_devices(const CostModel& cost) {
    PlacementProblem& p = placed_.problem;
    const size_t n = cluster_.devices.size();
    for (const Device& d : cluster_.devices) p.devices.push_back({d.name, d.memory_bytes});
    p.routes.assign(n, std::vector<Route>(n));
    std::map<LinkId, int> queues;
    for (size_t from = 0; from < n; ++from)
      for (size_t to = 0; to < n; ++to)
        if (from != to) p.routes[from][to] = route(cost, DeviceId(from), DeviceId(to), queues);
    p.queues = static_cast<int>(queues.size());
  }
  Route route(const CostModel& cost, DeviceId from, DeviceId to, std::map<LinkId, int>& queues) const {
    const LinkId narrowest = cluster_.narrowest(from, to);
    if (!narrowest.valid()) return {};
    const int queue = queues.try_emplace(narrowest, static_cast<int>(queues.size())).first->second;
    if (const Profile* profile = cluster_.profile_of(to))
      if (const Curve* curve = profile->curve("transfer"))
        return {queue, curve->latency_us * kNsPerUs, curve->us_per_byte * kNsPerUs, {}};
    Route route{queue, 0, 0, {}};
    for (const Duration& protocol : cost.transfer(from, to, cluster_.route(from, to), 1).durations)
      route.others.emplace_back(protocol.fixed_ns, protocol.moving_ns);
    std::tie(route.latency_ns, route.ns_per_byte) = route.others.back();
    route.others.pop_back();
    return route;
  }
  // The times of a cpu op: on any host, or CPU device, the first host's time.
  std::vector<int64_t> on_hosts(int64_t ns) const {
    std::vector<int64_t> by_device(cluster_.devices.size(), -1);
    for (size_t d = 0; d < by_device.size(); ++d)
      if (cluster_.devices[d].host == DeviceId(d)) by_device[d] = std::max<int64_t>(1, ns);
    return by_device;
  }
  std::vector<int64_t> on_host(int64_t ns) const {
    std::vector<int64_t> by_device(cluster_.devices.size(), -1);
    // The times on the first device's host; a step's inputs are loaded once.
    by_device[cluster_.devices[0].host.index()] = std::max<int64_t>(1, ns);
    return by_device;
  }
  std::vector<int64_t> on_compute(const std::function<int64_t(int type)>& ns) const {
    std::vector<int64_t> by_device(cluster_.devices.size(), -1);
    for (int d = 0; d < cluster_.compute_count; ++d)
      by_device[static_cast<size_t>(d)] = std::max<int64_t>(1, ns(type_[static_cast<size_t>(d)]));
    return by_device;
  }
  int add(PlacedOp op, OpId of = OpId()) {
    placed_.problem.ops.push_back(std::move(op));
    placed_.op.push_back(of);
    return static_cast<int>(placed_.problem.ops.size()) - 1;
  }
  // A tensor's producer, and the values that are parts of it.
  struct Source {
    int producer = -1;  // none: a constant
    int result = -1;
    bool whole = false;
    std::vector<std::pair<std::optional<Layout>, int>> parts;  // none: all of it
  };
  Source& source(TensorId t) { return sources_[t.index()]; }
  int add_value(TensorId tensor, int producer, int64_t bytes, int result) {
    placed_.problem.values.push_back({bytes, producer, {}, result});
    placed_.value.push_back(tensor);
    return static_cast<int>(placed_.problem.values.size()) - 1;
  }
  int add_result(int64_t bytes, int producer) {
    placed_.problem.results.push_back({bytes, producer});
    return static_cast<int>(placed_.problem.results.size()) - 1;
  }
  void read(int op, int value) {
    std::vector<int>& readers = placed_.problem.values[static_cast<size_t>(value)].readers;
    if (!readers.empty() && readers.back() == op) return;
    readers.push_back(op);
    placed_.problem.ops[static_cast<size_t>(op)].reads.push_back(value);
  }
  void read(int op, TensorId t, const Layout* part) {
    Source& from = source(t);
    if (from.producer < 0) return;
    if (from.whole || (part && part->elements(0) == volume(graph_.tensor(t).shape))) part = nullptr;
    const auto known = std::find_if(from.parts.begin(), from.parts.end(), [&](const auto& p) {
      return p.first.has_value() == (part != nullptr) && (!part || same_placement(*p.first, *part));
    });
    if (known != from.parts.end()) return read(op, known->second);
    const int64_t elements = part ? part->elements(0) : volume(graph_.tensor(t).shape);
    const int value = elements == 0  // nothing moves
                          ? add_value(TensorId(), from.producer, kOrderAlone, -1)
                          : add_value(t, from.producer, elements * bytes_of(graph_.tensor(t).dtype), from.result);
    from.parts.emplace_back(part ? std::optional(*part) : std::nullopt, value);
    read(op, value);
  }
  void add_starts() {
    for (size_t t = 0; t < graph_.tensors.size(); ++t) {
      const Tensor& tensor = graph_.tensors[t];
      if (tensor.role != Role::kParameter && tensor.role != Role::kState) continue;
      if (tensor.producer.valid()) continue;
      const OpId update = next_[t].valid() ? graph_.tensor(next_[t]).producer : OpId();
      const bool on_cpu = update.valid() && graph_.op(update).device_type == DeviceType::kCpu;
      placed_.start[t] = add({tensor.name + ".start",
                              on_cpu ? on_hosts(1) : on_compute([](int) { return 1; }),
                              tensor.bytes() + (update.valid() ? kept_gradient_bytes(update, next_[t]) : 0),
                              update.valid() ? group_[update.index()] : -1,
                              {}});
      source(TensorId(t)).producer = placed_.start[t];
      source(TensorId(t)).result = add_result(0, placed_.start[t]);  // it stays; a transferred copy does not
    }
  }
  // The bytes of a gradient that is kept, beside the parameter that it updates. That they count from the step's start
  // is an upper bound.
  int64_t kept_gradient_bytes(OpId update, TensorId updated) const {
    const Op& op = graph_.op(update);
    const bool is_parameter = op.results[0] == updated;
    return is_parameter && keeps_gradient(op.attributes) ? graph_.tensor(op.operands[kGradientOperand]).bytes() : 0;
  }
  void add_op(OpId id) {
    const Op& op = graph_.op(id);
    std::vector<int64_t> ns = op.device_type == DeviceType::kCpu
                                  ? on_hosts(took_.at(0).ops[id.index()])
                                  : on_compute([&](int type) { return took_.at(type).ops[id.index()]; });
    const int number = add({op.name, std::move(ns), 0, group_[id.index()], {}}, id);
    placed_.number[id.index()] = number;
    pin(id, number);
    const auto derived = derivations_.get(op.bound, {}, {});
    ensure(derived != nullptr, "op '{}' cannot run whole", op.name);
    const OpLayouts layouts = layouts_of(*op.bound, *derived, Mesh{{}, {DeviceId(0)}});
    for (size_t k = 0; k < op.operands.size(); ++k) read(number, op.operands[k], &layouts.operands[k]);
    for (TensorId r : op.results) {
      const Tensor& result = graph_.tensor(r);
      source(r).producer = number;
      const bool replaces = result.replaces.valid();
      if (replaces) come_after_readers(number, source(result.replaces));
      // Bytes in the old value's buffer, and those of kept gradients, are counted with parameters.
      source(r).result = add_result(replaces || kept_[r.index()] ? 0 : result.bytes(), number);
    }
  }
  void come_after_readers(int update, const Source& old) {
    std::set<int> readers;
    for (const auto& [part, value] : old.parts) {
      const std::vector<int>& of_part = placed_.problem.values[static_cast<size_t>(value)].readers;
      readers.insert(of_part.begin(), of_part.end());
    }
    for (int reader : readers)
      if (reader != update) read(update, add_value(TensorId(), reader, kOrderAlone, -1));
  }
  void pin(OpId id, int number) {
    const OpChoice* fixed = problem_.constraints.choice_of(id);
    if (!fixed) return;
    if (fixed->mesh.devices.size() != 1)
      fail_pin("op '{}' is pinned on {} devices; here each op runs on one", graph_.op(id).name,
               fixed->mesh.devices.size());
    std::vector<int64_t>& ns = placed_.problem.ops[static_cast<size_t>(number)].ns;
    for (size_t d = 0; d < ns.size(); ++d)
      if (DeviceId(d) != fixed->mesh.devices[0]) ns[d] = -1;
  }
  // Names the group's first pin and one on another device; and the reason that keeps them together.
  [[noreturn]] void refuse_pins(int group) const {
    const auto on = [&](DeviceId at) { return fmt::format("on device {}, '{}'", at.value, cluster_.device(at).name); };
    std::string first, other;
    DeviceId of_first;
    for (const auto& [id, choice] : problem_.constraints.ops) {
      const DeviceId at = choice.mesh.devices[0];
      if (group_[id.index()] != group) continue;
      if (first.empty()) first = fmt::format("op '{}' is pinned {}", graph_.op(id).name, on(at)), of_first = at;
      else if (at != of_first && other.empty()) other = fmt::format("op '{}' {}", graph_.op(id).name, on(at));
    }
    std::set<std::string> why;
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      if (group_[i] != group) continue;
      if (const std::string& name = graph_.ops[i].colocation; !name.empty())
        why.insert(fmt::format("colocation group '{}'", name));
      for (TensorId t : graph_.ops[i].results)
        if (const TensorId old = graph_.tensor(t).replaces; old.valid() && graph_.tensor(old).role == Role::kParameter)
          why.insert(fmt::format("the update of '{}'", graph_.tensor(old).name));
    }
    fail_pin("{}, and {}, but what is of {} runs on one device; pin both on one, or one alone", first, other,
             fmt::join(why, ", "));
  }
  // A pin of one operation pins its group.
  void keep_groups_together() {
    std::map<int, std::vector<char>> runs;
    for (const PlacedOp& op : placed_.problem.ops) {
      if (op.group < 0) continue;
      std::vector<char>& all = runs.try_emplace(op.group, op.ns.size(), true).first->second;
      for (size_t d = 0; d < all.size(); ++d) all[d] = all[d] && op.ns[d] > 0;
    }
    for (PlacedOp& op : placed_.problem.ops) {
      if (op.group < 0) continue;
      const std::vector<char>& all = runs.at(op.group);
      if (std::find(all.begin(), all.end(), true) == all.end()) refuse_pins(op.group);
      for (size_t d = 0; d < all.size(); ++d)
        if (!all[d]) op.ns[d] = -1;
    }
  }

  const Problem& problem_;
  const Graph& graph_;
  const Cluster& cluster_;
  const std::vector<int> group_;   // by OpId (placed_groups.h)
  std::map<int, Durations> took_;  // by the first device of a type
  std::vector<int> type_;          // by compute device: that first one
  std::vector<Source> sources_;    // by TensorId
  const std::vector<char> kept_;   // by TensorId: whether it is a gradient that is kept to the last update
  std::vector<TensorId> next_;     // by TensorId: its replacement
  DerivationCache derivations_;
  PlacedGraph placed_;
};

// By TensorId: the devices on which operations read it, ascending.
std::vector<std::set<int>> reading_devices(const Graph& graph, const PlacedGraph& placed,
                                           const PlacedSchedule& schedule) {
  std::vector<std::set<int>> devices(graph.tensors.size());
  for (size_t i = 0; i < graph.ops.size(); ++i)
    for (TensorId t : graph.ops[i].operands)
      devices[t.index()].insert(schedule.device[static_cast<size_t>(placed.number[i])]);
  return devices;
}

void keep_starts(const Graph& graph, const PlacedGraph& placed, const PlacedSchedule& schedule, Plan& plan) {
  const std::vector<std::set<int>> readers = reading_devices(graph, placed, schedule);
  for (auto& [tensor, placement] : plan.kept) {
    if (graph.tensor(tensor).producer.valid()) continue;
    if (const int start = placed.start[tensor.index()]; start >= 0) {
      placement = {Mesh{{}, {DeviceId(schedule.device[static_cast<size_t>(start)])}}, {}, {}};
      continue;
    }
    const std::set<int>& devices = readers[tensor.index()];
    if (devices.empty()) continue;
    Mesh mesh;
    for (int d : devices) mesh.devices.push_back(DeviceId(d));
    if (devices.size() > 1) mesh.extents = {static_cast<int>(devices.size())};
    placement = {mesh, NdSbp(mesh.extents.size(), Sbp::broadcast()), {}};
  }
}

// The first operation on the device that reads the value. None for an input, which serves all, and for an output.
OpId first_reader(const Graph& graph, const PlacedGraph& placed, const PlacedSchedule& schedule,
                  const PlacedTransfer& transfer) {
  const PlacedValue& value = placed.problem.values[static_cast<size_t>(transfer.value)];
  const TensorId tensor = placed.value[static_cast<size_t>(transfer.value)];
  OpId first;
  if (!graph.tensor(tensor).producer.valid() && placed.start[tensor.index()] < 0) return first;
  for (int reader : value.readers) {
    const OpId op = placed.op[static_cast<size_t>(reader)];
    if (schedule.device[static_cast<size_t>(reader)] == transfer.to && op.valid() && (!first.valid() || op < first))
      first = op;
  }
  return first;
}

}  // namespace

namespace {

// A compute device with another host than the first one's; none: one host feeds all.
DeviceId with_another_host(const Cluster& cluster) {
  const DeviceId first(0), host = cluster.device(first).host;
  for (int d = 1; d < cluster.compute_count; ++d)
    if (cluster.device(DeviceId(d)).host != host && host != first) return DeviceId(d);
  return {};
}

void validate_one_node(const Problem& problem) {
  if (const int parts = problem.graph.micro_batches(); parts > 1)
    throw Error(ExitCode::kUsage,
                fmt::format("searches for placements of whole operations plan a step on the whole batch, not in {} "
                            "micro-batches; leave micro-batches out{}",
                            parts, has_device_types(problem.graph) ? "" : ", or take another search, such as auto"));
  const Cluster& cluster = problem.cluster;
  if (const DeviceId other = with_another_host(cluster); other.valid())
    throw DoesNotApply(
        fmt::format("operations are placed whole on the devices of one host; '{}' and '{}' have different ones; give "
                    "--devices",
                    cluster.devices[0].name, cluster.device(other).name));
}

}  // namespace

bool can_be_placed(const Problem& problem) {
  return problem.graph.micro_batches() == 1 && problem.constraints.kept.empty() &&
         !with_another_host(problem.cluster).valid();
}

PlacedGraph placed_graph(const Problem& problem, const CostModel& cost, const Watch& watch) {
  validate_one_node(problem);
  if (!problem.constraints.kept.empty())
    fail_pin("tensor '{}' is pinned; where operations are placed whole, tensors are where these are: pin ops alone",
             problem.graph.tensor(problem.constraints.kept.begin()->first).name);
  validate_lowered_size(problem.graph, problem.cluster);
  watch.poll(kWhere);
  return Maker(problem, cost, watch).make();
}

namespace {

PlacementProblem without_order_alone(PlacementProblem p) {
  std::vector<int> number(p.values.size(), -1);
  std::vector<PlacedValue> values;
  for (size_t v = 0; v < p.values.size(); ++v) {
    if (p.values[v].bytes == kOrderAlone) continue;
    number[v] = static_cast<int>(values.size());
    values.push_back(std::move(p.values[v]));
  }
  p.values = std::move(values);
  for (PlacedOp& op : p.ops) {
    std::erase_if(op.reads, [&](int v) { return number[static_cast<size_t>(v)] < 0; });
    for (int& v : op.reads) v = number[static_cast<size_t>(v)];
  }
  return p;
}

}  // namespace

PlacementBounds bounds_of_plans(const PlacedGraph& placed) {
  PlacementBounds bounds = placement_bounds(without_order_alone(placed.problem));
  const auto ticks = std::count_if(placed.start.begin(), placed.start.end(), [](int start) { return start >= 0; });
  for (int64_t* ns :
       {&bounds.load_ns, &bounds.path_ns, &bounds.heads_ns, &bounds.work_ns, &bounds.links_ns, &bounds.cut_ns})
    *ns = std::max<int64_t>(0, *ns - ticks);
  return bounds;
}

PlacementProblem with_footprints(const PlacedGraph& placed) {
  PlacementProblem p = placed.problem;
  double stays = 0, passing = 0;
  for (const PlacedOp& op : p.ops) stays += static_cast<double>(op.bytes);
  for (const PlacedResult& result : p.results) passing += static_cast<double>(result.bytes);
  const double part =
      passing > 0 ? std::clamp((static_cast<double>(placed.one_device_bytes) - stays) / passing, 0.0, 1.0) : 0;
  for (const PlacedResult& result : p.results)
    p.ops[static_cast<size_t>(result.producer)].bytes += static_cast<int64_t>(part * static_cast<double>(result.bytes));
  p.results.clear();
  for (PlacedValue& value : p.values) value.result = -1;
  return p;
}

// Adds inputs that no operation reads, which the problem lacks: a step brings them to the plan's placement.
void add_unread_inputs(const Problem& problem, Plan& plan) {
  const auto read_by = readers_by_tensor(problem.graph);
  for (const TensorId id : problem.graph.inputs) {
    if (!read_by[id.index()].empty()) continue;
    for (const DeviceId d : plan.kept.at(id).mesh.devices)
      if (problem.cluster.device(d).host != d) plan.transfers->push_back({id, d, OpId()});
  }
}

Plan plan_of(const Problem& problem, const PlacedGraph& placed, const PlacedSchedule& schedule, bool keeps_order,
             std::string_view search) {
  const Graph& graph = problem.graph;
  const auto device_of = [&](OpId id) { return schedule.device[static_cast<size_t>(placed.number[id.index()])]; };
  const Constraints none;
  RulePlanner planner(graph, problem.cluster, none, Mesh{{}, {DeviceId(0)}});
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    planner.place(OpId(i),
                  problem.constraints.choice_or(OpId(i), OpChoice{Mesh{{}, {DeviceId(device_of(OpId(i)))}}, {}}));
  }
  Plan plan = planner.finish(search);
  keep_starts(graph, placed, schedule, plan);
  if (!keeps_order) return plan;
  for (size_t i = 0; i < graph.ops.size(); ++i) plan.order.push_back(OpId(i));
  const auto start = [&](OpId id) { return schedule.start[static_cast<size_t>(placed.number[id.index()])]; };
  std::sort(plan.order.begin(), plan.order.end(),
            [&](OpId a, OpId b) { return std::pair(start(a), a) < std::pair(start(b), b); });
  plan.transfers.emplace();
  for (const PlacedTransfer& t : schedule.transfers)
    plan.transfers->push_back(
        {placed.value[static_cast<size_t>(t.value)], DeviceId(t.to), first_reader(graph, placed, schedule, t)});
  add_unread_inputs(problem, plan);
  return plan;
}

}  // namespace partita
