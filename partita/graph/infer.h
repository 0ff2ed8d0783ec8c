// What an op's results are, from its formula: used by the builder, the parser and the verifier alike.
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

// The widest floating type among the operands, of float16 and bfloat16 float32; without one int64, also for booleans.
DType promoted(const std::vector<DType>& dtypes);
// The same, where an operand without axes (a number) widens no other's floating type, as in PyTorch.
DType promoted(const std::vector<DType>& dtypes, const std::vector<Shape>& shapes);

// The results' dtypes of an instance of a definition.
std::vector<DType> result_dtypes(const OpDefinition& definition, const OpInstance& instance, std::size_t results);

// "matmul 'fc1' (x float32[4x3], w float32[5x2])", for messages.
std::string describe(const Graph& graph, const Op& op);

}  // namespace partita
