// Runs any stages of any formula over any ranges, from their StagePrograms (the generic stage kernel). So every derived
// strategy and every derived gradient runs from the day it is described (docs/ARCHITECTURE.md section 4).
#pragma once
#include <vector>

#include "partita/kernel_plan/block.h"
#include "partita/kernel_plan/generic.h"
#include "partita/kernels/tensors.h"

namespace partita {

// The common data of a stage's blocks: ATen's functions, and where values lie.
struct PreparedStage {
  std::vector<UnaryFunction> unary;    // per instruction; null for those of other kinds
  std::vector<BinaryFunction> binary;  // so are these
  std::vector<Shape> read_strides;     // per instruction: of reads that are not padded
  StageInstr lhs;                      // left_side()
  Shape out_strides;                   // of the result's shard, per dimension
  ProductDims product;                 // kProduct
};
// One per step.
std::vector<PreparedStage> prepare_generic(const tdl::Bound& bound, const GenericPlan& plan);

// Runs the call's stages; internal tensors have no data in `given` yet.
void run_generic(const GenericPlan& plan, const std::vector<PreparedStage>& prepared, const KernelMemory& given);

}  // namespace partita
