// Resolves or reports facts about initializers that a file of PyTorch's exporters leaves open.
#include "partita/onnx/doubts.h"

#include <algorithm>
#include <map>

namespace partita::onnx_model {

void separate_statistics(Model& model) {
  std::map<std::string, const Node*> identities;
  for (const Node& node : model.nodes)
    if (node.operation == "Identity" && node.domain.empty() && node.inputs.size() == 1 && node.outputs.size() == 1 &&
        model.initializers.contains(node.inputs[0]))
      identities[node.outputs[0]] = &node;
  std::vector<const Node*> replaced;
  for (const Node& node : model.nodes) {
    if (node.operation != "BatchNormalization" || node.inputs.size() != 5) continue;
    for (std::size_t i : {3, 4}) {
      const auto found = identities.find(node.inputs[i]);
      if (found == identities.end()) continue;
      Initializer own = model.initializers.at(found->second->inputs[0]);
      own.kind = "BUFFER";
      model.initializers[found->first] = std::move(own);
      model.initializer_order.push_back(found->first);
      replaced.push_back(found->second);
      identities.erase(found);
    }
  }
  std::erase_if(model.nodes,
                [&](const Node& node) { return std::find(replaced.begin(), replaced.end(), &node) != replaced.end(); });
}

std::vector<std::string> with_normalization(const Model& model) {
  std::vector<std::string> found;
  if (model.producer != "pytorch") return found;
  for (const Node& node : model.nodes) {
    if (!node.operation.starts_with("Conv") || node.inputs.size() < 3) continue;
    const std::string &weight = node.inputs[1], &bias = node.inputs[2];
    const bool fused = model.from_dynamo ? bias == weight + "_bias"
                                         : weight.starts_with("onnx::Conv") && bias.starts_with("onnx::Conv");
    if (fused && model.initializers.contains(weight) && model.initializers.contains(bias)) found.push_back(weight);
  }
  return found;
}

bool has_attributes_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name.find("::") == std::string::npos;
}

std::vector<std::string> perhaps_buffers(const Model& model, const std::vector<std::string>& trained) {
  std::vector<std::string> found;
  if (model.producer != "pytorch" || model.from_dynamo) return found;
  for (const std::string& name : trained) {
    const std::string last = name.substr(name.rfind('.') + 1);
    const bool is_parameters = last.find("weight") != std::string::npos || last.find("bias") != std::string::npos ||
                               last.starts_with("original");
    if (has_attributes_name(name) && !is_parameters) found.push_back(name);
  }
  return found;
}

}  // namespace partita::onnx_model
