// Finds an operator's converter, and runs one on constants.
#include "partita/onnx/operators.h"

#include <algorithm>

#include "partita/graph/reference.h"

namespace partita::onnx_model {
namespace {

const Converters& converters() {
  static const Converters table = [] {
    Converters all;
    add_elementwise_converters(all);
    add_shape_converters(all);
    add_layer_converters(all);
    add_recurrent_converters(all);
    add_attention_converters(all);
    return all;
  }();
  return table;
}

const Converters& runtime_converters() {
  static const Converters table = [] {
    Converters all;
    add_runtime_converters(all);
    return all;
  }();
  return table;
}

constexpr int64_t kMostFolded = int64_t{1} << 24;  // elements of a constant that converters compute

}  // namespace

const Converter* converter_of(const Node& node) {
  const auto in = [&](const Converters& table) {
    const auto found = table.find(node.operation);
    return found == table.end() ? nullptr : &found->second;
  };
  if (node.domain == "com.microsoft") return in(runtime_converters());
  if (!node.domain.empty()) return nullptr;
  if (node.operation == "RotaryEmbedding" && node.opset < 23) return in(runtime_converters());
  const Converter* standard = in(converters());
  return standard ? standard : in(runtime_converters());
}

bool is_constant(const Value& value) {
  if (value.sequence) return std::all_of(value.sequence->begin(), value.sequence->end(), is_constant);
  return value.constant != nullptr;
}

Results evaluate_by_converter(const Converter& converter, ImportState& state, const Node& node,
                              std::vector<std::string> names, const std::vector<Value*>& operands,
                              std::shared_ptr<const OpRegistry> registry) {
  GraphBuilder build("constants", std::move(registry));
  std::vector<Value> copies(operands.size());
  std::vector<Value*> pointers(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i]) continue;
    copies[i] = *operands[i];
    copies[i].tensor = {};
    pointers[i] = &copies[i];
  }
  NodeContext context(state, node, build, std::move(names), std::move(pointers), "constant");
  Results results = converter(context);
  for (const Tensor& t : build.graph().tensors)
    if (volume(t.shape) > kMostFolded) fail("a constant of shape {}", shape_text(t.shape));
  std::map<TensorId, tdl::Array> values;
  reference_run(build.graph(), values);
  std::function<void(Value&)> settle = [&](Value& value) {
    if (value.sequence) {
      std::vector<Value> parts = *value.sequence;
      for (Value& part : parts) settle(part);
      value.sequence = std::make_shared<const std::vector<Value>>(std::move(parts));
    } else if (!value.constant) {
      value = constant_value(to_values(values.at(value.tensor), value.dtype));
    }
    value.tensor = {};
  };
  for (Value& result : results) settle(result);
  return results;
}

}  // namespace partita::onnx_model
