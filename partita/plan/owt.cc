// One weird trick (Krizhevsky, arXiv:1404.5997): convolutions see few weights and many activations, fully connected layers the
// opposite. The former are split along samples; of the latter every device has a part of the units, for all samples.
#include "partita/base/error.h"
#include "partita/plan/rule_planner.h"

namespace partita {

namespace {

// What a fully connected layer is split along: the longest index of its units, no shorter than p. Empty: another kind of op.
std::string units_index(const Graph& graph, const std::vector<bool>& weight, const Op& op, int p) {
  const auto product = weight_product(graph, weight, op);
  if (!product || product->windows) return "";
  const tdl::Index* longest = nullptr;
  for (int i : product->outputs) {
    const tdl::Index& index = op.bound->indices[i];
    if (index.splittable && index.extent >= p && (!longest || index.extent > longest->extent)) longest = &index;
  }
  return longest ? longest->name : "";
}

}  // namespace

Plan owt_plan(const Graph& graph, const Cluster& cluster, const Pins& pins, const Watch& watch) {
  RulePlanner planner(graph, cluster, pins, all_devices(cluster), watch);
  const int p = planner.mesh().positions();
  require_samples("owt", graph, p);
  const std::vector<bool> weight = weights(graph);
  const LateSums late(graph);
  std::vector<std::string> units(graph.ops.size());  // by forward op
  std::vector<bool> product(graph.ops.size(), false);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.phase != Phase::kForward) continue;
    units[i] = units_index(graph, weight, op, p);
    product[i] = weight_product(graph, weight, op).has_value();
  }
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const size_t forward = op.forward.valid() ? op.forward.index() : i;
    const std::vector<tdl::AxisStrategy> all = allowed_strategies(op, p);
    const std::vector<tdl::AxisStrategy> samples = sample_strategies(graph, op, all);
    if (std::vector<tdl::AxisStrategy> split = with_name(all, units[forward]); !split.empty()) {
      planner.choose(OpId(i), {split});
    } else if (product[forward] && !samples.empty()) {
      planner.choose(OpId(i), {samples});
    } else {  // what lies between takes what comes: samples, all of it, or units
      std::vector<tdl::AxisStrategy> candidates = samples;
      candidates.push_back(kReplicate);
      const bool of_weights = op.phase != Phase::kForward && sample_indices(graph, op).empty();
      const std::vector<tdl::AxisStrategy> sums = of_weights ? late.strategies(OpId(i), all) : std::vector<tdl::AxisStrategy>();
      candidates.insert(candidates.end(), sums.begin(), sums.end());
      for (const tdl::AxisStrategy& s : all)
        if (!s.names.empty() || !of_weights) candidates.push_back(s);
      planner.choose(OpId(i), {candidates});
    }
  }
  return planner.finish("owt");
}

}  // namespace partita
