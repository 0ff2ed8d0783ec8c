// Finds the converter of an operator, and evaluates converters on constants.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "partita/onnx/converter.h"

namespace partita::onnx_model {

// Returns the converter; null: there is none. ONNX Runtime's optimizer writes its own operators into the domain
// com.microsoft, and some into ONNX's, in which a name may have become ONNX's later.
const Converter* converter_of(const Node& node);

// Tells whether the user has described the operator (ops_with).
bool is_described(const OpRegistry& registry, const Node& node);
Results convert_described(NodeContext& n);

// Bad input: a node that cannot be imported, with any operands.
void check_operator(const OpRegistry& registry, const Node& node);

bool is_constant(const Value& value);
// Returns the result of Shape or Size.
Value shape_of(const NodeContext& n);

// Applies an operator to constants: its converter builds a graph of our ops, which the reference evaluator runs.
Results evaluate_by_converter(const Converter& converter, ImportState& state, const Node& node,
                              std::vector<std::string> names, const std::vector<Value*>& operands,
                              std::shared_ptr<const OpRegistry> registry);

}  // namespace partita::onnx_model
