// Removes ops and tensors, and numbers the rest anew.
#include "partita/graph/remove_ops.h"

namespace partita {

RemovedOps remove_ops(const Graph& graph, const std::vector<bool>& ops_gone, const std::vector<bool>& tensors_gone) {
  RemovedOps out;
  Graph& result = out.graph;
  result.name = graph.name;
  result.registry = graph.registry;
  std::vector<TensorId>& now = out.now;
  now.resize(graph.tensors.size());
  std::vector<OpId> op_now(graph.ops.size());
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    if (tensors_gone[i]) continue;
    now[i] = TensorId(result.tensors.size());
    result.tensors.push_back(graph.tensors[i]);
  }
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (ops_gone[i]) continue;
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
  return out;
}

}  // namespace partita
