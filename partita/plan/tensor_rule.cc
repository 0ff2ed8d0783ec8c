// Finds the regions of a graph that close under a split of weight products.
#include "partita/plan/tensor_rule.h"

#include <algorithm>

#include "partita/plan/rule_planner.h"

namespace partita {

TensorRule::TensorRule(const Graph& graph, int degree)
    : graph_(graph),
      options_(graph, degree),
      weight_(weight_tensor_mask(graph)),
      read_by_(readers_by_tensor(graph)),
      chosen_(graph.ops.size()),
      split_(graph.tensors.size()) {
  if (degree == 1) return;
  trained_ = weight_;
  for (const Op& op : graph.ops)
    for (TensorId t : op.operands)
      if (op.phase == Phase::kForward && trained_[t.index()])
        for (TensorId r : op.results) trained_[r.index()] = true;
  for (size_t i = 0; i < graph.ops.size(); ++i) try_column(OpId(i));
  for (size_t i = 0; i < graph.ops.size(); ++i) try_embedding(OpId(i));
}

std::vector<AxisLayout> TensorRule::weight_parts() const {
  std::vector<AxisLayout> parts(graph_.tensors.size());
  for (size_t i = 0; i < graph_.ops.size(); ++i)
    for (size_t k = 0; chosen_[i] && k < graph_.ops[i].operands.size(); ++k)
      if (const TensorId t = graph_.ops[i].operands[k];
          graph_.tensor(t).role == Role::kParameter && chosen_[i]->operands[k].kind == AxisLayout::Kind::kSplit)
        parts[t.index()] = chosen_[i]->operands[k];
  return parts;
}

int64_t TensorRule::split_bytes() const {
  const std::vector<AxisLayout> parts = weight_parts();
  int64_t bytes = 0;
  for (size_t t = 0; t < parts.size(); ++t)
    if (parts[t].kind == AxisLayout::Kind::kSplit) bytes += graph_.tensors[t].bytes();
  return bytes;
}

std::optional<TensorRule::Uneven> TensorRule::uneven() const {
  const int64_t p = options_.degree();
  for (size_t i = 0; i < graph_.ops.size(); ++i) {
    const Op& op = graph_.ops[i];
    if (!chosen_[i] || chosen_[i]->inner) continue;
    if (std::ranges::any_of(op.operands, [&](TensorId t) { return weight_[t.index()]; })) continue;
    for (const std::string& name : chosen_[i]->strategy.names) {
      const int64_t extent = op.bound->indices[static_cast<size_t>(op.bound->find_index(name))].extent;
      if (10 * p * ((extent + p - 1) / p) > 11 * extent) return Uneven{op.name, name, extent};
    }
  }
  return std::nullopt;
}

// Takes the option and its consequences. False: it does not fit the options taken before; the caller undoes all.
bool TensorRule::take(OpId id, const AxisOption& option) {
  if (chosen_[id.index()]) return chosen_[id.index()] == &option;
  const Op& op = graph_.op(id);
  chosen_[id.index()] = &option;
  taken_.push_back(id);
  bool sums = false;  // over a weight's split index
  for (size_t k = 0; k < op.operands.size(); ++k) {
    const TensorId t = op.operands[k];
    const AxisLayout& part = option.operands[k];
    const bool weight = weight_[t.index()];
    if (part.kind == AxisLayout::Kind::kOther || (part.kind == AxisLayout::Kind::kPartial && !weight)) return false;
    if (part.kind == AxisLayout::Kind::kWhole && !weight && split_[t.index()]) return false;
    if (part.kind != AxisLayout::Kind::kSplit) continue;
    sums |= weight;
    if (weight) {
      take_weight(t, part);
    } else if (trained_[t.index()] && !split(t, part)) {
      return false;
    }
  }
  for (size_t r = 0; r < op.results.size(); ++r) {
    const AxisLayout& part = option.results[r];
    if (part.kind == AxisLayout::Kind::kOther) return false;
    if (part.kind == AxisLayout::Kind::kSplit && (option.inner || !split(op.results[r], part))) return false;
    if (part.kind == AxisLayout::Kind::kPartial && !sums) return false;
    ends_ |= part.kind == AxisLayout::Kind::kPartial || option.inner;
  }
  return true;
}

// A weight that another op makes (a cast, a transposition) is made split.
void TensorRule::take_weight(TensorId t, const AxisLayout& part) {
  const OpId producer = graph_.tensor(t).producer;
  if (!producer.valid() || chosen_[producer.index()]) return;
  const AxisOption* option = find(producer, graph_.op(producer).results, t, part, &AxisOption::results);
  if (!option) return;
  chosen_[producer.index()] = option;
  taken_.push_back(producer);
  for (size_t k = 0; k < option->operands.size(); ++k)
    if (option->operands[k].kind == AxisLayout::Kind::kSplit)
      take_weight(graph_.op(producer).operands[k], option->operands[k]);
}

// Splits the tensor: its producer leaves it so, and every forward op that reads it takes it so.
bool TensorRule::split(TensorId t, const AxisLayout& part) {
  std::optional<AxisLayout>& known = split_[t.index()];
  if (known) return *known == part;
  known = part;
  split_tensors_.push_back(t);
  const OpId producer = graph_.tensor(t).producer;
  if (producer.valid()) {
    const AxisOption* option = find(producer, graph_.op(producer).results, t, part, &AxisOption::results);
    if (!option || option->inner || !take(producer, *option)) return false;
  }
  for (const Reader& reader : read_by_[t.index()]) {
    const Op& op = graph_.op(reader.op);
    if (op.phase != Phase::kForward) continue;
    const AxisOption* option = find(reader.op, op.operands, t, part, &AxisOption::operands);
    if (!option || !take(reader.op, *option)) return false;
  }
  return true;
}

// Returns the op's choice, or else its first option, under which `tensor`, one of `tensors`, is `part` wherever it
// stands.
const AxisOption* TensorRule::find(OpId id, const std::vector<TensorId>& tensors, TensorId tensor,
                                   const AxisLayout& part, std::vector<AxisLayout> AxisOption::*parts) {
  const auto has = [&](const AxisOption& option) { return fits(tensors, option.*parts, tensor, part); };
  if (const AxisOption* known = chosen_[id.index()]) return has(*known) ? known : nullptr;
  for (const AxisOption& option : options_.of(id))
    if (has(option)) return &option;
  return nullptr;
}

bool TensorRule::activations_whole(const Op& op, const AxisOption& option) const {
  for (size_t k = 0; k < op.operands.size(); ++k)
    if (!weight_[op.operands[k].index()] && option.operands[k].kind != AxisLayout::Kind::kWhole) return false;
  return true;
}

void TensorRule::try_column(OpId id) {
  const Op& op = graph_.op(id);
  if (op.phase != Phase::kForward || chosen_[id.index()] || weight_[op.results[0].index()]) return;
  const auto product = weight_product(graph_, weight_, op);
  if (!product) return;
  for (const AxisOption& option : options_.of(id)) {
    if (option.inner || option.operands[product->weight].kind != AxisLayout::Kind::kSplit ||
        option.results[0].kind != AxisLayout::Kind::kSplit)
      continue;
    if (!activations_whole(op, option)) continue;
    ends_ = false, taken_.clear(), split_tensors_.clear();
    if (take(id, option) && ends_) return;
    for (OpId taken : taken_) chosen_[taken.index()] = nullptr;
    for (TensorId t : split_tensors_) split_[t.index()].reset();
  }
}

// Splits a table that is read at rows given by the data, if it has more rows than columns and is in no weight product.
void TensorRule::try_embedding(OpId id) {
  const Op& op = graph_.op(id);
  if (op.phase != Phase::kForward || chosen_[id.index()] || weight_[op.results[0].index()] ||
      weight_product(graph_, weight_, op))
    return;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    const Tensor& table = graph_.tensor(op.operands[k]);
    if (!weight_[op.operands[k].index()] || table.shape.size() != 2) continue;
    const bool by_data = std::any_of(op.operands.begin(), op.operands.end(),
                                     [&](TensorId t) { return graph_.tensor(t).sample_axis >= 0; });
    for (const AxisOption& option : options_.of(id)) {
      const AxisLayout& rows = option.operands[k];
      if (!by_data || option.inner || rows.kind != AxisLayout::Kind::kSplit ||
          option.results[0].kind != AxisLayout::Kind::kPartial)
        continue;
      if (!activations_whole(op, option) || table.shape[rows.axis] <= table.shape[1 - rows.axis]) continue;
      chosen_[id.index()] = &option;
      take_weight(op.operands[k], rows);
      return;
    }
  }
}

}  // namespace partita
