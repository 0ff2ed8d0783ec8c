// Makes the tasks of one op, for lower_local.
#include "partita/physical/lower_op.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/graph/sample_tensors.h"
#include "partita/kernel_plan/generic.h"
#include "partita/physical/convert.h"
#include "partita/tdl/affine.h"

namespace partita {

namespace {

// The op that is being lowered.
struct Current {
  OpId id;
  const Op& op;
  const tdl::Bound& bound;
  const ResolvedOp& resolved;
  DType inner;                                 // of its stages
  std::vector<Conversion> inner_conversions;   // by place in derived.inner
  std::vector<std::vector<tdl::Kind>> kinds;   // of its tensors so far: [mesh axis][tensor]
  std::vector<std::optional<Placed>> tensors;  // of the formula, where they lie so far
};

// The context of tasks that fire as often as the op, and of registers of one of its operands or results.
Context context_of(const LocalLowering& local, OpId id, std::string name, TensorId tensor, DType dtype,
                   Task::Turn turn) {
  const Op& op = local.graph.op(id);
  Context at{std::move(name), id, op.phase, turn, tensor, dtype, local.graph.firings(op)};
  at.on_sample_queue =
      tensor.valid() ? local.is_sample_tensor[tensor.index()] != 0 : reads_samples(op, local.is_sample_tensor);
  if (tensor.valid()) set_micro_batch_scope(at, local.graph, tensor);
  return at;
}

// The same for a stage that is no result.
Context context_of_stage(const LocalLowering& local, const Current& current, std::string name, int tensor) {
  Context at = context_of(local, current.id, std::move(name), TensorId(), current.inner, Task::Turn::kLazy);
  if (current.op.micro_batch_index < 0) return at;
  const tdl::BoundTensor& made = current.bound.tensors[tensor];
  const std::vector<tdl::Affine>& lhs = current.bound.stages[current.bound.stage_of(tensor)].lhs;
  for (size_t axis = 0; axis < lhs.size(); ++axis) {
    if (lhs[axis].plain_index() != current.op.micro_batch_index) continue;
    at.along = stored_axis({static_cast<int>(axis), current.op.micro_batch_inner}, made.radices);
  }
  return at;
}

Placed convert_tensor(LocalLowering& local, const Placed& from, const Conversion& conversion, const Context& at,
                      const Placed* into = nullptr) {
  const bool mixed = at.tensor.valid() && local.axes.mixed[at.tensor.index()];
  return convert_placed(local.draft, from, conversion, {at, mixed, into});
}

// Brings the operand as the op must have it: in its kept layout, or converted once for all readers that want the same.
Placed bring_operand(LocalLowering& local, const Reader& reader) {
  const int c = local.resolved.operand_conversion[reader.op.index()][static_cast<size_t>(reader.operand)];
  if (c < 0) return *local.placed[local.graph.op(reader.op).operands[static_cast<size_t>(reader.operand)].index()];
  const ResolvedConversion& made = local.resolved.conversions[c];
  if (!local.converted[c]) local.converted[c] = convert_for(local, reader, made.tensor, made.conversion, made.firings);
  return *local.converted[c];
}

// Tells whether the result may be written over the operand: no stage after the result's reads the operand, and the
// result's own reads it at its own index.
bool in_place_safe(const tdl::Bound& bound, int operand, int result) {
  const int last = bound.stage_of(bound.results[result]);
  const std::vector<tdl::Affine>& lhs = bound.stages[last].lhs;
  const bool plain = std::all_of(lhs.begin(), lhs.end(), [](const tdl::Affine& a) { return a.plain_index() >= 0; });
  for (size_t s = last; s < bound.stages.size(); ++s) {
    const tdl::Expr& body = bound.stages[s].body;
    const std::vector<int> read = tensors_read(body);
    if (std::find(read.begin(), read.end(), operand) == read.end()) continue;
    if (static_cast<int>(s) > last || body.kind == tdl::ExprKind::kReduce || !plain ||
        !reads_only_at(body, operand, lhs))
      return false;
  }
  return true;
}

// Returns the registers that a stage writes: a result's, or its own.
Placed stage_registers(LocalLowering& local, const Current& current, int tensor) {
  const tdl::Bound& bound = current.bound;
  const tdl::Derived& derived = *current.resolved.derived;
  const Mesh& mesh = current.resolved.mesh;
  Layout layout{mesh, bound.tensors[tensor].radices, derived.boxes[tensor], {}};
  for (size_t a = 0; a < mesh.extents.size(); ++a) layout.kinds.push_back(current.kinds[a][tensor]);
  const auto result = std::find(bound.results.begin(), bound.results.end(), tensor) - bound.results.begin();
  if (result == static_cast<std::ptrdiff_t>(bound.results.size()))
    return new_registers(
        local.draft,
        context_of_stage(local, current, named(local.draft, "{}.{}", current.op.name, bound.tensors[tensor].name),
                         tensor),
        layout);
  const TensorId t = current.op.results[result];
  const Tensor& made = local.graph.tensor(t);
  layout = over_register_axes(local.axes, layout, t);
  const bool remade = std::any_of(derived.inner.begin(), derived.inner.end(),
                                  [&](const tdl::InnerStep& s) { return s.tensor == tensor; });
  if (made.replaces.valid() && !remade && local.placed[made.replaces.index()]) {
    const Placed& replaced = *local.placed[made.replaces.index()];
    if (goes_into(current.bound, current.tensors, replaced, layout, static_cast<int>(result))) return replaced;
  }
  return new_registers(
      local.draft, context_of(local, current.id, named(local.draft, "{}", made.name), t, made.dtype, Task::Turn::kLazy),
      layout, remade ? ".made" : "");
}

// Counts the steps of a conversion that make the stage whole; the rest fetch the halo.
size_t steps_before_halo(const tdl::InnerStep& inner, const Conversion& conversion) {
  if (inner.needed.empty()) return conversion.steps.size();
  size_t count = 0;
  if (!inner.axes.empty())
    while (count < conversion.steps.size() &&
           (count == 0 || conversion.steps[count - 1].to.kinds != conversion.to.kinds))
      ++count;
  return count;
}

// Runs an inner step. A stage that is made whole over mesh axes stays so. The boxes that its reader lacks are brought
// to it, for that reader alone (TDL.md rule 17), into `halos`.
void run_inner(LocalLowering& local, Current& current, size_t number, std::map<int, Placed>& halos) {
  const tdl::InnerStep& inner = current.resolved.derived->inner[number];
  Placed& placed = *current.tensors[inner.tensor];
  const bool any = !placed.regs.empty();
  const TensorId tensor = any ? local.draft.graph.reg(placed.regs.begin()->second).tensor : TensorId();
  const DType dtype = any ? local.draft.graph.reg(placed.regs.begin()->second).dtype : current.inner;
  std::string name =
      named(local.draft, "{}.{}.inner{}", current.op.name, current.bound.tensors[inner.tensor].name, number);
  Context at = tensor.valid() ? context_of(local, current.id, std::move(name), tensor, dtype, Task::Turn::kLazy)
                              : context_of_stage(local, current, std::move(name), inner.tensor);
  at.dtype = dtype;
  at.on_sample_queue = reads_samples(current.op, local.is_sample_tensor);
  at.key = {.of = TaskKey::Of::kInner, .number = static_cast<int>(number)};
  for (int a : inner.axes) current.kinds[a][inner.tensor] = std::nullopt;
  const Conversion& all = current.inner_conversions[number];
  const auto split = all.steps.begin() + static_cast<std::ptrdiff_t>(steps_before_halo(inner, all));
  Conversion whole = all, halo = all;
  whole.steps = {all.steps.begin(), split};
  halo.steps = {split, all.steps.end()};
  if (!whole.steps.empty()) placed = convert_tensor(local, placed, whole, at);
  at.name += named(local.draft, ".halo");
  at.key.of = TaskKey::Of::kHalo;
  if (!inner.needed.empty()) halos.insert_or_assign(inner.tensor, convert_tensor(local, placed, halo, at));
}

OpKernels& kernels_of(LocalLowering& local, const tdl::Bound& bound, const tdl::Derived& derived) {
  auto [at, is_new] = local.kernels.try_emplace(std::make_pair(&bound, &derived));
  if (is_new) at->second.segments = segments_of(bound, derived);
  return at->second;
}

const std::vector<double>& flops_at(OpKernels& kernels, int position, const Current& current, const Graph& graph) {
  auto [at, is_new] = kernels.flops.try_emplace(position);
  if (is_new)
    at->second = segment_flops(graph.registry->find(current.op.definition), current.bound, kernels.segments,
                               current.resolved.derived->ranges[position]);
  return at->second;
}

// Adds the kernel of segment `g` at a position.
void add_kernel(LocalLowering& local, const Current& current, OpKernels& kernels, size_t g, int p,
                const std::map<int, Placed>& halos) {
  const Op& op = current.op;
  Draft& draft = local.draft;
  const Segment& segment = kernels.segments[g];
  const DeviceId device = current.resolved.mesh.devices[p];
  const Task::Turn turn = op.phase == Phase::kUpdate ? Task::Turn::kEager : Task::Turn::kInPlace;
  std::string name = kernels.segments.size() > 1 ? named(draft, "{}.{}@{}", op.name, g, device_name(draft, device))
                                                 : named(draft, "{}@{}", op.name, device_name(draft, device));
  KernelWork work{draft.complete ? op.definition : std::string(),
                  draft.complete ? op.attributes : tdl::Attributes(),
                  op.bound,
                  segment.first,
                  segment.last,
                  {current.resolved.derived->ranges[p]},
                  hash_name(op.forward.valid() ? local.graph.op(op.forward).name : op.name)};
  const Context at = context_of(local, current.id, name, TensorId(), current.inner, turn);
  Task task = new_task(draft, std::move(name), at, device, std::move(work));
  task.key = {.of = TaskKey::Of::kKernel, .number = static_cast<int>(g), .position = p};
  task.flops = flops_at(kernels, p, current, local.graph)[g];
  for (int t : segment.reads) {
    const auto halo = halos.find(t);
    const Placed& from = halo != halos.end() ? halo->second : *current.tensors[t];
    task.reads.push_back(access(draft, from, p, t));
    task.bytes += bytes_at(draft, from, p);
  }
  for (int t : segment.writes) {
    const Placed& to = *current.tensors[t];
    task.writes.push_back(access(draft, to, p, t));
    task.writes.back().fresh = false;
    task.bytes += bytes_at(draft, to, p);
  }
  task.elementwise = kernels.segments.size() == 1 && tdl::is_elementwise(current.bound);
  add_task(draft, std::move(task));
}

}  // namespace

bool goes_into(const tdl::Bound& bound, const std::vector<std::optional<Placed>>& operands, const Placed& replaced,
               const Layout& layout, int result) {
  if (!same_placement(layout, replaced.layout)) return false;
  for (int k = 0; k < bound.operand_count; ++k)
    if (const auto& operand = operands[static_cast<size_t>(k)];
        operand && operand->regs == replaced.regs && !in_place_safe(bound, k, result))
      return false;
  return true;
}

Placed convert_for(LocalLowering& local, const Reader& reader, TensorId t, const Conversion& conversion, int firings) {
  const Op& op = local.graph.op(reader.op);
  // Gradients go to their updates as soon as they are whole; everything else is brought just before its first reader.
  const Task::Turn turn = op.phase == Phase::kUpdate ? Task::Turn::kEager : Task::Turn::kLazy;
  const Tensor& tensor = local.graph.tensor(t);
  Context at = context_of(local, reader.op, named(local.draft, "{}>{}.{}", tensor.name, op.name, reader.operand), t,
                          tensor.dtype, turn);
  at.firings = firings;
  at.key = {.of = TaskKey::Of::kOperand, .number = reader.operand};
  return convert_tensor(local, *local.placed[t.index()], conversion, at);
}

void settle_result(LocalLowering& local, OpId id, size_t r, Placed made, const Layout& as_made) {
  const Op& op = local.graph.op(id);
  const TensorId t = op.results[r];
  const Tensor& tensor = local.graph.tensor(t);
  const Placed* into = tensor.replaces.valid() ? &*local.placed[tensor.replaces.index()] : nullptr;
  if (!into || made.regs != into->regs) made.layout = over_register_axes(local.axes, as_made, t);
  if (const Conversion* kept = local.kept[t.index()]) {
    const Task::Turn turn = op.phase == Phase::kUpdate ? Task::Turn::kEager : Task::Turn::kLazy;
    Context at = context_of(local, id, named(local.draft, "{}>kept", tensor.name), t, tensor.dtype, turn);
    at.key = {.of = TaskKey::Of::kKept, .number = static_cast<int>(r)};
    made = convert_tensor(local, made, *kept, at, into);
  }
  if (into && made.regs != into->regs) {
    Context at = context_of(local, id, named(local.draft, "{}>kept", tensor.name), t, tensor.dtype, Task::Turn::kEager);
    at.key = {.of = TaskKey::Of::kKept, .number = static_cast<int>(r)};
    made = copy_into(local.draft, made, at, *into);
  }
  made.fresh = into != nullptr;
  if (tensor.accumulated)
    for (const auto& [p, r] : made.regs) {
      local.draft.graph.reg(r).accumulated = true;
      local.draft.graph.reg(r).uses = 1;
    }
  local.placed[t.index()] = std::move(made);
}

std::vector<Placed> run_op(LocalLowering& local, OpId id, const ResolvedOp& resolved,
                           const std::vector<Placed>& operands) {
  const Op& op = local.graph.op(id);
  const tdl::Derived& derived = *resolved.derived;
  OpKernels& kernels = kernels_of(local, *op.bound, derived);
  Current current{id, op, *op.bound, resolved, inner_dtype(local.graph, op), {}, derived.kinds, {}};
  current.tensors.resize(op.bound->tensors.size());
  std::copy(operands.begin(), operands.end(), current.tensors.begin());
  current.inner_conversions =
      inner_conversions(*op.bound, derived, resolved.mesh, bytes_of(current.inner), local.converter);
  size_t next_inner = 0;
  for (size_t g = 0; g < kernels.segments.size(); ++g) {
    std::map<int, Placed> halos;  // stage tensors with the inner halos of this segment
    while (next_inner < derived.inner.size() && derived.inner[next_inner].before_stage <= kernels.segments[g].first)
      run_inner(local, current, next_inner++, halos);
    for (int t : kernels.segments[g].writes) current.tensors[t] = stage_registers(local, current, t);
    for (int p : positions_here(local.draft, resolved.mesh)) add_kernel(local, current, kernels, g, p, halos);
  }
  std::map<int, Placed> after;  // a result is read by others only
  while (next_inner < derived.inner.size()) run_inner(local, current, next_inner++, after);
  std::vector<Placed> results;
  for (const int result : op.bound->results) results.push_back(*current.tensors[static_cast<size_t>(result)]);
  return results;
}

void lower_op(LocalLowering& local, OpId id) {
  std::vector<Placed> operands;
  for (size_t k = 0; k < local.graph.op(id).operands.size(); ++k)
    operands.push_back(bring_operand(local, {id, static_cast<int>(k)}));
  const ResolvedOp& resolved = local.resolved.ops[id.index()];
  std::vector<Placed> made = run_op(local, id, resolved, operands);
  for (size_t r = 0; r < made.size(); ++r) settle_result(local, id, r, std::move(made[r]), resolved.layouts.results[r]);
}

}  // namespace partita
