// Looks up ops and tensors by name, when there are many look-ups.
#pragma once
#include <string_view>
#include <unordered_map>

#include "partita/graph/graph.h"

namespace partita {

// The names of a graph that outlives this, and does not change meanwhile.
class NameIndex {
 public:
  explicit NameIndex(const Graph& graph) {
    for (std::size_t i = 0; i < graph.ops.size(); ++i) ops_.try_emplace(graph.ops[i].name, i);
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) tensors_.try_emplace(graph.tensors[i].name, i);
  }
  // Not valid if there is none, as Graph::find_op and find_tensor.
  OpId find_op(std::string_view name) const {
    const auto found = ops_.find(name);
    return found == ops_.end() ? OpId() : found->second;
  }
  TensorId find_tensor(std::string_view name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? TensorId() : found->second;
  }

 private:
  std::unordered_map<std::string_view, OpId> ops_;
  std::unordered_map<std::string_view, TensorId> tensors_;
};

}  // namespace partita
