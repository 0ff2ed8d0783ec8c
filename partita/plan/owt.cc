// Makes plans by one weird trick (Krizhevsky, arXiv:1404.5997). Convolutions have few weights and many activations,
// fully connected layers the opposite. So convolutions are split along samples, fully connected layers along their
// units, for all samples.
#include "partita/base/error.h"
#include "partita/plan/rule_planner.h"

namespace partita {

namespace {

// Returns the index that a fully connected layer is split along: the longest of its units, no shorter than p. Empty:
// another kind of op.
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

// A weight that ops make of parameters (a cast, a transposition) is made in the shards that its layer reads. So are its
// gradient and the tensors that it updates.
void make_wanted_weights(RulePlanner& planner, const Graph& graph, const std::vector<bool>& weight,
                         std::vector<bool>& chosen) {
  for (size_t i = graph.ops.size(); i-- > 0;) {
    const Op& op = graph.ops[i];
    if (op.phase != Phase::kForward || op.results.size() != 1 || !weight[op.results[0].index()] ||
        !planner.is_wanted(op.results[0]))
      continue;
    std::vector<tdl::AxisStrategy> candidates{kReplicate};
    for (const tdl::AxisStrategy& s : allowed_strategies(op, planner.mesh().positions()))
      if (!s.names.empty()) candidates.push_back(s);
    planner.choose(OpId(i), {candidates});
    chosen[i] = true;
    for (size_t k = 0; k < op.operands.size(); ++k) planner.want(OpId(i), static_cast<int>(k), planner.choice(OpId(i)));
  }
}

// By tensor: if it is a gradient, its parameter. It may be read by the update, or be clipped and unscaled first.
std::vector<TensorId> parameters_of_gradients(const Graph& graph) {
  std::vector<TensorId> out(graph.tensors.size());
  for (const Op& op : graph.ops)
    for (TensorId g : gradients_of_update(graph, op))
      if (!out[g.index()].valid()) out[g.index()] = op.operands[0];
  return out;
}

}  // namespace

Plan owt_plan(const Graph& graph, const Cluster& cluster, const Constraints& constraints, const Watch& watch) {
  RulePlanner planner(graph, cluster, constraints, all_devices(cluster), watch);
  const int p = planner.mesh().positions();
  require_samples("owt", graph, p);
  const std::vector<bool> weight = weight_tensor_mask(graph);
  const LateSums late(graph);
  std::vector<std::string> units(graph.ops.size());  // by forward op
  std::vector<bool> product(graph.ops.size(), false);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.phase != Phase::kForward) continue;
    units[i] = units_index(graph, weight, op, p);
    const auto found = weight_product(graph, weight, op);
    product[i] = found.has_value();
    if (const auto split = with_name(allowed_strategies(op, p), units[i]); !split.empty())
      planner.want(OpId(i), found->weight, {planner.mesh(), {split[0]}});
  }
  std::vector<bool> chosen(graph.ops.size(), false);
  make_wanted_weights(planner, graph, weight, chosen);
  const std::vector<TensorId> parameter_of = parameters_of_gradients(graph);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (chosen[i]) continue;
    for (TensorId r : op.results)
      if (const TensorId parameter = parameter_of[r.index()]; parameter.valid() && planner.kept_layout(parameter))
        planner.want(r, *planner.kept_layout(parameter));
    const size_t forward = op.forward.valid() ? op.forward.index() : i;
    const std::vector<tdl::AxisStrategy> all = allowed_strategies(op, p);
    const std::vector<tdl::AxisStrategy> samples = sample_strategies(graph, op, all);
    if (std::vector<tdl::AxisStrategy> split = with_name(all, units[forward]); !split.empty()) {
      planner.choose(OpId(i), {split});
    } else if (product[forward] && !samples.empty()) {
      planner.choose(OpId(i), {samples});
    } else {  // between layers: the split that moves least, of samples, none, or units
      std::vector<tdl::AxisStrategy> candidates = samples;
      candidates.push_back(kReplicate);
      const bool of_weights = op.phase != Phase::kForward && sample_indices(graph, op).empty();
      const std::vector<tdl::AxisStrategy> sums =
          of_weights ? late.strategies(OpId(i), all) : std::vector<tdl::AxisStrategy>();
      candidates.insert(candidates.end(), sums.begin(), sums.end());
      for (const tdl::AxisStrategy& s : all)
        if (!s.names.empty() || !of_weights) candidates.push_back(s);
      planner.choose(OpId(i), {candidates});
    }
  }
  return planner.finish("owt");
}

}  // namespace partita
