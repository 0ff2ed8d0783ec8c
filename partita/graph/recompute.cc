// Makes cheap activations again just before their first backward reader (activation recomputation).
#include <algorithm>
#include <utility>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"

namespace partita {
namespace {

// What may be made again, and what will be.
class Choice {
 public:
  Choice(const Graph& graph, bool reducing)
      : graph_(graph),
        reducing_(reducing),
        read_backward_(graph.tensors.size()),
        can_(graph.ops.size()),
        will_(graph.ops.size()) {
    for (const Op& op : graph.ops)
      if (op.phase == Phase::kBackward)
        for (TensorId t : op.operands) read_backward_[t.index()] = true;
    for (size_t i = 0; i < graph.ops.size(); ++i) can_[i] = is_cheap(graph.ops[i]) && all_are_there(graph.ops[i]);
    for (size_t i = graph.ops.size(); i-- > 0;) {
      const Op& op = graph.ops[i];
      will_[i] = will_[i] || (can_[i] && std::any_of(op.results.begin(), op.results.end(),
                                                     [&](TensorId t) { return read_backward_[t.index()]; }));
      if (!will_[i]) continue;
      for (TensorId t : op.operands)
        if (const OpId producer = graph.tensor(t).producer; producer.valid() && can_[producer.index()])
          will_[producer.index()] = true;
    }
  }
  bool operator()(OpId op) const { return will_[op.index()]; }

 private:
  bool is_cheap(const Op& op) const {
    return op.phase == Phase::kForward && tdl::takes_one_pass(*op.bound) && (reducing_ || !tdl::reduces(*op.bound)) &&
           std::none_of(op.results.begin(), op.results.end(),
                        [&](TensorId t) { return graph_.tensor(t).replaces.valid() || is_output(t); });
  }
  bool is_output(TensorId t) const {
    return std::find(graph_.outputs.begin(), graph_.outputs.end(), t) != graph_.outputs.end();
  }
  // In the backward pass: no op makes it, it is kept for others, or it will be made again.
  bool all_are_there(const Op& op) const {
    return std::all_of(op.operands.begin(), op.operands.end(), [&](TensorId t) {
      const OpId producer = graph_.tensor(t).producer;
      return !producer.valid() || can_[producer.index()] || read_backward_[t.index()];
    });
  }

  const Graph& graph_;
  const bool reducing_;                           // ops that reduce something too
  std::vector<char> read_backward_, can_, will_;  // [tensor]; [op]
};

}  // namespace

std::vector<std::string> recompute_kinds() { return {"none", "pointwise", "cheap"}; }

Graph recomputed(const Graph& graph, const std::string& kind) {
  const std::vector<std::string> kinds = recompute_kinds();
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
    fail("recompute: '{}' is not one of {}", kind, fmt::join(kinds, ", "));
  if (kind == "none") return graph;
  const Choice made_again(graph, kind == "cheap");
  Graph out = graph;
  out.ops.clear();
  std::vector<OpId> now(graph.ops.size());            // where an op has come to
  std::vector<TensorId> again(graph.tensors.size());  // by tensor: what backward ops read instead
  auto add = [&](Op op) {
    const OpId id(out.ops.size());
    for (TensorId t : op.results) out.tensor(t).producer = id;
    out.ops.push_back(std::move(op));
    return id;
  };
  auto read_again = [&](auto& self, Op& op) -> void {  // what is made again, and is made here if it is not yet
    for (TensorId& t : op.operands) {
      const OpId producer = graph.tensor(t).producer;
      if (!producer.valid() || !made_again(producer)) continue;
      if (!again[t.index()].valid()) {
        Op clone = graph.op(producer);
        clone.name += ".recompute";
        clone.phase = Phase::kBackward;
        clone.forward = now[producer.index()];
        self(self, clone);
        for (TensorId& result : clone.results) {
          Tensor copy = out.tensor(result);
          copy.name += ".recompute";
          result = again[result.index()] = TensorId(out.tensors.size());
          out.tensors.push_back(std::move(copy));
        }
        add(std::move(clone));
      }
      t = again[t.index()];
    }
  };
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    Op op = graph.ops[i];
    if (op.phase == Phase::kBackward) read_again(read_again, op);
    if (op.forward.valid()) op.forward = now[op.forward.index()];
    now[i] = add(std::move(op));
  }
  return out;
}

}  // namespace partita
