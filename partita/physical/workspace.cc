#include "partita/physical/workspace.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "partita/base/error.h"
#include "partita/physical/lower.h"
#include "partita/tdl/affine.h"

namespace partita {

using tdl::Bound;
using tdl::Expr;
using tdl::ExprKind;

KernelParts kernel_parts(const Bound& bound, const std::vector<PlacedPart>& reads,
                         const std::vector<PlacedPart>& writes) {
  KernelParts held{std::vector<std::optional<Part>>(bound.tensors.size()), std::vector<bool>(bound.tensors.size()),
                   DType::kBool};
  auto add = [&](const PlacedPart& placed) {
    ensure(placed.tensor >= 0 && placed.tensor < static_cast<int>(bound.tensors.size()),
           "{}: a kernel's access without a tensor", bound.name);
    std::optional<Part>& part = held.parts[placed.tensor];
    ensure(!part, "{}: two accesses to {}", bound.name, bound.tensors[placed.tensor].name);
    part = over_axes(placed.part, placed.axes, bound.tensors[placed.tensor].factored);
    const DType real = computed_in(placed.part.dtype);
    if (real == DType::kFloat64 || (real == DType::kFloat32 && held.real == DType::kBool)) held.real = real;
  };
  for (const PlacedPart& p : reads) add(p);
  for (const PlacedPart& p : writes) {
    add(p);
    held.written[p.tensor] = true;
  }
  if (held.real == DType::kBool) held.real = DType::kFloat64;
  return held;
}

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
int shared_result(const Bound& bound, int stage, int last, const std::vector<Interval>& ranges, const KernelParts& held,
                  DType dtype) {
  const tdl::Stage& made = bound.stages[stage];
  const Box box = stage_box(bound, stage, ranges);
  for (int r = stage + 1; r < last; ++r) {
    const tdl::Stage& result = bound.stages[r];
    for (int t = 0; t < bound.operand_count; ++t)
      if (reads_tensor(result.body, t) && bound.tensors[t].factored == bound.tensors[made.tensor].factored) return -1;
    if (!held.written[result.tensor]) continue;
    const Part& part = *held.parts[result.tensor];
    if (result.body.kind == ExprKind::kReduce || !reads_tensor(result.body, made.tensor) || result.lhs != made.lhs ||
        part.dtype != dtype || part.box != box || !reads_only_at(result.body, made.tensor, result.lhs))
      continue;
    for (int later = r + 1; later < last; ++later)
      if (reads_tensor(bound.stages[later].body, made.tensor)) return -1;
    return result.tensor;
  }
  return -1;
}

}  // namespace

GenericPlan plan_generic(const Bound& bound, int first, int last, const std::vector<Interval>& ranges,
                         const KernelParts& held, int64_t budget_bytes) {
  GenericPlan plan;
  plan.parts = held.parts;
  std::vector<int> last_reader(bound.tensors.size(), -1);
  for (int s = first; s < last; ++s)
    for (size_t t = 0; t < bound.tensors.size(); ++t)
      if (reads_tensor(bound.stages[s].body, static_cast<int>(t))) last_reader[t] = s;
  FirstFit scratch;
  std::vector<int64_t> offsets(bound.tensors.size(), -1);  // of internal tensors
  for (int s = first; s < last; ++s) {
    const tdl::Stage& stage = bound.stages[s];
    GenericStep step;
    step.stage = s;
    const Box box = stage_box(bound, s, ranges);
    if (!held.written[stage.tensor]) {
      const DType dtype = stage_dtype(bound, s, plan.parts, held.real);
      int shared = shared_result(bound, s, last, ranges, held, dtype);
      for (const GenericStep& before : plan.steps)
        if (before.shares >= 0 && before.shares == shared) shared = -1;
      step.shares = shared;
      step.internal = shared < 0;
      plan.parts[stage.tensor] = shared >= 0 ? plan.parts[shared] : Part{dtype, box, dense_strides(extents(box))};
      if (const int64_t bytes = volume(box) * bytes_of(plan.parts[stage.tensor]->dtype); step.internal && bytes > 0)
        offsets[stage.tensor] = scratch.allocate(bytes);
    }
    bool reduces_nothing = false;
    if (stage.body.kind == ExprKind::kReduce)
      for (int i : stage.body.reduced) reduces_nothing |= ranges[i].empty();
    if (is_empty(box)) {
      step.what = GenericStep::What::kNothing;
    } else {
      ensure(contains(plan.parts[stage.tensor]->box, box), "{}: stage {} owns {}, it is given {}", bound.name,
             bound.tensors[stage.tensor].name, to_string(box), to_string(plan.parts[stage.tensor]->box));
      if (reduces_nothing) step.what = GenericStep::What::kIdentity;
      else step.program = compile_stage(bound, s, ranges, plan.parts, held.real, budget_bytes);
    }
    if (!is_empty(box) && !reduces_nothing) place_blocks(bound, step.program, plan.parts, scratch);
    for (int t = 0; t < static_cast<int>(bound.tensors.size()); ++t)
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

int64_t workspace_bytes(const KernelWork& work, const std::vector<Interval>& ranges,
                        const std::vector<PlacedPart>& reads, const std::vector<PlacedPart>& writes,
                        int64_t budget_bytes, bool registered) {
  const KernelParts held = kernel_parts(*work.bound, reads, writes);
  if (registered)
    if (const auto bytes = registered_workspace_bytes(work, ranges, held)) return *bytes;
  return plan_generic(*work.bound, work.first_stage, work.last_stage, ranges, held, budget_bytes).workspace_bytes;
}

namespace {

// Calls that are written down alike are alike.
class Call {
 public:
  explicit Call(std::string& text) : text_(text) { text_.clear(); }
  template <typename Number>
  void add(Number x) {
    static_assert(std::is_arithmetic_v<Number> || std::is_enum_v<Number> || std::is_pointer_v<Number>);
    text_.append(reinterpret_cast<const char*>(&x), sizeof x);
  }
  void add(const std::string& word) {
    add(word.size());
    text_ += word;
  }
  void add(const std::vector<Interval>& box) {
    add(box.size());
    for (const Interval& i : box) add(i.lo), add(i.hi);
  }
  void add(const Shape& shape) {
    add(shape.size());
    for (int64_t x : shape) add(x);
  }

 private:
  std::string& text_;
};

// The register's box in one act, and the part of it that is accessed.
std::pair<const Box&, const Box&> boxes_of(const Access& access, const Register& reg, int act) {
  const Box& whole = reg.box(reg.boxes.size() == 1 ? 0 : act);
  return {whole, access.boxes.empty() ? whole : access.boxes[access.boxes.size() == 1 ? 0 : act]};
}

std::vector<PlacedPart> placed_parts(const std::vector<Access>& accesses, const PhysicalGraph& graph, int act) {
  std::vector<PlacedPart> parts;
  for (const Access& access : accesses) {
    const Register& reg = graph.reg(access.reg);
    const auto [whole, box] = boxes_of(access, reg, act);
    parts.push_back({access.tensor, {reg.dtype, box, dense_strides(extents(whole))}, reg.axes});
  }
  return parts;
}

}  // namespace

int64_t Workspaces::bytes_of(const Task& task, const PhysicalGraph& graph) {
  const KernelWork* work = std::get_if<KernelWork>(&task.work);
  if (!work) return 0;
  int64_t bytes = 0;
  for (int act = 0; act < task.rate; ++act) {
    const std::vector<Interval>& ranges = work->ranges[work->ranges.size() == 1 ? 0 : act];
    Call call(call_);
    call.add(work->bound.get()), call.add(work->first_stage), call.add(work->last_stage), call.add(work->definition);
    for (const auto& [name, value] : work->attributes) call.add(name), call.add(value);
    call.add(ranges);
    for (const auto* accesses : {&task.reads, &task.writes}) {
      call.add(accesses->size());
      for (const Access& access : *accesses) {
        const Register& reg = graph.reg(access.reg);
        const auto [whole, box] = boxes_of(access, reg, act);
        call.add(access.tensor), call.add(reg.dtype), call.add(reg.axes), call.add(whole), call.add(box);
      }
    }
    const auto [known, fresh] = known_.try_emplace(call_, 0);
    if (fresh)
      known->second =
          workspace_bytes(*work, ranges, placed_parts(task.reads, graph, act), placed_parts(task.writes, graph, act));
    bytes = std::max(bytes, known->second);
    if (work->ranges.size() == 1) break;
  }
  return bytes;
}

}  // namespace partita
