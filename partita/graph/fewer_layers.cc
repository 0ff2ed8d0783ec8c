// Drops the copies of repeated layers beyond the first few, and joins the ends.
#include "partita/graph/fewer_layers.h"

#include <algorithm>

#include "partita/graph/remove_ops.h"

namespace partita {

namespace {

// By tensor: itself, or for a result of a copy that is dropped the same result of the last copy that is kept.
std::vector<TensorId> stand_ins(const Graph& forward, const std::vector<Repeat>& layers, int copies,
                                std::vector<bool>& ops_gone) {
  std::vector<TensorId> of(forward.tensors.size());
  for (std::size_t t = 0; t < of.size(); ++t) of[t] = TensorId(t);
  for (const Repeat& repeat : layers)
    for (int copy = copies; copy < repeat.copies; ++copy)
      for (int i = 0; i < repeat.ops; ++i) {
        const auto op = static_cast<std::size_t>(repeat.first.value + copy * repeat.ops + i);
        const auto kept = static_cast<std::size_t>(repeat.first.value + (copies - 1) * repeat.ops + i);
        ops_gone[op] = true;
        for (std::size_t r = 0; r < forward.ops[op].results.size(); ++r)
          of[forward.ops[op].results[r].index()] = forward.ops[kept].results[r];
      }
  return of;
}

// Marks results of ops that go, and sources that only these ops read.
std::vector<bool> tensors_gone(const Graph& graph, const std::vector<bool>& ops_gone) {
  std::vector<bool> read(graph.tensors.size()), read_by_gone(graph.tensors.size()), gone(graph.tensors.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (TensorId t : graph.ops[i].operands) (ops_gone[i] ? read_by_gone : read)[t.index()] = true;
    if (ops_gone[i])
      for (TensorId t : graph.ops[i].results) gone[t.index()] = true;
  }
  for (TensorId t : graph.outputs) read[t.index()] = true;
  for (std::size_t t = 0; t < gone.size(); ++t)
    if (!graph.tensors[t].producer.valid() && graph.tensors[t].role != Role::kInput && read_by_gone[t] && !read[t])
      gone[t] = true;
  return gone;
}

}  // namespace

FewerLayers with_fewer_layers(const Graph& forward, const std::vector<Repeat>& layers, int copies) {
  std::vector<bool> ops_gone(forward.ops.size());
  const std::vector<TensorId> stand_in = stand_ins(forward, layers, copies, ops_gone);
  Graph joined = forward;
  for (std::size_t i = 0; i < joined.ops.size(); ++i)
    if (!ops_gone[i])
      for (TensorId& t : joined.ops[i].operands) t = stand_in[t.index()];
  for (TensorId& t : joined.outputs) t = stand_in[t.index()];
  RemovedOps removed = remove_ops(joined, ops_gone, tensors_gone(joined, ops_gone));
  FewerLayers out{std::move(removed.graph), {}, {}};
  for (std::size_t t = 0; t < stand_in.size(); ++t) out.now.push_back(removed.now[stand_in[t].index()]);
  int gone_before = 0;
  for (Repeat repeat : layers) {
    repeat.first = OpId(repeat.first.value - gone_before);
    gone_before += std::max(0, repeat.copies - copies) * repeat.ops;
    repeat.copies = std::min(repeat.copies, copies);
    out.layers.push_back(repeat);
  }
  return out;
}

}  // namespace partita
