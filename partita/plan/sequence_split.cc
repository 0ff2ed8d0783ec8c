// Grows regions of ops that can be split along one axis of their activations.
#include "partita/plan/sequence_split.h"

#include <algorithm>

#include "partita/graph/weight_products.h"

namespace partita {

namespace {

// By tensor: whether it depends on a parameter through the forward pass.
std::vector<bool> depends_on_weights(const Graph& graph, std::vector<bool> weight) {
  for (const Op& op : graph.ops)
    for (TensorId t : op.operands)
      if (op.phase == Phase::kForward && weight[t.index()])
        for (TensorId r : op.results) weight[r.index()] = true;
  return weight;
}

}  // namespace

SequenceSplit::SequenceSplit(const Graph& graph, int degree, Options how)
    : graph_(graph),
      how_(std::move(how)),
      options_(graph, degree),
      weight_(weight_tensor_mask(graph)),
      trained_(depends_on_weights(graph, weight_)),
      read_by_(readers_by_tensor(graph)),
      chosen_(graph.ops.size()),
      part_(graph.tensors.size()) {}

int64_t SequenceSplit::split_bytes() const {
  int64_t bytes = 0;
  for (size_t t = 0; t < part_.size(); ++t)
    if (part_[t]) bytes += graph_.tensors[t].bytes();
  return bytes;
}

void SequenceSplit::add_weight_parts(std::vector<AxisLayout>& parts) const {
  for (size_t i = 0; i < chosen_.size(); ++i)
    for (size_t k = 0; chosen_[i] && k < graph_.ops[i].operands.size(); ++k)
      if (const TensorId t = graph_.ops[i].operands[k];
          graph_.tensor(t).role == Role::kParameter && chosen_[i]->operands[k].kind == AxisLayout::Kind::kSplit)
        parts[t.index()] = chosen_[i]->operands[k];
}

bool SequenceSplit::gathers(OpId op, TensorId t) const {
  return chosen(op) && part(t) && !fits(graph_.op(op).operands, chosen(op)->operands, t, *part(t));
}

void SequenceSplit::grow(const std::vector<Seed>& seeds) {
  taken_.clear(), set_.clear(), fresh_.clear();
  for (const Seed& seed : seeds) set(seed.tensor, seed.part);
  while (!fresh_.empty()) {
    const TensorId t = how_.nearest_first ? fresh_.front() : fresh_.back();
    how_.nearest_first ? fresh_.pop_front() : fresh_.pop_back();
    try_producer(t);
    for (const Reader& reader : read_by_[t.index()]) try_reader(reader.op, t);
  }
}

bool SequenceSplit::splits_weights() const {
  return std::ranges::any_of(taken_, [&](OpId id) {
    const std::vector<TensorId>& operands = graph_.op(id).operands;
    for (size_t k = 0; k < operands.size(); ++k)
      if (weight_[operands[k].index()] && chosen(id)->operands[k].kind == AxisLayout::Kind::kSplit) return true;
    return false;
  });
}

void SequenceSplit::grow_from_sum(TensorId seed, bool whole_weights) {
  const Tensor& t = graph_.tensor(seed);
  int best = -1;
  int64_t most = split_bytes();
  for (int axis = 0; axis < static_cast<int>(t.shape.size()); ++axis) {
    if (axis == t.sample_axis || t.shape[static_cast<size_t>(axis)] < options_.degree()) continue;
    grow({{seed, {AxisLayout::Kind::kSplit, axis, 1}}});
    const int64_t bytes = whole_weights && splits_weights() ? 0 : split_bytes();
    if (bytes > most) most = bytes, best = axis;
    undo();
  }
  if (best >= 0) grow({{seed, {AxisLayout::Kind::kSplit, best, 1}}});
}

void SequenceSplit::grow_from_sums() {
  for (size_t i = 0; i < graph_.ops.size(); ++i) {
    const Op& op = graph_.ops[i];
    if (op.phase != Phase::kForward || chosen_[i] || how_.left(OpId(i)) || op.results.size() != 1) continue;
    const auto sums = std::ranges::find_if(options_.of(OpId(i)), [&](const AxisOption& option) {
      return option.results[0].kind == AxisLayout::Kind::kPartial && reads_as_kept(op, option);
    });
    if (sums == options_.of(OpId(i)).end()) continue;
    chosen_[i] = &*sums;
    grow_from_sum(op.results[0], true);
    if (!part_[op.results[0].index()]) chosen_[i] = nullptr;
  }
}

void SequenceSplit::undo() {
  for (OpId taken : taken_) chosen_[taken.index()] = nullptr;
  for (TensorId t : set_) part_[t.index()].reset();
  taken_.clear(), set_.clear();
}

void SequenceSplit::set(TensorId t, const AxisLayout& part) {
  if (part_[t.index()]) return;
  part_[t.index()] = part;
  set_.push_back(t);
  fresh_.push_back(t);
}

// Tells whether an option without an exchange reads the operands that are split as they are, and there are some.
bool SequenceSplit::reads_as_kept(const Op& op, const AxisOption& option) const {
  bool any = false;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    const std::optional<AxisLayout>& part = part_[op.operands[k].index()];
    if (part && *part != option.operands[k]) return false;
    any |= part.has_value();
  }
  return any && !option.inner;
}

// Tells whether an op may take this option. Activations come as they are kept, or are gathered. Its results are split,
// or sums of less than it reads.
bool SequenceSplit::suits(const Op& op, const AxisOption& option) const {
  if (option.inner) return false;
  int64_t read = 0, left = 0;
  bool partial = false;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    const TensorId t = op.operands[k];
    const AxisLayout& part = option.operands[k];
    if (part.kind == AxisLayout::Kind::kOther && !how_.reads_ahead) return false;
    if (part.kind == AxisLayout::Kind::kPartial && !weight_[t.index()]) return false;
    if (part.kind == AxisLayout::Kind::kSplit && part_[t.index()] && *part_[t.index()] != part) return false;
    if (part.kind == AxisLayout::Kind::kSplit) read += graph_.tensor(t).bytes();
  }
  for (size_t r = 0; r < op.results.size(); ++r) {
    const TensorId t = op.results[r];
    const AxisLayout& part = option.results[r];
    if (part.kind != AxisLayout::Kind::kSplit && part.kind != AxisLayout::Kind::kPartial) return false;
    if (part.kind == AxisLayout::Kind::kSplit && part_[t.index()] && *part_[t.index()] != part) return false;
    partial |= part.kind == AxisLayout::Kind::kPartial;
    left += graph_.tensor(t).bytes();
  }
  return !partial || left < read;
}

void SequenceSplit::take(OpId id, const AxisOption& option) {
  const Op& op = graph_.op(id);
  chosen_[id.index()] = &option;
  taken_.push_back(id);
  for (size_t k = 0; k < op.operands.size(); ++k)
    if (const TensorId t = op.operands[k];
        option.operands[k].kind == AxisLayout::Kind::kSplit && trained_[t.index()] && !weight_[t.index()])
      set(t, option.operands[k]);
  for (size_t r = 0; r < op.results.size(); ++r)
    if (option.results[r].kind == AxisLayout::Kind::kSplit) set(op.results[r], option.results[r]);
}

// Splits a reader of the tensor. An op that stays as it is, or that cannot run on this part, reads the tensor whole.
void SequenceSplit::try_reader(OpId id, TensorId t) {
  const Op& op = graph_.op(id);
  if (op.phase != Phase::kForward || chosen_[id.index()] || how_.left(id)) return;
  for (const AxisOption& option : options_.of(id))
    if (fits(op.operands, option.operands, t, *part_[t.index()]) && suits(op, option)) return take(id, option);
}

void SequenceSplit::try_producer(TensorId t) {
  const OpId id = graph_.tensor(t).producer;
  if (!id.valid() || chosen_[id.index()] || how_.left(id)) return;
  const Op& op = graph_.op(id);
  for (const AxisOption& option : options_.of(id))
    if (fits(op.results, option.results, t, *part_[t.index()]) && suits(op, option)) return take(id, option);
}

}  // namespace partita
