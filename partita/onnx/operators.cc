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
    add_reduce_converters(all);
    add_resize_converters(all);
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

bool is_loop(const std::string& operation) {
  return operation == "Loop" || operation == "Scan" || operation == "SequenceMap";
}

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

bool is_described(const OpRegistry& registry, const Node& node) {
  const OpDefinition* definition = registry.find(node.operation);
  return definition && definition->described;
}

Results convert_described(NodeContext& n) {
  std::vector<TensorId> operands;
  for (std::size_t k = 0; k < n.count(); ++k) operands.push_back(n.tensor(k));
  tdl::Attributes attributes;
  for (const auto& [name, value] : n.node.attributes) {
    if (const auto* whole = std::get_if<int64_t>(&value)) attributes[name] = static_cast<double>(*whole);
    else if (const auto* real = std::get_if<double>(&value)) attributes[name] = *real;
    else fail("its attribute '{}' is no number: a description's attributes are numbers", name);
  }
  return n.ops(n.node.operation, std::move(operands), std::move(attributes));
}

void check_operator(const OpRegistry& registry, const Node& node) {
  const std::string& o = node.operation;
  if (is_described(registry, node)) {
    if (!node.unreadable.empty()) fail("{}", node.unreadable);
    return;
  }
  const bool folds = node.domain.empty() && (can_evaluate(o) || o == "Shape" || o == "Size" || o == "If");
  if (node.domain.empty() && is_loop(o))
    fail("loops are not supported; export the model with its loop unrolled: a fixed number of steps, written out");
  if (!converter_of(node) && !folds)
    fail("no operation of ours stands for it; a file given with --tdl can describe '{}'", o);
  if (const std::string change = node.domain.empty() ? changed_since(o, node.opset) : ""; !change.empty())
    fail("{}", change);
  if (!node.unreadable.empty()) fail("{}", node.unreadable);
}

Value shape_of(const NodeContext& n) {
  const Shape& shape = n.shape(0);
  if (n.node.operation == "Size")
    return constant_value({.dtype = DType::kInt64, .shape = {}, .integer = {volume(shape)}});
  const int64_t rank = static_cast<int64_t>(shape.size());
  auto end = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t first = end(n.integer("start", 0)), last = std::max(first, end(n.integer("end", rank)));
  return constant_value(
      {.dtype = DType::kInt64, .shape = {last - first}, .integer = {shape.begin() + first, shape.begin() + last}});
}

}  // namespace partita::onnx_model
