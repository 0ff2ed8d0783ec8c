// Makes the graph for another number of samples: finds where every tensor has its samples, then writes the graph.
#include "partita/graph/rebatch.h"

#include <algorithm>
#include <map>

#include "partita/base/error.h"
#include "partita/graph/attributes.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/builder.h"
#include "partita/graph/sample_placement.h"

namespace partita {
namespace {

// Writes the graph for `to` samples, op by op.
class Writer {
 public:
  Writer(const Graph& graph, const SamplePlacement& placement, int64_t from, int64_t to)
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
      made = build_.input(t.name, with_samples(t.shape, place, to_), t.dtype,
                          place ? static_cast<int>(place->axis) : t.sample_axis);
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

  // Gives the ops that follow this op's marks.
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
      return build_.ops("reshape", operands, list_attributes("shape", shape), name);
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

  // Copies a tensor without samples: the same values for each sample, at a place.
  TensorId copy(TensorId id, const SamplePlace& place) {
    const auto [known, fresh] = copies_.emplace(std::pair(id, place), TensorId());
    if (!fresh) return known->second;
    const Tensor& t = graph_.tensor(id);
    const std::string name = fmt::format("{}.each", t.name);
    TensorId made;
    if (from_ != 1 && t.role != Role::kConstant) {
      const Op& op = graph_.op(t.producer);
      const std::vector<TensorId> results = write_lifted(op, *placement_.copied(id, place), name);
      made =
          results[static_cast<std::size_t>(std::find(op.results.begin(), op.results.end(), id) - op.results.begin())];
    } else {
      made = expanded(
          from_ == 1 ? now_[id.index()] : build_.constant(free_name(t.name + ".one"), one_sample(*t.values, place)),
          t.shape, place, name);
    }
    return copies_[{id, place}] = made;
  }

  std::string free_name(std::string name) const {
    while (build_.has_tensor(name)) name += "_";
    return name;
  }

  TensorId reshaped(TensorId id, const Shape& shape, const std::string& name) {
    return build_.shape(id) == shape ? id : build_.op("reshape", {id}, list_attributes("shape", shape), name);
  }

  // Expands one sample's values to all samples; `shape` is that of the tensor with `from` of them.
  TensorId expanded(TensorId one, const Shape& shape, const SamplePlace& place, const std::string& name) {
    Shape apart(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(place.axis));
    if (place.outer != 1) apart.push_back(place.outer);
    const std::size_t axis = apart.size();
    apart.push_back(1);
    if (place.inner != 1) apart.push_back(place.inner);
    apart.insert(apart.end(), shape.begin() + static_cast<std::ptrdiff_t>(place.axis) + 1, shape.end());
    Shape wide = apart;
    wide[axis] = to_;
    const TensorId all =
        build_.op("expand", {reshaped(one, apart, name + ".apart")}, list_attributes("shape", wide), name);
    return reshaped(all, with_samples(shape, place, to_), name + ".joined");
  }

  Values one_sample(const Values& values, const SamplePlace& place) const {
    const SampleDigits d(values.shape, place);
    Values one{.dtype = values.dtype, .shape = with_samples(values.shape, place, 1)};
    for (int64_t i = 0; i < volume(values.shape); ++i) {
      if (i / d.inner % from_ != 0) continue;
      if (is_float(values.dtype)) one.real.push_back(values.real[static_cast<std::size_t>(i)]);
      else one.integer.push_back(values.integer[static_cast<std::size_t>(i)]);
    }
    return one;
  }

  // Changes ids that count from each sample's own first place to ids along the axis of all samples.
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
  const SamplePlacement& placement_;
  const int64_t from_, to_;
  GraphBuilder build_;
  std::vector<TensorId> now_;
  std::map<std::pair<TensorId, SamplePlace>, TensorId> copies_;
};

}  // namespace

Rebatched rebatched(const Graph& forward, const std::map<TensorId, std::size_t>& inputs, int64_t from, int64_t to,
                    Unreached unreached) {
  Rebatched result;
  std::size_t furthest = 0;
  for (const auto& [strict, alike] : {std::pair{true, true}, {true, false}, {false, true}, {false, false}}) {
    SamplePlacement placement(forward, inputs, from);
    if (!placement.find(strict, alike, unreached)) {
      if (!result.why.empty() && placement.furthest <= furthest) continue;
      furthest = placement.furthest;
      result.refused_by = placement.refused_by;
      result.why = placement.why;
      continue;
    }
    std::vector<std::optional<SamplePlace>> outputs;
    for (TensorId id : forward.outputs) outputs.push_back(placement.output_place(id, strict, unreached));
    result.graph = Writer(forward, placement, from, to).write(outputs);
    break;
  }
  return result;
}

}  // namespace partita
