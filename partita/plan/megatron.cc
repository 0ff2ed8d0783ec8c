// Tensor parallelism of transformers (Megatron-LM: Shoeybi et al., arXiv:1909.08053, section 3) with data parallelism
// outside it.
//
// The rule is found from the graph, not from names. A weight product that is split along its units ("column") leaves a
// split result. Its readers take that split, and their other operands must come split as well, until all ends in weight
// products that contract the split index ("row"); one all-reduce adds up their partial sums. A part of the graph that
// is closed in this way is split over the tensor group: q, k, v, the heads and the output projection; the two products
// of the feed-forward part with all between them; the products of an expert. The whole group computes everything else.
// A loss over split classes ends a split too: it exchanges a number or two for each token. Embedding tables with more
// rows than columns are split along the vocabulary.
#include <algorithm>
#include <numeric>

#include "partita/base/error.h"
#include "partita/plan/rule_planner.h"

namespace partita {

namespace {

// How a tensor lies over the tensor group. Two splits meet if they cut the same axis inside the same parts: S(1) of 768
// and S(1.0) of 12x64 do, though their cuts differ where 12 does not divide; S(1.1) of 3x256 is another.
struct Part {
  enum class Kind { kWhole, kSplit, kPartial, kOther } kind = Kind::kWhole;
  int axis = 0;
  int64_t outer = 1;  // parts of the axis above the digit that is cut
  bool operator==(const Part&) const = default;
};

// An axis of which all positions read the same (one half of a rotary embedding, say) counts as whole.
Part part_of(Layout layout) {
  const Shape extents = layout.factored_shape();
  for (size_t a = 0; a < extents.size(); ++a)
    if (layout.boxes.along(a).axes.empty()) layout.boxes = layout.boxes.with(a, {{}, {{0, extents[a]}}});
  const std::optional<NdSbp> name = name_of(layout);
  if (!name) return {Part::Kind::kOther};
  const Sbp& sbp = (*name)[0];
  if (sbp.kind == Sbp::Kind::kBroadcast) return {};
  if (sbp.kind == Sbp::Kind::kPartial) return {Part::Kind::kPartial};
  const Shape& digits = layout.radices[sbp.axis];
  return {Part::Kind::kSplit, sbp.axis,
          std::accumulate(digits.begin(), digits.begin() + sbp.sub_axis, int64_t{1}, std::multiplies<>())};
}

// One strategy of an op over the tensor group.
struct Option {
  tdl::AxisStrategy strategy;
  std::vector<Part> operands, results;
  bool inner = false;  // it exchanges something inside
};

class TensorRule {
 public:
  TensorRule(const Graph& graph, int degree)
      : graph_(graph),
        degree_(degree),
        weight_(weights(graph)),
        read_by_(readers(graph)),
        chosen_(graph.ops.size()),
        split_(graph.tensors.size()) {
    trained_ = weight_;
    for (const Op& op : graph.ops)
      for (TensorId t : op.operands)
        if (op.phase == Phase::kForward && trained_[t.index()])
          for (TensorId r : op.results) trained_[r.index()] = true;
    for (size_t i = 0; i < graph.ops.size(); ++i) try_column(OpId(i));
    for (size_t i = 0; i < graph.ops.size(); ++i) try_embedding(OpId(i));
  }

  // How a forward op is split; null: it is not.
  const Option* chosen(OpId op) const { return chosen_[op.index()]; }

  // Bytes of the weights that are split.
  int64_t split_bytes() const {
    std::vector<bool> split(graph_.tensors.size(), false);
    for (size_t i = 0; i < graph_.ops.size(); ++i)
      for (size_t k = 0; chosen_[i] && k < graph_.ops[i].operands.size(); ++k)
        if (chosen_[i]->operands[k].kind == Part::Kind::kSplit) split[graph_.ops[i].operands[k].index()] = true;
    int64_t bytes = 0;
    for (size_t t = 0; t < split.size(); ++t)
      if (split[t] && graph_.tensors[t].role == Role::kParameter) bytes += graph_.tensors[t].bytes();
    return bytes;
  }

 private:
  const std::vector<Option>& options(OpId id) {
    const auto& bound = graph_.op(id).bound;
    auto [found, fresh] = options_.try_emplace(bound.get());
    if (!fresh) return found->second;
    Mesh mesh{{degree_}, {}};
    for (int d = 0; d < degree_; ++d) mesh.devices.push_back(DeviceId(d));
    for (const tdl::AxisStrategy& s : allowed_strategies(graph_.op(id), degree_)) {
      if (s.names.empty()) continue;
      const auto derived = tdl::derive(*bound, {degree_}, {s});
      if (!derived) continue;
      const OpLayouts layouts = layouts_of(*bound, *derived, mesh);
      Option option{s, {}, {}, !derived->inner.empty()};
      for (const Layout& l : layouts.operands) option.operands.push_back(part_of(l));
      for (const Layout& l : layouts.results) option.results.push_back(part_of(l));
      found->second.push_back(std::move(option));
    }
    // Options without an exchange inside come first.
    std::stable_sort(found->second.begin(), found->second.end(),
                     [](const Option& a, const Option& b) { return a.inner < b.inner; });
    return found->second;
  }

  // Takes the option, and what follows from it. False: it does not fit what was taken before; the caller undoes all.
  bool take(OpId id, const Option& option) {
    if (chosen_[id.index()]) return chosen_[id.index()] == &option;
    const Op& op = graph_.op(id);
    chosen_[id.index()] = &option;
    taken_.push_back(id);
    bool sums = false;  // over a weight's split index
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const TensorId t = op.operands[k];
      const Part& part = option.operands[k];
      const bool weight = weight_[t.index()];
      if (part.kind == Part::Kind::kOther || (part.kind == Part::Kind::kPartial && !weight)) return false;
      if (part.kind == Part::Kind::kWhole && !weight && split_[t.index()]) return false;
      if (part.kind != Part::Kind::kSplit) continue;
      sums |= weight;
      if (weight) {
        take_weight(t, part);
      } else if (trained_[t.index()] && !split(t, part)) {
        return false;
      }
    }
    for (size_t r = 0; r < op.results.size(); ++r) {
      const Part& part = option.results[r];
      if (part.kind == Part::Kind::kOther) return false;
      if (part.kind == Part::Kind::kSplit && (option.inner || !split(op.results[r], part))) return false;
      if (part.kind == Part::Kind::kPartial && !sums) return false;
      ends_ |= part.kind == Part::Kind::kPartial || option.inner;
    }
    return true;
  }

  // A weight that another op makes (a cast, a transposition) is made split.
  void take_weight(TensorId t, const Part& part) {
    const OpId producer = graph_.tensor(t).producer;
    if (!producer.valid() || chosen_[producer.index()]) return;
    const Option* option = find(producer, graph_.op(producer).results, t, part, &Option::results);
    if (!option) return;
    chosen_[producer.index()] = option;
    taken_.push_back(producer);
    for (size_t k = 0; k < option->operands.size(); ++k)
      if (option->operands[k].kind == Part::Kind::kSplit)
        take_weight(graph_.op(producer).operands[k], option->operands[k]);
  }

  // The tensor is split: its producer leaves it so, and every forward op that reads it takes it so.
  bool split(TensorId t, const Part& part) {
    std::optional<Part>& known = split_[t.index()];
    if (known) return *known == part;
    known = part;
    split_tensors_.push_back(t);
    const OpId producer = graph_.tensor(t).producer;
    if (producer.valid()) {
      const Option* option = find(producer, graph_.op(producer).results, t, part, &Option::results);
      if (!option || option->inner || !take(producer, *option)) return false;
    }
    for (const Reader& reader : read_by_[t.index()]) {
      const Op& op = graph_.op(reader.op);
      if (op.phase != Phase::kForward) continue;
      const Option* option = find(reader.op, op.operands, t, part, &Option::operands);
      if (!option || !take(reader.op, *option)) return false;
    }
    return true;
  }

  // The op's choice, or else its first option, under which `tensor`, one of `tensors`, is `part` wherever it stands.
  const Option* find(OpId id, const std::vector<TensorId>& tensors, TensorId tensor, const Part& part,
                     std::vector<Part> Option::*parts) {
    auto fits = [&](const Option& option) {
      for (size_t k = 0; k < tensors.size(); ++k)
        if (tensors[k] == tensor && (option.*parts)[k] != part) return false;
      return true;
    };
    if (const Option* known = chosen_[id.index()]) return fits(*known) ? known : nullptr;
    for (const Option& option : options(id))
      if (fits(option)) return &option;
    return nullptr;
  }

  bool activations_whole(const Op& op, const Option& option) const {
    for (size_t k = 0; k < op.operands.size(); ++k)
      if (!weight_[op.operands[k].index()] && option.operands[k].kind != Part::Kind::kWhole) return false;
    return true;
  }

  void try_column(OpId id) {
    const Op& op = graph_.op(id);
    if (op.phase != Phase::kForward || chosen_[id.index()] || weight_[op.results[0].index()]) return;
    const auto product = weight_product(graph_, weight_, op);
    if (!product) return;
    for (const Option& option : options(id)) {
      if (option.inner || option.operands[product->weight].kind != Part::Kind::kSplit ||
          option.results[0].kind != Part::Kind::kSplit)
        continue;
      if (!activations_whole(op, option)) continue;
      ends_ = false, taken_.clear(), split_tensors_.clear();
      if (take(id, option) && ends_) return;
      for (OpId taken : taken_) chosen_[taken.index()] = nullptr;
      for (TensorId t : split_tensors_) split_[t.index()].reset();
    }
  }

  // A table read at rows that the data name: more rows than columns, and no weight product.
  void try_embedding(OpId id) {
    const Op& op = graph_.op(id);
    if (op.phase != Phase::kForward || chosen_[id.index()] || weight_[op.results[0].index()] ||
        weight_product(graph_, weight_, op))
      return;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const Tensor& table = graph_.tensor(op.operands[k]);
      if (!weight_[op.operands[k].index()] || table.shape.size() != 2) continue;
      const bool by_data = std::any_of(op.operands.begin(), op.operands.end(),
                                       [&](TensorId t) { return graph_.tensor(t).sample_axis >= 0; });
      for (const Option& option : options(id)) {
        const Part& rows = option.operands[k];
        if (!by_data || option.inner || rows.kind != Part::Kind::kSplit ||
            option.results[0].kind != Part::Kind::kPartial)
          continue;
        if (!activations_whole(op, option) || table.shape[rows.axis] <= table.shape[1 - rows.axis]) continue;
        chosen_[id.index()] = &option;
        take_weight(op.operands[k], rows);
        return;
      }
    }
  }

  const Graph& graph_;
  const int degree_;
  std::vector<bool> weight_;   // by tensor: a parameter, or made of parameters alone
  std::vector<bool> trained_;  // by tensor: depends on a parameter
  std::vector<std::vector<Reader>> read_by_;
  std::map<const tdl::Bound*, std::vector<Option>> options_;
  std::vector<const Option*> chosen_;       // by op
  std::vector<std::optional<Part>> split_;  // by tensor
  // The try that is under way.
  bool ends_ = false;
  std::vector<OpId> taken_;
  std::vector<TensorId> split_tensors_;
};

// Devices of one host, taken together; where every device is its own host, all.
int node_size(const Cluster& cluster) {
  std::map<DeviceId, int> nodes;
  for (int d = 0; d < cluster.compute_count; ++d) ++nodes[cluster.devices[d].host];
  if (static_cast<int>(nodes.size()) == cluster.compute_count) return cluster.compute_count;
  int size = 0;
  for (const auto& [host, count] : nodes) size = std::gcd(size, count);
  return size;
}

// The divisor of a node's devices at which most bytes of weights are split; of equal ones the largest.
int best_degree(const Graph& graph, const Cluster& cluster) {
  int best = 1;
  int64_t most = 0;
  const int node = node_size(cluster);
  for (int degree = node; degree > 1; --degree) {
    if (node % degree) continue;
    const int64_t bytes = TensorRule(graph, degree).split_bytes();
    if (bytes > most) most = bytes, best = degree;
  }
  return best;
}

// A sum of its operands, or a scaled one: partial values of all of them stay so.
std::vector<tdl::AxisStrategy> sums_of_all(const Op& op, const std::vector<tdl::AxisStrategy>& all) {
  std::vector<tdl::AxisStrategy> out;
  if (op.phase == Phase::kForward || !tdl::is_elementwise(*op.bound)) return out;
  for (const tdl::AxisStrategy& s : all)
    if (s.names.empty() && s.reducer == tdl::Reducer::kSum && s.partial.size() == op.operands.size()) out.push_back(s);
  return out;
}

// The strategies that an op may take over the tensor group: its forward op's if that is split; else replication, or a
// sum that is left partial, or a split where an operand comes split.
std::vector<tdl::AxisStrategy> tensor_strategies(const Graph& graph, const RulePlanner& planner, const TensorRule& rule,
                                                 OpId id, int axis, int degree) {
  const Op& op = graph.op(id);
  const std::vector<tdl::AxisStrategy> all = allowed_strategies(op, degree);
  if (const Option* option = rule.chosen(op.forward.valid() ? op.forward : id)) {
    if (op.phase == Phase::kForward) return {option->strategy};
    std::vector<tdl::AxisStrategy> named;
    for (const tdl::AxisStrategy& s : all)
      if (s.names == option->strategy.names) named.push_back(s);
    if (!named.empty()) return named;
  }
  std::vector<tdl::AxisStrategy> out{kReplicate};
  if (op.phase == Phase::kForward) return out;
  const std::vector<tdl::AxisStrategy> sums = sums_of_all(op, all);
  out.insert(out.end(), sums.begin(), sums.end());
  const bool comes_split = std::any_of(op.operands.begin(), op.operands.end(), [&](TensorId t) {
    const Layout* home = planner.home(t);
    const auto name = home && home->mesh == planner.mesh() ? name_of(*home) : std::nullopt;
    return name && (*name)[axis].kind == Sbp::Kind::kSplit;
  });
  for (const tdl::AxisStrategy& s : all)
    if (comes_split && !s.names.empty()) out.push_back(s);
  return out;
}

}  // namespace

namespace {

// ZeRO over the data axis of a mesh [data, tensor]: which axis of each parameter is split over the groups.
class DataSplits {
 public:
  DataSplits(const Graph& graph, int groups, int degree, int stage)
      : graph_(graph), groups_(groups), stage_(stage), axis_(graph.tensors.size(), -1) {
    if (stage == 0) return;
    for (const Op& op : graph.ops) {
      const std::vector<TensorId> gradients = gradients_of_update(graph, op);
      if (gradients.empty()) continue;
      const Shape& shape = graph.tensor(op.operands[0]).shape;
      const auto longest = std::max_element(shape.begin(), shape.end());
      if (longest == shape.end() || *longest < static_cast<int64_t>(groups) * degree) continue;
      const int axis = static_cast<int>(longest - shape.begin());
      axis_[op.operands[0].index()] = axis;
      for (TensorId g : gradients) axis_[g.index()] = axis;
      updates_.insert(op.operands[0]);
    }
    const auto read_by = readers(graph);
    for (TensorId p : updates_)  // a shorter copy that the forward pass reads in the parameter's place
      for (const Reader& r : read_by[p.index()])
        if (const Op& op = graph.op(r.op); op.definition == "cast" && op.phase == Phase::kForward)
          axis_[op.results[0].index()] = axis_[p.index()], casts_.insert(r.op);
  }

  // The strategies of an update, or of the cast of a master copy, that split its tensors over the groups; empty: the op
  // is neither.
  std::vector<tdl::AxisStrategy> strategies(OpId id) const {
    const Op& op = graph_.op(id);
    if (stage_ == 0 || op.operands.empty()) return {};
    const bool update = !gradients_of_update(graph_, op).empty();
    if ((!update && !casts_.contains(id)) || axis_[op.operands[0].index()] < 0) return {};
    const std::vector<std::set<int>> read = plain_reads(*op.bound, 0);
    size_t at = 0;
    for (int a = 0; a < axis_[op.operands[0].index()]; ++a)
      at += op.bound->tensors[0].radices[static_cast<size_t>(a)].size();
    std::vector<tdl::AxisStrategy> out;
    for (const int index : read[at]) {
      const auto named = with_name(allowed_strategies(op, groups_), op.bound->indices[static_cast<size_t>(index)].name);
      out.insert(out.end(), named.begin(), named.end());
    }
    return out;
  }
  // A master copy's cast: what it leaves is whole, but for stage 3.
  bool gathers(OpId id) const { return stage_ > 0 && stage_ < 3 && casts_.contains(id); }
  // The axis along which a gradient is kept split once it is made; none before stage 2.
  std::optional<int> kept(TensorId t, const Op& producer) const {
    if (stage_ < 2 || producer.phase != Phase::kBackward || axis_[t.index()] < 0) return std::nullopt;
    return axis_[t.index()];
  }
  // The axis along which a parameter is kept split; none before stage 3.
  std::optional<int> parameter(TensorId t) const {
    return stage_ == 3 && updates_.contains(t) ? std::optional(axis_[t.index()]) : std::nullopt;
  }

 private:
  const Graph& graph_;
  int groups_, stage_;
  std::vector<int> axis_;  // by tensor: parameters, their casts and gradients
  std::set<TensorId> updates_;
  std::set<OpId> casts_;
};

// Keeps the tensor so over the data axis, and as it is over the tensor axis.
void keep_over_data(RulePlanner& planner, TensorId id, const Sbp& sbp) {
  const Layout* home = planner.home(id);
  auto name = home ? name_of(*home) : std::nullopt;
  if (!name || (*name)[0] == sbp) return;
  (*name)[0] = sbp;
  planner.keep(id, placement_of(*home, *name));
}

// An update, or the cast of a master copy, on its part of the parameter. False: the op is neither, or cannot.
bool take_over_data(RulePlanner& planner, const Graph& graph, const DataSplits& over_data, const TensorRule& rule,
                    OpId id, int tensor_axis, int degree) {
  const std::vector<tdl::AxisStrategy> split = over_data.strategies(id);
  if (split.empty()) return false;
  std::vector<std::vector<tdl::AxisStrategy>> axes = {split};
  if (tensor_axis >= 0) axes.push_back(tensor_strategies(graph, planner, rule, id, tensor_axis, degree));
  if (!planner.try_choose(id, axes)) return false;
  if (over_data.gathers(id)) keep_over_data(planner, graph.op(id).results[0], Sbp::broadcast());
  return true;
}

}  // namespace

Plan megatron_plan(const Graph& graph, const Cluster& cluster, std::optional<int> tensor, const Pins& pins,
                   const Watch& watch, int zero) {
  Mesh mesh = all_devices(cluster);
  const int devices = mesh.positions();
  if (tensor && devices % *tensor)
    throw DoesNotApply(fmt::format("megatron: {} devices are not a multiple of tensor={}", devices, *tensor));
  const int degree = tensor ? *tensor : best_degree(graph, cluster), groups = devices / degree;
  require_samples("megatron", graph, groups);
  const TensorRule rule(graph, degree);
  if (degree > 1 && rule.split_bytes() == 0)
    throw DoesNotApply(
        fmt::format("megatron: model '{}' has no weight products that can be split in {}, closed by others; choose "
                    "another tensor=N",
                    graph.name, degree));
  mesh.extents.clear();  // [data, tensor], without axes of one position
  if (groups > 1 || degree == 1) mesh.extents.push_back(groups);
  if (degree > 1) mesh.extents.push_back(degree);
  const int tensor_axis = degree > 1 ? static_cast<int>(mesh.extents.size()) - 1 : -1;
  RulePlanner planner(graph, cluster, pins, mesh, watch);
  const LateSums late(graph);
  const DataSplits over_data(graph, groups, degree, groups > 1 ? zero : 0);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const OpId id(i);
    const Op& op = graph.ops[i];
    if (take_over_data(planner, graph, over_data, rule, id, tensor_axis, degree)) continue;
    std::vector<std::vector<tdl::AxisStrategy>> axes;
    if (tensor_axis != 0) {
      const std::vector<tdl::AxisStrategy> all = allowed_strategies(op, groups);
      axes.push_back(sample_strategies(graph, op, all));
      if (axes[0].empty()) {
        axes[0] = late.strategies(id, all);
        axes[0].insert(axes[0].begin(), kReplicate);
      }
    }
    if (tensor_axis >= 0) axes.push_back(tensor_strategies(graph, planner, rule, id, tensor_axis, degree));
    if (!planner.try_choose(id, axes)) {  // the two splits do not go together
      axes.back() = {kReplicate};
      planner.choose(id, axes);
    }
    // A row product's partial sums are added up at once.
    if (tensor_axis >= 0 && op.phase == Phase::kForward && rule.chosen(id) && !pins.ops.contains(id))
      for (TensorId r : op.results) planner.keep_whole(r, tensor_axis);
    for (TensorId r : op.results)
      if (const auto axis = over_data.kept(r, op); axis && !pins.kept.contains(r))
        keep_over_data(planner, r, Sbp::split(*axis));
    for (TensorId t : op.operands)
      if (const auto axis = over_data.parameter(t); axis && !pins.kept.contains(t))
        keep_over_data(planner, t, Sbp::split(*axis));
  }
  std::set<TensorId> again;
  if (zero == 3 && groups > 1) again = gathered_again(graph, planner);
  Plan plan = planner.finish(tensor ? fmt::format("megatron?tensor={}", *tensor) : "megatron");
  plan.refetched = std::move(again);
  return plan;
}

}  // namespace partita
