// Builds the cost network of one cut: strategies and tilings after the cuts so far, and conversions between them.
#include "partita/search/cuts/one_cut.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "partita/base/error.h"
#include "partita/base/radices.h"
#include "partita/graph/factors.h"
#include "partita/plan/needs.h"
#include "partita/plan/pin_error.h"

namespace partita {

namespace {

std::vector<int> joined(std::vector<int> extents, const std::vector<int>& parts) {
  extents.insert(extents.end(), parts.begin(), parts.end());
  return extents;
}

// Every choice of one of `values[axis]` values an axis, the last axis fastest; sorted along runs of axes of equal
// extents.
template <typename Accept>
void for_each_tuple(const std::vector<int>& parts, const std::vector<int>& values, const Accept& accept) {
  if (std::find(values.begin(), values.end(), 0) != values.end()) return;
  std::vector<int> at(parts.size(), 0);
  bool more = true;
  while (more) {
    bool sorted = true;
    for (size_t a = 1; a < parts.size(); ++a) sorted &= parts[a] != parts[a - 1] || at[a - 1] <= at[a];
    if (sorted) accept(at);
    more = false;
    for (size_t a = parts.size(); a-- > 0 && !more;) {
      more = ++at[a] < values[a];
      if (!more) at[a] = 0;
    }
  }
}

// The stored axis that one mesh axis splits, named or not: the axis on which the boxes of its groups differ.
Aligned::SplitAt split_at(const Layout& layout, size_t mesh_axis) {
  if (layout.kinds[mesh_axis]) return {};
  size_t at = 0;
  for (size_t axis = 0; axis < layout.radices.size(); ++axis)
    for (size_t digit = 0; digit < layout.radices[axis].size(); ++digit, ++at) {
      const std::vector<int>& axes = layout.boxes.along(at).axes;
      if (std::find(axes.begin(), axes.end(), static_cast<int>(mesh_axis)) != axes.end())
        return {static_cast<int>(axis), digit};
    }
  return {};
}

// The number of parts that the axes of the cuts so far and of this one make, if `is_split` says so.
template <typename IsSplit>
int64_t parts_of(const std::vector<int>& extents, const std::vector<int>& parts, const IsSplit& is_split) {
  int64_t made = 1;
  for (size_t a = 0; a < extents.size() + parts.size(); ++a)
    if (is_split(a)) made *= a < extents.size() ? extents[a] : parts[a - extents.size()];
  return made;
}

using Choice = std::vector<tdl::AxisStrategy>;

// Every choice of one offered strategy an axis that splits no index into more parts than it has values.
std::vector<Choice> choices_of(const tdl::Bound& bound, const CutState& state, const Choice& so_far,
                               const std::vector<int>& parts, const std::vector<Choice>& offered) {
  std::vector<int> counts;
  for (const Choice& of_axis : offered) counts.push_back(static_cast<int>(of_axis.size()));
  std::vector<Choice> choices;
  for_each_tuple(parts, counts, [&](const std::vector<int>& at) {
    Choice choice;
    for (size_t a = 0; a < parts.size(); ++a) choice.push_back(offered[a][at[a]]);
    for (const tdl::AxisStrategy& s : choice)
      for (const std::string& name : s.names) {
        auto splits = [&](size_t a) {
          const std::vector<std::string>& names = (a < so_far.size() ? so_far[a] : choice[a - so_far.size()]).names;
          return std::find(names.begin(), names.end(), name) != names.end();
        };
        if (bound.indices[bound.find_index(name)].extent < parts_of(state.extents, parts, splits)) return;
      }
    choices.push_back(std::move(choice));
  });
  return choices;
}

}  // namespace

int groups_of(const std::vector<int>& extents) {
  return std::accumulate(extents.begin(), extents.end(), 1, std::multiplies<>());
}

Cuts::Cuts(const Problem& problem, CutSpace space, std::vector<int> extents, const Budget& budget)
    : graph_(problem.graph),
      problem_(problem),
      space_(std::move(space)),
      name_(space_.search.substr(0, space_.search.find('?'))),
      budget_(budget),
      watch_(budget.watch()),
      read_by_(readers_by_tensor(problem.graph)),
      converter_(problem.cluster) {
  mesh_ = {std::move(extents), slowest_link_first(problem.cluster)};
  radices_ = factored_radices(graph_);
  for (const auto& [id, placement] : problem.constraints.kept)
    radices_[id.index()] = placement.radices.empty() ? unfactored(graph_.tensor(id).shape) : placement.radices;
}

CutState Cuts::start() const {
  return {{}, std::vector<Choice>(graph_.ops.size()), std::vector<std::vector<Tiling>>(graph_.tensors.size()), {}};
}

void Cuts::poll() const {
  if (watch_.stopped())
    throw Error(ExitCode::kInterrupted,
                fmt::format("{}: interrupted before the last cut; {} one-cut programs were begun", name_, steps_));
  if (watch_.ended())
    throw Error(ExitCode::kTimeLimit,
                fmt::format("{}: the time limit{} passed before the last cut; {} one-cut programs were begun", name_,
                            budget_.seconds ? fmt::format(" of {} s", *budget_.seconds) : "", steps_));
}

OneCut Cuts::next(const CutState& state, int axes) {
  if (budget_.steps && steps_ >= *budget_.steps)
    throw Error(ExitCode::kTimeLimit,
                fmt::format("{}: {} one-cut programs were solved, as many as --max-steps allows, before the last cut",
                            name_, steps_));
  ++steps_;
  OneCut cut;
  const auto first = mesh_.extents.begin() + static_cast<std::ptrdiff_t>(state.extents.size());
  cut.parts.assign(first, first + axes);
  const size_t tensors = graph_.tensors.size();
  for (size_t i = 0; i < graph_.ops.size(); ++i) {
    poll();
    cut.ops.push_back(view(OpId(i), state, cut.parts));
  }
  std::vector<std::shared_ptr<const Tiles>> tiles_of;
  for (size_t t = 0; t < tensors; ++t) {
    poll();
    cut.tilings.push_back(domain(TensorId(t), state, cut));
    tiles_of.push_back(tiles(TensorId(t), state, cut));
    std::vector<Cost> unary;
    for (const std::vector<Tiling>& tilings : cut.tilings[t])
      unary.push_back({0, stored(TensorId(t), state, cut.parts, tilings)});
    cut.network.unary.push_back(std::move(unary));
  }
  for (size_t i = 0; i < graph_.ops.size(); ++i) {
    poll();
    const Op& op = graph_.ops[i];
    std::vector<Cost> unary;
    for (const Aligned& a : cut.ops[i]->aligned) unary.push_back({a.inner_cost, 0});
    cut.network.unary.push_back(std::move(unary));
    auto pair = [&](TensorId id, size_t slot, bool result) {
      const size_t keeper = keeper_of(id).index();
      cut.network.pairs.push_back({static_cast<int>(keeper), static_cast<int>(tensors + i),
                                   pair_costs(tiles_of[keeper], cut.ops[i], slot, result, bytes_a_step(id, result))});
    };
    for (size_t k = 0; k < op.operands.size(); ++k) {
      auto seen = op.operands.begin() + static_cast<std::ptrdiff_t>(k);
      if (std::find(op.operands.begin(), seen, op.operands[k]) != seen) continue;  // read twice: converted once
      pair(op.operands[k], k, false);
    }
    for (size_t r = 0; r < op.results.size(); ++r) pair(op.results[r], r, true);
  }
  return cut;
}

CutState Cuts::after(const CutState& state, const OneCut& cut, const std::vector<int>& values) const {
  CutState next = state;
  next.extents = joined(state.extents, cut.parts);
  for (size_t t = 0; t < graph_.tensors.size(); ++t) {
    const std::vector<Tiling>& tilings = cut.tilings[t][values[t]];
    next.tilings[t].insert(next.tilings[t].end(), tilings.begin(), tilings.end());
  }
  for (size_t i = 0; i < graph_.ops.size(); ++i) {
    const Choice& choice = cut.ops[i]->aligned[values[graph_.tensors.size() + i]].strategy;
    next.strategies[i].insert(next.strategies[i].end(), choice.begin(), choice.end());
  }
  next.moved.push_back(cut.network.evaluate(values).moved);
  return next;
}

Plan Cuts::plan(const CutState& state) const {
  Plan plan;
  for (size_t i = 0; i < graph_.ops.size(); ++i) plan.ops.push_back({mesh_, state.strategies[i]});
  for (size_t t = 0; t < graph_.tensors.size(); ++t) {
    if (graph_.tensors[t].replaces.valid()) continue;
    Placement kept{mesh_, {}, {}};
    for (Tiling tiling : state.tilings[t]) kept.sbp.push_back(sbp_of(TensorId(t), tiling));
    if (is_factored(radices_[t])) kept.radices = radices_[t];
    plan.kept[TensorId(t)] = std::move(kept);
  }
  leave_sums(plan);
  plan.search = space_.search;
  plan.paper_cost = static_cast<double>(std::accumulate(state.moved.begin(), state.moved.end(), int64_t{0}));
  return plan;
}

void Cuts::leave_sums(Plan& plan) const {
  if (graph_.micro_batches() == 1) return;
  Converter converter(problem_.cluster);
  const std::vector<ResolvedOp> ops = resolve_ops(graph_, plan);
  std::vector<const OpLayouts*> layouts;
  for (const ResolvedOp& op : ops) layouts.push_back(&op.layouts);
  for (size_t t = 0; t < graph_.tensors.size(); ++t) {
    const TensorId id(t);
    if (!graph_.tensor(id).accumulated || problem_.constraints.kept_of(id)) continue;
    const auto bytes = [&] {
      int64_t sum = 0;
      const TensorNeeds needs = needs_of(graph_, plan, layouts, read_by_, id);
      for (const TensorNeeds::Need& need : needs.needs)
        sum +=
            conversion_firings(graph_, plan, id, need.readers) * converter.bytes(needs.from(need), needs.to(need), 1);
      return sum;
    };
    const int64_t added_up = bytes();
    const auto kept = plan.kept.extract(id);
    if (bytes() > added_up) plan.kept.insert({id, kept.mapped()});
  }
}

TensorId Cuts::keeper_of(TensorId id) const {
  TensorId w = graph_.tensor(id).replaces;
  return w.valid() ? w : id;
}

// ------------------------------------------------------------------ the choices of an op

std::shared_ptr<const OpView> Cuts::view(OpId id, const CutState& state, const std::vector<int>& parts) {
  const Op& op = graph_.op(id);
  if (problem_.constraints.choice_of(id)) return pinned_view(id, state, parts);
  const Choice& so_far = state.strategies[id.index()];
  std::vector<Choice> offered(parts.size());
  for (size_t a = 0; a < parts.size(); ++a) {
    auto [all, fresh] = strategies_.try_emplace({op.bound.get(), parts[a]});
    if (fresh) all->second = tdl::strategies(*op.bound, parts[a]);
    for (const tdl::AxisStrategy& s : all->second)
      if (!s.names.empty() && space_.offers(id, s)) offered[a].push_back(s);
  }
  auto key = std::make_tuple(op.bound.get(), so_far, state.extents, parts, offered, inner_bytes(op));
  if (auto found = views_.find(key); found != views_.end()) return found->second;
  auto v = view_of(id, state, parts, choices_of(*op.bound, state, so_far, parts, offered));
  if (v->aligned.empty()) {  // no strategy is left
    for (Choice& of_axis : offered) of_axis.push_back({});
    v = view_of(id, state, parts, choices_of(*op.bound, state, so_far, parts, offered));
  }
  ensure(!v->aligned.empty(), "op '{}' can't even be replicated", op.name);
  views_[key] = v;
  return v;
}

std::shared_ptr<const OpView> Cuts::pinned_view(OpId id, const CutState& state, const std::vector<int>& parts) {
  const OpChoice& pin = *problem_.constraints.choice_of(id);
  const std::string& name = graph_.op(id).name;
  if (pin.mesh != mesh_)
    fail_pinned_mesh("op", name, fmt::format("{} cuts {} devices as", name_, mesh_.devices.size()), mesh_, pin.mesh);
  const auto first = pin.strategies.begin() + static_cast<std::ptrdiff_t>(state.extents.size());
  auto v = view_of(id, state, parts, {Choice(first, first + static_cast<std::ptrdiff_t>(parts.size()))});
  if (v->aligned.empty()) fail_pin("op '{}': the pinned strategy does not exist", name);
  return v;
}

std::shared_ptr<const OpView> Cuts::view_of(OpId id, const CutState& state, const std::vector<int>& parts,
                                            const std::vector<Choice>& choices) {
  const Op& op = graph_.op(id);
  auto v = std::make_shared<OpView>();
  const auto before = derivations_.get(op.bound, state.extents, state.strategies[id.index()]);
  if (!before && problem_.constraints.choice_of(id))
    fail_pin(
        "op '{}': its strategies on the first {} mesh axes do not exist without the others, and {} cuts one axis "
        "after another; pin other strategies, or use another search",
        op.name, state.extents.size(), name_);
  ensure(before != nullptr, "op '{}': the cuts so far do not exist together", op.name);
  v->before = layouts_of(*op.bound, *before, mesh_of(state.extents));
  for (const Choice& choice : choices) poll(), add_aligned(op, state, parts, *before, choice, *v);
  return v;
}

void Cuts::add_aligned(const Op& op, const CutState& state, const std::vector<int>& parts, const tdl::Derived& before,
                       const Choice& choice, OpView& v) {
  const std::vector<int> extents = joined(state.extents, parts);
  Choice strategies = before.axes;
  strategies.insert(strategies.end(), choice.begin(), choice.end());
  auto derived = derivations_.get(op.bound, extents, strategies);
  if (!derived) return;
  const Mesh mesh = mesh_of(extents);
  Aligned a{choice, layouts_of(*op.bound, *derived, mesh), 0, {}, {}};
  auto splits_of = [&](const Layout& layout) {
    std::vector<Aligned::SplitAt> splits;
    for (size_t axis = state.extents.size(); axis < extents.size(); ++axis) splits.push_back(split_at(layout, axis));
    return splits;
  };
  for (const Layout& layout : a.layouts.operands) a.operands.push_back(splits_of(layout));
  for (const Layout& layout : a.layouts.results) a.results.push_back(splits_of(layout));
  const int64_t element = inner_bytes(op);
  a.inner_cost = converter_.inner_bytes(*op.bound, *derived, mesh, element) -
                 converter_.inner_bytes(*op.bound, before, mesh_of(state.extents), element);
  v.aligned.push_back(std::move(a));
}

int64_t Cuts::inner_bytes(const Op& op) const { return graph_.firings(op) * bytes_of(inner_dtype(graph_, op)); }

int64_t Cuts::bytes_a_step(TensorId id, bool result) const {
  const Tensor& tensor = graph_.tensor(id);
  const int times =
      result && !tensor.accumulated ? graph_.firings(graph_.op(tensor.producer)) : reads_a_step(graph_, id);
  return times * bytes_of(tensor.dtype);
}

Mesh Cuts::mesh_of(const std::vector<int>& extents) const {  // of the first few cuts: one device stands for each group
  Mesh mesh{extents, {}};
  const size_t positions = static_cast<size_t>(groups_of(extents));
  for (size_t g = 0; g < positions; ++g) mesh.devices.push_back(mesh_.devices[g * (mesh_.devices.size() / positions)]);
  return mesh;
}

// ------------------------------------------------------------------ the choices of a tensor

Tiling Cuts::tiling_of(TensorId id, const Layout& layout, const Aligned::SplitAt& split) const {
  if (split.axis < 0) return kWhole;
  const std::vector<Shape>& radices = radices_[id.index()];
  Tiling first = 0;
  for (int axis = 0; axis < split.axis; ++axis) first += static_cast<Tiling>(radices[axis].size());
  if (radices[split.axis].size() == 1) return first;
  const auto counts = radices_within(radices[split.axis], layout.radices[split.axis]);
  if (!counts) return kWhole;
  size_t past = 0;
  for (size_t digit = 0; digit < counts->size(); ++digit)
    if (past += (*counts)[digit]; split.digit < past) return first + static_cast<Tiling>(digit);
  return kWhole;
}

Sbp Cuts::sbp_of(TensorId id, Tiling tiling) const {
  if (tiling == kWhole) return Sbp::broadcast();
  int axis = 0;
  for (const Shape& radices : radices_[id.index()]) {
    if (tiling < static_cast<Tiling>(radices.size())) return Sbp::split(axis, tiling);
    tiling -= static_cast<Tiling>(radices.size());
    ++axis;
  }
  ensure(false, "tensor '{}' has no such tiling", graph_.tensor(id).name);
  return {};
}

int64_t Cuts::extent_of(TensorId id, Tiling tiling) const {  // the number of values it divides
  const Sbp sbp = sbp_of(id, tiling);
  return radices_[id.index()][sbp.axis][sbp.sub_axis];
}

Layout Cuts::kept_layout(TensorId id, const Mesh& mesh, const std::vector<Tiling>& tilings) const {
  NdSbp sbp;
  for (Tiling tiling : tilings) sbp.push_back(sbp_of(id, tiling));
  return make_layout(mesh, sbp, radices_[id.index()]);
}

std::vector<Tiling> Cuts::pinned_tilings(TensorId id, size_t first_axis, size_t axes) const {
  const Placement& pin = *problem_.constraints.kept_of(id);
  const std::string& name = graph_.tensor(id).name;
  if (pin.mesh != mesh_)
    fail_pinned_mesh("tensor", name, fmt::format("{} cuts the devices as", name_), mesh_, pin.mesh);
  std::vector<Tiling> pinned;
  for (size_t a = 0; a < axes; ++a) {
    const Sbp& sbp = pin.sbp[first_axis + a];
    if (sbp.kind == Sbp::Kind::kPartial)
      fail_pin("tensor '{}': {} keeps no partial values, as {}; pin it split or whole, or use another search", name,
               name_, to_string(pin.sbp));
    Tiling tiling = sbp.kind == Sbp::Kind::kSplit ? sbp.sub_axis : kWhole;
    for (int axis = 0; sbp.kind == Sbp::Kind::kSplit && axis < sbp.axis; ++axis)
      tiling += static_cast<Tiling>(radices_[id.index()][axis].size());
    pinned.push_back(tiling);
  }
  return pinned;
}

// The tilings by which some op that reads or makes the tensor, or its new value, needs it split.
std::vector<Tiling> Cuts::wanted_tilings(TensorId id, const OneCut& cut) const {
  std::set<Tiling> wanted;
  auto want = [&](const Layout& layout, const std::vector<Aligned::SplitAt>& splits) {
    for (const Aligned::SplitAt& split : splits)
      if (Tiling tiling = tiling_of(id, layout, split); tiling != kWhole) wanted.insert(tiling);
  };
  auto ask = [&](TensorId t) {
    for (const Reader& reader : read_by_[t.index()])
      for (const Aligned& a : cut.ops[reader.op.index()]->aligned)
        want(a.layouts.operands[reader.operand], a.operands[reader.operand]);
    if (!graph_.tensor(t).producer.valid()) return;
    const Op& op = graph_.op(graph_.tensor(t).producer);
    size_t r = static_cast<size_t>(std::find(op.results.begin(), op.results.end(), t) - op.results.begin());
    for (const Aligned& a : cut.ops[graph_.tensor(t).producer.index()]->aligned)
      want(a.layouts.results[r], a.results[r]);
  };
  ask(id);
  if (TensorId next = graph_.replacement_of(id); next.valid()) ask(next);
  return {wanted.begin(), wanted.end()};
}

// Every choice of one of `values` an axis that splits no axis of the tensor into more parts than it has values.
std::vector<std::vector<Tiling>> Cuts::tilings_of(TensorId id, const CutState& state, const std::vector<int>& parts,
                                                  const std::vector<Tiling>& values) const {
  const std::vector<Tiling>& so_far = state.tilings[id.index()];
  std::vector<std::vector<Tiling>> out;
  const std::vector<int> counts(parts.size(), static_cast<int>(values.size()));
  for_each_tuple(parts, counts, [&](const std::vector<int>& at) {
    std::vector<Tiling> tilings;
    for (int v : at) tilings.push_back(values[v]);
    for (Tiling tiling : tilings) {
      if (tiling == kWhole) continue;
      auto splits = [&](size_t a) { return (a < so_far.size() ? so_far[a] : tilings[a - so_far.size()]) == tiling; };
      if (extent_of(id, tiling) < parts_of(state.extents, parts, splits)) return;
    }
    out.push_back(std::move(tilings));
  });
  return out;
}

// Whole, or split as some op needs it: a split along any other axis would only be converted again.
std::vector<std::vector<Tiling>> Cuts::domain(TensorId id, const CutState& state, const OneCut& cut) const {
  const size_t axes = cut.parts.size();
  // A new value has no tiling of its own: its keeper has it.
  if (graph_.tensor(id).replaces.valid()) return {std::vector<Tiling>(axes, kWhole)};
  if (problem_.constraints.kept_of(id)) return {pinned_tilings(id, state.extents.size(), axes)};
  std::vector<Tiling> every;
  for (const Shape& radices : radices_[id.index()])
    for (size_t digit = 0; digit < radices.size(); ++digit) every.push_back(static_cast<Tiling>(every.size()));
  std::vector<Tiling> values = space_.unwanted ? every : wanted_tilings(id, cut);
  if (!space_.whole) {
    if (auto split = tilings_of(id, state, cut.parts, values); !split.empty()) return split;
    // No op needs an axis on which it can be split.
    if (auto split = tilings_of(id, state, cut.parts, every); !split.empty()) return split;
  }
  values.push_back(kWhole);
  return tilings_of(id, state, cut.parts, values);
}

std::shared_ptr<const Cuts::Tiles> Cuts::tiles(TensorId id, const CutState& state, const OneCut& cut) {
  const std::vector<Tiling>& so_far = state.tilings[id.index()];
  auto [found, fresh] =
      tiles_.try_emplace({radices_[id.index()], state.extents, cut.parts, so_far, cut.tilings[id.index()]});
  if (!fresh) return found->second;
  auto made = std::make_shared<Tiles>();
  made->before = kept_layout(id, mesh_of(state.extents), so_far);
  const Mesh mesh = mesh_of(joined(state.extents, cut.parts));
  for (const std::vector<Tiling>& tilings : cut.tilings[id.index()])
    made->layouts.push_back(kept_layout(id, mesh, joined(so_far, tilings)));
  return found->second = made;
}

const Cuts::PairCosts& Cuts::pair_costs(const std::shared_ptr<const Tiles>& tiles,
                                        const std::shared_ptr<const OpView>& view, size_t slot, bool result,
                                        int64_t element) {
  auto [found, fresh] = pair_costs_.try_emplace({tiles, view, slot, result, element});
  if (!fresh) return found->second;
  auto bytes = [&](const Layout& kept, const OpLayouts& op) {
    return result ? converter_.bytes(op.results[slot], kept, element)
                  : converter_.bytes(kept, op.operands[slot], element);
  };
  const int64_t paid = bytes(tiles->before, view->before);
  for (const Layout& kept : tiles->layouts) {
    poll();
    for (const Aligned& a : view->aligned) found->second.push_back({bytes(kept, a.layouts) - paid, 0});
  }
  return found->second;
}

int64_t Cuts::stored(TensorId id, const CutState& state, const std::vector<int>& parts,
                     const std::vector<Tiling>& tilings) const {
  int64_t bytes = graph_.tensor(id).bytes();
  for (size_t c = 0; c < state.extents.size(); ++c)
    if (state.tilings[id.index()][c] != kWhole) bytes /= state.extents[c];
  for (size_t a = 0; a < parts.size(); ++a)
    if (tilings[a] == kWhole) bytes *= parts[a];
  return bytes;
}

}  // namespace partita
