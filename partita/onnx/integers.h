// The integer types of a file, all of which are int64 here: which type a result has in the file, and arithmetic that
// wraps around in it.
#pragma once
#include <optional>
#include <vector>

#include "partita/onnx/converter.h"

namespace partita::onnx_model {

// The type, by ONNX's number, that the standard gives result `result` of a node where it is an integer; `operands` are
// null where absent.
int64_t result_type(const Node& node, std::size_t result, const std::vector<const Value*>& operands);
// What a result must be wrapped into, if its int64 value may lie outside its type in the file. Empty: it cannot, or the
// type is int64.
std::optional<IntegerType> wrapped_into(const Node& node, int64_t type, const std::vector<const Value*>& operands);

int64_t wrapped(int64_t value, IntegerType type);
Values wrapped(Values values, IntegerType type);

// An integer result has its type in the file, and where that is narrower than int64, only values of it. Result `r` of
// the node; an op that wraps it is named `name`.
void give_type(GraphBuilder& build, const Node& node, std::size_t r, Value& result,
               const std::vector<const Value*>& operands, const std::string& name);

}  // namespace partita::onnx_model
