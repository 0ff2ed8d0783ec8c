// The graph for another number of samples: first where every tensor has its samples, then the graph itself.
#include "partita/graph/rebatch.h"

#include <algorithm>
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/builder.h"
#include "partita/graph/samples.h"

namespace partita {
namespace {

constexpr int kMostReturns = 1000;  // to a reshape that allows another place
constexpr std::size_t kMostVisits = 20000, kMostVisitsAnOp = 50;

bool is_reshape(const Op& op) {
  return op.definition == "reshape" || op.definition == "flatten" || op.definition == "squeeze" ||
         op.definition == "unsqueeze";
}

tdl::Attributes shape_attributes(const Shape& shape) {
  tdl::Attributes attributes;
  for (std::size_t a = 0; a < shape.size(); ++a) attributes[fmt::format("shape.{}", a)] = static_cast<double>(shape[a]);
  return attributes;
}

// A tensor [outer * samples * inner at the axis] as [before, samples, inner, after].
struct Digits {
  int64_t before = 1, inner = 1;
  Digits(const Shape& shape, const SamplePlace& place) : before(place.outer), inner(place.inner) {
    for (std::size_t a = 0; a < place.axis; ++a) before *= shape[a];
    for (std::size_t a = place.axis + 1; a < shape.size(); ++a) inner *= shape[a];
  }
};

// Where every tensor has its samples, and how every op takes them.
class Placement {
 public:
  Placement(const Graph& graph, const std::map<TensorId, std::size_t>& inputs, int64_t from)
      : places(graph.tensors.size()), lifted(graph.ops.size()), graph_(graph), from_(from) {
    for (const auto& [id, axis] : inputs) places[id.index()] = SamplePlace{axis};
  }

  SamplePlaces places;
  std::vector<std::optional<Lifted>> lifted;  // none: the op has no samples
  OpId refused_by;
  std::string why;
  std::size_t furthest = 0;  // of the ops, then the outputs, that were refused

  // False, with the op that is refused, or none: an output. The ops, then the outputs, are gone through one by one;
  // where one has no way, the last reshape before it that has another place left takes that. `strict`: outputs begin
  // with the samples. `alike`: equal reshapes of samples at the same place take the same place, as those of all time
  // steps and layers do.
  bool find(bool strict, bool alike) {
    std::vector<Decision> decisions;
    int returns = 0;
    std::size_t visits = 0;
    const std::size_t ops = graph_.ops.size();
    for (std::size_t i = 0; i < ops + graph_.outputs.size(); ++i) {
      ++visits;
      if (i >= ops && output_place(graph_.outputs[i - ops], strict)) continue;
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

  // Where an output has its samples: those of one run after those of another along axis 0, or along an axis of their
  // own.
  std::optional<SamplePlace> output_place(TensorId id, bool strict) const {
    const Tensor& t = graph_.tensor(id);
    std::optional<SamplePlace> place = places[id.index()];
    if (!place && !t.shape.empty() && can_copy(id, SamplePlace{})) place = SamplePlace{};
    const bool apart = place && place->outer == 1 && (place->axis == 0 || (!strict && place->inner == 1));
    return apart ? place : std::nullopt;
  }

  SamplePlaces operands_of(const Op& op) const {
    SamplePlaces of;
    for (TensorId id : op.operands) of.push_back(places[id.index()]);
    return of;
  }

  // How the op behind a tensor without samples is made to have them at `place`, so that every sample has an equal copy;
  // none if it has no op, or its values differ along what would be the samples.
  std::optional<Lifted> copied(TensorId id, const SamplePlace& place) const {
    const Tensor& t = graph_.tensor(id);
    if (!t.producer.valid()) return std::nullopt;
    const Op& op = graph_.op(t.producer);
    if (op.results.size() != 1) return std::nullopt;
    if (is_reshape(op)) return copied_reshape(op, place);
    const tdl::Bound& bound = *op.bound;
    const auto own = only_digit(bound.tensors[static_cast<std::size_t>(bound.results[0])], place.axis);
    const int index =
        own ? bound.stages[static_cast<std::size_t>(bound.stage_of(bound.results[0]))].lhs[*own].plain_index() : -1;
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
    return lifted && lifted->results[0] == place ? lifted : std::nullopt;
  }

  bool can_copy(TensorId id, const SamplePlace& place) const {
    const Tensor& t = graph_.tensor(id);
    if (places[id.index()] || t.shape.at(place.axis) != place.extent(from_)) return false;
    if (from_ == 1) return true;
    if (t.role == Role::kConstant) return has_equal_samples(*t.values, place);
    return copied(id, place).has_value();
  }

 private:
  struct Decision {  // of a reshape, and of those like it
    std::size_t op;  // the first of them
    std::vector<Lifted> ways;
    std::size_t taken = 0;
  };

  // Whether a reshape is one that a decision is about.
  bool is_about(const Decision& d, std::size_t op, const SamplePlace& place, bool alike) const {
    return d.op == op || (alike && graph_.ops[d.op].bound == graph_.ops[op].bound && d.ways[0].operands[0] == place);
  }

  const Lifted& decided(std::vector<Decision>& decisions, std::size_t op, std::vector<Lifted> ways, bool alike) const {
    for (const Decision& d : decisions)
      if (is_about(d, op, *ways[0].operands[0], alike)) return d.ways[d.taken];
    decisions.push_back({op, std::move(ways)});
    return decisions.back().ways[0];
  }

  void take(std::size_t op, const Lifted& way) {
    lifted[op].reset();
    const auto& results = graph_.ops[op].results;
    const bool any = std::any_of(way.results.begin(), way.results.end(), [](const auto& p) { return p.has_value(); });
    if (any) lifted[op] = way;
    for (std::size_t r = 0; r < results.size(); ++r) places[results[r].index()] = way.results[r];
  }

  void refuse(std::size_t i, const std::string& reason) {
    const std::size_t ops = graph_.ops.size();
    refused_by = i < ops ? OpId(i) : OpId();
    why = reason;
    if (i < ops) return;
    const Tensor& output = graph_.tensor(graph_.outputs[i - ops]);
    why = fmt::format("output '{}' [{}] has no axis for the samples", output.name, fmt::join(output.shape, "x"));
  }

  // The last decision with a way left that these tensors depend on.
  std::optional<std::size_t> last_before(const std::vector<Decision>& decisions,
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

  // All ways in which an op can take its operands' samples; empty, and why.
  std::vector<Lifted> ways_of(const Op& op, std::string& reason) {
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

  std::optional<Lifted> with_copies(const Op& op, SamplePlaces operands, std::string& reason) const {
    const SamplePlaces copies = needed_copies(graph_, op, operands, from_);
    bool any = false;
    for (std::size_t k = 0; k < copies.size(); ++k) {
      if (!copies[k]) continue;
      if (!can_copy(op.operands[k], *copies[k])) {
        reason = fmt::format("reads '{}' ({}), which differs from sample to sample", graph_.tensor(op.operands[k]).name,
                             name_of(graph_.tensor(op.operands[k]).role));
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

  std::vector<Lifted> reshapes(const Op& op, const SamplePlace& place, std::string& reason) const {
    std::vector<Lifted> all;
    for (const SamplePlace& to :
         reshaped_places(graph_.tensor(op.operands[0]).shape, place, graph_.tensor(op.results[0]).shape, from_))
      all.push_back({.form = Lifted::Form::kReshape, .operands = {place}, .results = {to}});
    if (all.empty()) reason = "tears samples apart";
    return all;
  }

  std::optional<Lifted> copied_reshape(const Op& op, const SamplePlace& place) const {
    const Shape &result = graph_.tensor(op.results[0]).shape, &source = graph_.tensor(op.operands[0]).shape;
    for (const SamplePlace& from : reshaped_places(result, place, source, from_))
      if (can_copy(op.operands[0], from))
        return Lifted{.form = Lifted::Form::kReshape, .operands = {from}, .results = {place}};
    return std::nullopt;
  }

  // A gather along the axis of the samples. The ids of one sample are places in what that sample has; ids of several
  // samples that are constant must name, for each sample, the same places in its own part.
  std::optional<Lifted> gather(const Op& op, const SamplePlaces& operands) const {
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

  // Sample s of `from` has the ids s * each + k, with the same k for all.
  bool names_own_places(const Values& ids, std::size_t axis, int64_t each) const {
    const Digits d(ids.shape, {axis});
    for (int64_t i = 0; i < static_cast<int64_t>(ids.integer.size()); ++i) {
      const int64_t sample = i / d.inner % from_, first = i - sample * d.inner;
      const int64_t id = ids.integer[static_cast<std::size_t>(i)], id0 = ids.integer[static_cast<std::size_t>(first)];
      if (id0 < 0 || id0 >= each || id != id0 + sample * each) return false;
    }
    return true;
  }

  bool has_equal_samples(const Values& values, const SamplePlace& place) const {
    const Digits d(values.shape, place);
    for (int64_t i = 0; i < volume(values.shape); ++i) {
      const std::size_t at = static_cast<std::size_t>(i),
                        first = static_cast<std::size_t>(i - i / d.inner % from_ * d.inner);
      if (is_float(values.dtype) ? values.real[at] != values.real[first] : values.integer[at] != values.integer[first])
        return false;
    }
    return true;
  }

  struct Known {  // of equal ops whose operands have their samples at the same places
    std::optional<Lifted> way;
    std::string why;
  };
  const Graph& graph_;
  const int64_t from_;
  std::map<std::pair<const tdl::Bound*, SamplePlaces>, Known> known_;
};

// The graph for `to` samples, op by op.
class Writer {
 public:
  Writer(const Graph& graph, const Placement& placement, int64_t from, int64_t to)
      : graph_(graph),
        placement_(placement),
        from_(from),
        to_(to),
        build_(graph.name, graph.registry),
        now_(graph.tensors.size()) {}

  Graph write(const std::vector<std::optional<SamplePlace>>& outputs) {
    for (TensorId id : graph_.inputs) source(id);
    for (const Op& op : graph_.ops) write_op(op);
    std::vector<TensorId> results;
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const TensorId id = graph_.outputs[o];
      source(id);
      const bool copied = outputs[o] && !placement_.places[id.index()];
      results.push_back(copied ? copy(id, *outputs[o]) : now_[id.index()]);
      if (!copied) continue;
      build_.graph().tensor(now_[id.index()]).name = free_name(graph_.tensor(id).name + ".one");
      build_.graph().tensor(results.back()).name = graph_.tensor(id).name;
    }
    return drop_unread(build_.finish(results));
  }

 private:
  void source(TensorId id) {
    const Tensor& t = graph_.tensor(id);
    TensorId& made = now_[id.index()];
    if (made.valid() || t.producer.valid()) return;
    const auto& place = placement_.places[id.index()];
    if (t.role == Role::kInput) {
      made =
          build_.input(t.name, with_samples(t.shape, place, to_), t.dtype, place ? static_cast<int>(place->axis) : -1);
      return;
    }
    made = build_.parameter(t.name, t.shape, t.initial_bound, t.initial_fill, t.dtype);
    build_.graph().tensor(made).role = t.role;
    build_.graph().tensor(made).values = t.values;
  }

  void rename(TensorId id, const std::string& name) {
    Tensor& t = build_.graph().tensor(id);
    if (t.name != name && !build_.has_tensor(name)) t.name = name;
  }

  // Marks what follows as the op is marked.
  void mark(const Op& op) {
    build_.set_phase(op.phase);
    build_.set_source(op.source);
    build_.set_cell(op.time_step, op.cell);
  }

  void write_op(const Op& op) {
    for (TensorId id : op.operands) source(id);
    const auto& way = placement_.lifted[static_cast<std::size_t>(&op - graph_.ops.data())];
    const std::vector<TensorId> results = way ? write_lifted(op, *way, op.name) : write_same(op);
    for (std::size_t r = 0; r < results.size(); ++r) {
      const Tensor& t = graph_.tensor(op.results[r]);
      now_[op.results[r].index()] = results[r];
      rename(results[r], t.name);
      const Shape expected = with_samples(t.shape, placement_.places[op.results[r].index()], to_);
      ensure(build_.shape(results[r]) == expected, "'{}' for {} samples is [{}], not [{}]", op.name, to_,
             fmt::join(build_.shape(results[r]), "x"), fmt::join(expected, "x"));
    }
  }

  std::vector<TensorId> write_same(const Op& op) {
    std::vector<TensorId> operands;
    for (TensorId id : op.operands) operands.push_back(now_[id.index()]);
    mark(op);
    if (!op.formula.empty()) return build_.formula(op.definition, op.formula, operands, op.name, op.attributes);
    return build_.ops(op.definition, operands, op.attributes, op.name);
  }

  std::vector<TensorId> write_lifted(const Op& op, const Lifted& way, const std::string& name) {
    mark(op);
    std::vector<TensorId> operands;
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      const TensorId id = op.operands[k];
      source(id);
      const bool copied = way.operands[k] && !placement_.places[id.index()] && way.form != Lifted::Form::kGather;
      operands.push_back(copied ? copy(id, *way.operands[k]) : now_[id.index()]);
    }
    mark(op);
    if (way.form == Lifted::Form::kReshape) {
      const Shape shape = with_samples(graph_.tensor(op.results[0]).shape, way.results[0], to_);
      return build_.ops("reshape", operands, shape_attributes(shape), name);
    }
    if (way.form == Lifted::Form::kGather) operands[1] = own_ids(op, way, operands[1]);
    tdl::Attributes attributes = op.attributes;
    if (!way.list.empty())
      attributes[fmt::format("{}.{}", way.list, way.entry)] = static_cast<double>(samples_of(way).extent(to_));
    return build_.ops(op.definition, operands, std::move(attributes), name);
  }

  static SamplePlace samples_of(const Lifted& way) {
    for (const auto& place : way.results)
      if (place) return *place;
    return {};
  }

  // The same values for each sample, at a place of a tensor that has none.
  TensorId copy(TensorId id, const SamplePlace& place) {
    const auto [known, fresh] = copies_.emplace(std::pair(id, place), TensorId());
    if (!fresh) return known->second;
    const Tensor& t = graph_.tensor(id);
    const std::string name = fmt::format("{}.each", t.name);
    TensorId made;
    if (from_ != 1 && t.role != Role::kConstant)
      made = write_lifted(graph_.op(t.producer), *placement_.copied(id, place), name).front();
    else
      made = expanded(
          from_ == 1 ? now_[id.index()] : build_.constant(free_name(t.name + ".one"), one_sample(*t.values, place)),
          t.shape, place, name);
    return copies_[{id, place}] = made;
  }

  std::string free_name(std::string name) const {
    while (build_.has_tensor(name)) name += "_";
    return name;
  }

  TensorId reshaped(TensorId id, const Shape& shape, const std::string& name) {
    return build_.shape(id) == shape ? id : build_.op("reshape", {id}, shape_attributes(shape), name);
  }

  // One sample's values for all samples; `shape` is that of the tensor with `from` of them.
  TensorId expanded(TensorId one, const Shape& shape, const SamplePlace& place, const std::string& name) {
    Shape apart(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(place.axis));
    if (place.outer != 1) apart.push_back(place.outer);
    const std::size_t axis = apart.size();
    apart.push_back(1);
    if (place.inner != 1) apart.push_back(place.inner);
    apart.insert(apart.end(), shape.begin() + static_cast<std::ptrdiff_t>(place.axis) + 1, shape.end());
    Shape wide = apart;
    wide[axis] = to_;
    const TensorId all = build_.op("expand", {reshaped(one, apart, name + ".apart")}, shape_attributes(wide), name);
    return reshaped(all, with_samples(shape, place, to_), name + ".joined");
  }

  Values one_sample(const Values& values, const SamplePlace& place) const {
    const Digits d(values.shape, place);
    Values one{.dtype = values.dtype, .shape = with_samples(values.shape, place, 1)};
    for (int64_t i = 0; i < volume(values.shape); ++i) {
      if (i / d.inner % from_ != 0) continue;
      if (is_float(values.dtype)) one.real.push_back(values.real[static_cast<std::size_t>(i)]);
      else one.integer.push_back(values.integer[static_cast<std::size_t>(i)]);
    }
    return one;
  }

  // ids that count from each sample's own first place, along the axis of all samples.
  TensorId own_ids(const Op& op, const Lifted& way, TensorId ids) {
    const Tensor& t = graph_.tensor(op.operands[1]);
    const SamplePlace place = *way.operands[1];
    const int64_t each = way.operands[0]->inner;
    const std::string name = op.name + ".ids";
    if (!placement_.places[op.operands[1].index()])
      ids = expanded(from_ == 1 ? ids : build_.constant(free_name(name + ".one"), one_sample(*t.values, place)),
                     t.shape, place, name);
    const Shape shape = build_.shape(ids);
    Values first{.dtype = DType::kInt64, .shape = Shape(shape.size() - place.axis, 1)};
    first.shape[0] = place.extent(to_);
    for (int64_t i = 0; i < place.extent(to_); ++i) first.integer.push_back(i / place.inner % to_ * each);
    return build_.op("add", {ids, build_.constant(free_name(name + ".first"), std::move(first))}, {}, name);
  }

  const Graph& graph_;
  const Placement& placement_;
  const int64_t from_, to_;
  GraphBuilder build_;
  std::vector<TensorId> now_;
  std::map<std::pair<TensorId, SamplePlace>, TensorId> copies_;
};

}  // namespace

Rebatched rebatched(const Graph& forward, const std::map<TensorId, std::size_t>& inputs, int64_t from, int64_t to) {
  Rebatched result;
  std::size_t furthest = 0;
  for (const auto& [strict, alike] : {std::pair{true, true}, {true, false}, {false, true}, {false, false}}) {
    Placement placement(forward, inputs, from);
    if (!placement.find(strict, alike)) {
      if (!result.why.empty() && placement.furthest <= furthest) continue;
      furthest = placement.furthest;
      result.refused_by = placement.refused_by;
      result.why = placement.why;
      continue;
    }
    std::vector<std::optional<SamplePlace>> outputs;
    for (TensorId id : forward.outputs) outputs.push_back(placement.output_place(id, strict));
    result.graph = Writer(forward, placement, from, to).write(outputs);
    break;
  }
  return result;
}

}  // namespace partita
