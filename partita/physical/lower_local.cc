// Lowers sources, ops, outputs and workspaces: the local part of lowering. It is a pure function of the choices on each
// op and tensor.
#include "partita/physical/lower_local.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/threads.h"
#include "partita/graph/sample_tensors.h"
#include "partita/physical/convert.h"
#include "partita/physical/lower_op.h"
#include "partita/physical/workspace.h"

namespace partita {

namespace {

OpId first_reader(const Graph& graph, TensorId id) {
  for (size_t i = 0; i < graph.ops.size(); ++i)
    for (TensorId t : graph.ops[i].operands)
      if (t == id) return OpId(i);
  return OpId(graph.ops.size() - 1);
}

int place_in(const std::vector<TensorId>& tensors, TensorId id) {
  return static_cast<int>(std::find(tensors.begin(), tensors.end(), id) - tensors.begin());
}

// Loads an input whole on every host that feeds a device of its mesh, and fetches it from there.
Placed load_input(LocalLowering& local, TensorId id, const Layout& kept_layout) {
  Draft& draft = local.draft;
  const Tensor& tensor = local.graph.tensor(id);
  Context at{named(draft, "{}.load", tensor.name),
             first_reader(local.graph, id),
             Phase::kForward,
             Task::Turn::kLazy,
             id,
             tensor.dtype};
  if (tensor.scope == MicroBatchScope::kMicroBatch) at.firings = local.graph.micro_batches();
  set_micro_batch_scope(at, local.graph, id);
  at.key = {.of = TaskKey::Of::kLoad, .number = place_in(local.graph.inputs, id)};
  const Layout loaded = layout_on_hosts(kept_layout, draft.cluster);
  const Placed on_host = new_registers(draft, at, loaded);
  for (int p : positions_here(draft, loaded.mesh)) {
    const DeviceId host = loaded.mesh.devices[p];
    Task task = new_task(draft, named(draft, "{}@{}", at.name, device_name(draft, host)), at, host, LoadWork{id});
    task.key.position = p;
    task.writes = {access(draft, on_host, p)};
    task.bytes = bytes_at(draft, on_host, p);
    add_task(draft, std::move(task));
  }
  at.name = named(draft, "{}", tensor.name);
  at.key.step = 1;
  return fetch_placed(draft, on_host, kept_layout, at);
}

// Returns the number of a position's term of a sum: its coordinate on the partial mesh axes, row-major. -1: it has the
// values.
int term_at(const Layout& layout, int position) {
  if (!layout.is_partial()) return -1;
  const std::vector<int> at = layout.mesh.coordinates(position);
  int term = 0;
  for (size_t a = 0; a < at.size(); ++a)
    if (layout.kinds[a]) term = term * layout.mesh.extents[a] + at[a];
  return term;
}

}  // namespace

std::vector<char> carried(const Graph& graph) {
  std::vector<char> out(graph.tensors.size(), false);
  for (const Tensor& tensor : graph.tensors)
    if (tensor.replaces.valid()) out[tensor.replaces.index()] = true;
  return out;
}

Placed place_source(LocalLowering& local, TensorId id) {
  const Tensor& tensor = local.graph.tensor(id);
  const Layout kept_layout = over_register_axes(local.axes, local.resolved.kept_layouts[id.index()], id);
  if (tensor.role == Role::kInput) return load_input(local, id, kept_layout);
  Context at{named(local.draft, "{}", tensor.name), OpId(), Phase::kForward, Task::Turn::kLazy, id, tensor.dtype};
  set_micro_batch_scope(at, local.graph, id);
  Placed placed = new_registers(local.draft, at, kept_layout);
  const bool carried = local.carried[id.index()];
  for (const auto& [p, r] : placed.regs) {
    local.draft.graph.reg(r).carried = carried;
    local.draft.graph.reg(r).constant = !carried;
    local.draft.graph.reg(r).term = term_at(kept_layout, p);
  }
  return placed;
}

void lower_output(LocalLowering& local, TensorId id) {
  Draft& draft = local.draft;
  const Tensor& tensor = local.graph.tensor(id);
  const Placed& kept_layout = *local.placed[id.index()];
  const OpId last = tensor.producer.valid() ? tensor.producer : OpId(local.graph.ops.size() - 1);
  Context at{named(draft, "{}.output", tensor.name), last, Phase::kUpdate, Task::Turn::kEager, id, tensor.dtype};
  if (tensor.scope == MicroBatchScope::kMicroBatch) at.firings = local.graph.micro_batches();
  set_micro_batch_scope(at, local.graph, id);
  at.key = {.of = TaskKey::Of::kOutput, .number = place_in(local.graph.outputs, id)};
  const Layout on_host = layout_on_first_host(kept_layout.layout, draft.cluster);
  const DeviceId host = on_host.mesh.devices[0];
  const Placed given = fetch_placed(draft, kept_layout, on_host, at);
  if (positions_here(draft, on_host.mesh).empty()) return;
  at.key.step = 1;
  Task task = new_task(draft, named(draft, "{}@{}", at.name, device_name(draft, host)), at, host, OutputWork{id});
  task.reads = {access(draft, given, 0)};
  task.bytes = bytes_at(draft, given, 0);
  add_task(draft, std::move(task));
}

namespace {

void add_scratch(PhysicalGraph& graph) {
  constexpr size_t kThreads = 2;  // one takes the forward half, whose kernels differ from the backward half's
  std::vector<int64_t> needed_bytes(graph.tasks.size());
  parallel_for(kThreads, kThreads, [&](size_t part, int) {
    Workspaces workspaces;
    for (size_t t = part * needed_bytes.size() / kThreads; t < (part + 1) * needed_bytes.size() / kThreads; ++t)
      needed_bytes[t] = workspaces.bytes_of(graph.tasks[t], graph);
  });
  const auto add = [&](Task& task, const char* suffix, int64_t bytes) {
    Register reg;
    reg.name = task.name + suffix;
    reg.device = task.device;
    reg.bytes = bytes;
    reg.uses = task.rate;
    graph.registers.push_back(std::move(reg));
    task.scratch.emplace_back(graph.registers.size() - 1);
  };
  for (size_t t = 0; t < needed_bytes.size(); ++t) {
    Task& task = graph.tasks[t];
    if (needed_bytes[t] > 0) add(task, ".scratch", needed_bytes[t]);
    const int64_t addend = addend_bytes(graph, task);
    task.addend = addend > 0;
    if (task.addend) add(task, ".addend", addend);
  }
}

}  // namespace

Layout layout_on_hosts(const Layout& kept_layout, const Cluster& cluster) {
  Mesh hosts;
  for (DeviceId d : kept_layout.mesh.devices)
    if (const DeviceId host = cluster.device(d).host; hosts.position_of(host) < 0) hosts.devices.push_back(host);
  hosts.extents = {hosts.positions()};
  return make_layout(hosts, {Sbp::broadcast()}, kept_layout.radices);
}

Layout layout_on_first_host(const Layout& kept_layout, const Cluster& cluster) {
  return make_layout(Mesh{{}, {cluster.device(kept_layout.mesh.devices[0]).host}}, {}, kept_layout.radices);
}

LocallyLowered lower_local(const Graph& graph, const Resolved& resolved, const Cluster& cluster, const Watch& watch) {
  LocalLowering local{graph,
                      resolved,
                      register_axes(graph, resolved),
                      sample_tensor_mask(graph),
                      make_draft(graph.name, cluster, resolved.device_mask),
                      Converter(cluster, resolved.device_mask),
                      std::vector<std::optional<Placed>>(graph.tensors.size()),
                      std::vector<std::optional<Placed>>(resolved.conversions.size()),
                      std::vector<const Conversion*>(graph.tensors.size()),
                      {},
                      carried(graph)};
  for (const ResolvedOp& op : resolved.ops) local.draft.stages.push_back(op.stage);
  local.draft.graph.tasks.reserve(graph.ops.size() * (resolved.device_mask ? 1 : cluster.compute_count));  // at least
  for (const ResolvedConversion& conversion : resolved.conversions)
    if (conversion.readers.empty()) local.kept[conversion.tensor.index()] = &conversion.conversion;
  for (size_t t = 0; t < graph.tensors.size(); ++t)
    if (!graph.tensors[t].producer.valid()) local.placed[t] = place_source(local, TensorId(t));
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    watch.poll("while a plan was lowered");
    lower_op(local, OpId(i));
  }
  for (TensorId output : graph.outputs) lower_output(local, output);
  add_scratch(local.draft.graph);
  local.draft.graph.micro_batches = graph.micro_batches();
  local.draft.micro_batch_axes.resize(local.draft.graph.registers.size());
  return {std::move(local.draft.graph), std::move(local.draft.micro_batch_axes)};
}

}  // namespace partita
