// Runs a graph op by op with the reference evaluator: the slow, obvious oracle. Real values are float64, those of
// float16 and bfloat16 tensors are rounded to that after each op; integers and booleans are exact.
#pragma once
#include <map>
#include <vector>

#include "partita/graph/graph.h"
#include "partita/tdl/evaluate.h"

namespace partita {

// Runs the graph. `values` holds every input, parameter and state (constants and tensors with initial `values` may be
// left out). Afterwards it holds every result as well.
void reference_run(const Graph& graph, std::map<TensorId, tdl::Array>& values);

// Converts `array` to its dtype: integers are rounded towards zero from reals, booleans are 0 or 1.
Values to_values(const tdl::Array& array, DType dtype);
tdl::Array to_array(const Values& values);

// Runs one op on operands given as arrays; results have their dtypes.
std::vector<tdl::Array> reference_op(const Graph& graph, const Op& op, const std::vector<tdl::Array>& operands);

}  // namespace partita
