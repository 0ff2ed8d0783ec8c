// Decides which initializers are trained, and restores parameters that an exporter folded into other values.
#include "partita/onnx/folded.h"

#include <algorithm>

#include "partita/onnx/constants.h"
#include "partita/onnx/doubts.h"
#include "partita/onnx/restoring.h"

namespace partita::onnx_model {

std::string without_digits(const std::string& name) {
  std::string result;
  for (char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) result += c;
    else if (result.empty() || result.back() != '#') result += '#';
  }
  return result;
}

void lift_constants(Model& model) {
  const bool has_weights = std::any_of(model.initializers.begin(), model.initializers.end(),
                                       [&](const auto& entry) { return is_weight(model, entry.first, entry.second); });
  if (model.producer == "pytorch" && has_weights) return;
  const auto lifted = [&](const Node& node) {
    if (node.operation != "Constant" || !node.domain.empty() || node.outputs.size() != 1 || node.outputs[0].empty() ||
        !node.unreadable.empty())
      return false;
    if (!has(node, "value") && !has(node, "value_floats")) return false;
    Values values = evaluate_constant(node, {});
    if (!is_float(values.dtype) || volume(values.shape) == 1) return false;
    Initializer initializer{
        .dtype = values.dtype, .shape = values.shape, .kind = "", .folded_from = {}, .load = {}, .low = {}};
    initializer.load = [shared = std::make_shared<const Values>(std::move(values))] { return *shared; };
    model.initializers[node.outputs[0]] = std::move(initializer);
    model.initializer_order.push_back(node.outputs[0]);
    return true;
  };
  std::erase_if(model.nodes, lifted);
}

bool is_weight(const Model& model, const std::string& name, const Initializer& initializer) {
  if (!is_float(initializer.dtype) || initializer.kind == "BUFFER") return false;
  if (initializer.kind == "PARAMETER") return true;
  if (model.producer == "pytorch" && !model.from_dynamo && initializer.folded_from.empty() && has_attributes_name(name))
    return true;
  if (initializer.shape.empty() || !initializer.folded_from.empty()) return false;
  const bool owned = name.find('.') != std::string::npos && name.find('/') == std::string::npos;
  return owned || (!model.from_dynamo && volume(initializer.shape) != 1);
}

FoldedValues restore_parameters(Model& model, bool load_weights) {
  Restoring r(model, load_weights);
  const std::vector<std::string> order = model.initializer_order;
  restore_from_notes(r, order);
  if (load_weights) restore_by_values(r, order);
  std::vector<Node> nodes = std::move(r.made);
  for (Node& node : model.nodes) nodes.push_back(std::move(node));
  model.nodes = std::move(nodes);
  std::erase_if(model.initializer_order, [&](const std::string& name) { return !model.initializers.contains(name); });
  return std::move(r.found);
}

}  // namespace partita::onnx_model
