// Makes initial plans of the SOAP space: data parallelism, FlexFlow's expert-designed strategies and drawn ones.
#include "partita/search/soap/initial_plans.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "partita/base/error.h"
#include "partita/plan/rule_planner.h"
#include "partita/search/entry.h"
#include "partita/search/idle_devices.h"
#include "partita/search/soap/op_order.h"

namespace partita {

namespace {

// Splits index d of the unit in as many shards as divide its extent and the number of devices, at most n; others whole.
SoapConfiguration along(const Graph& graph, const SoapUnit& unit, std::optional<size_t> d, int n) {
  SoapConfiguration c{std::vector<int>(unit.indices.size(), 1), {}};
  if (!d) return c;
  const int64_t extent = graph.op(unit.leader).bound->indices[static_cast<size_t>(unit.indices[*d])].extent;
  c.degrees[*d] = static_cast<int>(std::gcd(extent, static_cast<int64_t>(n)));
  return c;
}

std::optional<size_t> first_sample(const SoapUnit& unit) {
  const auto found = std::ranges::find(unit.dimensions, SoapDimension::kSample);
  if (found == unit.dimensions.end()) return std::nullopt;
  return static_cast<size_t>(found - unit.dimensions.begin());
}

int64_t parts_of(const SoapConfiguration& c) {
  return std::accumulate(c.degrees.begin(), c.degrees.end(), int64_t{1}, std::multiplies<int64_t>());
}

// For a fully connected layer, the place of its longest output among the unit's indices.
std::optional<size_t> units_index(const Graph& graph, const std::vector<bool>& weight, const SoapUnit& unit) {
  const Op& op = graph.op(unit.leader);
  const auto product = weight_product(graph, weight, op);
  if (!product || product->windows) return std::nullopt;
  std::optional<size_t> longest;
  int64_t most = 0;
  for (size_t d = 0; d < unit.indices.size(); ++d) {
    const int64_t extent = op.bound->indices[static_cast<size_t>(unit.indices[d])].extent;
    if (std::ranges::find(product->outputs, unit.indices[d]) == product->outputs.end() || extent <= most) continue;
    most = extent, longest = d;
  }
  return longest;
}

bool is_of_cell(const Op& op) { return op.cell >= 0 && op.time_step >= 0; }

// Finds the depth of units in layers.
class Depths {
 public:
  Depths(const Graph& graph, const std::vector<SoapUnit>& units)
      : graph_(graph),
        units_(units),
        weight_(weight_tensor_mask(graph)),
        unit_of_(units_of_ops(graph, units)),
        depth_(units.size(), -1) {}

  std::vector<int> find() {
    for (size_t u = 0; u < units_.size(); ++u) depth_[u] = depth(u);
    for (size_t u = units_.size(); u-- > 0;)
      if (!is_layer(u)) depth_[u] = with_its_readers(u);
    return depth_;
  }

 private:
  const Op& leader(size_t u) const { return graph_.op(units_[u].leader); }

  bool is_layer(size_t u) const {
    if (is_of_cell(leader(u))) return true;
    return std::ranges::any_of(units_[u].ops, [&](OpId id) {
      const Op& op = graph_.op(id);
      return op.phase == Phase::kForward &&
             std::ranges::any_of(op.operands, [&](TensorId t) { return weight_[t.index()]; });
    });
  }

  // The depth of the unit's own layer, or of the deepest layer before it. A cell has that of its first time step.
  int depth(size_t u) {
    const Op& op = leader(u);
    if (is_of_cell(op))
      if (const auto known = cells_.find(op.cell); known != cells_.end()) return known->second;
    int deepest = -1;
    for_each_read(u, [&](size_t before) {
      read_by_[before].push_back(u);
      const Op& other = leader(before);
      if (is_of_cell(op) && is_of_cell(other) && other.time_step != op.time_step) return;
      deepest = std::max(deepest, depth_[before]);
    });
    if (is_layer(u)) ++deepest;
    if (is_of_cell(op)) cells_[op.cell] = deepest;
    return deepest;
  }

  // Visits units in order: each behind those that it reads.
  template <typename Visit>
  void for_each_read(size_t u, const Visit& visit) const {
    for (const OpId id : units_[u].ops) {
      const Op& op = graph_.op(id);
      if (op.phase != Phase::kForward) continue;
      for (const TensorId t : op.operands)
        if (const OpId producer = graph_.tensor(t).producer;
            producer.valid() && static_cast<size_t>(unit_of_[producer.index()]) < u)
          visit(static_cast<size_t>(unit_of_[producer.index()]));
    }
  }

  int with_its_readers(size_t u) const {
    const auto readers = read_by_.find(u);
    if (readers == read_by_.end()) return std::max(depth_[u], 0);
    int least = depth_[readers->second[0]];
    for (const size_t reader : readers->second) least = std::min(least, depth_[reader]);
    return least;
  }

  const Graph& graph_;
  const std::vector<SoapUnit>& units_;
  const std::vector<bool> weight_;
  std::vector<int> unit_of_;
  std::vector<int> depth_;
  std::map<int, int> cells_;
  std::map<size_t, std::vector<size_t>> read_by_;
};

}  // namespace

bool is_recurrent(const Graph& graph) { return std::ranges::any_of(graph.ops, is_of_cell); }

std::vector<int> depths_of(const Graph& graph, const std::vector<SoapUnit>& units) {
  return Depths(graph, units).find();
}

std::vector<SoapConfiguration> data_parallel_configurations(const Graph& graph, const Cluster& cluster,
                                                            const std::vector<SoapUnit>& units) {
  const std::vector<DeviceId> devices = slowest_link_first(cluster);
  std::vector<SoapConfiguration> out;
  for (const SoapUnit& unit : units) {
    out.push_back(along(graph, unit, first_sample(unit), cluster.compute_count));
    out.back().devices = block_of(devices, parts_of(out.back()), 0);
  }
  return out;
}

std::vector<SoapConfiguration> expert_configurations(const Graph& graph, const Cluster& cluster,
                                                     const std::vector<SoapUnit>& units) {
  const std::vector<DeviceId> devices = slowest_link_first(cluster);
  const int n = cluster.compute_count, node = node_size(cluster);
  std::vector<SoapConfiguration> out;
  if (!is_recurrent(graph)) {
    const std::vector<bool> weight = weight_tensor_mask(graph);
    for (const SoapUnit& unit : units) {
      const std::optional<size_t> outputs = units_index(graph, weight, unit);
      out.push_back(along(graph, unit, outputs ? outputs : first_sample(unit), n));
      out.back().devices = block_of(devices, parts_of(out.back()), 0);
    }
    return out;
  }
  const std::vector<int> depth = depths_of(graph, units);
  for (size_t u = 0; u < units.size(); ++u) {
    out.push_back(along(graph, units[u], first_sample(units[u]), n / node));
    const size_t nodes = static_cast<size_t>(parts_of(out.back()));
    for (size_t r = 0; r < nodes; ++r)
      out.back().devices.push_back(devices[static_cast<size_t>(depth[u] % node) + r * (devices.size() / nodes)]);
  }
  return out;
}

namespace {

SearchResult search(const Problem& problem, const Budget& budget, Rng&) {
  const std::vector<SoapUnit> units = soap_units(problem.graph);
  const Watch watch = budget.watch();
  watch.poll("before the expert's plan was made");
  SearchResult result;
  const std::vector<SoapConfiguration> configurations = expert_configurations(problem.graph, problem.cluster, units);
  result.plan = soap_plan(problem.graph, problem.cluster, units, configurations, "expert", problem.constraints, watch);
  const bool recurrent = is_recurrent(problem.graph);
  std::set<int> used;
  for (const SoapConfiguration& c : configurations)
    for (DeviceId d : c.devices) used.insert(d.value);
  note_idle(problem.cluster, used, "expert",
            recurrent ? "layers are less deep than a node has devices" : "no layer has as many samples or units",
            result);
  if (recurrent) {
    const int node = node_size(problem.cluster);
    result.notes.push_back(fmt::format("layers are {} deep, on {} devices of each of {} nodes",
                                       1 + std::ranges::max(depths_of(problem.graph, units)), node,
                                       problem.cluster.compute_count / node));
  }
  take_better_order(problem, watch, result);
  return result;
}

Sharing sharing(const Problem& problem) {
  const int n = problem.cluster.compute_count;
  return {.replicas = is_recurrent(problem.graph) ? n / node_size(problem.cluster) : n};
}

}  // namespace

SearchEntry expert_search() {
  return {.name = "expert",
          .source = "FlexFlow section 8.2.1",
          .summary =
              "fully connected layers along their units, all else along samples; recurrent networks: a share of the "
              "samples on each node, each layer on one of its devices",
          .search = search,
          .sharing = sharing,
          .rule = true};
}

}  // namespace partita
