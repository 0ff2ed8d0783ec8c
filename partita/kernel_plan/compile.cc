// Compiles a stage: its instructions, how long each value lives, and the largest block whose temporaries fit.
#include <algorithm>
#include <utility>

#include "partita/base/error.h"
#include "partita/kernel_plan/scratch.h"
#include "partita/kernel_plan/stage_builder.h"
#include "partita/kernel_plan/types.h"
#include "partita/tdl/affine.h"

namespace partita {

using tdl::ExprKind;
using Kind = StageInstr::Kind;
using Finish = StageProgram::Finish;

namespace {

// The dimensions of a stage, and no instructions yet.
StageProgram begin_program(const tdl::Bound& bound, int stage, const std::vector<Interval>& ranges,
                           const Shape& slices) {
  const tdl::Stage& s = bound.stages[stage];
  StageProgram program;
  program.stage = stage;
  for (const tdl::Affine& form : s.lhs) tdl::collect_indices(form, program.dims);
  program.lhs_count = static_cast<int>(program.dims.size());
  if (s.body.kind == ExprKind::kReduce)
    program.dims.insert(program.dims.end(), s.body.reduced.begin(), s.body.reduced.end());
  ensure(program.dims.size() <= 60, "stage {} has {} indices", bound.tensors[s.tensor].name, program.dims.size());
  for (int i : program.dims) {
    program.ranges.push_back(ranges[i]);
    program.slice.push_back(std::min(ranges[i].size(), slices[i]));
  }
  return program;
}

// Ends a program whose stage reduces nothing.
void compile_store(StageBuilder& b) {
  StageProgram& program = b.program;
  program.finish = Finish::kStore;
  program.a = compile(b, b.stage.body);
  const DType stored = b.shards[b.stage.tensor]->dtype;
  if (is_low(stored) && program.code[program.a].dtype == stored) program.dtype = stored;  // it is only moved
  program.a = emit_cast(b, program.a, program.dtype);
  if (program.dtype == b.real && stored == DType::kInt64)
    program.a = emit_binary(b, "max", emit_binary(b, "min", program.a, emit_constant(b, kLargestInt, b.real), b.real),
                            emit_constant(b, -kLargestInt, b.real), b.real);
}

bool may_overwrite(const StageInstr& instr) {
  return instr.kind == Kind::kUnary || instr.kind == Kind::kBinary || instr.kind == Kind::kSelect;
}
bool owns_memory(const StageInstr& instr) { return instr.kind != Kind::kConst && instr.kind != Kind::kRead; }

// Finds where values end, and the instruction that can overwrite each there.
void find_lifetimes(StageProgram& program) {
  std::vector<StageInstr>& code = program.code;
  std::vector<int> last(code.size(), -1);
  for (size_t i = 0; i < code.size(); ++i)
    for (int a : code[i].args) last[a] = static_cast<int>(i);
  for (int end : {program.a, program.b, program.hidden, program.zero})
    if (end >= 0) last[end] = static_cast<int>(code.size());
  for (size_t i = 0; i < code.size(); ++i) {
    StageInstr& instr = code[i];
    for (int a : instr.args)
      if (last[a] == static_cast<int>(i) && std::find(instr.dead.begin(), instr.dead.end(), a) == instr.dead.end())
        instr.dead.push_back(a);
    if (last[i] < 0) instr.dead.push_back(static_cast<int>(i));
    if (!may_overwrite(instr)) continue;
    for (int a : instr.args) {
      const StageInstr& arg = code[a];
      if (!owns_memory(arg) || last[a] != static_cast<int>(i) || arg.dims != instr.dims || arg.dtype != instr.dtype)
        continue;
      instr.in_place = true;
      instr.reuse = a;
      break;
    }
  }
}

// Sets the program's block: all of a slice, halved along one dimension after another until a block's temporaries
// fit. It chooses the first dimension that helps by a tenth; one of the left side before a reduced one, whose blocks
// must be combined.
void choose_block(const tdl::Bound& bound, StageProgram& program, const TensorShards& shards, int64_t budget_bytes) {
  const auto peak_of = [&](const Shape& block) {
    const BlockLayout layout = block_layout(bound, program, shards, block);
    program.direct = layout.direct;
    FirstFit scratch;
    place_block(program, shards, block, layout, scratch);
    return scratch.end();
  };
  Shape block;
  for (size_t d = 0; d < program.ranges.size(); ++d) block.push_back(program.single >> d & 1 ? 1 : program.slice[d]);
  int64_t peak = peak_of(block);
  while (peak > budget_bytes) {
    Shape best;
    int64_t best_peak = peak;
    for (size_t d = 0; d < block.size(); ++d) {
      const auto& whole = program.scattered;
      if (block[d] == 1 || std::find(whole.begin(), whole.end(), static_cast<int>(d)) != whole.end()) continue;
      Shape smaller = block;
      smaller[d] = (block[d] + 1) / 2;
      const int64_t p = peak_of(smaller);
      if (p < best_peak) {
        best = smaller;
        best_peak = p;
        if (p * 10 <= peak * 9) break;
      }
    }
    if (best.empty()) break;
    block = best;
    peak = best_peak;
  }
  program.block = block;
  const BlockLayout layout = block_layout(bound, program, shards, block);
  program.direct = layout.direct;
  program.accumulates = layout.accumulates;
}

}  // namespace

StageProgram compile_stage(const tdl::Bound& bound, int stage, const std::vector<Interval>& ranges, const Shape& slices,
                           const TensorShards& shards, DType real, int64_t budget_bytes) {
  const tdl::Stage& s = bound.stages[stage];
  StageBuilder b{bound, s, ranges, shards, real, begin_program(bound, stage, ranges, slices), {}};
  b.program.dtype = stage_dtype(bound, stage, shards, real);
  if (s.body.kind == ExprKind::kReduce) compile_reduction(b, s.body);
  else compile_store(b);
  find_lifetimes(b.program);
  choose_block(bound, b.program, shards, budget_bytes);
  return std::move(b.program);
}

}  // namespace partita
