// Drops ops and constants that nobody reads, and evaluates ops whose operands are all known.
#include <algorithm>
#include <map>

#include "partita/graph/autodiff.h"
#include "partita/graph/builder.h"
#include "partita/graph/reference.h"
#include "partita/graph/remove_ops.h"

namespace partita {
// Evaluates every op whose operands are known; the other ops read its result as a constant. An op that evaluation
// replaces with another is kept: batch norm of a constant reads its running statistics there. Constants that nothing
// reads any more are dropped, unless the graph returns them.
Graph fold_constants(const Graph& graph) {
  std::map<TensorId, tdl::Array> known;
  std::vector<bool> folded(graph.ops.size());
  for (std::size_t i = 0; i < graph.tensors.size(); ++i)
    if (graph.tensors[i].role == Role::kConstant) known[TensorId(i)] = to_array(*graph.tensors[i].values);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const OpDefinition* definition = graph.registry->find(op.definition);
    if (op.phase != Phase::kForward || (definition && definition->evaluation) ||
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

  Graph result = graph;
  std::vector<bool> gone(graph.tensors.size());
  for (const auto& [id, values] : known) {
    Tensor& t = result.tensor(id);
    gone[id.index()] = !needed[id.index()];
    if (gone[id.index()] || t.role == Role::kConstant) continue;
    t.role = Role::kConstant;
    t.producer = {};
    t.sample_axis = -1;
    t.values = std::make_shared<const Values>(to_values(values, t.dtype));
  }
  return remove_ops(result, folded, gone).graph;
}

Graph drop_unread(const Graph& graph) {
  std::vector<bool> needed(graph.tensors.size()), ops_gone(graph.ops.size()), tensors_gone(graph.tensors.size());
  for (TensorId id : graph.outputs) needed[id.index()] = true;
  for (std::size_t i = graph.ops.size(); i-- > 0;) {
    const Op& op = graph.ops[i];
    ops_gone[i] = op.phase == Phase::kForward && std::none_of(op.results.begin(), op.results.end(), [&](TensorId id) {
                    return needed[id.index()] || graph.tensor(id).replaces.valid();
                  });
    for (TensorId id : op.results) tensors_gone[id.index()] = ops_gone[i];
    if (ops_gone[i]) continue;
    for (TensorId id : op.operands) needed[id.index()] = true;
  }
  for (std::size_t i = 0; i < graph.tensors.size(); ++i)
    if (graph.tensors[i].role == Role::kConstant && !needed[i]) tensors_gone[i] = true;
  return remove_ops(graph, ops_gone, tensors_gone).graph;
}

}  // namespace partita
