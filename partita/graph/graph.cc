// Looks up names, readers and replacements in a graph.
#include "partita/graph/graph.h"

#include <algorithm>

#include "partita/graph/words.h"

namespace partita {

std::string_view name_of(Role role) { return kRoles.of(role); }
std::string_view name_of(Phase phase) { return kPhases.of(phase); }
std::string_view name_of(DeviceType type) { return kDeviceTypes.of(type); }
std::optional<DeviceType> device_type_of(std::string_view name) { return kDeviceTypes.find(name); }

TensorId Graph::find_tensor(std::string_view name) const {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].name == name) return TensorId(i);
  return {};
}

OpId Graph::find_op(std::string_view name) const {
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (ops[i].name == name) return OpId(i);
  return {};
}

TensorId Graph::replacement_of(TensorId w) const {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].replaces == w) return TensorId(i);
  return {};
}

bool has_device_types(const Graph& graph) {
  return std::any_of(graph.ops.begin(), graph.ops.end(),
                     [](const Op& op) { return op.device_type != DeviceType::kGpu || !op.colocation.empty(); });
}

std::vector<std::vector<Reader>> readers_by_tensor(const Graph& graph) {
  std::vector<std::vector<Reader>> result(graph.tensors.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    for (std::size_t k = 0; k < op.operands.size(); ++k)
      result[op.operands[k].index()].push_back({OpId(i), static_cast<int>(k)});
  }
  return result;
}

}  // namespace partita
