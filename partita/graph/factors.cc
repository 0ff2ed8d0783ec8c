// Carries the factoring of an axis from op to op along it.
#include "partita/graph/factors.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/graph/infer.h"
#include "partita/graph/micro_batches.h"

namespace partita {
namespace {

// How the axes of an op's tensors, as stored, are accessed.
struct Accesses {
  // [tensor of the formula][stored axis]: the indices of its plain accesses; empty if some access is not plain.
  std::vector<std::vector<std::set<int>>> plain;
  std::vector<bool> only_plain;  // per index: all its uses are plain accesses of axes that are not factored
};

// Random numbers are drawn at global positions, whatever indices these are made of.
void mark_values(const tdl::Expr& e, std::vector<bool>& only_plain) {
  if (e.kind == tdl::ExprKind::kRng) return;
  if (e.kind == tdl::ExprKind::kIndex) only_plain[e.index] = false;
  for (const tdl::Expr& arg : e.args) mark_values(arg, only_plain);
}

void mark_indices(const tdl::Affine& form, std::vector<bool>& only_plain) {
  for (const auto& term : form.terms) {
    if (term.atom.kind == tdl::Affine::Atom::Kind::kIndex) only_plain[term.atom.index] = false;
    else mark_indices(*term.atom.inner, only_plain);
  }
}

Accesses accesses_of(const tdl::Bound& bound) {
  Accesses all;
  std::vector<std::vector<bool>> broken;
  for (const tdl::BoundTensor& t : bound.tensors) {
    all.plain.emplace_back(t.radices.size());
    broken.emplace_back(t.radices.size(), false);
  }
  for (const tdl::Index& index : bound.indices) all.only_plain.push_back(index.splittable);
  auto access = [&](int tensor, const std::vector<tdl::Affine>& subscripts, const std::vector<bool>& whole) {
    std::size_t digit = 0;
    for (std::size_t a = 0; a < bound.tensors[tensor].radices.size(); ++a) {
      const std::size_t digits = bound.tensors[tensor].radices[a].size();
      for (std::size_t d = 0; d < digits; ++d, ++digit) {
        const tdl::Affine& form = subscripts.at(digit);
        const int index = form.plain_index();
        if (index < 0 || digits > 1) mark_indices(form, all.only_plain);
        if (digits == 1 && index >= 0 && bound.indices[index].extent == bound.tensors[tensor].shape[a] &&
            (whole.empty() || !whole[digit]))
          all.plain[tensor][a].insert(index);
        else broken[tensor][a] = true;
      }
    }
  };
  for (const tdl::Stage& stage : bound.stages) {
    access(stage.tensor, stage.lhs, {});
    tdl::for_each_read(stage.body, [&](const tdl::Expr& read) { access(read.tensor, read.subscripts, read.whole); });
    mark_values(stage.body, all.only_plain);
  }
  for (std::size_t t = 0; t < all.plain.size(); ++t)
    for (std::size_t a = 0; a < all.plain[t].size(); ++a)
      if (broken[t][a]) all.plain[t][a].clear();
  return all;
}

Shape without_ones(Shape radices) {
  std::erase(radices, 1);
  return radices;
}

bool may_factor(const Graph& graph, const Op& op, const MayFactor& may) {
  const OpDefinition* definition = graph.registry->find(op.definition);
  return !(definition && definition->flops) && may(op);
}

// The index at which every access reads a digit of a tensor's axes; -1 if some access is not plain, or they differ.
int only_index(const tdl::Bound& bound, int tensor, std::size_t digit) {
  std::set<int> indices;
  for (const tdl::Stage& stage : bound.stages) {
    if (stage.tensor == tensor) indices.insert(stage.lhs[digit].plain_index());
    tdl::for_each_read(stage.body, [&](const tdl::Expr& read) {
      if (read.tensor == tensor) indices.insert(read.subscripts[digit].plain_index());
    });
  }
  return indices.size() == 1 ? *indices.begin() : -1;
}

struct Axis {  // of a tensor, as stored
  TensorId tensor;
  std::size_t axis;
  auto operator<=>(const Axis&) const = default;
};

// Axes that share one factoring.
struct Component {
  std::set<std::pair<OpId, int>> indices;
  std::vector<OpId> parted;  // splits and concats of equal parts that cut them one by one
  std::vector<Shape> asked;  // the factorings that ops have of it, and want
  Shape radices;
  bool closed = true;  // every op along the axes has the factoring, or can take it
};

class Carrier {
 public:
  Carrier(Graph graph, const MayFactor& may)
      : graph_(std::move(graph)), may_(may), readers_(readers_by_tensor(graph_)) {
    replaced_by_.resize(graph_.tensors.size());
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t)
      if (graph_.tensors[t].replaces.valid()) replaced_by_[graph_.tensors[t].replaces.index()] = TensorId(t);
  }

  // Marks every joined axis of equal parts.
  Graph mark_parts() {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i)
      if (const auto joined = parted_axis(OpId(i)); joined && !seen_.contains(*joined)) {
        const Component found = explore(*joined);
        if (!found.closed) continue;
        for (OpId op : found.parted) graph_.op(op).attributes["together"] = 1, changed_.insert(op);
      }
    return finish();
  }

  // Carries every axis that some op cuts in equal parts, or has in few parts.
  Graph carry() {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      const std::shared_ptr<const tdl::Bound> bound = op.bound;
      const auto together = op.attributes.find("together");
      const bool parts = together != op.attributes.end() && together->second != 0;
      for_each_tensor(OpId(i), [&](TensorId tensor, int position) {
        for (std::size_t a = 0; a < bound->tensors[position].radices.size(); ++a) {
          const Shape radices = without_ones(bound->tensors[position].radices[a]);
          if (radices.size() < 2 || (!parts && radices[0] > kFewParts) || seen_.contains({tensor, a})) continue;
          const Component found = explore({tensor, a});
          if (!found.closed) continue;
          for (const auto& [along, index] : found.indices) {
            graph_.op(along).factors[graph_.op(along).bound->indices[index].name] = found.radices;
            changed_.insert(along);
          }
        }
      });
    }
    return finish();
  }

 private:
  template <typename F>
  void for_each_tensor(OpId id, F f) const {  // of a graph's op, with its position in the formula
    const Op& op = graph_.op(id);
    for (std::size_t k = 0; k < op.operands.size(); ++k) f(op.operands[k], static_cast<int>(k));
    for (std::size_t r = 0; r < op.results.size(); ++r) f(op.results[r], op.bound->results[r]);
  }

  const Accesses& accesses(const Op& op) {
    auto& known = accesses_[op.bound.get()];
    if (known.only_plain.empty() && known.plain.empty()) known = accesses_of(*op.bound);
    return known;
  }

  // The axis that a split takes apart, or a concat puts together, in equal parts cut one by one.
  std::optional<Axis> parted_axis(OpId id) const {
    const Op& op = graph_.op(id);
    const bool split = op.definition == "split";
    if ((!split && op.definition != "concat") || !op.formula.empty() || op.attributes.at("together") != 0)
      return std::nullopt;
    const std::vector<TensorId>& parts = split ? op.results : op.operands;
    const TensorId joined = split ? op.operands[0] : op.results[0];
    const int64_t rank = static_cast<int64_t>(graph_.tensor(joined).shape.size());
    const int64_t given = static_cast<int64_t>(op.attributes.at("axis")), axis = given < 0 ? given + rank : given;
    const int64_t size = graph_.tensor(parts[0]).shape.at(axis);
    if (parts.size() < 2 || size < 2) return std::nullopt;
    for (TensorId part : parts)
      if (graph_.tensor(part).shape[axis] != size) return std::nullopt;
    return Axis{joined, static_cast<std::size_t>(axis)};
  }

  // Follows an axis through all ops along it.
  Component explore(const Axis& from) {
    Component found;
    std::deque<Axis> next;
    auto reach = [&](Axis axis) {
      if (seen_.insert(axis).second) next.push_back(axis);
    };
    reach(from);
    while (!next.empty()) {
      const Axis at = next.front();
      next.pop_front();
      const Tensor& tensor = graph_.tensor(at.tensor);
      if (tensor.replaces.valid()) reach({tensor.replaces, at.axis});
      if (const TensorId by = replaced_by_[at.tensor.index()]; by.valid()) reach({by, at.axis});
      if (tensor.producer.valid()) {
        const Op& op = graph_.op(tensor.producer);
        for (std::size_t r = 0; r < op.results.size(); ++r)
          if (op.results[r] == at.tensor) follow(tensor.producer, op.bound->results[r], at, found, reach);
      }
      for (const Reader& reader : readers_[at.tensor.index()]) follow(reader.op, reader.operand, at, found, reach);
    }
    settle(found);
    return found;
  }

  template <typename Reach>
  void follow(OpId id, int position, const Axis& at, Component& found, Reach reach) {
    const Op& op = graph_.op(id);
    const Shape& radices = op.bound->tensors[position].radices[at.axis];
    if (radices.size() > 1) {
      found.asked.push_back(radices);
      return;
    }
    if (const auto joined = parted_axis(id); joined && *joined == at && is_joined(op, position)) {
      found.parted.push_back(id);
      const int64_t parts = static_cast<int64_t>((op.definition == "split" ? op.results : op.operands).size());
      found.asked.push_back({parts, graph_.tensor(at.tensor).shape[at.axis] / parts});
      return;
    }
    const Accesses& known = accesses(op);
    const std::set<int>& indices = known.plain[position][at.axis];
    found.closed &= !indices.empty();
    for (int index : indices) {
      if (!known.only_plain[index] || !may_factor(graph_, op, may_)) {
        found.closed = false;
        continue;
      }
      found.indices.emplace(id, index);
      for_each_tensor(id, [&](TensorId tensor, int p) {
        for (std::size_t a = 0; a < known.plain[p].size(); ++a)
          if (known.plain[p][a].contains(index)) reach({tensor, a});
      });
    }
  }

  static bool is_joined(const Op& op, int position) {
    return op.definition == "split" ? position == 0 : position == op.bound->results[0];
  }

  static void settle(Component& found) {
    std::optional<Shape> radices = Shape{volume(found.asked.at(0))};
    for (const Shape& asked : found.asked)
      if (radices) radices = common_factoring(*radices, asked);
    if (radices) found.radices = without_ones(*radices);
    // An op with a coarser factoring would cut across the finer radices.
    for (const Shape& asked : found.asked) found.closed &= radices && without_ones(asked) == found.radices;
  }

  Graph finish() {
    std::map<std::pair<const tdl::Bound*, std::map<std::string, Shape>>, std::shared_ptr<const tdl::Bound>> known;
    for (OpId id : changed_) {
      Op& op = graph_.op(id);
      auto& bound = known[{op.bound.get(), op.factors}];
      if (!bound) bound = bind_op(graph_, op);
      op.bound = bound;
    }
    return std::move(graph_);
  }

  Graph graph_;
  const MayFactor& may_;
  std::vector<std::vector<Reader>> readers_;
  std::vector<TensorId> replaced_by_;
  std::map<const tdl::Bound*, Accesses> accesses_;
  std::set<Axis> seen_;
  std::set<OpId> changed_;
};

// Makes samples that come in micro-batches a digit of their own: 20 = sequence of 5 x 4 samples becomes 5 and 4.
void expose_samples(const Graph& graph, TensorId id, std::vector<Shape>& radices) {
  const Tensor& t = graph.tensor(id);
  if (t.scope != MicroBatchScope::kMicroBatch) return;
  const MicroBatchAxis place = micro_batch_axis_of(graph, id);
  const std::size_t axis = static_cast<std::size_t>(place.axis);
  if (!factored_axis(place, radices)) radices[axis] = {place.outer, t.shape[axis] / place.outer};
}

}  // namespace

std::optional<Factoring> factoring_at(const Graph& graph, const Op& op, int tensor, std::size_t axis, int64_t outer,
                                      const MayFactor& may) {
  if (!may || !may_factor(graph, op, may)) return std::nullopt;
  const std::vector<Shape>& radices = op.bound->tensors[static_cast<std::size_t>(tensor)].radices;
  std::size_t digit = 0;
  for (std::size_t a = 0; a < axis; ++a) digit += radices[a].size();
  int64_t before = 1;
  for (const int64_t radix : radices[axis]) {
    if (before == outer) return std::nullopt;
    if (before * radix <= outer) {
      before *= radix, ++digit;
      continue;
    }
    const int64_t apart = outer / before;
    const int index = only_index(*op.bound, tensor, digit);
    if (outer % before || radix % apart || index < 0) return std::nullopt;
    const tdl::Index& along = op.bound->indices[static_cast<std::size_t>(index)];
    if (along.extent != radix || !along.splittable) return std::nullopt;
    return Factoring{along.name, {apart, radix / apart}};
  }
  return std::nullopt;
}

std::vector<std::vector<Shape>> factored_radices(const Graph& graph) {
  struct Common {
    std::optional<Shape> radices;  // empty: ops differ
    bool carried = false;
  };
  std::vector<std::vector<Common>> common;
  for (const Tensor& t : graph.tensors) common.emplace_back(t.shape.size());
  auto ask = [&](const Op& op, TensorId id, const std::vector<Shape>& radices) {
    const TensorId w = graph.tensor(id).replaces;
    auto& known = common[(w.valid() ? w : id).index()];
    for (std::size_t a = 0; a < radices.size(); ++a) {
      const Shape asked = without_ones(radices[a]);
      if (!known[a].radices) known[a].radices = asked;
      if (*known[a].radices != asked) known[a].radices = Shape{};
      for (const auto& [index, factors] : op.factors) known[a].carried |= factors == asked;
    }
  };
  for (const Op& op : graph.ops) {
    for (std::size_t k = 0; k < op.operands.size(); ++k) ask(op, op.operands[k], op.bound->tensors[k].radices);
    for (std::size_t r = 0; r < op.results.size(); ++r)
      ask(op, op.results[r], op.bound->tensors[op.bound->results[r]].radices);
  }
  std::vector<std::vector<Shape>> radices;
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const TensorId w = graph.tensors[t].replaces;
    const auto& known = common[w.valid() ? w.index() : t];
    radices.emplace_back();
    for (std::size_t a = 0; a < known.size(); ++a) {
      const bool parts = known[a].carried && known[a].radices->size() > 1;
      radices.back().push_back(parts ? *known[a].radices : Shape{graph.tensors[t].shape[a]});
    }
    expose_samples(graph, TensorId(t), radices.back());
  }
  return radices;
}

Graph cut_parts_alike(Graph graph, const MayFactor& may) { return Carrier(std::move(graph), may).mark_parts(); }

Graph carry_factors(Graph graph, const MayFactor& may) { return Carrier(std::move(graph), may).carry(); }

}  // namespace partita
