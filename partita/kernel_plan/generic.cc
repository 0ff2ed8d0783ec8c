// Plans a run of stages on the generic stage kernel.
#include "partita/kernel_plan/generic.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "partita/base/error.h"
#include "partita/kernel_plan/scratch.h"
#include "partita/kernel_plan/slices.h"
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
    const TensorShard& shard = *request.held.shards[result.tensor];
    if (result.body.kind == ExprKind::kReduce || !reads_tensor(result.body, made.tensor) || result.lhs != made.lhs ||
        shard.dtype != dtype || shard.box != box || !reads_only_at(result.body, made.tensor, result.lhs))
      continue;
    for (int later = r + 1; later < request.last_stage; ++later)
      if (reads_tensor(bound.stages[later].body, made.tensor)) return -1;
    return result.tensor;
  }
  return -1;
}

bool reduces_nothing(const tdl::Stage& stage, const std::vector<Interval>& ranges) {
  if (stage.body.kind != ExprKind::kReduce) return false;
  for (int i : stage.body.reduced)
    if (ranges[i].empty()) return true;
  return false;
}

// ---------------------------------------------------------------- one order of the stages

// A plan while it is made: stages in the order of `loops`, over slices of these extents (one an index).
struct Making {
  const KernelRequest& request;
  const SliceLoops& loops;
  const Shape& slices;
  std::optional<int64_t> budget_bytes;  // empty: internal tensors are placed, and nothing else
  GenericPlan plan = {};
  FirstFit scratch = {};
  std::vector<int64_t> offsets = {};  // of internal tensors
  std::vector<bool> in_loop = {};     // of internal tensors: placed in the inner loop
  std::vector<int> last_reader = {};  // per tensor: a step
  bool fits = true;                   // false: these stages can't be run this way

  const tdl::Stage& stage(int s) const { return request.bound.stages[s]; }
  bool is_sliced(int index) const { return slices[index] < request.ranges[index].size(); }
};

bool is_accumulated(const Making& m, int stage) {
  const Expr& body = m.stage(stage).body;
  return body.kind == ExprKind::kReduce && std::any_of(m.loops.inner.begin(), m.loops.inner.end(), [&](int i) {
           return m.is_sliced(i) && std::find(body.reduced.begin(), body.reduced.end(), i) != body.reduced.end();
         });
}

// The extents of a stage's box in one slice.
Shape slice_extents(const Making& m, int stage, const Box& box) {
  Shape result = extents(box);
  for (size_t a = 0; a < result.size(); ++a)
    if (const int index = m.stage(stage).lhs[a].plain_index(); index >= 0)
      result[a] = std::min(result[a], m.slices[index]);
  return result;
}

// Gives a stage's tensor memory of its own for one slice.
void place_slice(Making& m, int stage, const Box& box, DType dtype, bool in_loop) {
  const int tensor = m.stage(stage).tensor;
  const Shape memory = slice_extents(m, stage, box);
  m.plan.shards[tensor] = TensorShard{dtype, box, dense_strides(memory)};
  m.in_loop[tensor] = in_loop;
  if (const int64_t bytes = volume(memory) * bytes_of(dtype); bytes > 0) m.offsets[tensor] = m.scratch.allocate(bytes);
}

// Gives an internal tensor its shard, and records whose memory that is.
void place_internal(Making& m, GenericStep& step, bool in_loop) {
  const KernelRequest& request = m.request;
  const DType dtype = stage_dtype(request.bound, step.stage, m.plan.shards, request.held.real);
  int shared = shared_result(request, step.stage, step.box, dtype);
  for (const GenericStep& before : m.plan.steps)
    if (before.shares >= 0 && before.shares == shared) shared = -1;
  step.shares = shared;
  step.internal = shared < 0;
  if (step.internal) place_slice(m, step.stage, step.box, dtype, in_loop);
  else m.plan.shards[m.stage(step.stage).tensor] = m.plan.shards[shared];
}

// Tells whether a program can run on slices: the tensors that it looks up by a computed offset, or scatters to, are
// whole.
bool takes_slices(const Making& m, const StageProgram& program) {
  for (int d : program.scattered)
    if (program.slice[d] < program.ranges[d].size()) return false;
  for (const StageInstr& instr : program.code) {
    if (instr.kind != StageInstr::Kind::kGather || m.offsets[instr.tensor] < 0) continue;
    const int made = m.request.bound.stage_of(instr.tensor);
    for (const tdl::Affine& form : m.stage(made).lhs)
      if (const int index = form.plain_index(); index >= 0 && m.is_sliced(index)) return false;
  }
  return true;
}

// Decides how a stage runs, and its scratch.
void plan_step(Making& m, GenericStep& step) {
  const KernelRequest& request = m.request;
  const Bound& bound = request.bound;
  const tdl::Stage& stage = m.stage(step.stage);
  if (is_empty(step.box)) {
    step.what = GenericStep::What::kNothing;
    return;
  }
  ensure(contains(step.out.box, step.box), "{}: stage {} owns {}, it is given {}", bound.name,
         bound.tensors[stage.tensor].name, to_string(step.box), to_string(step.out.box));
  if (reduces_nothing(stage, request.ranges)) {
    step.what = GenericStep::What::kIdentity;
    return;
  }
  step.program = compile_stage(bound, step.stage, request.ranges, m.slices, m.plan.shards, request.held.real,
                               m.budget_bytes.value_or(kGenericBudgetBytes));
  m.fits &= takes_slices(m, step.program) && (!step.accumulated || step.program.dtype == step.out.dtype);
  place_blocks(bound, step.program, m.plan.shards, m.scratch);
}

// Ends internal tensors of one level that no later step reads.
void drop_dead(Making& m, bool in_loop, std::vector<int>& dead) {
  const int step = static_cast<int>(m.plan.steps.size());
  for (size_t t = 0; t < m.offsets.size(); ++t)
    if (m.offsets[t] >= 0 && m.in_loop[t] == in_loop && m.last_reader[t] < step) {
      dead.push_back(static_cast<int>(t));
      m.scratch.free(m.offsets[t]);
      m.offsets[t] = -1;
    }
}

void add_step(Making& m, int stage, bool in_loop) {
  const int tensor = m.stage(stage).tensor;
  GenericStep step;
  step.stage = stage;
  step.box = stage_box(m.request.bound, stage, m.request.ranges);
  step.accumulated = in_loop && is_accumulated(m, stage);
  if (!step.accumulated && !m.request.held.written[tensor]) place_internal(m, step, in_loop);
  if (step.internal || step.accumulated) step.memory = slice_extents(m, stage, step.box);
  step.out = *m.plan.shards[tensor];
  if (m.budget_bytes) plan_step(m, step);
  m.plan.steps.push_back(std::move(step));
  drop_dead(m, in_loop, m.plan.steps.back().dead);
}

// Places the sums over slices. They are real numbers alone, which are rounded once, at the end.
void begin_loop(Making& m) {
  m.plan.loop_begin = m.plan.steps.size();
  const KernelRequest& request = m.request;
  for (int s : m.loops.inside) {
    if (!is_accumulated(m, s)) continue;
    const int tensor = m.stage(s).tensor;
    const DType dtype = stage_dtype(request.bound, s, m.plan.shards, request.held.real);
    m.fits &= is_float(dtype) && (!request.held.written[tensor] || is_float(request.held.shards[tensor]->dtype));
    place_slice(m, s, stage_box(request.bound, s, request.ranges), dtype, false);
  }
}

void end_loop(Making& m) {
  m.plan.loop_end = m.plan.steps.size();
  for (int s : m.loops.inside) {
    const int tensor = m.stage(s).tensor;
    if (!m.request.held.written[tensor] || !is_accumulated(m, s)) continue;
    if (m.offsets[tensor] >= 0) m.scratch.free(m.offsets[tensor]);
    m.offsets[tensor] = -1;
    m.plan.shards[tensor] = m.request.held.shards[tensor];
  }
  drop_dead(m, false, m.plan.loop_dead);
}

// Empty if the stages can't be run this way.
std::optional<GenericPlan> make_plan(const KernelRequest& request, const SliceLoops& loops, const Shape& slices,
                                     std::optional<int64_t> budget_bytes) {
  const size_t tensors = request.bound.tensors.size();
  Making m{request, loops, slices, budget_bytes};
  m.offsets.assign(tensors, -1);
  m.in_loop.assign(tensors, false);
  m.last_reader.assign(tensors, -1);
  int step = 0;
  for (const auto* stages : {&loops.before, &loops.inside, &loops.after})
    for (int s : *stages) {
      tdl::for_each_read(m.stage(s).body, [&](const Expr& read) { m.last_reader[read.tensor] = step; });
      ++step;
    }
  m.plan.shards = request.held.shards;
  m.plan.ranges = request.ranges;
  for (const auto& [indices, sliced] : {std::pair{&loops.outer, &m.plan.outer}, std::pair{&loops.inner, &m.plan.inner}})
    for (int i : *indices)
      if (m.is_sliced(i)) sliced->push_back({i, slices[i]});
  for (int s : loops.before) add_step(m, s, false);
  begin_loop(m);
  for (int s : loops.inside) add_step(m, s, !m.plan.inner.empty());
  end_loop(m);
  for (int s : loops.after) add_step(m, s, false);
  m.plan.workspace_bytes = m.scratch.end();
  if (!m.fits) return std::nullopt;
  return std::move(m.plan);
}

// ---------------------------------------------------------------- the choice of slices

struct Sliced {
  SliceLoops loops;
  Shape slices;
  int64_t internal_bytes = 0;  // of internal tensors at once
};

int64_t internal_bytes(const KernelRequest& request, const SliceLoops& loops, const Shape& slices) {
  const auto plan = make_plan(request, loops, slices, std::nullopt);
  return plan ? plan->workspace_bytes : INT64_MAX;
}

// Halves slices along one index after another until internal tensors fit. The first halves of an index may need more
// than the whole: sums over slices take memory of their own.
Sliced fitted(const KernelRequest& request, const SliceLoops& loops, const Sliced& whole, int64_t slice_bytes) {
  Sliced best{loops, whole.slices, whole.internal_bytes};
  std::vector<int> indices = loops.outer;
  indices.insert(indices.end(), loops.inner.begin(), loops.inner.end());
  for (int i : indices) {
    Shape smaller = best.slices;
    while (best.internal_bytes > slice_bytes && smaller[i] > 1) {
      smaller[i] = (smaller[i] + 1) / 2;
      const int64_t bytes = internal_bytes(request, loops, smaller);
      if (bytes < best.internal_bytes) best.slices = smaller, best.internal_bytes = bytes;
    }
  }
  return best;
}

}  // namespace

GenericPlan plan_generic(const KernelRequest& request, int64_t budget_bytes, int64_t slice_bytes) {
  Sliced whole;
  for (int s = request.first_stage; s < request.last_stage; ++s) whole.loops.inside.push_back(s);
  for (const Interval& range : request.ranges) whole.slices.push_back(range.size());
  whole.internal_bytes = internal_bytes(request, whole.loops, whole.slices);
  if (whole.internal_bytes > slice_bytes) {
    std::vector<Sliced> ways;
    for (const SliceLoops& loops : find_loops(request)) ways.push_back(fitted(request, loops, whole, slice_bytes));
    std::stable_sort(ways.begin(), ways.end(),
                     [](const Sliced& a, const Sliced& b) { return a.internal_bytes < b.internal_bytes; });
    for (const Sliced& way : ways) {
      if (way.internal_bytes >= whole.internal_bytes) continue;
      if (auto plan = make_plan(request, way.loops, way.slices, budget_bytes)) return std::move(*plan);
    }
  }
  auto plan = make_plan(request, whole.loops, whole.slices, budget_bytes);
  ensure(plan.has_value(), "{}: its stages can't be run as they are", request.bound.name);
  return std::move(*plan);
}

}  // namespace partita
