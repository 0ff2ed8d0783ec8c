// Finds where every tensor has its samples.
#include "partita/graph/sample_placement.h"

#include <algorithm>
#include <set>

#include "partita/base/error.h"
#include "partita/graph/recompute.h"

namespace partita {
namespace {

constexpr int kMostReturns = 1000;  // to a reshape that allows another place
constexpr std::size_t kMostVisits = 20000, kMostVisitsAnOp = 50;

// The number of a tensor among its op's results.
std::size_t result_number(const Op& op, TensorId id) {
  return static_cast<std::size_t>(std::find(op.results.begin(), op.results.end(), id) - op.results.begin());
}

bool is_reshape(const Op& op) {
  return op.definition == "reshape" || op.definition == "flatten" || op.definition == "squeeze" ||
         op.definition == "unsqueeze";
}

}  // namespace

SamplePlacement::SamplePlacement(const Graph& graph, const std::map<TensorId, std::size_t>& inputs, int64_t from)
    : places(graph.tensors.size()),
      lifted(graph.ops.size()),
      graph_(graph),
      from_(from),
      of_inputs_(depends_on(graph, Role::kInput)) {
  for (const auto& [id, axis] : inputs) places[id.index()] = SamplePlace{axis};
}

bool SamplePlacement::find(bool strict, bool alike, Unreached unreached) {
  std::vector<Decision> decisions;
  int returns = 0;
  std::size_t visits = 0;
  const std::size_t ops = graph_.ops.size();
  for (std::size_t i = 0; i < ops + graph_.outputs.size(); ++i) {
    ++visits;
    if (i >= ops && has_its_samples(graph_.outputs[i - ops], strict, unreached)) continue;
    std::string reason;
    std::vector<Lifted> ways = i < ops ? ways_of(graph_.ops[i], reason) : std::vector<Lifted>();
    if (ways.size() > 1) {
      take(i, decided(decisions, i, std::move(ways), alike));
      continue;
    }
    if (!ways.empty()) {
      take(i, ways.front());
      continue;
    }
    if (i >= furthest) refuse(i, reason);
    furthest = std::max(furthest, i);
    const auto read = i < ops ? graph_.ops[i].operands : std::vector<TensorId>{graph_.outputs[i - ops]};
    if (++returns > kMostReturns || visits > kMostVisits + kMostVisitsAnOp * ops) return false;
    const auto back = last_before(decisions, read);
    if (!back) return false;
    decisions.resize(*back + 1);
    Decision& last = decisions.back();
    i = last.op;
    take(i, last.ways[++last.taken]);
  }
  return true;
}

bool SamplePlacement::has_its_samples(TensorId output, bool strict, Unreached unreached) const {
  if (output_place(output, strict, unreached)) return true;
  return !places[output.index()] && (unreached == Unreached::kStay || !of_inputs_[output.index()]);
}

std::optional<SamplePlace> SamplePlacement::output_place(TensorId id, bool strict, Unreached unreached) const {
  const Tensor& t = graph_.tensor(id);
  std::optional<SamplePlace> place = places[id.index()];
  const bool may_copy = unreached == Unreached::kCopied;
  if (!place && may_copy && !t.shape.empty() && can_copy(id, SamplePlace{})) place = SamplePlace{};
  const bool apart = place && place->outer == 1 && (place->axis == 0 || (!strict && place->inner == 1));
  return apart ? place : std::nullopt;
}

SamplePlaces SamplePlacement::operands_of(const Op& op) const {
  SamplePlaces of;
  for (TensorId id : op.operands) of.push_back(places[id.index()]);
  return of;
}

std::optional<Lifted> SamplePlacement::copied(TensorId id, const SamplePlace& place) const {
  const Tensor& t = graph_.tensor(id);
  if (!t.producer.valid()) return std::nullopt;
  const Op& op = graph_.op(t.producer);
  if (is_reshape(op)) return copied_reshape(op, place);
  const tdl::Bound& bound = *op.bound;
  const std::size_t r = result_number(op, id);
  const int made = bound.results[r];
  const auto own = only_digit(bound.tensors[static_cast<std::size_t>(made)], place.axis);
  const int index = own ? bound.stages[static_cast<std::size_t>(bound.stage_of(made))].lhs[*own].plain_index() : -1;
  if (index < 0) return std::nullopt;
  SamplePlaces operands(op.operands.size());
  bool one = true;
  for (const tdl::Stage& stage : bound.stages)
    tdl::for_each_read(stage.body, [&](const tdl::Expr& read) {
      const std::size_t k = static_cast<std::size_t>(read.tensor);
      for (std::size_t a = 0; k < operands.size() && a < bound.tensors[k].radices.size(); ++a) {
        const auto digit = only_digit(bound.tensors[k], a);
        if (!digit || read.subscripts[*digit].plain_index() != index ||
            graph_.tensor(op.operands[k]).shape[a] != place.extent(from_))
          continue;
        const SamplePlace here{a, place.outer, place.inner};
        one = one && (!operands[k] || *operands[k] == here);
        operands[k] = here;
      }
    });
  for (std::size_t k = 0; k < operands.size(); ++k)
    one = one && (!operands[k] || can_copy(op.operands[k], *operands[k]));
  std::string reason;
  const bool fresh = std::none_of(operands.begin(), operands.end(), [](const auto& p) { return p.has_value(); });
  auto lifted = one ? lift_itself(graph_, op, operands, from_, fresh ? std::optional(place) : std::nullopt, reason)
                    : std::nullopt;
  return lifted && lifted->results[r] == place ? lifted : std::nullopt;
}

bool SamplePlacement::can_copy(TensorId id, const SamplePlace& place) const {
  const Tensor& t = graph_.tensor(id);
  if (places[id.index()] || t.shape.at(place.axis) != place.extent(from_)) return false;
  if (from_ == 1) return true;
  if (t.role == Role::kConstant) return has_equal_samples(*t.values, place);
  return copied(id, place).has_value();
}

bool SamplePlacement::is_about(const Decision& d, std::size_t op, const SamplePlace& place, bool alike) const {
  return d.op == op || (alike && graph_.ops[d.op].bound == graph_.ops[op].bound && d.ways[0].operands[0] == place);
}

const Lifted& SamplePlacement::decided(std::vector<Decision>& decisions, std::size_t op, std::vector<Lifted> ways,
                                       bool alike) const {
  for (const Decision& d : decisions)
    if (is_about(d, op, *ways[0].operands[0], alike)) return d.ways[d.taken];
  decisions.push_back({op, std::move(ways)});
  return decisions.back().ways[0];
}

void SamplePlacement::take(std::size_t op, const Lifted& way) {
  lifted[op].reset();
  const auto& results = graph_.ops[op].results;
  const bool any = std::any_of(way.results.begin(), way.results.end(), [](const auto& p) { return p.has_value(); });
  if (any) lifted[op] = way;
  for (std::size_t r = 0; r < results.size(); ++r) places[results[r].index()] = way.results[r];
}

void SamplePlacement::refuse(std::size_t i, const std::string& reason) {
  const std::size_t ops = graph_.ops.size();
  refused_by = i < ops ? OpId(i) : OpId();
  why = reason;
  if (i < ops) return;
  const Tensor& output = graph_.tensor(graph_.outputs[i - ops]);
  why = fmt::format("output '{}' [{}] has no axis for the samples", output.name, fmt::join(output.shape, "x"));
}

std::optional<std::size_t> SamplePlacement::last_before(const std::vector<Decision>& decisions,
                                                        const std::vector<TensorId>& tensors) const {
  std::vector<bool> behind(graph_.ops.size());
  const auto mark = [&](const std::vector<TensorId>& ids) {
    for (TensorId id : ids)
      if (const OpId producer = graph_.tensor(id).producer; producer.valid()) behind[producer.index()] = true;
  };
  mark(tensors);
  std::set<std::pair<const tdl::Bound*, SamplePlace>> reshapes;  // that they depend on
  for (std::size_t i = graph_.ops.size(); i-- > 0;) {
    if (!behind[i]) continue;
    const auto& way = lifted[i];
    if (way && way->form == Lifted::Form::kReshape) reshapes.emplace(graph_.ops[i].bound.get(), *way->operands[0]);
    mark(graph_.ops[i].operands);
  }
  for (std::size_t d = decisions.size(); d-- > 0;)
    if (decisions[d].taken + 1 < decisions[d].ways.size() &&
        reshapes.contains({graph_.ops[decisions[d].op].bound.get(), *decisions[d].ways[0].operands[0]}))
      return d;
  return std::nullopt;
}

std::vector<Lifted> SamplePlacement::ways_of(const Op& op, std::string& reason) {
  const SamplePlaces operands = operands_of(op);
  if (std::none_of(operands.begin(), operands.end(), [](const auto& p) { return p.has_value(); }))
    return {Lifted{.operands = operands, .results = SamplePlaces(op.results.size())}};
  if (is_reshape(op)) return reshapes(op, *operands[0], reason);
  const auto [found, fresh] = known_.try_emplace(std::pair(op.bound.get(), operands));
  Known& known = found->second;
  if (fresh) known.way = lift_itself(graph_, op, operands, from_, std::nullopt, known.why);
  reason = known.why;
  auto way = known.way;
  if (!way) way = with_copies(op, operands, reason);
  if (!way) way = gather(op, operands);
  return way ? std::vector<Lifted>{*way} : std::vector<Lifted>();
}

std::optional<Lifted> SamplePlacement::with_copies(const Op& op, SamplePlaces operands, std::string& reason) const {
  const SamplePlaces copies = needed_copies(graph_, op, operands, from_);
  bool any = false;
  for (std::size_t k = 0; k < copies.size(); ++k) {
    if (!copies[k]) continue;
    if (!can_copy(op.operands[k], *copies[k])) {
      const Tensor& t = graph_.tensor(op.operands[k]);
      reason = fmt::format(
          "reads '{}' ({}), which {}", t.name, name_of(t.role),
          t.producer.valid() ? "is not known to be equal for all samples" : "differs from sample to sample");
      return std::nullopt;
    }
    operands[k] = copies[k];
    any = true;
  }
  std::string why_not;
  auto lifted = any ? lift_itself(graph_, op, operands, from_, std::nullopt, why_not) : std::nullopt;
  if (any && !lifted) reason = why_not;
  return lifted;
}

std::vector<Lifted> SamplePlacement::reshapes(const Op& op, const SamplePlace& place, std::string& reason) const {
  std::vector<Lifted> all;
  for (const SamplePlace& to :
       reshaped_places(graph_.tensor(op.operands[0]).shape, place, graph_.tensor(op.results[0]).shape, from_))
    all.push_back({.form = Lifted::Form::kReshape, .operands = {place}, .results = {to}});
  if (all.empty()) reason = "tears samples apart";
  return all;
}

std::optional<Lifted> SamplePlacement::copied_reshape(const Op& op, const SamplePlace& place) const {
  const Shape &result = graph_.tensor(op.results[0]).shape, &source = graph_.tensor(op.operands[0]).shape;
  for (const SamplePlace& from : reshaped_places(result, place, source, from_))
    if (can_copy(op.operands[0], from))
      return Lifted{.form = Lifted::Form::kReshape, .operands = {from}, .results = {place}};
  return std::nullopt;
}

std::optional<Lifted> SamplePlacement::gather(const Op& op, const SamplePlaces& operands) const {
  if (op.definition != "gather" || !operands[0]) return std::nullopt;
  const Tensor &x = graph_.tensor(op.operands[0]), &ids = graph_.tensor(op.operands[1]);
  const double axis = op.attributes.at("axis");
  const std::size_t along = static_cast<std::size_t>(axis < 0 ? axis + static_cast<double>(x.shape.size()) : axis);
  if (operands[0]->axis != along || operands[0]->outer != 1) return std::nullopt;
  std::optional<SamplePlace> place = from_ == 1 ? operands[1] : std::nullopt;
  if (!operands[1])
    for (std::size_t a = 0; a < ids.shape.size() && !place; ++a)
      if (ids.shape[a] == from_ &&
          (from_ == 1 || (ids.role == Role::kConstant && names_own_places(*ids.values, a, operands[0]->inner))))
        place = SamplePlace{a};
  if (!place) return std::nullopt;
  return Lifted{.form = Lifted::Form::kGather,
                .operands = {operands[0], place},
                .results = {SamplePlace{along + place->axis, place->outer, place->inner}}};
}

bool SamplePlacement::names_own_places(const Values& ids, std::size_t axis, int64_t each) const {
  const SampleDigits d(ids.shape, {axis});
  for (int64_t i = 0; i < static_cast<int64_t>(ids.integer.size()); ++i) {
    const int64_t sample = i / d.inner % from_, first = i - sample * d.inner;
    const int64_t id = ids.integer[static_cast<std::size_t>(i)], id0 = ids.integer[static_cast<std::size_t>(first)];
    if (id0 < 0 || id0 >= each || id != id0 + sample * each) return false;
  }
  return true;
}

bool SamplePlacement::has_equal_samples(const Values& values, const SamplePlace& place) const {
  const SampleDigits d(values.shape, place);
  for (int64_t i = 0; i < volume(values.shape); ++i) {
    const std::size_t at = static_cast<std::size_t>(i),
                      first = static_cast<std::size_t>(i - i / d.inner % from_ * d.inner);
    if (is_float(values.dtype) ? values.real[at] != values.real[first] : values.integer[at] != values.integer[first])
      return false;
  }
  return true;
}

}  // namespace partita
