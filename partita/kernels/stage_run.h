// Holds one stage of the generic stage kernel while it runs, block by block.
#pragma once
#include <vector>

#include "partita/kernels/generic.h"

namespace partita {

struct StageRun {
  const StageProgram& program;
  const PreparedStage& prepared;
  const std::vector<ShardMemory>& held;
  const ShardMemory& out;  // the result
  const KernelCall& call;
  const std::vector<Interval>& slice;  // per dimension: the range of this run

  // The block that runs now: an interval a dimension.
  Box box = {};
  Shape block = {};                     // its extents
  std::vector<at::Tensor> values = {};  // per instruction
  std::vector<bool> flipped = {};       // per instruction: a copy in an order that ATen chose
  at::Tensor sum = {};                  // StageProgram::accumulates
};

// The block's extents along these dimensions, 1 along the others.
Shape block_sizes(const StageRun& run, uint64_t dims);
// The tensor that the block's values are written to, or combined with, over all dimensions. A negative stride is left
// positive, from the other end.
at::Tensor out_tensor(const StageRun& run);
// The result's own memory, if out_tensor() is a sum of another type.
at::Tensor out_memory(const StageRun& run);
// A form's value if each dimension is at the end of the block from which its stride counts up.
int64_t lowest_value(const StageRun& run, const tdl::Affine& form, const Shape& strides);
// The dimensions with negative strides, and all strides without their signs.
std::vector<int64_t> negative_dims(const Shape& strides);
Shape absolute_strides(Shape strides);

// Computes the value of an instruction (stage_values.cc).
void evaluate_instruction(StageRun& run, size_t instruction);
// Writes the block's values into the result (stage_finish.cc). first: it is the first block for these elements of the
// result; later ones are combined with it.
void finish_block(StageRun& run, bool first);

}  // namespace partita
