// Implements the searches of Pesto's comparison: operations placed whole by experts' rules and by Baechi's, evaluated
// in their order or the framework's.
#include "partita/search/device_placement/placements.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/device_placement/baechi.h"
#include "partita/device_placement/coarsen.h"
#include "partita/device_placement/decode.h"
#include "partita/device_placement/favourites.h"
#include "partita/graph/layers.h"
#include "partita/plan/rule_planner.h"
#include "partita/profile/profile.h"
#include "partita/search/entry.h"
#include "partita/search/evaluate.h"
#include "partita/search/idle_devices.h"
#include "partita/search/pipelines/contiguous_runs.h"
#include "partita/search/pipelines/stages.h"
#include "partita/search/soap/initial_plans.h"

namespace partita {

std::vector<int> framework_ranks(const PlacementProblem& problem) {
  std::vector<int> rank(problem.ops.size());
  std::iota(rank.begin(), rank.end(), 0);
  return rank;
}

PlacementProblem with_ample_memory(PlacementProblem problem) {
  for (PlacedDevice& d : problem.devices) d.memory_bytes = INT64_MAX;
  return problem;
}

PlacementProblem with_less_memory(PlacementProblem problem, int64_t parts, int64_t of) {
  for (PlacedDevice& d : problem.devices) d.memory_bytes -= parts * (d.memory_bytes / of);
  return problem;
}

std::string ms(int64_t ns) { return time_text(static_cast<double>(ns)); }

SearchResult placed_result(const Problem& problem, const PlacedGraph& placed, PlacedSchedule schedule,
                           std::string_view order, std::string_view name) {
  const PlacementProblem& p = placed.problem;
  if (order == "framework") schedule = first_come(p, schedule.device, framework_ranks(p));
  if (order == "critical") schedule = first_come(p, schedule.device, critical_ranks(p, schedule.device));
  const std::string wrong = schedule_error(with_ample_memory(p), schedule);
  ensure(wrong.empty(), "{}: {}", name, wrong);
  SearchResult result;
  result.plan = plan_of(problem, placed, schedule, order != "framework", name);
  result.counters["ops"] = static_cast<double>(p.ops.size());
  result.counters["transfers"] = static_cast<double>(schedule.transfers.size());
  std::vector<int> ops(p.devices.size(), 0);
  for (size_t o = 0; o < schedule.device.size(); ++o)
    if (placed.op[o].valid()) ++ops[static_cast<size_t>(schedule.device[o])];
  std::string on;
  for (size_t d = 0; d < ops.size(); ++d)
    if (ops[d] > 0)
      on += fmt::format("{}{}{} on {}", on.empty() ? "" : ", ", ops[d], on.empty() ? " ops" : "", p.devices[d].name);
  result.notes.push_back(fmt::format("{}, {} transfers; {} in the placement problem, where nothing waits for memory",
                                     on, schedule.transfers.size(), ms(schedule.end)));
  return result;
}

bool has_cold_times(const Cluster& cluster) { return cluster.profile && cluster.profile->machine.cache_bytes > 0; }

void add_bound(const PlacementBounds& bounds, const Cluster& cluster, SearchResult& result) {
  result.lower_bound_step_ns = bounds.ns();
  result.notes.push_back(fmt::format(
      "no schedule of whole operations takes less than {}{} (load {}, longest path {}; with heads and tails: path {}, "
      "work {}, links {}, cut {})",
      ms(bounds.ns()), has_cold_times(cluster) ? " with each kernel's time on one device" : "", ms(bounds.load_ns),
      ms(bounds.path_ns), ms(bounds.heads_ns), ms(bounds.work_ns), ms(bounds.links_ns), ms(bounds.cut_ns)));
}

int64_t plan_deficit_bytes(const Problem& problem, const SearchResult& result) {
  return evaluate_in_time(problem, *result.plan).deficit_bytes();
}

void require_fit(int64_t deficit_bytes, std::string_view name) {
  if (deficit_bytes > 0)
    throw Error(
        ExitCode::kInfeasible,
        fmt::format("{}: the plan needs {} bytes more than a device has, though footprints fit", name, deficit_bytes));
}

std::vector<int> placed_as(const PlacedGraph& placed, const std::vector<int>& by_op) {
  const PlacementProblem& p = placed.problem;
  std::vector<int> device(p.ops.size(), -1), group;
  for (size_t o = 0; o < p.ops.size(); ++o) {
    if (!placed.op[o].valid()) continue;
    device[o] = by_op[placed.op[o].index()];
    for (size_t at = 0; at < p.devices.size() && p.ops[o].ns[static_cast<size_t>(device[o])] < 0; ++at)
      if (p.ops[o].ns[at] > 0) device[o] = static_cast<int>(at);  // pinned
    if (p.ops[o].group < 0) continue;
    group.resize(std::max(group.size(), static_cast<size_t>(p.ops[o].group) + 1), -1);
    if (int& first = group[static_cast<size_t>(p.ops[o].group)]; first < 0) first = device[o];
  }
  for (size_t o = 0; o < p.ops.size(); ++o)
    if (device[o] >= 0 && p.ops[o].group >= 0) device[o] = group[static_cast<size_t>(p.ops[o].group)];
  for (size_t o = 0; o < p.ops.size(); ++o) {
    int& d = device[o];
    const auto runs = [&](int at) { return at >= 0 && p.ops[o].ns[static_cast<size_t>(at)] > 0; };
    if (d < 0 && p.ops[o].group >= 0) d = group[static_cast<size_t>(p.ops[o].group)];
    for (int v : p.ops[o].reads)  // an output
      if (!runs(d)) d = device[static_cast<size_t>(p.values[static_cast<size_t>(v)].producer)];
    for (size_t at = 0; at < p.devices.size() && !runs(d); ++at) d = static_cast<int>(at);
  }
  return device;
}

namespace {

// Puts cells one after another: the first with all before it, the last with all behind. Cells of an encoder and of a
// decoder that are equally deep are together.
std::vector<int> devices_by_cell(const Graph& graph, int devices) {
  const std::vector<SoapUnit> units = soap_units(graph);
  const std::vector<int> depth = depths_of(graph, units);
  std::vector<int> of_op(graph.ops.size(), 0);
  int first = INT32_MAX, last = -1;  // of cells
  for (size_t u = 0; u < units.size(); ++u) {
    for (OpId op : units[u].ops) {
      of_op[op.index()] = depth[u];
      if (graph.op(op).cell < 0) continue;
      first = std::min(first, depth[u]);
      last = std::max(last, depth[u]);
    }
  }
  std::vector<int> device(graph.ops.size());
  for (size_t i = 0; i < of_op.size(); ++i)
    device[i] = (std::clamp(of_op[i], first, last) - first) * devices / (last - first + 1);
  return device;
}

// Puts layers in the order of the forward pass: runs of about the same work. Repeated layers are not cut.
std::vector<int> devices_by_layer(const Graph& graph, int devices) {
  std::vector<int> device = layer_blocks_of(graph, 1).of_op;
  std::vector<double> flops(device.empty() ? 0 : static_cast<size_t>(*std::ranges::max_element(device)) + 1, 0);
  for (size_t i = 0; i < device.size(); ++i)
    flops[static_cast<size_t>(device[i])] +=
        op_flops(graph.registry->find(graph.ops[i].definition), *graph.ops[i].bound);
  const std::vector<int> run = contiguous_runs(flops, devices);
  for (int& d : device) d = run[static_cast<size_t>(d)];
  return device;
}

// Tells whether it updates a tensor: a running statistic, for example.
bool replaces_something(const Graph& graph, const Op& op) {
  return std::any_of(op.results.begin(), op.results.end(),
                     [&](TensorId r) { return graph.tensor(r).replaces.valid(); });
}

// By forward operation the last of its branch, -1 for others. Operations whose results are all read in one branch
// belong to it, up to the concatenation of branches.
std::vector<int> branches(const Graph& graph) {
  const std::vector<std::vector<Reader>> read_by = readers_by_tensor(graph);
  std::vector<int> root(graph.ops.size(), -1);
  for (size_t i = graph.ops.size(); i-- > 0;) {
    const Op& op = graph.ops[i];
    if (op.phase != Phase::kForward) continue;
    root[i] = static_cast<int>(i);
    std::set<int> of_readers;
    for (TensorId r : op.results)
      for (const Reader& reader : read_by[r.index()])
        if (graph.op(reader.op).phase == Phase::kForward && !replaces_something(graph, graph.op(reader.op)))
          of_readers.insert(graph.op(reader.op).definition == "concat" ? -1 : root[reader.op.index()]);
    if (of_readers.size() == 1 && *of_readers.begin() >= 0) root[i] = *of_readers.begin();
  }
  return root;
}

// Puts each branch on the device with the least work so far.
std::vector<int> devices_by_branch(const Graph& graph, int devices) {
  const std::vector<int> root = branches(graph);
  std::vector<double> work(graph.ops.size(), 0);
  for (size_t i = 0; i < root.size(); ++i)
    if (root[i] >= 0)
      work[static_cast<size_t>(root[i])] +=
          op_flops(graph.registry->find(graph.ops[i].definition), *graph.ops[i].bound);
  std::vector<double> load(static_cast<size_t>(devices), 0);
  std::vector<int> of_root(graph.ops.size(), -1), device(graph.ops.size(), -1);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    if (root[i] < 0) continue;
    int& d = of_root[static_cast<size_t>(root[i])];
    if (d < 0) {
      d = static_cast<int>(std::min_element(load.begin(), load.end()) - load.begin());
      load[static_cast<size_t>(d)] += work[static_cast<size_t>(root[i])];
    }
    device[i] = d;
  }
  return with_their_forward_ops(graph, device);
}

// Tells whether branches with a weight product each are concatenated: Inception's are, halves of a rotated query are
// not.
bool has_branches(const Graph& graph) {
  if (is_recurrent(graph)) return false;
  const std::vector<int> root = branches(graph);
  const std::vector<bool> weight = weight_tensor_mask(graph);
  std::vector<char> has_product(graph.ops.size(), false);
  for (size_t i = 0; i < root.size(); ++i)
    if (root[i] >= 0 && weight_product(graph, weight, graph.ops[i])) has_product[static_cast<size_t>(root[i])] = true;
  return std::ranges::any_of(graph.ops, [&](const Op& op) {
    if (op.phase != Phase::kForward || op.definition != "concat") return false;
    std::set<int> joined;
    for (TensorId t : op.operands)
      if (const OpId producer = graph.tensor(t).producer; producer.valid())
        if (const int r = root[producer.index()]; r >= 0 && has_product[static_cast<size_t>(r)]) joined.insert(r);
    return joined.size() > 1;
  });
}

}  // namespace

std::vector<int> expert_devices(const Graph& graph, int devices) {
  if (is_recurrent(graph)) return devices_by_cell(graph, devices);
  return has_branches(graph) ? devices_by_branch(graph, devices) : devices_by_layer(graph, devices);
}

namespace {

PlacedSchedule of_devices(std::vector<int> device) {
  PlacedSchedule schedule;
  schedule.device = std::move(device);
  return schedule;
}

SearchResult expert(const Problem& problem, const Budget& budget, Rng&) {
  const CostModel cost(problem.cluster);
  const PlacedGraph placed = placed_graph(problem, cost, budget.watch());
  const std::vector<int> by_op = expert_devices(problem.graph, problem.cluster.compute_count);
  SearchResult result = placed_result(problem, placed, of_devices(placed_as(placed, by_op)),
                                      problem.options.at("order"), "expert-placement");
  add_bound(bounds_of_plans(placed), problem.cluster, result);
  const std::set<int> used(by_op.begin(), by_op.end());
  note_idle(
      problem.cluster, used, "expert-placement",
      has_branches(problem.graph) ? only(used.size(), "branch", "branches") : only(used.size(), "layer", "layers"),
      result);
  return result;
}

SearchResult mtopo(const Problem& problem, const Budget& budget, Rng&) {
  const CostModel cost(problem.cluster);
  const PlacedGraph placed = placed_graph(problem, cost, budget.watch());
  std::string why;
  const auto device = topological_placement(with_footprints(placed), why);
  if (!device) throw Error(ExitCode::kInfeasible, "baechi-mtopo: " + why);
  SearchResult result =
      placed_result(problem, placed, of_devices(*device), problem.options.at("order"), "baechi-mtopo");
  require_fit(plan_deficit_bytes(problem, result), "baechi-mtopo");
  add_bound(bounds_of_plans(placed), problem.cluster, result);
  return result;
}

SearchResult metf(const Problem& problem, const Budget& budget, Rng&) {
  const CostModel cost(problem.cluster);
  const PlacedGraph placed = placed_graph(problem, cost, budget.watch());
  std::string why;
  auto schedule = earliest_task_first(with_footprints(placed), why);
  if (!schedule) throw Error(ExitCode::kInfeasible, "baechi-metf: " + why);
  SearchResult result =
      placed_result(problem, placed, std::move(*schedule), problem.options.at("order"), "baechi-metf");
  require_fit(plan_deficit_bytes(problem, result), "baechi-metf");
  add_bound(bounds_of_plans(placed), problem.cluster, result);
  return result;
}

// Operations up to which the linear program is solved as they are, and its time limit. More are merged to so many
// vertices, as the paper fuses operations before.
constexpr int kLargestProgram = 2000;
constexpr double kProgramSeconds = 60;

SearchResult msct(const Problem& problem, const Budget& budget, Rng&) {
  const Watch watch = budget.watch();
  const CostModel cost(problem.cluster);
  const PlacedGraph placed = placed_graph(problem, cost, watch);
  const PlacementProblem fine = with_footprints(placed);
  std::optional<Coarse> coarse;
  if (fine.ops.size() > kLargestProgram) coarse = coarsen(fine, kLargestProgram, {.keep_parallel = true});
  const PlacementProblem& p = coarse ? coarse->problem : fine;
  const FavouriteChildren favourites = favourite_children(p, kProgramSeconds, watch);
  std::string why;
  auto schedule = favourites_first(p, favourites.child, why);
  if (!schedule) throw Error(ExitCode::kInfeasible, "baechi-msct: " + why);
  if (coarse)
    schedule = list_schedule(fine, expanded_placement(*coarse, schedule->device),
                             expanded_order(*coarse, order_of(*schedule)), false);
  SearchResult result =
      placed_result(problem, placed, std::move(*schedule), problem.options.at("order"), "baechi-msct");
  if (coarse)
    result.notes.push_back(
        fmt::format("{} operations as {} vertices, which are placed", fine.ops.size(), coarse->problem.ops.size()));
  result.notes.push_back(fmt::format(
      "{} of {} have a favourite child; the linear program's step takes {}",
      favourites.child.size() - static_cast<size_t>(std::count(favourites.child.begin(), favourites.child.end(), -1)),
      favourites.child.size(), ms(std::llround(favourites.relaxed_ns))));
  require_fit(plan_deficit_bytes(problem, result), "baechi-msct");
  add_bound(bounds_of_plans(placed), problem.cluster, result);
  return result;
}

}  // namespace

SearchEntry expert_placement_search() {
  return {.name = "expert-placement",
          .source = "Pesto section 5.2",
          .summary = "whole operations: layers one after another on devices, branches of cells over devices",
          .options = {{"order", {"critical", "framework"}}},
          .search = expert,
          .sharing = one_replica,
          .whole_batch = true,
          .places = true,
          .measure = Objective::kTime};
}

SearchEntry baechi_mtopo_search() {
  return {.name = "baechi-mtopo",
          .source = "Baechi section 3.1",
          .summary = "whole operations: devices filled one after another in the order of the graph",
          .options = {{"order", {"framework", "critical"}}},
          .search = mtopo,
          .sharing = one_replica,
          .whole_batch = true,
          .places = true,
          .measure = Objective::kTime};
}

SearchEntry baechi_metf_search() {
  return {.name = "baechi-metf",
          .source = "Baechi section 3.2",
          .summary = "whole operations: the one that can start first, where it can, while memory lasts",
          .options = {{"order", {"framework", "critical", "own"}}},
          .search = metf,
          .sharing = one_replica,
          .whole_batch = true,
          .places = true,
          .measure = Objective::kTime};
}

SearchEntry baechi_msct_search() {
  return {.name = "baechi-msct",
          .source = "Baechi section 3.3",
          .summary =
              "whole operations: the one that can start first, and devices kept for favourite children, which a "
              "linear program finds",
          .options = {{"order", {"framework", "critical", "own"}}},
          .search = msct,
          .sharing = one_replica,
          .seconds = kProgramSeconds,
          .whole_batch = true,
          .places = true,
          .measure = Objective::kTime};
}

}  // namespace partita
