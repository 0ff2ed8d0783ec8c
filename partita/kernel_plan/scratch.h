// Sizes the scratch memory of a stage program: repeats the requests of the generic stage kernel for a block.
#pragma once
#include "partita/kernel_plan/first_fit.h"
#include "partita/kernel_plan/stage_program.h"

namespace partita {

// The relation of a block's result, of these extents, to its shard in memory.
struct BlockLayout {
  Shape out_strides;          // of the result's shard, per dimension
  bool flips_out = false;     // a stride of the result is negative
  bool same_dtype = true;     // values have the shard's dtype
  bool one_pass = true;       // the block covers the reduced dimensions
  bool accumulates = false;   // see StageProgram
  bool direct = false;        // the last step can write into the result's shard
  int64_t element_bytes = 0;  // of the result's shard
};
BlockLayout block_layout(const tdl::Bound& bound, const StageProgram& program, const TensorShards& shards,
                         const Shape& block);

// Runs a program's requests for one block of these extents through `scratch`, as the kernel does.
void place_block(const StageProgram& program, const TensorShards& shards, const Shape& block, const BlockLayout& layout,
                 FirstFit& scratch);
// The same for whole blocks and for the smaller ones at the ends of slices and ranges.
void place_blocks(const tdl::Bound& bound, const StageProgram& program, const TensorShards& shards, FirstFit& scratch);

}  // namespace partita
