// Adds tensors and ops to a graph, with unique names, and infers results from formulas.
#include "partita/graph/builder.h"

#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/graph/infer.h"

namespace partita {
namespace {

// Tensors and ops have a name space each.
std::string tensor_key(const std::string& name) { return "t:" + name; }
std::string op_key(const std::string& name) { return "o:" + name; }

// `name`, or NAME_n with the first n that is free; `taken` has how many were made of each.
std::string unique(std::map<std::string, int>& taken, std::string (*key)(const std::string&), std::string name) {
  auto found = taken.find(key(name));
  if (found == taken.end()) return name;
  int& count = found->second;
  while (taken.contains(key(fmt::format("{}_{}", name, count)))) ++count;
  return fmt::format("{}_{}", name, count);
}

}  // namespace

GraphBuilder::GraphBuilder(std::string name, std::shared_ptr<const OpRegistry> registry) {
  graph_.name = std::move(name);
  graph_.registry = std::move(registry);
}

GraphBuilder::GraphBuilder(Graph graph) : graph_(std::move(graph)) {
  for (const Tensor& t : graph_.tensors) taken_[tensor_key(t.name)] = 1;
  for (const Op& op : graph_.ops) taken_[op_key(op.name)] = 1;
}

bool GraphBuilder::has_tensor(const std::string& name) const { return taken_.contains(tensor_key(name)); }

// Every tensor's bytes are counted in 64 bits, and it has at most as many axes as arrays of NumPy and PyTorch.
static void validate_size(const std::string& graph, const Tensor& tensor) {
  constexpr size_t kMostAxes = 64;
  if (tensor.shape.size() > kMostAxes)
    fail("graph '{}': '{}' has {} axes; a tensor has at most {}", graph, tensor.name, tensor.shape.size(), kMostAxes);
  int64_t bytes = bytes_of(tensor.dtype);
  for (int64_t extent : tensor.shape)
    if (extent > 0 && __builtin_mul_overflow(bytes, extent, &bytes))
      fail("graph '{}': '{}' [{}] is too large", graph, tensor.name, fmt::join(tensor.shape, "x"));
}

TensorId GraphBuilder::source_tensor(Tensor tensor) {
  if (tensor.name.empty()) fail("graph '{}': a {} without a name", graph_.name, name_of(tensor.role));
  if (taken_[tensor_key(tensor.name)]++ > 0) fail("graph '{}': two tensors are named '{}'", graph_.name, tensor.name);
  for (int64_t extent : tensor.shape)
    if (extent < 0)
      fail("graph '{}': {} '{}' has a negative extent: [{}]", graph_.name, name_of(tensor.role), tensor.name,
           fmt::join(tensor.shape, "x"));
  validate_size(graph_.name, tensor);
  graph_.tensors.push_back(std::move(tensor));
  return TensorId(graph_.tensors.size() - 1);
}

TensorId GraphBuilder::input(std::string name, Shape shape, DType dtype, int sample_axis) {
  if (sample_axis >= static_cast<int>(shape.size())) sample_axis = -1;
  const TensorId id = source_tensor({.name = std::move(name),
                                     .shape = std::move(shape),
                                     .dtype = dtype,
                                     .role = Role::kInput,
                                     .sample_axis = sample_axis});
  graph_.inputs.push_back(id);
  return id;
}

TensorId GraphBuilder::input_again(TensorId of, std::string name) {
  const Tensor& t = graph_.tensor(of);
  const TensorId id = input(std::move(name), t.shape, t.dtype, -1);
  graph_.tensor(id).same_as = of;
  return id;
}

TensorId GraphBuilder::parameter(std::string name, Shape shape, double bound, double fill, DType dtype) {
  if (bound < 0) {
    const int64_t fan_in = shape.empty() ? 1 : volume(Shape(shape.begin() + 1, shape.end()));
    bound = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(fan_in, 1)));
  }
  return source_tensor({.name = std::move(name),
                        .shape = std::move(shape),
                        .dtype = dtype,
                        .role = Role::kParameter,
                        .initial_bound = bound,
                        .initial_fill = fill});
}

TensorId GraphBuilder::with_values(std::string name, Role role, Values values) {
  Tensor tensor{.name = std::move(name), .shape = values.shape, .dtype = values.dtype, .role = role};
  tensor.values = std::make_shared<const Values>(std::move(values));
  return source_tensor(std::move(tensor));
}

TensorId GraphBuilder::parameter(std::string name, Values values) {
  return with_values(std::move(name), Role::kParameter, std::move(values));
}
TensorId GraphBuilder::state(std::string name, Values values) {
  return with_values(std::move(name), Role::kState, std::move(values));
}
TensorId GraphBuilder::constant(std::string name, Values values) {
  return with_values(std::move(name), Role::kConstant, std::move(values));
}

TensorId GraphBuilder::state(std::string name, Shape shape, double fill, DType dtype) {
  return source_tensor(
      {.name = std::move(name), .shape = std::move(shape), .dtype = dtype, .role = Role::kState, .initial_fill = fill});
}

TensorId GraphBuilder::scalar(std::string name, double value, DType dtype) {
  Values values{.dtype = dtype, .shape = {}};
  if (is_float(dtype)) values.real = {value};
  else values.integer = {static_cast<int64_t>(value)};
  return constant(unique(taken_, tensor_key, std::move(name)), std::move(values));
}

std::vector<TensorId> GraphBuilder::add(Op op) {
  for (TensorId id : op.operands)
    if (!id.valid() || id.index() >= graph_.tensors.size())
      fail("{} '{}': an operand is missing", op.definition, op.name);
  op.name = unique(taken_, op_key, op.name.empty() ? op.definition : op.name);
  taken_[op_key(op.name)] = 1;
  op.phase = phase_;
  op.forward = forward_;
  op.source = source_;
  op.time_step = time_step_;
  op.cell = cell_;

  const OpDefinition* definition = graph_.registry->find(op.definition);
  std::vector<Shape> shapes;
  std::string form = op.formula.empty() ? op.definition : op.formula;  // may depend on the dtypes
  for (TensorId id : op.operands) {
    shapes.push_back(graph_.tensor(id).shape);
    form += fmt::format(" {}", name_of(graph_.tensor(id).dtype));
  }
  const std::tuple key(form, shapes, op.attributes);
  auto known = bound_.find(key);
  if (known == bound_.end()) {
    const auto bound = bind_op(graph_, op);
    known = bound_.emplace(key, std::pair(bound, op.attributes)).first;
  }
  op.bound = known->second.first;
  op.attributes = known->second.second;

  const Inferred inferred = infer(graph_, op);
  const OpId id(graph_.ops.size());
  std::vector<TensorId> results;
  for (std::size_t r = 0; r < inferred.shapes.size(); ++r) {
    Tensor t;
    t.name = unique(taken_, tensor_key, inferred.shapes.size() == 1 ? op.name : op.name + "." + inferred.names[r]);
    taken_[tensor_key(t.name)] = 1;
    t.shape = inferred.shapes[r];
    t.dtype = inferred.dtypes[r];
    t.sample_axis = inferred.sample_axes[r];
    t.role = phase_ == Phase::kBackward ? Role::kGradient : Role::kActivation;
    t.producer = id;
    if (definition && r < definition->replaces.size() && definition->replaces[r] >= 0)
      t.replaces = op.operands.at(definition->replaces[r]);
    validate_size(graph_.name, t);
    results.push_back(TensorId(graph_.tensors.size()));
    graph_.tensors.push_back(std::move(t));
  }
  op.results = results;
  graph_.ops.push_back(std::move(op));
  return results;
}

std::vector<TensorId> GraphBuilder::ops(std::string_view definition, std::vector<TensorId> operands,
                                        tdl::Attributes attributes, std::string name) {
  graph_.registry->get(definition);
  Op op;
  op.name = std::move(name);
  op.definition = definition;
  op.attributes = std::move(attributes);
  op.operands = std::move(operands);
  return add(std::move(op));
}

TensorId GraphBuilder::op(std::string_view definition, std::vector<TensorId> operands, tdl::Attributes attributes,
                          std::string name) {
  return ops(definition, std::move(operands), std::move(attributes), std::move(name)).front();
}

std::vector<TensorId> GraphBuilder::formula(std::string_view definition, const std::string& text,
                                            std::vector<TensorId> operands, std::string name,
                                            tdl::Attributes attributes) {
  Op op;
  op.name = std::move(name);
  op.definition = definition;
  op.formula = text;
  op.operands = std::move(operands);
  op.attributes = std::move(attributes);
  return add(std::move(op));
}

Graph GraphBuilder::finish(std::vector<TensorId> outputs) {
  graph_.outputs = std::move(outputs);
  verify(graph_);
  return graph_;
}

}  // namespace partita
