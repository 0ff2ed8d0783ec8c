// Gives converters a node's operands, constants and attributes, and makes their ops.
#include "partita/onnx/converter.h"

#include <algorithm>
#include <cmath>

#include "partita/base/error.h"

namespace partita::onnx_model {

Value constant_value(Values values) {
  Value value{values.shape, values.dtype, {}, nullptr, nullptr};
  value.constant = std::make_shared<const Values>(std::move(values));
  return value;
}

void check_room(const Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count) || count > (int64_t{1} << 26))
      fail("a constant of shape {}", shape_text(shape));
}

const Value& NodeContext::value(std::size_t operand) const {
  if (!present(operand)) fail("operand {} is missing", operand);
  return *operands_[operand];
}

TensorId NodeContext::tensor(std::size_t operand) {
  value(operand);
  Value& value = *operands_[operand];
  if (value.sequence) fail("'{}' is a sequence, which this operator does not take", inputs_[operand]);
  if (value.tensor.valid()) return value.tensor;
  ensure(value.constant != nullptr, "'{}' is neither a tensor nor a constant", inputs_[operand]);
  const std::string& name = inputs_[operand];
  std::string free = state.model.initializers.contains(name) ? name : name + ".constant";
  while (build.has_tensor(free) || (free != name && state.reserved.contains(free))) free += "_";
  return value.tensor = build.constant(free, *value.constant);
}

const Values* NodeContext::constant(std::size_t operand, const char* what) const {
  if (!present(operand)) return nullptr;
  if (!value(operand).constant)
    fail("its {} ('{}') are computed from the data; only constant ones are supported", what, inputs_[operand]);
  return value(operand).constant.get();
}

std::optional<double> NodeContext::number(std::size_t operand, const char* attribute) const {
  const Values* values = constant(operand, attribute);
  if (!values) return has(node, attribute) ? std::optional(real(attribute, 0)) : std::nullopt;
  if (volume(values->shape) != 1)
    fail("its {} ('{}') is {}, not one number", attribute, inputs_[operand], shape_text(values->shape));
  return is_float(values->dtype) ? values->real[0] : static_cast<double>(values->integer[0]);
}

std::optional<int64_t> NodeContext::whole(std::size_t operand, const char* attribute) const {
  if (!present(operand)) return has(node, attribute) ? std::optional(integer(attribute, 0)) : std::nullopt;
  const auto value = number(operand, attribute);
  if (!(std::abs(*value) < 1e15) || *value != std::floor(*value))
    fail("its {} is {}, no whole number of sensible size", attribute, *value);
  return static_cast<int64_t>(*value);
}

std::vector<int64_t> NodeContext::list(const char* attribute, std::size_t operand) const {
  const Values* values = constant(operand, attribute);
  if (values && is_float(values->dtype))
    fail("its {} ('{}') are {}", attribute, inputs_[operand], name_of(values->dtype));
  return values ? values->integer : integers(attribute);
}

bool NodeContext::is_filled_with(std::size_t operand, double number) const {
  const Values* values = present(operand) ? value(operand).constant.get() : nullptr;
  return values && std::all_of(values->real.begin(), values->real.end(), [&](double v) { return v == number; }) &&
         std::all_of(values->integer.begin(), values->integer.end(),
                     [&](int64_t v) { return static_cast<double>(v) == number; });
}

int64_t NodeContext::declared_extent(std::size_t axis, std::size_t rank) const {
  const auto found = node.outputs.empty() ? state.model.declared.end() : state.model.declared.find(node.outputs[0]);
  return found == state.model.declared.end() || found->second.size() != rank ? -1 : found->second[axis].extent;
}

Value NodeContext::op(std::string_view definition, std::vector<TensorId> operands, tdl::Attributes attributes) {
  return ops(definition, std::move(operands), std::move(attributes)).front();
}

Results NodeContext::ops(std::string_view definition, std::vector<TensorId> operands, tdl::Attributes attributes) {
  Results results;
  for (TensorId id : build.ops(definition, std::move(operands), std::move(attributes), op_name_))
    results.push_back(made(id));
  return results;
}

TensorId NodeContext::before(std::string_view definition, std::vector<TensorId> operands, tdl::Attributes attributes) {
  return several_before(definition, std::move(operands), std::move(attributes)).front();
}

std::vector<TensorId> NodeContext::several_before(std::string_view definition, std::vector<TensorId> operands,
                                                  tdl::Attributes attributes) {
  return build.ops(definition, std::move(operands), std::move(attributes), fmt::format("{}.{}", op_name_, definition));
}

TensorId NodeContext::reshaped_before(TensorId tensor, const Shape& shape) {
  return build.shape(tensor) == shape ? tensor : before("reshape", {tensor}, list_attributes("shape", shape));
}

TensorId NodeContext::transposed_before(TensorId tensor, const std::vector<int64_t>& order) {
  return std::is_sorted(order.begin(), order.end()) ? tensor
                                                    : before("transpose", {tensor}, list_attributes("perm", order));
}

TensorId NodeContext::constant_tensor(Values values, const std::string& suffix) {
  std::string name = fmt::format("{}.{}", op_name_, suffix);
  while (build.has_tensor(name) || state.reserved.contains(name)) name += "_";
  return build.constant(name, std::move(values));
}

Value NodeContext::reshaped(TensorId tensor, const Shape& shape) {
  return build.shape(tensor) == shape ? made(tensor) : op("reshape", {tensor}, list_attributes("shape", shape));
}

}  // namespace partita::onnx_model
