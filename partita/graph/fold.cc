#include <algorithm>
#include <map>

#include "partita/graph/autodiff.h"
#include "partita/graph/builder.h"
#include "partita/graph/reference.h"

namespace partita {

// Every op whose operands are known is evaluated; the others are kept, and read its result as a constant. Constants
// that nothing reads any more are dropped, those that the graph gives back are kept.
Graph fold_constants(const Graph& graph) {
  std::map<TensorId, tdl::Array> known;
  std::vector<bool> folded(graph.ops.size());
  for (std::size_t i = 0; i < graph.tensors.size(); ++i)
    if (graph.tensors[i].role == Role::kConstant) known[TensorId(i)] = to_array(*graph.tensors[i].values);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.phase != Phase::kForward ||
        !std::all_of(op.operands.begin(), op.operands.end(), [&](TensorId t) { return known.contains(t); }))
      continue;
    std::vector<tdl::Array> operands;
    for (TensorId id : op.operands) operands.push_back(known.at(id));
    std::vector<tdl::Array> results = reference_op(graph, op, operands);
    for (std::size_t r = 0; r < results.size(); ++r) known[op.results[r]] = std::move(results[r]);
    folded[i] = true;
  }
  std::vector<bool> needed(graph.tensors.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i)
    if (!folded[i])
      for (TensorId id : graph.ops[i].operands) needed[id.index()] = true;
  for (TensorId id : graph.outputs) needed[id.index()] = true;

  Graph result;
  result.name = graph.name;
  result.registry = graph.registry;
  std::vector<TensorId> now(graph.tensors.size());
  std::vector<OpId> op_now(graph.ops.size());
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const TensorId old(i);
    Tensor t = graph.tensors[i];
    if (known.contains(old)) {
      if (!needed[i]) continue;
      t.role = Role::kConstant;
      t.producer = {};
      t.sample_axis = -1;
      t.values = std::make_shared<const Values>(to_values(known.at(old), t.dtype));
    }
    now[i] = TensorId(result.tensors.size());
    result.tensors.push_back(std::move(t));
  }
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (folded[i]) continue;
    Op op = graph.ops[i];
    op_now[i] = OpId(result.ops.size());
    for (TensorId& id : op.operands) id = now[id.index()];
    for (TensorId& id : op.results) {
      id = now[id.index()];
      result.tensor(id).producer = op_now[i];
    }
    if (op.forward.valid()) op.forward = op_now[op.forward.index()];
    result.ops.push_back(std::move(op));
  }
  for (Tensor& t : result.tensors)
    if (t.replaces.valid()) t.replaces = now[t.replaces.index()];
  for (TensorId id : graph.inputs) result.inputs.push_back(now[id.index()]);
  for (TensorId id : graph.outputs) result.outputs.push_back(now[id.index()]);
  if (graph.loss.valid()) result.loss = now[graph.loss.index()];
  verify(result);
  return result;
}

}  // namespace partita
