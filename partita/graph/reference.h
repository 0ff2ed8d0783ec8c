// A graph run op by op by the reference evaluator: the slow, obvious oracle. Real values are float64, those of float16
// and bfloat16 tensors rounded to that when an op is done; integers and booleans are exact.
#pragma once
#include <map>
#include <vector>

#include "partita/graph/graph.h"
#include "partita/tdl/evaluate.h"

namespace partita {

// `values` holds every input, parameter and state (constants and tensors with initial `values` may be left out);
// afterwards it holds every result as well.
void reference_run(const Graph& graph, std::map<TensorId, tdl::Array>& values);

// `array` as its dtype says: integers rounded towards zero from reals, booleans 0 or 1.
Values to_values(const tdl::Array& array, DType dtype);
tdl::Array to_array(const Values& values);

// One op of operands given as arrays; results as their dtypes say.
std::vector<tdl::Array> reference_op(const Graph& graph, const Op& op, const std::vector<tdl::Array>& operands);

}  // namespace partita
