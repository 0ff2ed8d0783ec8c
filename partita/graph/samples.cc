// Derives from an op's formula how it takes another number of samples.
#include "partita/graph/samples.h"

#include <algorithm>
#include <set>

#include "partita/base/error.h"
#include "partita/graph/builder.h"
#include "partita/tdl/affine.h"

namespace partita {
namespace {

// A number of samples that is no other extent of the op, nor a multiple of one, so that nothing fits by chance.
int64_t probe_above(int64_t largest) {
  for (int64_t candidate = std::max<int64_t>(largest, 2) + 1;; ++candidate) {
    bool prime = true;
    for (int64_t d = 2; d * d <= candidate && prime; ++d) prime = candidate % d != 0;
    if (prime) return candidate;
  }
}

int64_t probe_for(const Graph& graph, const Op& op) {
  int64_t largest = 1;
  for (const auto& tensors : {op.operands, op.results})
    for (TensorId id : tensors)
      for (int64_t extent : graph.tensor(id).shape) largest = std::max(largest, extent);
  return probe_above(largest);
}

// Tells whether the value of an index counts, other than as the place of a random number.
bool counts_value(const tdl::Expr& e, int index) {
  if (e.kind == tdl::ExprKind::kRng) return false;
  if (e.kind == tdl::ExprKind::kIndex && e.index == index) return true;
  if (e.kind == tdl::ExprKind::kOpaque)
    for (const tdl::Affine& form : e.subscripts)
      if (tdl::uses_index(form, index)) return true;
  return std::any_of(e.args.begin(), e.args.end(), [&](const tdl::Expr& arg) { return counts_value(arg, index); });
}

// One formula, through which samples are followed stage by stage.
struct Follow {
  const tdl::Bound& bound;
  SamplePlaces places;  // of the formula's tensors
  std::string why;

  bool refuse(std::string reason) {
    if (why.empty()) why = std::move(reason);
    return false;
  }

  // Finds the index along the samples of all that the stage reads; -1 if it reads no samples.
  bool find_index(const tdl::Stage& stage, int& index, std::optional<SamplePlace>& place) {
    bool good = true;
    tdl::for_each_read(stage.body, [&](const tdl::Expr& read) {
      const auto& from = places[static_cast<std::size_t>(read.tensor)];
      if (!from || !good) return;
      const auto digit = only_digit(bound.tensors[static_cast<std::size_t>(read.tensor)], from->axis);
      const int at = digit ? read.subscripts[*digit].plain_index() : -1;
      const bool whole = digit && *digit < read.whole.size() && read.whole[*digit];
      if (whole || at < 0) good = refuse("reads across the samples");
      else if (index >= 0 && at != index) good = refuse("brings one sample together with another");
      else if (place && (place->outer != from->outer || place->inner != from->inner))
        good = refuse("reads the samples of two operands in different orders");
      else index = at, place = from;
    });
    return good;
  }

  // Checks that only the samples' own axes are read at their index.
  bool check_reads(const tdl::Stage& stage, int index) {
    bool good = true;
    tdl::for_each_read(stage.body, [&](const tdl::Expr& read) {
      const auto& from = places[static_cast<std::size_t>(read.tensor)];
      const auto own =
          from ? only_digit(bound.tensors[static_cast<std::size_t>(read.tensor)], from->axis) : std::nullopt;
      for (std::size_t a = 0; a < read.subscripts.size() && good; ++a)
        if (tdl::uses_index(read.subscripts[a], index) && own != a)
          good = refuse("reads what has no samples at the number of a sample");
    });
    return good && (!counts_value(stage.body, index) || refuse("uses the number of a sample"));
  }

  // Finds where the stage's tensor has the samples, if it has any. `fresh`: the axis along which it has them though it
  // reads none.
  bool stage(const tdl::Stage& stage, const std::optional<SamplePlace>& fresh) {
    int index = -1;
    std::optional<SamplePlace> place;
    if (!find_index(stage, index, place)) return false;
    const tdl::BoundTensor& tensor = bound.tensors[static_cast<std::size_t>(stage.tensor)];
    const auto first = fresh ? only_digit(tensor, fresh->axis) : std::nullopt;
    if (index < 0 && first) place = fresh, index = stage.lhs[*first].plain_index();
    if (index < 0) return !fresh || refuse("has no axis for the samples");
    if (!check_reads(stage, index)) return false;
    std::optional<std::size_t> axis;
    for (std::size_t a = 0, digit = 0; a < tensor.radices.size(); ++a)
      for (std::size_t d = 0; d < tensor.radices[a].size(); ++d, ++digit) {
        if (!tdl::uses_index(stage.lhs[digit], index)) continue;
        if (axis || tensor.radices[a].size() != 1 || stage.lhs[digit].plain_index() != index)
          return refuse("has the samples along no one axis of its result");
        axis = a;
      }
    if (!axis) return refuse("reduces over the samples");
    if (!bound.indices[static_cast<std::size_t>(index)].splittable) return refuse("takes all samples at once");
    places[static_cast<std::size_t>(stage.tensor)] = SamplePlace{*axis, place->outer, place->inner};
    return true;
  }
};

// Finds where a formula's results have their samples; none, and why, if they are mixed.
std::optional<SamplePlaces> follow(const tdl::Bound& bound, const SamplePlaces& operands,
                                   const std::optional<SamplePlace>& fresh, std::string& why) {
  Follow f{bound, SamplePlaces(bound.tensors.size()), {}};
  std::copy(operands.begin(), operands.end(), f.places.begin());
  bool good = true;
  for (const tdl::Stage& stage : bound.stages)
    good = good && f.stage(stage, fresh && stage.tensor == bound.results.at(0) ? fresh : std::nullopt);
  if (!good) {
    why = f.why;
    return std::nullopt;
  }
  SamplePlaces results;
  for (int r : bound.results) results.push_back(f.places[static_cast<std::size_t>(r)]);
  return results;
}

// Tells whether the results of a formula for `probe` samples are those for `samples`, but for the samples.
bool same_but_samples(const Graph& graph, const Op& op, const std::vector<Shape>& shapes, const SamplePlaces& places,
                      int64_t samples, int64_t probe) {
  for (std::size_t r = 0; r < op.results.size(); ++r) {
    const Shape& own = graph.tensor(op.results[r]).shape;
    if (places[r] && (places[r]->axis >= own.size() || own[places[r]->axis] != places[r]->extent(samples)))
      return false;
    if (shapes[r] != with_samples(own, places[r], probe)) return false;
  }
  return true;
}

bool same_arithmetic(const tdl::Expr& a, const tdl::Expr& b) {
  if (a.kind != b.kind || a.number != b.number || a.function != b.function || a.reducer != b.reducer ||
      a.args.size() != b.args.size())
    return false;
  for (std::size_t i = 0; i < a.args.size(); ++i)
    if (!same_arithmetic(a.args[i], b.args[i])) return false;
  return true;
}

// Tells whether two formulas of one definition do the same arithmetic: no number in them is the extent of an axis of
// samples.
bool same_arithmetic(const tdl::Bound& a, const tdl::Bound& b) {
  if (a.stages.size() != b.stages.size()) return false;
  for (std::size_t s = 0; s < a.stages.size(); ++s)
    if (!same_arithmetic(a.stages[s].body, b.stages[s].body)) return false;
  return true;
}

// Lifts the op's evaluation form, which keeps samples apart though the training form, by design, does not: batch norm.
std::optional<Lifted> lift_evaluation(const Graph& graph, const Op& op, const SamplePlaces& operands, int64_t probe,
                                      std::string& why) {
  GraphBuilder build("evaluation", graph.registry);
  std::vector<TensorId> given;
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    const Tensor& t = graph.tensor(op.operands[k]);
    given.push_back(build.input(t.name, with_samples(t.shape, operands[k], probe), t.dtype));
  }
  const std::vector<TensorId> results = graph.registry->get(op.definition).evaluation(build, graph, op, given);
  SamplePlaces places(build.graph().tensors.size());
  for (std::size_t k = 0; k < given.size(); ++k) places[given[k].index()] = operands[k];
  for (const Op& step : build.graph().ops) {
    SamplePlaces of_step;
    for (TensorId id : step.operands) of_step.push_back(places[id.index()]);
    const auto found = follow(*step.bound, of_step, std::nullopt, why);
    if (!found) return std::nullopt;
    for (std::size_t r = 0; r < step.results.size(); ++r) places[step.results[r].index()] = (*found)[r];
  }
  Lifted lifted{.operands = operands};
  for (TensorId id : results) lifted.results.push_back(id.valid() ? places[id.index()] : std::nullopt);
  return lifted;
}

// The attributes as they are, or with one entry of a list changed that may be the extent of an axis of samples.
struct Variant {
  std::string list;
  std::size_t entry = 0;
  tdl::Attributes attributes;
};

std::vector<Variant> variants(const Graph& graph, const Op& op, const SamplePlaces& operands,
                              const std::optional<SamplePlace>& fresh, int64_t samples, int64_t probe) {
  std::vector<Variant> all{{"", 0, op.attributes}};
  std::set<std::pair<int64_t, int64_t>> extents;  // of axes of samples: now, and then
  for (const auto& place : operands)
    if (place) extents.emplace(place->extent(samples), place->extent(probe));
  if (fresh) extents.emplace(fresh->extent(samples), fresh->extent(probe));
  for (const std::string& list : graph.registry->get(op.definition).lists)
    for (std::size_t a = 0; a < graph.tensor(op.results[0]).shape.size(); ++a) {
      const auto found = op.attributes.find(fmt::format("{}.{}", list, a));
      if (found == op.attributes.end()) break;
      for (const auto& [now, then] : extents) {
        if (found->second != static_cast<double>(now)) continue;
        all.push_back({list, a, op.attributes});
        all.back().attributes[found->first] = static_cast<double>(then);
      }
    }
  return all;
}

}  // namespace

std::optional<std::size_t> only_digit(const tdl::BoundTensor& tensor, std::size_t axis) {
  if (tensor.radices.at(axis).size() != 1) return std::nullopt;
  std::size_t digit = 0;
  for (std::size_t a = 0; a < axis; ++a) digit += tensor.radices[a].size();
  return digit;
}

Shape with_samples(Shape shape, const std::optional<SamplePlace>& place, int64_t samples) {
  if (place) shape.at(place->axis) = place->extent(samples);
  return shape;
}

std::vector<SamplePlace> reshaped_places(const Shape& from, const SamplePlace& place, const Shape& to,
                                         int64_t samples) {
  int64_t step = place.inner;  // elements from one sample to the next
  for (std::size_t a = place.axis + 1; a < from.size(); ++a) step *= from[a];
  std::vector<std::pair<int, SamplePlace>> found;  // by preference
  int64_t below = 1;
  if (volume(from) == 0) return {};
  for (std::size_t a = to.size(); a-- > 0; below *= to[a]) {
    const int64_t all = below * to[a];
    if (step % below != 0 || step > all || all % (step * samples) != 0) continue;
    const SamplePlace here{a, all / (step * samples), step / below};
    // Prefers an axis of its own, then batch x heads and rows x batch. Samples are among the values of a row only if
    // nothing else is left.
    const bool own = here.outer == 1 && here.inner == 1, last = a + 1 == to.size();
    const int rank = own ? (a == place.axis ? 0 : 1) : here.outer == 1 && !last ? 2 : here.inner == 1 && !last ? 3 : 4;
    found.emplace_back(rank, here);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<SamplePlace> places;
  for (const auto& entry : found) places.push_back(entry.second);
  return places;
}

std::optional<Lifted> lift_itself(const Graph& graph, const Op& op, const SamplePlaces& operands, int64_t samples,
                                  const std::optional<SamplePlace>& fresh, std::string& why) {
  if (!op.formula.empty() || !op.factors.empty()) {
    why = "has a formula of its own";
    return std::nullopt;
  }
  const OpDefinition& definition = graph.registry->get(op.definition);
  const int64_t probe = probe_for(graph, op);
  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    const Tensor& t = graph.tensor(op.operands[k]);
    shapes.push_back(with_samples(t.shape, operands[k], probe));
    dtypes.push_back(t.dtype);
  }
  std::string unbound;
  for (Variant& v : variants(graph, op, operands, fresh, samples, probe)) {
    try {
      const auto bound = bind_instance(definition, v.attributes, shapes, dtypes);
      std::vector<Shape> made;
      for (int r : bound->results) made.push_back(bound->tensors[static_cast<std::size_t>(r)].shape);
      const auto results = follow(*bound, operands, fresh, why);
      const bool own_entry = results && (v.list.empty() || ((*results)[0] && (*results)[0]->axis == v.entry));
      const bool same = own_entry && same_but_samples(graph, op, made, *results, samples, probe);
      if (same && same_arithmetic(*op.bound, *bound))
        return Lifted{.operands = operands, .list = v.list, .entry = v.entry, .results = *results};
      if (results && why.empty())
        why = same ? "computes with the size of the batch"
                   : "broadcasts the samples, or has another shape for another batch";
    } catch (const Error& error) {
      if (error.code() != ExitCode::kBadInput) throw;
      unbound = "needs operands of the same number of samples";
    }
  }
  if (definition.evaluation) {
    std::string in_evaluation;
    if (auto lifted = lift_evaluation(graph, op, operands, probe, in_evaluation)) return lifted;
  }
  if (why.empty()) why = unbound;
  return std::nullopt;
}

SamplePlaces needed_copies(const Graph& graph, const Op& op, const SamplePlaces& operands, int64_t samples) {
  std::map<int, SamplePlace> indices;  // along the samples
  const tdl::Bound& bound = *op.bound;
  const auto each_read = [&](auto&& f) {
    for (const tdl::Stage& stage : bound.stages)
      tdl::for_each_read(stage.body, [&](const tdl::Expr& read) {
        if (read.tensor < static_cast<int>(operands.size())) f(static_cast<std::size_t>(read.tensor), read);
      });
  };
  each_read([&](std::size_t k, const tdl::Expr& read) {
    if (!operands[k]) return;
    const auto digit = only_digit(bound.tensors[k], operands[k]->axis);
    if (const int index = digit ? read.subscripts[*digit].plain_index() : -1; index >= 0)
      indices.emplace(index, *operands[k]);
  });
  SamplePlaces copies(operands.size());
  each_read([&](std::size_t k, const tdl::Expr& read) {
    if (operands[k]) return;
    for (std::size_t a = 0; a < bound.tensors[k].radices.size(); ++a) {
      const auto digit = only_digit(bound.tensors[k], a);
      const auto found = digit ? indices.find(read.subscripts[*digit].plain_index()) : indices.end();
      if (found == indices.end() || graph.tensor(op.operands[k]).shape[a] != found->second.extent(samples)) continue;
      copies[k] = SamplePlace{a, found->second.outer, found->second.inner};
    }
  });
  return copies;
}

}  // namespace partita
