// Grows regions of ops that can be split along the sequence, from places where partial sums are added up.
#include "partita/plan/sequence_rule.h"

#include <algorithm>

#include "partita/plan/rule_planner.h"

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

SequenceRule::SequenceRule(const Graph& graph, const TensorRule& tensor, int degree)
    : graph_(graph),
      tensor_(tensor),
      options_(graph, degree),
      weight_(weights(graph)),
      trained_(depends_on_weights(graph, weight_)),
      read_by_(readers(graph)),
      chosen_(graph.ops.size()),
      part_(graph.tensors.size()) {
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const AxisOption* row = graph.ops[i].phase == Phase::kForward ? tensor.chosen(OpId(i)) : nullptr;
    for (size_t r = 0; row && r < row->results.size(); ++r) {
      const TensorId seed = graph.ops[i].results[r];
      const Tensor& t = graph.tensor(seed);
      if (row->results[r].kind != Part::Kind::kPartial || weight_[seed.index()] || part_[seed.index()]) continue;
      int best = -1;
      int64_t most = split_bytes();
      for (int axis = 0; axis < static_cast<int>(t.shape.size()); ++axis) {
        if (axis == t.sample_axis || t.shape[static_cast<size_t>(axis)] < degree) continue;
        grow(seed, {Part::Kind::kSplit, axis, 1});
        if (const int64_t bytes = split_bytes(); bytes > most) most = bytes, best = axis;
        for (OpId taken : taken_) chosen_[taken.index()] = nullptr;
        for (TensorId s : set_) part_[s.index()].reset();
      }
      if (best >= 0) grow(seed, {Part::Kind::kSplit, best, 1});
    }
  }
}

int64_t SequenceRule::split_bytes() const {
  int64_t bytes = 0;
  for (size_t t = 0; t < part_.size(); ++t)
    if (part_[t]) bytes += graph_.tensors[t].bytes();
  return bytes;
}

void SequenceRule::add_weight_parts(std::vector<Part>& parts) const {
  for (size_t i = 0; i < chosen_.size(); ++i)
    for (size_t k = 0; chosen_[i] && k < graph_.ops[i].operands.size(); ++k)
      if (const TensorId t = graph_.ops[i].operands[k];
          graph_.tensor(t).role == Role::kParameter && chosen_[i]->operands[k].kind == Part::Kind::kSplit)
        parts[t.index()] = chosen_[i]->operands[k];
}

void SequenceRule::grow(TensorId seed, const Part& part) {
  taken_.clear(), set_.clear(), fresh_.clear();
  set(seed, part);
  while (!fresh_.empty()) {
    const TensorId t = fresh_.back();
    fresh_.pop_back();
    try_producer(t);
    for (const Reader& reader : read_by_[t.index()]) try_reader(reader.op, t);
  }
}

void SequenceRule::set(TensorId t, const Part& part) {
  if (part_[t.index()]) return;
  part_[t.index()] = part;
  set_.push_back(t);
  fresh_.push_back(t);
}

// Tells whether an op may take this option. Activations come as they are kept, or are gathered. Its results are split,
// or sums of less than it reads.
bool SequenceRule::suits(const Op& op, const AxisOption& option) const {
  if (option.inner) return false;
  int64_t read = 0, left = 0;
  bool partial = false;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    const TensorId t = op.operands[k];
    const Part& part = option.operands[k];
    if (part.kind == Part::Kind::kOther) return false;
    if (part.kind == Part::Kind::kPartial && !weight_[t.index()]) return false;
    if (part.kind == Part::Kind::kSplit && part_[t.index()] && *part_[t.index()] != part) return false;
    if (part.kind == Part::Kind::kSplit) read += graph_.tensor(t).bytes();
  }
  for (size_t r = 0; r < op.results.size(); ++r) {
    const TensorId t = op.results[r];
    const Part& part = option.results[r];
    if (part.kind != Part::Kind::kSplit && part.kind != Part::Kind::kPartial) return false;
    if (part.kind == Part::Kind::kSplit && part_[t.index()] && *part_[t.index()] != part) return false;
    partial |= part.kind == Part::Kind::kPartial;
    left += graph_.tensor(t).bytes();
  }
  return !partial || left < read;
}

void SequenceRule::take(OpId id, const AxisOption& option) {
  const Op& op = graph_.op(id);
  chosen_[id.index()] = &option;
  taken_.push_back(id);
  for (size_t k = 0; k < op.operands.size(); ++k)
    if (const TensorId t = op.operands[k];
        option.operands[k].kind == Part::Kind::kSplit && trained_[t.index()] && !weight_[t.index()])
      set(t, option.operands[k]);
  for (size_t r = 0; r < op.results.size(); ++r)
    if (option.results[r].kind == Part::Kind::kSplit) set(op.results[r], option.results[r]);
}

// Splits a reader of the tensor. An op that tensor parallelism splits, or that cannot run on this part, reads the
// tensor whole.
void SequenceRule::try_reader(OpId id, TensorId t) {
  const Op& op = graph_.op(id);
  if (op.phase != Phase::kForward || chosen_[id.index()] || tensor_.chosen(id)) return;
  for (const AxisOption& option : options_.of(id))
    if (fits(op.operands, option.operands, t, *part_[t.index()]) && suits(op, option)) return take(id, option);
}

void SequenceRule::try_producer(TensorId t) {
  const OpId id = graph_.tensor(t).producer;
  if (!id.valid() || chosen_[id.index()] || tensor_.chosen(id)) return;
  const Op& op = graph_.op(id);
  for (const AxisOption& option : options_.of(id))
    if (fits(op.results, option.results, t, *part_[t.index()]) && suits(op, option)) return take(id, option);
}

}  // namespace partita
