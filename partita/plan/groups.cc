// Makes Megatron-LM's plans: tensor parallelism inside groups of devices, the sequence, experts and samples over the
// groups, ZeRO's splits of the states over devices that split samples or the sequence. The mesh is [data, expert,
// context, tensor], without axes of one position.
#include <algorithm>
#include <memory>
#include <numeric>

#include "partita/base/error.h"
#include "partita/plan/context_rule.h"
#include "partita/plan/expert_rule.h"
#include "partita/plan/rule_planner.h"
#include "partita/plan/sequence_rule.h"
#include "partita/plan/state_splits.h"
#include "partita/plan/tensor_rule.h"

namespace partita {

namespace {

// Returns strategies of a sum of its operands, or a scaled one, by which partial values of all of them stay partial.
// None if the result is longer than they are, as after a cast: then it is better reduced before.
std::vector<tdl::AxisStrategy> sums_of_all(const Graph& graph, const Op& op,
                                           const std::vector<tdl::AxisStrategy>& all) {
  std::vector<tdl::AxisStrategy> out;
  if (op.phase == Phase::kForward || !tdl::is_elementwise(*op.bound)) return out;
  int64_t read = 0;
  for (TensorId t : op.operands) read += graph.tensor(t).bytes();
  if (graph.tensor(op.results[0]).bytes() > read) return out;
  for (const tdl::AxisStrategy& s : all)
    if (s.names.empty() && s.reducer == tdl::Reducer::kSum && s.partial.size() == op.operands.size()) out.push_back(s);
  return out;
}

// Chooses every op by tensor parallelism, experts and ZeRO.
class Groups {
 public:
  Groups(const Graph& graph, const Cluster& cluster, const GroupsOf& of, const Constraints& constraints,
         const Watch& watch)
      : graph_(graph),
        of_(of),
        constraints_(constraints),
        late_(graph),
        tensor_(graph, of.tensor),
        planner_(graph, cluster, constraints, mesh_of(cluster), watch),
        experts_(expert_axis_ >= 0 ? std::make_unique<ExpertRule>(graph, of.expert) : nullptr),
        sequence_(of.sequence ? std::make_unique<SequenceSplit>(sequence_split(graph, tensor_, of.tensor)) : nullptr),
        context_(context_axis_ >= 0 ? std::make_unique<SequenceSplit>(context_split(graph, of.context)) : nullptr),
        context_parts_(parts_of_context()),
        states_(
            graph, planner_.mesh(), of.zero, [this](TensorId t) { return batch_axes_of(t); }, taken_axes()) {}

  Plan plan(std::string_view search) {
    states_.keep_parameters(planner_);
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      choose(OpId(i));
      keep_results(OpId(i));
    }
    std::set<TensorId> again;
    if (!of_.gathers_once) again = states_.gathered_again(planner_);
    if (sequence_ || context_) gather_sequences_again(again);
    Plan plan = planner_.finish(search);
    plan.resharded = std::move(again);
    return plan;
  }

  const TensorRule& tensor() const { return tensor_; }
  const SequenceSplit* sequence() const { return sequence_.get(); }
  const SequenceSplit* context() const { return context_.get(); }

 private:
  Mesh mesh_of(const Cluster& cluster) {
    Mesh mesh = all_devices(cluster);
    const int inner = of_.tensor * of_.context * of_.expert, data = mesh.positions() / inner;
    mesh.extents.clear();
    const auto add = [&](int extent) {
      return mesh.extents.push_back(extent), static_cast<int>(mesh.extents.size()) - 1;
    };
    if (data > 1 || inner == 1) batch_axes_.push_back(add(data));
    if (of_.expert > 1) batch_axes_.push_back(expert_axis_ = add(of_.expert));
    if (of_.context > 1) batch_axes_.push_back(context_axis_ = add(of_.context));
    if (of_.tensor > 1) tensor_axis_ = add(of_.tensor);
    return mesh;
  }

  std::vector<AxisLayout> parts_of_context() const {
    std::vector<AxisLayout> parts(graph_.tensors.size());
    if (context_) context_->add_weight_parts(parts);
    return parts;
  }

  // Mesh axes of more than one position over which samples or the sequence are split and this weight is not.
  std::vector<int> batch_axes_of(TensorId weight) const {
    std::vector<int> axes;
    for (const int a : batch_axes_) {
      const bool is_split = (a == expert_axis_ && experts_->part(weight)) ||
                            (a == context_axis_ && context_parts_[weight.index()].kind == AxisLayout::Kind::kSplit);
      if (planner_.mesh().extents[static_cast<size_t>(a)] > 1 && !is_split) axes.push_back(a);
    }
    return axes;
  }

  // Tells whether the tensor, context or expert groups split an axis of a parameter.
  StateSplits::IsTaken taken_axes() const {
    std::vector<AxisLayout> parts = tensor_.weight_parts();
    if (sequence_) sequence_->add_weight_parts(parts);
    return [this, parts = std::move(parts)](TensorId t, int axis) {
      const auto splits = [&](const AxisLayout& part) {
        return part.kind == AxisLayout::Kind::kSplit && part.axis == axis;
      };
      return splits(parts[t.index()]) || splits(context_parts_[t.index()]) ||
             (experts_ && experts_->part(t) && experts_->part(t)->axis == axis);
    };
  }

  // The strategy over an axis: that of its forward op.
  template <typename Rule>
  std::vector<tdl::AxisStrategy> as_forward(const Rule& rule, OpId id,
                                            const std::vector<tdl::AxisStrategy>& all) const {
    const Op& op = graph_.op(id);
    const AxisOption* option = rule.chosen(op.forward.valid() ? op.forward : id);
    if (!option) return {};
    if (op.phase == Phase::kForward) return {option->strategy};
    std::vector<tdl::AxisStrategy> named;
    for (const tdl::AxisStrategy& s : all)
      if (s.names == option->strategy.names) named.push_back(s);
    return named;
  }

  // Allowed strategies, cached by formula and sizes, since layers repeat.
  const std::vector<tdl::AxisStrategy>& allowed(const Op& op, int positions) const {
    const auto [known, fresh] = allowed_.try_emplace({op.bound.get(), positions});
    if (fresh) known->second = allowed_strategies(op, positions);
    return known->second;
  }

  // Tells whether all operands, or some, are kept so on this axis.
  bool comes(OpId id, int axis, Sbp::Kind kind, bool all) const {
    const auto is = [&](TensorId t) {
      const Layout* kept_layout = planner_.kept_layout(t);
      const auto name = kept_layout && kept_layout->mesh == planner_.mesh() ? name_of(*kept_layout) : std::nullopt;
      return name && (*name)[static_cast<size_t>(axis)].kind == kind;
    };
    const std::vector<TensorId>& operands = graph_.op(id).operands;
    return all ? std::ranges::all_of(operands, is) : std::ranges::any_of(operands, is);
  }

  static std::vector<tdl::AxisStrategy> split_strategies(const std::vector<tdl::AxisStrategy>& all) {
    std::vector<tdl::AxisStrategy> splits;
    for (const tdl::AxisStrategy& s : all)
      if (!s.names.empty()) splits.push_back(s);
    return splits;
  }

  // Over the context axis: its forward op's strategy, if that is split. Another forward op of activations is
  // replicated. A backward op is split if an operand comes split. Empty for all others, which are as over the data
  // axis: ops of weights, and sums of partial values.
  std::vector<tdl::AxisStrategy> over_context(OpId id, const std::vector<tdl::AxisStrategy>& all) const {
    const Op& op = graph_.op(id);
    if (auto along = as_forward(*context_, id, all); !along.empty()) return along;
    const bool of_weights = std::ranges::all_of(op.operands, [&](TensorId t) { return context_->is_weight(t); });
    if (op.phase == Phase::kForward && !of_weights) return {kReplicate};
    if (op.phase != Phase::kBackward || !comes(id, context_axis_, Sbp::Kind::kSplit, false)) return {};
    std::vector<tdl::AxisStrategy> out = split_strategies(all);
    out.push_back(kReplicate);
    return out;
  }

  // Over the data, the expert or the context axis: along samples; the products of experts along the experts.
  std::vector<tdl::AxisStrategy> over_batch(OpId id, int axis) const {
    const Op& op = graph_.op(id);
    if (auto split = states_.strategies(id, axis); !split.empty()) return split;
    const auto& all = allowed(op, planner_.mesh().extents[static_cast<size_t>(axis)]);
    if (axis == expert_axis_)
      if (auto by_experts = as_forward(*experts_, id, all); !by_experts.empty()) return by_experts;
    // If several products of experts read a tensor, its gradients are added before they go back to the samples.
    if (axis == expert_axis_ && op.phase == Phase::kBackward && op.definition == "add" &&
        comes(id, axis, Sbp::Kind::kSplit, true))
      return split_strategies(all);
    if (axis == context_axis_)
      if (auto along = over_context(id, all); !along.empty()) return along;
    if (auto samples = sample_strategies(graph_, op, all); axis != context_axis_ && !samples.empty()) return samples;
    std::vector<tdl::AxisStrategy> out{kReplicate};
    const bool replaces = op.results.size() == 1 && graph_.tensor(op.results[0]).replaces.valid();
    if (states_.none() || op.phase != Phase::kUpdate || (replaces && !op.forward.valid())) {
      const std::vector<tdl::AxisStrategy> sums = late_.strategies(id, all, of_.zero >= 2);
      out.insert(out.end(), sums.begin(), sums.end());
    }
    const bool splits = states_.takes_cheapest(op) || (axis == expert_axis_ && op.phase != Phase::kForward &&
                                                       comes(id, axis, Sbp::Kind::kSplit, false));
    for (const tdl::AxisStrategy& s : all)
      if (splits && (!s.names.empty() || op.phase == Phase::kForward)) out.push_back(s);
    return out;
  }

  // Over the tensor axis: its forward op's strategy if that is split; else replication, or a sum that is left partial,
  // or a split if an operand comes split.
  std::vector<tdl::AxisStrategy> over_tensor(OpId id) const {
    const Op& op = graph_.op(id);
    const auto& all = allowed(op, of_.tensor);
    if (auto split = as_forward(tensor_, id, all); !split.empty()) return split;
    // A sum of partial values and split ones is split.
    const bool splits = comes(id, tensor_axis_, Sbp::Kind::kSplit, false);
    std::vector<tdl::AxisStrategy> sums;
    if (sequence_ ? comes(id, tensor_axis_, Sbp::Kind::kPartial, true) : !splits) sums = sums_of_all(graph_, op, all);
    auto out = sequence_ ? as_forward(*sequence_, id, all) : std::vector<tdl::AxisStrategy>();
    const bool named = !out.empty();
    if (!named) out = {kReplicate};
    if (op.phase == Phase::kForward) return out;
    out.insert(out.end(), sums.begin(), sums.end());
    if (named) return out;
    for (const tdl::AxisStrategy& s : all)
      if (splits && !s.names.empty()) out.push_back(s);
    return out;
  }

  void choose(OpId id) {
    std::vector<std::vector<tdl::AxisStrategy>> axes;
    for (const int a : batch_axes_) axes.push_back(over_batch(id, a));
    if (tensor_axis_ >= 0) axes.push_back(over_tensor(id));
    while (!planner_.try_choose(id, axes)) {  // the splits do not go together
      const auto last =
          std::find_if(axes.rbegin(), axes.rend(), [](const auto& axis) { return axis != std::vector{kReplicate}; });
      if (last == axes.rend()) return planner_.choose(id, axes);
      *last = {kReplicate};
    }
  }

  void keep_results(OpId id) {
    const Op& op = graph_.op(id);
    if (tensor_axis_ >= 0 && op.phase == Phase::kForward && !constraints_.choice_of(id))
      for (TensorId r : op.results) {
        if (sequence_ && sequence_->part(r)) planner_.keep_along(r, tensor_axis_, *sequence_->part(r));
        else if (tensor_.chosen(id)) planner_.keep_whole(r, tensor_axis_);  // partial sums are added up at once
      }
    if (context_ && op.phase == Phase::kForward && !constraints_.choice_of(id))
      for (TensorId r : op.results)
        if (context_->part(r)) planner_.keep_along(r, context_axis_, *context_->part(r));
    states_.keep_results(planner_, id);
  }

  // Adds activations that were gathered along the sequence for the forward pass: they are not kept for the backward
  // pass (Korthikanti et al., section 4.2.2). Keys and values are gathered again over the context axis.
  void gather_sequences_again(std::set<TensorId>& again) const {
    for (const Op& op : graph_.ops) {
      if (op.phase != Phase::kBackward || !op.forward.valid()) continue;
      for (TensorId t : op.operands)
        if ((sequence_ && tensor_.chosen(op.forward) && sequence_->part(t)) ||
            (context_ && context_->gathers(op.forward, t)))
          again.insert(t);
    }
  }

  const Graph& graph_;
  const GroupsOf of_;
  const Constraints& constraints_;
  std::vector<int> batch_axes_;  // of the mesh: data, expert, context
  int expert_axis_ = -1, context_axis_ = -1, tensor_axis_ = -1;
  LateSums late_;
  TensorRule tensor_;
  RulePlanner planner_;
  std::unique_ptr<ExpertRule> experts_;
  std::unique_ptr<SequenceSplit> sequence_, context_;
  std::vector<AxisLayout> context_parts_;  // by tensor: splits of parameters over the context axis
  StateSplits states_;
  mutable std::map<std::pair<const tdl::Bound*, int>, std::vector<tdl::AxisStrategy>> allowed_;
};

// "tensor=2 x expert=4": the degrees that are asked for.
std::string degrees_text(const GroupsOf& of) {
  return fmt::format("tensor={}{}{}", of.tensor, of.context > 1 ? fmt::format(" x context={}", of.context) : "",
                     of.expert > 1 ? fmt::format(" x expert={}", of.expert) : "");
}

void expect_experts(const std::string& rule, const Graph& graph, const GroupsOf& of) {
  const int64_t experts = experts_of(graph);
  if (experts == 0)
    throw DoesNotApply(fmt::format("{}: expert={}: model '{}' has no products of experts; leave expert out", rule,
                                   of.expert, graph.name));
  if (experts % of.expert)
    throw DoesNotApply(fmt::format("{}: expert={} does not divide the {} experts of model '{}'; choose a divisor", rule,
                                   of.expert, experts, graph.name));
}

// All lengths are divided by the context group, and with `sequence` by the tensor group in it.
void expect_queries(const std::string& rule, const Graph& graph, const GroupsOf& of) {
  const std::vector<Queries> all = queries_of(graph);
  if (all.empty())
    throw DoesNotApply(
        fmt::format("{}: context={}: model '{}' has no attention whose queries could be split; leave "
                    "context out",
                    rule, of.context, graph.name));
  for (const Queries& queries : all) {
    if (queries.length % of.context)
      throw DoesNotApply(fmt::format("{}: context={} does not divide the {} queries of '{}'; choose a divisor", rule,
                                     of.context, queries.length, queries.op));
    if (of.sequence && queries.length % (of.context * of.tensor))
      throw DoesNotApply(
          fmt::format("{}: sequence=1 with tensor={} x context={} does not divide the {} queries of '{}'; "
                      "choose degrees whose product divides them, or leave sequence out",
                      rule, of.tensor, of.context, queries.length, queries.op));
  }
}

void validate_groups(const std::string& rule, const Graph& graph, int devices, const GroupsOf& of) {
  if (!divide(devices, {of.tensor, of.context, of.expert}))
    throw DoesNotApply(fmt::format("{}: {} devices are not a multiple of {}; choose degrees whose product divides {}",
                                   rule, devices, degrees_text(of), devices));
  if (of.sequence && of.tensor == 1)
    throw DoesNotApply(
        fmt::format("{}: sequence=1 splits over the tensor groups, and with tensor=1 there are none; "
                    "choose tensor=2 or more, or leave sequence out",
                    rule));
  if (of.expert > 1) expect_experts(rule, graph, of);
  if (of.context > 1) expect_queries(rule, graph, of);
  require_samples(rule, graph, devices / (of.tensor * of.context));
}

// Refuses a context group whose devices would all compute the same products.
void expect_split_products(const std::string& rule, const Graph& graph, const SequenceSplit& context, int degree) {
  const OpId whole = whole_product(graph, context);
  if (whole.valid())
    throw DoesNotApply(
        fmt::format("{}: context={}: '{}' ({}) of model '{}' cannot be split along the sequence; leave "
                    "context out",
                    rule, degree, graph.op(whole).name, graph.op(whole).definition, graph.name));
}

// "12 heads of 'attn.q'" if the model has named the op that makes heads; else "12 of index 'i2' of 'attn.q.permute'".
std::string text_of(const TensorRule::Uneven& uneven) {
  constexpr std::string_view kHeads = ".heads";
  if (!uneven.op.ends_with(kHeads))
    return fmt::format("{} of index '{}' of '{}'", uneven.extent, uneven.index, uneven.op);
  return fmt::format("{} heads of '{}'", uneven.extent, uneven.op.substr(0, uneven.op.size() - kHeads.size()));
}

}  // namespace

bool divide(int devices, std::initializer_list<int> degrees) {
  return std::ranges::all_of(degrees, [&](int degree) {
    const bool divides = devices % degree == 0;
    devices /= degree;
    return divides;
  });
}

int node_size(const Cluster& cluster) {
  std::map<DeviceId, int> nodes;
  for (int d = 0; d < cluster.compute_count; ++d) ++nodes[cluster.devices[d].host];
  if (static_cast<int>(nodes.size()) == cluster.compute_count) return cluster.compute_count;
  int size = 0;
  for (const auto& [host, count] : nodes) size = std::gcd(size, count);
  return size;
}

int tensor_degree(const Graph& graph, const Cluster& cluster) {
  int best = 1;
  int64_t most = 0;
  const int node = node_size(cluster);
  for (int degree = node; degree > 1; --degree) {
    if (node % degree) continue;
    const TensorRule rule(graph, degree);
    if (const int64_t bytes = rule.split_bytes(); bytes > most && !rule.uneven()) most = bytes, best = degree;
  }
  return best;
}

Plan groups_plan(const std::string& rule, const Graph& graph, const Cluster& cluster, const GroupsOf& of,
                 const Constraints& constraints, const Watch& watch) {
  validate_groups(rule, graph, cluster.compute_count, of);
  Groups groups(graph, cluster, of, constraints, watch);
  if (of.tensor > 1 && groups.tensor().split_bytes() == 0)
    throw DoesNotApply(
        fmt::format("{}: model '{}' has no weight products that can be split in {}, closed by others; choose "
                    "another tensor=N",
                    rule, graph.name, of.tensor));
  if (const auto uneven = of.tensor > 1 ? groups.tensor().uneven() : std::nullopt)
    throw DoesNotApply(
        fmt::format("{}: tensor={} does not divide the {}; choose a divisor", rule, of.tensor, text_of(*uneven)));
  if (groups.sequence() && groups.sequence()->split_bytes() == 0)
    throw DoesNotApply(
        fmt::format("{}: model '{}' has no activations that can be split in {} along a sequence; leave "
                    "sequence out",
                    rule, graph.name, of.tensor));
  if (groups.context()) expect_split_products(rule, graph, *groups.context(), of.context);
  return groups.plan(rule);
}

}  // namespace partita
