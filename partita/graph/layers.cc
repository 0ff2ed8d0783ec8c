// Numbers the layers of a graph, and follows them to backward ops and updates.
#include "partita/graph/layers.h"

#include <algorithm>
#include <limits>
#include <map>

#include "partita/graph/weight_products.h"

namespace partita {

namespace {

// By forward op; -1 elsewhere, and if nothing before it is in a layer.
std::vector<int> forward_layers(const Graph& graph) {
  const bool cells = std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return op.cell >= 0; });
  const std::vector<bool> weight = weight_tensor_mask(graph);
  std::map<int, int> rank;  // of cells, by first appearance
  std::vector<int> layer(graph.ops.size(), -1);
  int products = 0;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.phase != Phase::kForward) continue;
    for (TensorId t : op.operands)
      if (const OpId producer = graph.tensor(t).producer; producer.valid())
        layer[i] = std::max(layer[i], layer[producer.index()]);
    if (cells && op.cell >= 0) layer[i] = rank.try_emplace(op.cell, static_cast<int>(rank.size())).first->second;
    if (!cells && weight_product(graph, weight, op)) layer[i] = products++;
  }
  return layer;
}

// The layer of the largest operand that an op makes: a clipped gradient is in the gradient's layer, not in that of its
// factor. Among equals the first counts, for updates the last: a sum over all gradients' norms goes from layer to
// layer.
int with_its_operands(const Graph& graph, const std::vector<int>& layer, const Op& op) {
  int at = -1;
  int64_t largest = 0;
  for (TensorId t : op.operands) {
    const Tensor& tensor = graph.tensor(t);
    if (!tensor.producer.valid()) continue;
    const int of_it = layer[tensor.producer.index()];
    const bool better = op.phase == Phase::kUpdate ? of_it > at : of_it < at;
    if (at < 0 || tensor.bytes() > largest || (tensor.bytes() == largest && better)) at = of_it;
    largest = std::max(largest, tensor.bytes());
  }
  return std::max(at, 0);
}

}  // namespace

std::vector<int> with_their_forward_ops(const Graph& graph, std::vector<int> layer) {
  const std::vector<std::vector<Reader>> read_by = readers_by_tensor(graph);
  constexpr int kNone = std::numeric_limits<int>::max();
  auto first_reader = [&](TensorId t) {  // the lowest layer of the forward ops that read it
    int first = kNone;
    for (const Reader& r : read_by[t.index()])
      if (graph.op(r.op).phase == Phase::kForward && layer[r.op.index()] >= 0)
        first = std::min(first, layer[r.op.index()]);
    return first;
  };
  for (size_t i = graph.ops.size(); i-- > 0;) {
    if (graph.ops[i].phase != Phase::kForward || layer[i] >= 0) continue;
    int first = kNone;
    for (TensorId t : graph.ops[i].results) first = std::min(first, first_reader(t));
    layer[i] = first == kNone ? 0 : first;
  }
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.phase == Phase::kForward) continue;
    if (op.phase == Phase::kBackward && op.forward.valid()) {
      layer[i] = layer[op.forward.index()];
      continue;
    }
    int at = kNone;  // an update is in its parameter's layer
    for (TensorId r : op.results)
      if (graph.tensor(r).replaces.valid()) at = std::min(at, first_reader(graph.tensor(r).replaces));
    layer[i] = at == kNone ? with_its_operands(graph, layer, op) : at;
  }
  return layer;
}

std::vector<int> layers_of(const Graph& graph) { return with_their_forward_ops(graph, forward_layers(graph)); }

}  // namespace partita
