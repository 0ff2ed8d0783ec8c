// Evaluates values that are constant once the inputs' shapes are, for the import. These are shape arithmetic, and the
// tensors that PyTorch's exporter builds node by node (a zero bias as Shape, CastLike, Expand). Integers and booleans
// are exact; float32 is rounded. Other operators on constants go through their converter and the reference evaluator
// (import.cc).
#pragma once
#include <optional>
#include <vector>

#include "partita/onnx/attributes.h"
#include "partita/onnx/model.h"

namespace partita::onnx_model {

// Tells whether evaluate_constant knows the operator.
bool can_evaluate(const std::string& operation);
// Returns the node's first result from constant operands (null: absent). Bad input names the fault, without file and
// node.
Values evaluate_constant(const Node& node, const std::vector<const Values*>& operands);

// Shapes as ONNX's operators define them.
int64_t axis_of(int64_t axis, std::size_t rank);  // counted from the front
int64_t place_of(int64_t id, int64_t extent);     // a number of a place along an axis; those below 0 count from the end
Shape reshaped(const Shape& from, std::vector<int64_t> target, bool allow_zero);  // with 0 and -1 filled in
Shape broadcast(const Shape& a, const Shape& b);
Shape squeezed(const Shape& from, const std::vector<int64_t>& axes);  // no axes: all of extent 1
Shape unsqueezed(const Shape& from, const std::vector<int64_t>& axes);

// starts, sizes and steps of every axis.
struct SliceRange {
  std::vector<int64_t> starts, sizes, steps;
};
SliceRange slice_range(const Shape& from, const std::vector<int64_t>& starts, const std::vector<int64_t>& ends,
                       std::vector<int64_t> axes, std::vector<int64_t> steps);

}  // namespace partita::onnx_model
