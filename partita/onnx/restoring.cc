// Turns initializers that an exporter computed into nodes that read a parameter.
#include "partita/onnx/restoring.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/onnx/constants.h"

namespace partita::onnx_model {

namespace {

std::string described(const Moves& moves, const Shape& from) {
  if (!moves.takes.empty())
    return volume(moves.shape) == volume(from) ? "its elements in another order"
           : moves.flat                        ? "elements of it"
                                               : "rows of it";
  if (moves.perm.size() == 2) return "transposed";
  if (!moves.perm.empty()) return fmt::format("its axes in the order {}", fmt::join(moves.perm, ", "));
  return moves.shape == from ? "a copy" : "in another shape";
}

Values as_list(const Shape& shape) {
  return {.dtype = DType::kInt64, .shape = {static_cast<int64_t>(shape.size())}, .real = {}, .integer = shape};
}

}  // namespace

bool is_owned(const std::string& name) {
  return name.find('.') != std::string::npos && name.find('/') == std::string::npos &&
         name.find("::") == std::string::npos;
}

std::string owner_of(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('.') == std::string::npos ? 0 : parameter.rfind('.'));
}

Values rounded(Values values, DType to) {
  for (double& v : values.real) v = to == DType::kFloat32 ? static_cast<float>(v) : rounded_to(to, v);
  return values;
}

Values as_type_of(const Initializer& to, const Initializer& from) {
  Values values = from.load();
  if (to.low) return rounded(std::move(values), *to.low);
  return to.dtype == DType::kFloat32 && from.dtype == DType::kFloat64 ? rounded(std::move(values), DType::kFloat32)
                                                                      : values;
}

Restoring::Restoring(Model& of, bool with_weights) : model(of), load_weights(with_weights) {
  for (const Node& node : model.nodes)
    for (const std::vector<std::string>* names : {&node.inputs, &node.captured})
      for (const std::string& name : *names) readers[name].push_back(&node);
}

void Restoring::replace(const std::string& name, const std::string& source, const Moves& moves, bool expanded,
                        bool tied) {
  const Initializer from = model.initializers.at(source), to = model.initializers.at(name);
  found.restored.push_back({name, source, described(moves, from.shape), tied});
  model.initializers.erase(name);
  Shape shape = from.shape;
  std::vector<Node> steps;
  auto step = [&](const char* operation, std::vector<std::string> further,
                  std::map<std::string, Attribute> attributes) {
    Node node;
    node.name = fmt::format("{}/{}", name, steps.size());
    node.operation = operation;
    node.opset = kNewestOpset;
    node.inputs = {steps.empty() ? source : steps.back().outputs[0]};
    node.inputs.insert(node.inputs.end(), further.begin(), further.end());
    node.outputs = {node.name};
    node.attributes = std::move(attributes);
    node.source.module = owner_of(source);
    node.is_restored = true;
    steps.push_back(std::move(node));
  };
  auto reshape = [&](const Shape& wanted) {
    if (shape != wanted)
      step("Reshape", {integers_of(name, steps.size(), as_list(wanted))}, {{"allowzero", int64_t{1}}});
    shape = wanted;
  };
  if (moves.flat) reshape({volume(shape)});
  for (const Moves::Take& take : moves.takes) {
    step("Gather", {integers_of(name, steps.size(), take.places)}, {{"axis", static_cast<int64_t>(take.axis)}});
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(take.axis));
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(take.axis), take.places.shape.begin(),
                 take.places.shape.end());
  }
  if (!moves.perm.empty()) {
    step("Transpose", {}, {{"perm", moves.perm}});
    Shape next;
    for (int64_t a : moves.perm) next.push_back(shape[static_cast<std::size_t>(a)]);
    shape = next;
  }
  reshape(moves.shape);
  if (expanded) step("Expand", {integers_of(name, steps.size(), as_list(to.shape))}, {});
  if (to.low && !from.low) step("Cast", {}, {{"to", onnx_type(*to.low)}});
  else if (to.dtype != from.dtype) step("Cast", {}, {{"to", onnx_type(to.dtype)}});
  if (steps.empty()) step("Identity", {}, {});
  steps.back().name = steps.back().outputs[0] = name;
  for (Node& node : steps) made.push_back(std::move(node));
}

std::string Restoring::integers_of(const std::string& name, std::size_t step, Values values) {
  std::string own = fmt::format("{}/{}/places", name, step);
  Initializer initializer{.dtype = DType::kInt64,
                          .shape = values.shape,
                          .type = onnx_type(DType::kInt64),
                          .kind = "",
                          .folded_from = {},
                          .load = {},
                          .low = {}};
  initializer.load = [shared = std::make_shared<const Values>(std::move(values))] { return *shared; };
  model.initializers[own] = std::move(initializer);
  model.initializer_order.push_back(own);
  return own;
}

void Restoring::replace_by_new(const std::string& name, const std::string& source, Initializer parameter,
                               const Moves& moves, bool expanded) {
  model.initializers[source] = std::move(parameter);
  model.initializer_order.insert(std::find(model.initializer_order.begin(), model.initializer_order.end(), name),
                                 source);
  made_parameters.insert(source);
  replace(name, source, moves, expanded, false);
}

void Restoring::freeze(const std::string& name, const std::vector<std::string>& from) {
  found.frozen.push_back({name, fmt::format("{}", fmt::join(from, ", ")), "", false});
}

}  // namespace partita::onnx_model
