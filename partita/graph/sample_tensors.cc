// Separates tensors of samples from tensors of parameters.
#include "partita/graph/sample_tensors.h"

#include <algorithm>

#include "partita/graph/recompute.h"

namespace partita {

namespace {

// Tells whether an op sums or casts contributions to one gradient (autodiff.cc).
bool passes_on(const Graph& graph, const Op& op) {
  return op.definition == "cast" ||
         (op.definition == "add" && std::all_of(op.operands.begin(), op.operands.end(), [&](TensorId t) {
            return graph.tensor(t).shape == graph.tensor(op.results[0]).shape;
          }));
}

// By TensorId: gradients of tensors that no input reaches. They are the backward results that updates read, and,
// further back, operands of sums, casts and the gradients of ops on parameters alone.
std::vector<char> gradients_of_parameters(const Graph& graph, const std::vector<char>& fed) {
  std::vector<char> out(graph.tensors.size());
  for (std::size_t i = graph.ops.size(); i-- > 0;) {
    const Op& op = graph.ops[i];
    const auto is_one = [&](TensorId t) { return out[t.index()] != 0; };
    const bool reads_them =
        op.phase == Phase::kUpdate ||
        (op.phase == Phase::kBackward && std::any_of(op.results.begin(), op.results.end(), is_one) &&
         (passes_on(graph, op) ||
          (op.forward.valid() && std::none_of(graph.op(op.forward).results.begin(), graph.op(op.forward).results.end(),
                                              [&](TensorId t) { return fed[t.index()] != 0; }))));
    if (!reads_them) continue;
    for (TensorId t : op.operands)
      if (const OpId from = graph.tensor(t).producer; from.valid() && graph.op(from).phase == Phase::kBackward)
        out[t.index()] = true;
  }
  return out;
}

}  // namespace

std::vector<char> sample_tensor_mask(const Graph& graph) {
  std::vector<char> out = depends_on(graph, Role::kInput);
  const std::vector<char> gradients = gradients_of_parameters(graph, out);
  for (std::size_t t = 0; t < out.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    const bool updated =
        tensor.replaces.valid() || (tensor.producer.valid() && graph.op(tensor.producer).phase == Phase::kUpdate);
    out[t] = out[t] && !gradients[t] && !updated;
  }
  return out;
}

bool reads_samples(const Op& op, const std::vector<char>& is_sample_tensor) {
  return std::any_of(op.operands.begin(), op.operands.end(),
                     [&](TensorId t) { return is_sample_tensor[t.index()] != 0; });
}

}  // namespace partita
