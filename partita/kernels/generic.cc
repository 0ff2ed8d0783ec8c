// Runs stage programs on ATen, one block after another.
#include "partita/kernels/generic.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "partita/kernels/stage_run.h"

namespace partita {

using Kind = StageInstr::Kind;

namespace {

PreparedStage prepare_stage(const StageProgram& program, const tdl::Stage& stage, const TensorShard& out,
                            const TensorShards& shards) {
  PreparedStage prepared;
  for (const StageInstr& instr : program.code) {
    prepared.unary.push_back(instr.kind == Kind::kUnary ? unary_function(instr.function) : nullptr);
    prepared.binary.push_back(instr.kind == Kind::kBinary ? binary_function(instr.function) : nullptr);
    const bool as_it_lies = instr.kind == Kind::kRead && !instr.padded;
    prepared.read_strides.push_back(as_it_lies ? read_strides(instr, program.dims, shards[instr.tensor]->strides)
                                               : Shape());
  }
  prepared.lhs = left_side(program, stage);
  prepared.out_strides = read_strides(prepared.lhs, program.dims, out.strides);
  if (program.finish == StageProgram::Finish::kProduct) prepared.product = product_dims(program);
  return prepared;
}

// ---------------------------------------------------------------- blocks

void run_block(StageRun& run, bool first) {
  const std::vector<StageInstr>& code = run.program.code;
  run.block = extents(run.box);
  run.values.assign(code.size(), {});
  run.flipped.assign(code.size(), false);
  for (size_t i = 0; i < code.size(); ++i) {
    evaluate_instruction(run, i);
    for (int dead : code[i].dead) run.values[dead].reset();
  }
  finish_block(run, first);
  run.values.clear();
}

// All blocks of the slice from dimension d on, those of reduced dimensions innermost.
void run_blocks(StageRun& run, size_t d, bool first) {
  const StageProgram& program = run.program;
  if (d == program.dims.size()) return run_block(run, first);
  if (program.accumulates && static_cast<int>(d) == program.lhs_count && !run.sum.defined()) {
    Shape sizes(program.dims.size(), 1);
    for (int i = 0; i < program.lhs_count; ++i) sizes[i] = run.box[i].size();
    run.sum = new_tensor(program.dtype, sizes);
    run_blocks(run, d, true);
    const at::Tensor sum = std::move(run.sum);
    run.sum.reset();
    out_memory(run).copy_(sum);
    return;
  }
  const Interval range = run.slice[d];
  for (int64_t lo = range.lo; lo < range.hi; lo += program.block[d]) {
    run.box[d] = {lo, std::min(lo + program.block[d], range.hi)};
    run_blocks(run, d + 1, first && (static_cast<int>(d) < program.lhs_count || lo == range.lo));
  }
}

}  // namespace

// ---------------------------------------------------------------- shared by values and results

Shape block_sizes(const StageRun& run, uint64_t dims) {
  Shape sizes(run.block.size(), 1);
  for (size_t d = 0; d < sizes.size(); ++d)
    if (dims >> d & 1) sizes[d] = run.block[d];
  return sizes;
}

at::Tensor out_tensor(const StageRun& run) { return run.sum.defined() ? run.sum : out_memory(run); }

at::Tensor out_memory(const StageRun& run) {
  const PreparedStage& prepared = run.prepared;
  const TensorShard& shard = run.out.shard;
  Shape sizes(run.box.size(), 1);
  for (int d = 0; d < run.program.lhs_count; ++d) sizes[d] = run.box[d].size();
  int64_t offset = 0;
  for (size_t a = 0; a < prepared.lhs.subscripts.size(); ++a)
    offset +=
        (lowest_value(run, prepared.lhs.subscripts[a], prepared.out_strides) - shard.box[a].lo) * shard.strides[a];
  return tensor_over(run.out.data + offset * bytes_of(shard.dtype), shard.dtype, sizes,
                     absolute_strides(prepared.out_strides));
}

int64_t lowest_value(const StageRun& run, const tdl::Affine& form, const Shape& strides) {
  const std::vector<int>& dims = run.program.dims;
  int64_t value = form.constant;
  for (const auto& t : form.terms) {
    const size_t d = std::find(dims.begin(), dims.end(), t.atom.index) - dims.begin();
    value += t.coefficient * (strides[d] < 0 ? run.box[d].hi - 1 : run.box[d].lo);
  }
  return value;
}

std::vector<int64_t> negative_dims(const Shape& strides) {
  std::vector<int64_t> dims;
  for (size_t d = 0; d < strides.size(); ++d)
    if (strides[d] < 0) dims.push_back(static_cast<int64_t>(d));
  return dims;
}

Shape absolute_strides(Shape strides) {
  for (int64_t& s : strides) s = std::abs(s);
  return strides;
}

// ---------------------------------------------------------------- stages

std::vector<PreparedStage> prepare_generic(const tdl::Bound& bound, const GenericPlan& plan) {
  std::vector<PreparedStage> prepared;
  for (const GenericStep& step : plan.steps)
    prepared.push_back(step.what == GenericStep::What::kProgram
                           ? prepare_stage(step.program, bound.stages[step.stage], step.out, plan.shards)
                           : PreparedStage());
  return prepared;
}

namespace {

// A call while it runs.
struct GenericRun {
  const GenericPlan& plan;
  const std::vector<PreparedStage>& prepared;
  const tdl::Bound& bound;
  const KernelMemory& given;
  std::vector<ShardMemory> held;
  std::vector<at::Tensor> internal;  // includes sums over slices
  std::vector<Interval> ranges;      // of the slice, per index of the formula
};

// The step's box in this slice.
Box slice_box(const GenericRun& run, const GenericStep& step) {
  Box box = step.box;
  if (is_empty(box)) return box;
  for (size_t a = 0; a < box.size(); ++a)
    if (const int i = run.bound.stages[step.stage].lhs[a].plain_index(); i >= 0) box[a] = run.ranges[i];
  return box;
}

// Allocates the step's own memory, of a whole slice's size even if the last one is smaller: all slices are placed
// alike.
void allocate(GenericRun& run, const GenericStep& step) {
  const int tensor = run.bound.stages[step.stage].tensor;
  run.internal[tensor] = new_tensor(step.out.dtype, step.memory);
  run.held[tensor] = {{step.out.dtype, slice_box(run, step), step.out.strides},
                      static_cast<std::byte*>(run.internal[tensor].data_ptr())};
}

void run_step(GenericRun& run, size_t s) {
  const GenericStep& step = run.plan.steps[s];
  const tdl::Stage& stage = run.bound.stages[step.stage];
  ShardMemory& out = run.held[stage.tensor];
  if (step.internal) allocate(run, step);
  if (step.shares >= 0) out = run.held[step.shares];
  switch (step.what) {
    case GenericStep::What::kNothing:
      break;
    case GenericStep::What::kIdentity: {
      at::Tensor all = out.tensor(step.box);
      fill_identity(all, stage.body.reducer);
      break;
    }
    case GenericStep::What::kProgram: {
      const StageProgram& program = step.program;
      std::vector<Interval> slice;
      bool first = true;
      for (size_t d = 0; d < program.dims.size(); ++d) {
        slice.push_back(run.ranges[program.dims[d]]);
        first &= static_cast<int>(d) < program.lhs_count || slice[d].lo == program.ranges[d].lo;
      }
      StageRun blocks{program, run.prepared[s], run.held, out, run.given.call, slice};
      blocks.box.resize(program.dims.size());
      run_blocks(blocks, 0, first);
      break;
    }
  }
  for (int t : step.dead) run.internal[t].reset();
}

// Calls f() for each slice of these indices, the last of them fastest.
template <typename F>
void each_slice(GenericRun& run, const std::vector<GenericSlice>& slices, size_t at, const F& f) {
  if (at == slices.size()) return f();
  const Interval whole = run.plan.ranges[slices[at].index];
  for (int64_t lo = whole.lo; lo < whole.hi; lo += slices[at].extent) {
    run.ranges[slices[at].index] = {lo, std::min(lo + slices[at].extent, whole.hi)};
    each_slice(run, slices, at + 1, f);
  }
  run.ranges[slices[at].index] = whole;
}

// One slice of the outer indices.
void run_steps(GenericRun& run) {
  const GenericPlan& plan = run.plan;
  for (size_t s = 0; s < plan.loop_begin; ++s) run_step(run, s);
  std::vector<const GenericStep*> sums;
  for (size_t s = plan.loop_begin; s < plan.loop_end; ++s)
    if (plan.steps[s].accumulated) {
      sums.push_back(&plan.steps[s]);
      allocate(run, plan.steps[s]);
    }
  each_slice(run, plan.inner, 0, [&] {
    for (size_t s = plan.loop_begin; s < plan.loop_end; ++s) run_step(run, s);
  });
  for (const GenericStep* step : sums) {
    const int tensor = run.bound.stages[step->stage].tensor;
    if (!run.given.held[tensor].data) continue;  // not written
    const Box box = slice_box(run, *step);
    run.given.held[tensor].tensor(box).copy_(run.held[tensor].tensor(box));
    run.internal[tensor].reset();
    run.held[tensor] = run.given.held[tensor];
  }
  for (int t : plan.loop_dead) run.internal[t].reset();
  for (size_t s = plan.loop_end; s < plan.steps.size(); ++s) run_step(run, s);
}

}  // namespace

void run_generic(const GenericPlan& plan, const std::vector<PreparedStage>& prepared, const KernelMemory& given) {
  const tdl::Bound& bound = *given.call.work->bound;
  std::vector<at::Tensor> internal(bound.tensors.size());
  GenericRun run{plan, prepared, bound, given, given.held, std::move(internal), plan.ranges};
  each_slice(run, plan.outer, 0, [&] { run_steps(run); });
}

}  // namespace partita
