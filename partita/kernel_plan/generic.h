// Plans a call on the generic stage kernel: a stage program for each stage, and memory for internal stages.
#pragma once
#include <vector>

#include "partita/kernel_plan/stage_program.h"

namespace partita {

// A block's temporaries in the generic stage kernel stay below this if they can. It is small enough for a core's cache
// to hold much of it, and large enough that an instruction's own cost does not show (bench/kernels).
constexpr int64_t kGenericBudgetBytes = int64_t{4} << 20;
// If internal tensors take more than this together, the stages are run slice by slice (slices.h). The internal tensors
// of a slice stay below it if they can. It is large enough that the matrix products of a slice of attention are
// efficient (bench/kernels).
constexpr int64_t kGenericSliceBytes = int64_t{32} << 20;

// One stage. A stage that is not written lies in memory of its own until the last stage that reads it has run.
struct GenericStep {
  enum class What {
    kNothing,   // the result is empty
    kIdentity,  // the reduction is empty: its identity is the result
    kProgram,
  } what = What::kProgram;
  int stage = -1;
  Box box;  // of the result
  StageProgram program;
  TensorShard out;        // the written shard: for a tensor in slices the whole box, and a slice's strides
  Shape memory;           // internal or accumulated: the extents of a whole slice
  bool internal = false;  // its tensor is not written, and has memory of its own
  // The slices of the inner indices add up in memory of its own. After the loop a written tensor is copied.
  bool accumulated = false;
  // The tensor is internal, and lies in this result's memory: the result reads it at its own index only. -1: no.
  int shares = -1;
  std::vector<int> dead;  // internal tensors that end here
};
struct GenericSlice {
  int index = -1;  // of the formula
  int64_t extent = 0;
};
struct GenericPlan {
  TensorShards shards;  // includes internal tensors
  std::vector<Interval> ranges;
  std::vector<GenericStep> steps;
  // All steps run once a slice of the outer indices; steps [loop_begin, loop_end) once a slice of the inner ones in it.
  std::vector<GenericSlice> outer, inner;
  size_t loop_begin = 0, loop_end = 0;
  std::vector<int> loop_dead;  // internal tensors that end with the inner loop
  int64_t workspace_bytes = 0;
};
GenericPlan plan_generic(const KernelRequest& request, int64_t budget_bytes = kGenericBudgetBytes,
                         int64_t slice_bytes = kGenericSliceBytes);

// Tells whether the expression reads the tensor at these subscripts only, if at all.
bool reads_only_at(const tdl::Expr& e, int tensor, const std::vector<tdl::Affine>& subscripts);

}  // namespace partita
