// Recomputes results of the forward pass just before their first backward reader (activation recomputation).
#include "partita/graph/recompute.h"

#include <algorithm>
#include <utility>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/repeats.h"

namespace partita {
namespace {

constexpr std::string_view kCloned = ".recompute";

// Ops that can be recomputed from tensors that exist in the backward pass anyway.
class Cheap {
 public:
  Cheap(const Graph& graph, bool reducing)
      : graph_(graph), reducing_(reducing), can_(can_be_recomputed(graph)), read_backward_(read_backward(graph)) {
    for (size_t i = 0; i < graph.ops.size(); ++i)
      can_[i] = can_[i] && is_cheap(graph.ops[i]) && all_are_there(graph.ops[i]);
  }
  bool operator()(size_t op) const { return can_[op]; }

 private:
  bool is_cheap(const Op& op) const {
    return tdl::takes_one_pass(*op.bound) && (reducing_ || !tdl::reduces(*op.bound));
  }
  // Tells whether all operands exist in the backward pass: no op makes them, they are kept for others, or will be
  // recomputed.
  bool all_are_there(const Op& op) const {
    return std::all_of(op.operands.begin(), op.operands.end(), [&](TensorId t) {
      const OpId producer = graph_.tensor(t).producer;
      return !producer.valid() || can_[producer.index()] || read_backward_[t.index()];
    });
  }

  const Graph& graph_;
  const bool reducing_;
  std::vector<char> can_;  // by op
  const std::vector<char> read_backward_;
};

// Copies the training graph, with the clones.
class WithClones {
 public:
  WithClones(const Graph& graph, RecomputeSet recompute_set)
      : graph_(graph),
        recompute_set_(std::move(recompute_set)),
        out_(graph),
        now_(graph.ops.size()),
        again_(graph.tensors.size()) {
    out_.ops.clear();
  }

  Graph run() {
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      Op op = graph_.ops[i];
      if (op.phase == Phase::kBackward && recompute_set_.block[i] >= 0) read_again(op, recompute_set_.block[i]);
      if (op.forward.valid()) op.forward = now_[op.forward.index()];
      now_[i] = add(std::move(op));
    }
    return std::move(out_);
  }

 private:
  OpId add(Op op) {
    const OpId id(out_.ops.size());
    for (TensorId t : op.results) out_.tensor(t).producer = id;
    out_.ops.push_back(std::move(op));
    return id;
  }

  // Makes the op, of this block, read recomputed tensors, which are recomputed here if they are not yet.
  void read_again(Op& op, int block) {
    for (TensorId& t : op.operands) {
      const OpId producer = graph_.tensor(t).producer;
      if (!producer.valid() || recompute_set_.block[producer.index()] != block || recompute_set_.kept[t.index()] ||
          graph_.op(producer).phase != Phase::kForward)
        continue;
      if (!again_[t.index()].valid()) clone(producer, block);
      t = again_[t.index()];
    }
  }

  void clone(OpId id, int block) {
    Op op = graph_.op(id);
    op.name += kCloned;
    op.phase = Phase::kBackward;
    op.forward = now_[id.index()];
    read_again(op, block);
    for (TensorId& result : op.results) {
      Tensor copy = out_.tensor(result);
      copy.name += kCloned;
      result = again_[result.index()] = TensorId(out_.tensors.size());
      out_.tensors.push_back(std::move(copy));
    }
    add(std::move(op));
  }

  const Graph& graph_;
  const RecomputeSet recompute_set_;
  Graph out_;
  std::vector<OpId> now_;        // by op: its new number
  std::vector<TensorId> again_;  // by tensor: its clone
};

RecomputeSet recompute_set(const Graph& graph, const std::string& kind) {
  if (kind == "layer") return layer_recompute_set(graph);
  if (kind == "attention") return attention_recompute_set(graph);
  return cheap_recompute_set(graph, kind == "cheap");
}

// Excludes results of weights alone from recomputation.
void leave_weights(const Graph& graph, RecomputeSet& again) {
  const std::vector<char> trained = depends_on(graph, Role::kParameter), fed = depends_on(graph, Role::kInput);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.phase == Phase::kForward &&
        std::ranges::all_of(op.results, [&](TensorId t) { return trained[t.index()] && !fed[t.index()]; }))
      again.block[i] = -1;
  }
}

}  // namespace

std::vector<char> can_be_recomputed(const Graph& training) {
  std::vector<char> fixed(training.tensors.size()), replaced = fixed, can;
  for (TensorId t : training.outputs) fixed[t.index()] = true;
  const int end = forward_end(training);
  for (size_t t = 0; t < fixed.size(); ++t) {
    const Tensor& tensor = training.tensors[t];
    if (!tensor.replaces.valid()) continue;
    fixed[t] = true;
    if (tensor.producer.value < end) replaced[tensor.replaces.index()] = true;
  }
  for (const Op& op : training.ops)
    can.push_back(
        op.phase == Phase::kForward &&
        std::none_of(op.results.begin(), op.results.end(), [&](TensorId t) { return fixed[t.index()]; }) &&
        std::none_of(op.operands.begin(), op.operands.end(), [&](TensorId t) { return replaced[t.index()]; }));
  return can;
}

std::vector<char> read_backward(const Graph& training) {
  std::vector<char> read(training.tensors.size());
  for (const Op& op : training.ops)
    if (op.phase == Phase::kBackward)
      for (TensorId t : op.operands) read[t.index()] = true;
  return read;
}

std::vector<char> depends_on(const Graph& training, Role role) {
  std::vector<char> depends(training.tensors.size());
  for (size_t t = 0; t < depends.size(); ++t) depends[t] = training.tensors[t].role == role;
  for (const Op& op : training.ops)
    if (std::any_of(op.operands.begin(), op.operands.end(), [&](TensorId t) { return depends[t.index()]; }))
      for (TensorId t : op.results) depends[t.index()] = true;
  return depends;
}

RecomputeSet cheap_recompute_set(const Graph& training, bool reducing) {
  const Cheap cheap(training, reducing);
  RecomputeSet out{{}, std::vector<char>(training.tensors.size())};
  for (size_t i = 0; i < training.ops.size(); ++i)
    out.block.push_back(training.ops[i].phase == Phase::kBackward || cheap(i) ? 0 : -1);
  return out;
}

std::vector<std::string> recompute_kinds() { return {"none", "pointwise", "cheap", "attention", "layer"}; }

bool is_clone(const Graph& training, const Op& op) {
  return op.phase == Phase::kBackward && op.forward.valid() && op.name.ends_with(kCloned) &&
         op.name.compare(0, op.name.size() - kCloned.size(), training.op(op.forward).name) == 0;
}

Graph recompute_activations(const Graph& training, const std::string& kind, bool in_micro_batches) {
  return recomputed_as_on(training, training, kind, in_micro_batches);
}

Graph recomputed_as_on(const Graph& chosen_on, const Graph& training, const std::string& kind, bool in_micro_batches) {
  const std::vector<std::string> kinds = recompute_kinds();
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
    fail("recompute: '{}' is not one of {}", kind, fmt::join(kinds, ", "));
  if (kind == "none") return training;
  RecomputeSet again = recompute_set(chosen_on, kind);
  if (in_micro_batches) leave_weights(training, again);
  return WithClones(training, std::move(again)).run();
}

}  // namespace partita
