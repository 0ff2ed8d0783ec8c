// Infers an op's results from its formula, for the builder, the parser and the verifier alike.
#pragma once
#include <memory>
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

struct Inferred {
  std::vector<Shape> shapes;  // one a result
  std::vector<DType> dtypes;
  std::vector<int> sample_axes;    // -1: none
  std::vector<std::string> names;  // of the results, in the formula
};

// Binds op.formula, or else the definition's at the operands' shapes, applies op.factors, and fills in the defaults of
// op.attributes.
std::shared_ptr<const tdl::Bound> bind_op(const Graph& graph, Op& op);

// The same for an op that is bound.
Inferred infer(const Graph& graph, const Op& op);

// The widest floating type among the operands; float32 for float16 with bfloat16. Without a floating type int64, also
// for booleans.
DType promoted_dtype(const std::vector<DType>& dtypes);
// The same, except that an operand without axes (a number) widens no other's floating type, as in PyTorch.
DType promoted_dtype(const std::vector<DType>& dtypes, const std::vector<Shape>& shapes);

// The dtypes of an instance's results.
std::vector<DType> result_dtypes(const OpDefinition& definition, const OpInstance& instance, std::size_t results);

// "matmul 'fc1' (x float32[4x3], w float32[5x2])", for messages.
std::string describe(const Graph& graph, const Op& op);

}  // namespace partita
