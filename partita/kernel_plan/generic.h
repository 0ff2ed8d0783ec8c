// The generic stage kernel's plan of a call: a stage program for each stage, and where stages that no one else wants
// lie meanwhile.
#pragma once
#include <vector>

#include "partita/kernel_plan/stage_program.h"

namespace partita {

// A block's temporaries in the generic stage kernel stay below this where they can. Small enough for a core's cache to
// hold much of it, large enough that an instruction's own cost does not show (bench/kernels).
constexpr int64_t kGenericBudgetBytes = int64_t{4} << 20;
// Where internal tensors take more than this together, the stages are run slice by slice (slices.h), with slices whose
// internal tensors stay below it where they can. Large enough that the matrix products of a slice of attention are
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
  Part out;               // what the stage is written to: of a tensor in slices the whole box, and a slice's strides
  Shape memory;           // internal or accumulated: the extents of a whole slice
  bool internal = false;  // its tensor is not written, and has memory of its own
  // The slices of the inner indices add up in memory of its own. After the loop a tensor that is written is copied.
  bool accumulated = false;
  // Its tensor is not written, and lies where this result will: the result reads it at its own index only. -1: no.
  int shares = -1;
  std::vector<int> dead;  // internal tensors that end here
};
struct GenericSlice {
  int index = -1;  // of the formula
  int64_t extent = 0;
};
struct GenericPlan {
  Parts parts;  // of internal tensors too
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

// Whether the expression reads the tensor at these subscripts only, if at all.
bool reads_only_at(const tdl::Expr& e, int tensor, const std::vector<tdl::Affine>& subscripts);

}  // namespace partita
