// Gives integers the types of the file, although all are int64 here: a result's type in the file, and arithmetic that
// wraps around in it.
#pragma once
#include <optional>
#include <vector>

#include "partita/onnx/converter.h"

namespace partita::onnx_model {

// Returns the type, by ONNX's number, that the standard gives result `result` of a node if it is an integer; `operands`
// are null if absent.
int64_t result_integer_type(const Node& node, std::size_t result, const std::vector<const Value*>& operands);
// Returns the type that a result must be wrapped into, if its int64 value may lie outside its type in the file. Empty:
// it cannot, or the type is int64.
std::optional<IntegerType> wrapping_type(const Node& node, int64_t type, const std::vector<const Value*>& operands);

int64_t wrapped(int64_t value, IntegerType type);
Values wrapped(Values values, IntegerType type);

// Gives an integer result its type in the file, and if that is narrower than int64, wraps its values into it. Result
// `r` of the node; an op that wraps it is named `name`.
void give_type(GraphBuilder& build, const Node& node, std::size_t r, Value& result,
               const std::vector<const Value*>& operands, const std::string& name);

}  // namespace partita::onnx_model
