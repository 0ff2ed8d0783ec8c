// Computes where the values of one block of a stage program lie in memory. The planner and the generic stage kernel
// both use it, and so agree on every size and stride.
#pragma once
#include <optional>
#include <vector>

#include "partita/kernel_plan/stage_program.h"

namespace partita {

// The product of the extents of some dimensions.
int64_t extent_of(const Shape& sizes, const std::vector<int>& dims);
// One stride for several dimensions, most significant first; empty if there is none, 0 if they have one element.
std::optional<int64_t> merged_stride(const Shape& sizes, const Shape& strides, const std::vector<int>& dims);

// The dimensions of the left side with more than one element, on which a whole result depends.
uint64_t lhs_mask(const StageProgram& program);
uint64_t wanted_dims(const StageProgram& program);

// ---------------------------------------------------------------- reads and writes

// Finds a read's place for one block: the hull of its subscripts, per axis, and its strides per dimension in a shard
// with these strides. A negative stride counts from the dimension's end.
Box read_hull(const StageInstr& read, const std::vector<int>& dims, const std::vector<Interval>& block);
Shape read_strides(const StageInstr& read, const std::vector<int>& dims, const Shape& axis_strides);
// Tells whether a read has a negative stride along a dimension that it depends on: its value is then a copy.
bool is_flipped(const StageInstr& read, const Shape& strides);
// The stage's left side in the form of a read, for the three functions above.
StageInstr left_side(const StageProgram& program, const tdl::Stage& stage);

// ---------------------------------------------------------------- matrix products

// The dimensions of a product: in both sides and kept, in a and kept, in b and kept, summed.
struct ProductDims {
  std::vector<int> batch, rows, columns, summed;
};
ProductDims product_dims(const StageProgram& program);

// A product's side in memory as matrices [batch, rows, columns]; empty if it must be copied. sizes and strides are per
// dimension of the block; `rows` and `columns` are dimensions, most significant first.
struct MatrixStrides {
  int64_t batch, rows, columns;
};
std::optional<MatrixStrides> matrix_strides(const Shape& sizes, const Shape& strides, const std::vector<int>& batch,
                                            const std::vector<int>& rows, const std::vector<int>& columns);

}  // namespace partita
