// Computes boxes, strides and matrix layouts of a stage program's values in one block.
#include "partita/kernel_plan/block.h"

#include <algorithm>

namespace partita {

using tdl::Affine;

int64_t extent_of(const Shape& sizes, const std::vector<int>& dims) {
  int64_t n = 1;
  for (int d : dims) n *= sizes[d];
  return n;
}

std::optional<int64_t> merged_stride(const Shape& sizes, const Shape& strides, const std::vector<int>& dims) {
  int64_t stride = 0, extent = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    const int d = dims[i];
    if (sizes[d] == 1) continue;
    if (extent == 1) stride = strides[d];
    else if (strides[d] != stride * extent) return std::nullopt;
    extent *= sizes[d];
  }
  return stride;
}

uint64_t lhs_mask(const StageProgram& program) { return (uint64_t{1} << program.lhs_count) - 1; }

uint64_t wanted_dims(const StageProgram& program) {
  uint64_t dims = 0;
  for (int d = 0; d < program.lhs_count; ++d)
    if (program.ranges[d].size() != 1) dims |= uint64_t{1} << d;
  return dims;
}

Box read_hull(const StageInstr& read, const std::vector<int>& dims, const std::vector<Interval>& block) {
  Box hull;
  for (const Affine& form : read.subscripts) {
    Interval axis{form.constant, form.constant + 1};
    for (const Affine::Term& t : form.terms) {
      const size_t d = std::find(dims.begin(), dims.end(), t.atom.index) - dims.begin();
      const int64_t a = t.coefficient * block[d].lo, b = t.coefficient * (block[d].hi - 1);
      axis.lo += std::min(a, b);
      axis.hi += std::max(a, b);
    }
    hull.push_back(axis);
  }
  return hull;
}

Shape read_strides(const StageInstr& read, const std::vector<int>& dims, const Shape& axis_strides) {
  Shape strides(dims.size(), 0);
  for (size_t a = 0; a < read.subscripts.size(); ++a)
    for (const Affine::Term& t : read.subscripts[a].terms)
      strides[std::find(dims.begin(), dims.end(), t.atom.index) - dims.begin()] += t.coefficient * axis_strides[a];
  return strides;
}

bool is_flipped(const StageInstr& read, const Shape& strides) {
  for (size_t d = 0; d < strides.size(); ++d)
    if (strides[d] < 0 && (read.dims >> d & 1)) return true;
  return false;
}

StageInstr left_side(const StageProgram& program, const tdl::Stage& stage) {
  StageInstr lhs;
  lhs.subscripts = stage.lhs;
  lhs.dims = wanted_dims(program);
  return lhs;
}

ProductDims product_dims(const StageProgram& program) {
  ProductDims result;
  const uint64_t a = program.code[program.a].dims, b = program.code[program.b].dims;
  for (int d = 0; d < static_cast<int>(program.dims.size()); ++d) {
    const bool in_a = a >> d & 1, in_b = b >> d & 1;
    if (!in_a && !in_b) continue;
    if (d >= program.lhs_count) result.summed.push_back(d);
    else if (in_a && in_b) result.batch.push_back(d);
    else if (in_a) result.rows.push_back(d);
    else result.columns.push_back(d);
  }
  return result;
}

std::optional<MatrixStrides> matrix_strides(const Shape& sizes, const Shape& strides, const std::vector<int>& batch,
                                            const std::vector<int>& rows, const std::vector<int>& columns) {
  const auto b = merged_stride(sizes, strides, batch), r = merged_stride(sizes, strides, rows),
             c = merged_stride(sizes, strides, columns);
  if (!b || !r || !c || *b < 0 || *r < 0 || *c < 0) return std::nullopt;
  const int64_t m = extent_of(sizes, rows), n = extent_of(sizes, columns);
  MatrixStrides s{*b, *r, *c};
  // One of the two strides is 1, and the other at least its extent: a matrix product takes this without a copy. The
  // stride of an extent of 1 is free.
  if ((n == 1 || s.columns == 1) && (m == 1 || s.rows >= n)) {
    if (n == 1 && m > 1 && s.rows == 0) return std::nullopt;
    return MatrixStrides{s.batch, m == 1 ? std::max<int64_t>(n, 1) : s.rows, 1};
  }
  if ((m == 1 || s.rows == 1) && (n == 1 || s.columns >= m))
    return MatrixStrides{s.batch, 1, n == 1 ? std::max<int64_t>(m, 1) : s.columns};
  return std::nullopt;
}

}  // namespace partita
