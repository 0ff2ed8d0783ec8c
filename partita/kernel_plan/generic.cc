// Plans a run of stages on the generic stage kernel.
#include "partita/kernel_plan/generic.h"

#include <utility>

#include "partita/base/error.h"
#include "partita/kernel_plan/scratch.h"
#include "partita/kernel_plan/types.h"
#include "partita/tdl/affine.h"

namespace partita {

using tdl::Bound;
using tdl::Expr;
using tdl::ExprKind;

bool reads_only_at(const Expr& e, int tensor, const std::vector<tdl::Affine>& subscripts) {
  bool only = true;
  tdl::for_each_read(e, [&](const Expr& read) { only &= read.tensor != tensor || read.subscripts == subscripts; });
  return only;
}

namespace {

bool reads_tensor(const Expr& e, int tensor) {
  bool reads = false;
  tdl::for_each_read(e, [&](const Expr& read) { reads |= read.tensor == tensor; });
  return reads;
}

// The written tensor in whose memory an internal one can lie until it is overwritten there, element by element; -1 if
// there is none. A result's memory may be an operand's (PHYSICAL.md section 4), so no operand of its size may be read
// after the internal tensor is written.
int shared_result(const KernelRequest& request, int stage, const Box& box, DType dtype) {
  const Bound& bound = request.bound;
  const tdl::Stage& made = bound.stages[stage];
  for (int r = stage + 1; r < request.last_stage; ++r) {
    const tdl::Stage& result = bound.stages[r];
    for (int t = 0; t < bound.operand_count; ++t)
      if (reads_tensor(result.body, t) && bound.tensors[t].factored == bound.tensors[made.tensor].factored) return -1;
    if (!request.held.written[result.tensor]) continue;
    const Part& part = *request.held.parts[result.tensor];
    if (result.body.kind == ExprKind::kReduce || !reads_tensor(result.body, made.tensor) || result.lhs != made.lhs ||
        part.dtype != dtype || part.box != box || !reads_only_at(result.body, made.tensor, result.lhs))
      continue;
    for (int later = r + 1; later < request.last_stage; ++later)
      if (reads_tensor(bound.stages[later].body, made.tensor)) return -1;
    return result.tensor;
  }
  return -1;
}

// Gives a stage's tensor that is not written its part, and says whose memory that is.
void place_internal(const KernelRequest& request, GenericPlan& plan, GenericStep& step) {
  const int tensor = request.bound.stages[step.stage].tensor;
  const DType dtype = stage_dtype(request.bound, step.stage, plan.parts, request.held.real);
  int shared = shared_result(request, step.stage, step.box, dtype);
  for (const GenericStep& before : plan.steps)
    if (before.shares >= 0 && before.shares == shared) shared = -1;
  step.shares = shared;
  step.internal = shared < 0;
  plan.parts[tensor] = shared >= 0 ? plan.parts[shared] : Part{dtype, step.box, dense_strides(extents(step.box))};
}

bool reduces_nothing(const tdl::Stage& stage, const std::vector<Interval>& ranges) {
  if (stage.body.kind != ExprKind::kReduce) return false;
  for (int i : stage.body.reduced)
    if (ranges[i].empty()) return true;
  return false;
}

// Decides how a stage runs, and what scratch it takes.
void plan_step(const KernelRequest& request, const Parts& parts, int64_t budget_bytes, GenericStep& step,
               FirstFit& scratch) {
  const Box& box = step.box;
  const Bound& bound = request.bound;
  const tdl::Stage& stage = bound.stages[step.stage];
  if (is_empty(box)) {
    step.what = GenericStep::What::kNothing;
    return;
  }
  ensure(contains(parts[stage.tensor]->box, box), "{}: stage {} owns {}, it is given {}", bound.name,
         bound.tensors[stage.tensor].name, to_string(box), to_string(parts[stage.tensor]->box));
  if (reduces_nothing(stage, request.ranges)) {
    step.what = GenericStep::What::kIdentity;
    return;
  }
  step.program = compile_stage(bound, step.stage, request.ranges, parts, request.held.real, budget_bytes);
  place_blocks(bound, step.program, parts, scratch);
}

}  // namespace

GenericPlan plan_generic(const KernelRequest& request, int64_t budget_bytes) {
  const Bound& bound = request.bound;
  const int tensors = static_cast<int>(bound.tensors.size());
  std::vector<int> last_reader(bound.tensors.size(), -1);
  for (int s = request.first_stage; s < request.last_stage; ++s)
    for (int t = 0; t < tensors; ++t)
      if (reads_tensor(bound.stages[s].body, t)) last_reader[t] = s;
  GenericPlan plan;
  plan.parts = request.held.parts;
  FirstFit scratch;
  std::vector<int64_t> offsets(bound.tensors.size(), -1);  // of internal tensors
  for (int s = request.first_stage; s < request.last_stage; ++s) {
    const int tensor = bound.stages[s].tensor;
    GenericStep step;
    step.stage = s;
    step.box = stage_box(bound, s, request.ranges);
    if (!request.held.written[tensor]) place_internal(request, plan, step);
    if (const int64_t bytes = step.internal ? volume(step.box) * bytes_of(plan.parts[tensor]->dtype) : 0; bytes > 0)
      offsets[tensor] = scratch.allocate(bytes);
    plan_step(request, plan.parts, budget_bytes, step, scratch);
    for (int t = 0; t < tensors; ++t)
      if (offsets[t] >= 0 && last_reader[t] <= s) {
        step.dead.push_back(t);
        scratch.free(offsets[t]);
        offsets[t] = -1;
      }
    plan.steps.push_back(std::move(step));
  }
  plan.workspace_bytes = scratch.end();
  return plan;
}

}  // namespace partita
