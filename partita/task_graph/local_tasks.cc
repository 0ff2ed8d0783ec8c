// Lowers ops and tensors alone, each kind once.
#include "partita/task_graph/local_tasks.h"

#include <algorithm>
#include <deque>
#include <set>
#include <tuple>
#include <unordered_map>

#include "partita/base/error.h"
#include "partita/graph/sample_tensors.h"
#include "partita/physical/lower_op.h"
#include "partita/plan/needs.h"
#include "partita/plan/rule_planner.h"
#include "partita/task_graph/fragments.h"
#include "partita/task_graph/known_layouts.h"
#include "partita/task_graph/local_wires.h"

namespace partita {

namespace {

struct NumbersHash {
  size_t operator()(const std::vector<int>& numbers) const {
    size_t h = numbers.size();
    for (const int n : numbers) h = (h ^ static_cast<size_t>(n)) * 0x9E3779B97F4A7C15u + (h >> 29);
    return h;
  }
};

// All that an op's tasks depend on, but the configuration.
using OpKind = std::tuple<const tdl::Bound*, std::string, tdl::Attributes, std::vector<int>>;
// All that a tensor's tasks depend on, but its parties' fragments.
using TensorKind = std::tuple<Shape, std::vector<int>>;
// A configuration without its devices: kind, extents, strategies.
using OpConfiguration = std::tuple<int, std::vector<int>, std::vector<tdl::AxisStrategy>>;

struct OpForm {
  int number = -1;
  OpFragment first;           // on some devices
  std::vector<int> position;  // of its tasks; empty: they are not kernels alone, or there is none yet
};

OpKind kind_of(const Graph& graph, const std::vector<char>& is_sample_tensor, const Op& op) {
  std::vector<int> flags{static_cast<int>(inner_dtype(graph, op)), reads_samples(op, is_sample_tensor)};
  for (const std::vector<TensorId>* tensors : {&op.operands, &op.results})
    for (const TensorId t : *tensors) flags.push_back(static_cast<int>(graph.tensor(t).dtype));
  return {op.bound.get(), op.definition, op.attributes, std::move(flags)};
}

}  // namespace

constexpr int kLeftOut = -2;  // instead of the number of an op that is left out

struct LocalTasks::Memory {
  const Graph& graph;
  const Cluster& cluster;
  std::vector<std::vector<TensorId>> family;  // by tensor
  Resolved resolved;                          // of the op or tensor being lowered
  LocalLowering local;
  TaskTimes times;
  std::vector<std::vector<Reader>> read_by;
  TaskGraph wired;
  std::vector<std::vector<int>> beside;  // by tensor: ops_of_families()
  KnownLayouts known{cluster};
  std::unordered_map<std::vector<int>, int, NumbersHash>
      kept_layouts;  // layouts' numbers by placement and kind of tensor
  DerivationCache derivations;
  std::map<OpKind, int> op_kinds;
  std::map<TensorKind, int> tensor_kinds;
  std::vector<int> kind_of_op, kind_of_tensor;
  std::map<OpConfiguration, OpForm> forms;
  std::unordered_map<std::vector<int>, std::unique_ptr<OpFragment>, NumbersHash> ops;  // by form and devices
  int op_numbers = 0;
  int64_t bytes = 0;  // LocalTasks::bytes()
  std::deque<Placement> placements;
  std::map<std::string, int> placement_numbers;
  std::unordered_map<std::vector<int>, FragmentPtr, NumbersHash> tensors;
  std::unordered_map<std::vector<int>, int, NumbersHash> kept_as_read;
  Counters counters;
  FragmentDraft draft;
  EdgeLists lists;
  std::vector<int> key;  // of the requested tensor

  Memory(const Graph& g, const CostModel& c, int64_t bucket_bytes)
      : graph(g),
        cluster(c.cluster()),
        family(tensor_families(g)),
        local{g,
              resolved,
              {std::vector<std::vector<Shape>>(g.tensors.size()), std::vector<bool>(g.tensors.size(), false)},
              sample_tensor_mask(g),
              make_draft(g.name, c.cluster(), nullptr),
              Converter(c.cluster()),
              std::vector<std::optional<Placed>>(g.tensors.size()),
              {},
              std::vector<const Conversion*>(g.tensors.size()),
              {},
              carried(g)},
        times(c, local.draft.graph, bucket_bytes),
        read_by(readers_by_tensor(g)),
        wired(wired_graph(g, read_by, static_cast<int>(local.draft.graph.queues.size()))),
        beside(ops_of_families(g, wired, family, read_by)),
        party_of(g.tensors.size()),
        read_of(g.tensors.size()) {
    forget_ops();
    for (size_t t = 0; t < g.tensors.size(); ++t) {
      std::vector<int>& parties = party_of_reader.emplace_back();
      for (const Reader& reader : read_by[t])
        parties.push_back(place_in(wired.wires[g.ops.size() + t].parties, reader.op.value));
    }
    local.draft.complete = times.need_complete();
    resolved.kept_layouts.resize(g.tensors.size());
    for (const Op& op : g.ops)
      kind_of_op.push_back(op_kinds.try_emplace(kind_of(g, local.is_sample_tensor, op), op_kinds.size()).first->second);
    for (size_t t = 0; t < g.tensors.size(); ++t)
      kind_of_tensor.push_back(tensor_kinds.try_emplace(tensor_kind(TensorId(t)), tensor_kinds.size()).first->second);
  }

  TensorKind tensor_kind(TensorId id) const;
  void forget();
  using Ops = std::vector<const OpFragment*>;  // by OpId
  // The ops of the last request, by party and by reader of each tensor: if hundreds read a tensor, few change.
  struct Party {
    const OpFragment* of = nullptr;
    int number = kLeftOut, size = 0;
  };
  struct Read {
    const OpFragment* of = nullptr;
    int layout = 0;
  };
  std::vector<std::vector<int>> party_of_reader;  // by tensor and reader
  std::vector<std::vector<Party>> party_of;
  std::vector<std::vector<Read>> read_of;
  const Party& party(TensorId t, size_t p, const Ops& ops);
  int read_as(TensorId t, size_t reader, const Ops& ops);
  void forget_ops();
  using NumberedNeeds = std::vector<Needs<int>>;  // of a family; layouts by number
  int kept_layout(TensorId keeper, int kept);
  void number_layouts(OpFragment& op);
  std::vector<Reader> read_here;
  const std::vector<Reader>& readers_here(TensorId t, const Ops& ops);
  NumberedNeeds needs(const std::vector<TensorId>& of, int kept, const Ops& ops);
  const Conversion& conversion(TensorId t, const Needs<int>& of, const Needs<int>::Need& need) {
    return known.conversion(of.from(need), of.to(need), partita::bytes_of(graph.tensor(t).dtype));
  }
  void set_axes(const std::vector<TensorId>& of, const NumberedNeeds& needs, const Ops& ops);
  size_t place(TensorId id, const Needs<int>& needs, const Ops& ops);
  void add_readers(TensorId id, const std::vector<Placed>& brought, const Needs<int>& needs, const Ops& ops);
  OpFragment made(OpId id, ResolvedOp resolved_op);
  OpFragment moved(const OpForm& form, const Mesh& mesh);
  std::vector<int> positions_of_kernels() const;
  Fragment made(TensorId id, int kept, const Ops& ops);
};

TensorKind LocalTasks::Memory::tensor_kind(TensorId id) const {
  const Tensor& tensor = graph.tensor(id);
  const auto place_in = [&](const std::vector<TensorId>& list) {
    const auto found = std::ranges::find(list, id);
    return found == list.end() ? -1 : static_cast<int>(found - list.begin());
  };
  std::vector<int> flags{
      static_cast<int>(tensor.dtype), static_cast<int>(tensor.role), local.is_sample_tensor[id.index()],
      tensor.replaces.valid(),        place_in(graph.inputs),        place_in(graph.outputs)};
  const std::vector<int>& parties = wired.wires[graph.ops.size() + id.index()].parties;
  for (const TensorId t : family[id.index()]) {
    const OpId producer = graph.tensor(t).producer;
    const std::vector<TensorId>* results = producer.valid() ? &graph.op(producer).results : nullptr;
    flags.push_back(results ? static_cast<int>(std::ranges::find(*results, t) - results->begin()) : -1);
    flags.push_back(static_cast<int>(read_by[t.index()].size()));
    for (const Reader& reader : read_by[t.index()]) {
      const Op& op = graph.op(reader.op);
      const std::vector<int>& others = beside[id.index()];
      const auto party = std::ranges::find(parties, reader.op.value);
      flags.push_back(party != parties.end()
                          ? static_cast<int>(party - parties.begin())
                          : -1 - static_cast<int>(std::ranges::find(others, reader.op.value) - others.begin()));
      flags.push_back(reader.operand);
      // The phase decides the order of updates, which come as soon as they are ready. The kinds of ops say the rest.
      flags.push_back(static_cast<int>(op.phase));
    }
  }
  return {tensor.shape, std::move(flags)};
}

const LocalTasks::Memory::Party& LocalTasks::Memory::party(TensorId t, size_t p, const Ops& ops) {
  Party& known = party_of[t.index()][p];
  const OpFragment* of = ops[static_cast<size_t>(wired.wires[graph.ops.size() + t.index()].parties[p])];
  if (known.of != of) known = of ? Party{of, of->number, of->tasks->size()} : Party{};
  return known;
}

// The layout in which an op that is not left out reads the tensor.
int LocalTasks::Memory::read_as(TensorId t, size_t reader, const Ops& ops) {
  Read& known = read_of[t.index()][reader];
  const Reader& at = read_by[t.index()][reader];
  const OpFragment* of = ops[at.op.index()];
  if (known.of != of) known = {of, of->reads_as[static_cast<size_t>(at.operand)]};
  return known.layout;
}

// New ops may lie at the addresses of old ones.
void LocalTasks::Memory::forget_ops() {
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    party_of[t].assign(wired.wires[graph.ops.size() + t].parties.size(), {});
    read_of[t].assign(read_by[t].size(), {});
  }
}

// Drops the remains of the last op or tensor.
void LocalTasks::Memory::forget() {
  Draft& lowered = local.draft;
  lowered.graph.tasks.clear();
  lowered.graph.registers.clear();
  lowered.sources.clear();
  lowered.micro_batch_axes.clear();
  lowered.positions.clear();
  lowered.collectives = 0;
  draft.clear();
  local.kernels.clear();
  known.forget_many();
}

// ---------------------------------------------------------------- ops

namespace {

// Adds the tasks of the registers of all positions.
void add_tasks_of(const Placed& placed, const TasksOfRegisters& by_register, TasksAt& at) {
  std::vector<int> tasks;
  for (const auto& [p, reg] : placed.regs) {
    tasks.clear();
    by_register.for_each(reg, [&](const TaskOf& task) { tasks.push_back(task.task); });
    at.add(tasks);
  }
}

// Its memory, about.
int64_t bytes_of(const Fragment& f) {
  constexpr size_t kOwn = 64;  // for the pointer to it, and for shared data
  return static_cast<int64_t>(sizeof(Fragment) + kOwn + f.duration_ns.size() * 24 + f.queues.size() * 4 +
                              (f.load_ns.size() + f.bytes.size()) * 16);
}

int64_t bytes_with_key(const Fragment& f, const std::vector<int>& key) {
  return bytes_of(f) + static_cast<int64_t>(sizeof(int) * key.size());
}

int64_t bytes_of(const OpFragment& op) {
  constexpr size_t kLayout = 1280, kPosition = 8;
  const size_t tensors = op.resolved.layouts.operands.size() + op.resolved.layouts.results.size();
  const size_t positions = static_cast<size_t>(op.resolved.mesh.positions());
  return bytes_of(*op.tasks) + static_cast<int64_t>(sizeof(OpFragment) + tensors * (kLayout + kPosition * positions));
}

}  // namespace

OpFragment LocalTasks::Memory::made(OpId id, ResolvedOp resolved_op) {
  const Op& op = graph.op(id);
  forget();
  std::vector<Placed> operands;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    const TensorId t = op.operands[k];
    const Context at{named(local.draft, "{}", graph.tensor(t).name),
                     id,
                     Phase::kForward,
                     Task::Turn::kLazy,
                     t,
                     graph.tensor(t).dtype};
    operands.push_back(new_registers(local.draft, at, resolved_op.layouts.operands[k]));
  }
  const size_t own = local.draft.graph.registers.size();
  for (size_t r = 0; r < op.results.size(); ++r)
    local.axes.radices[op.results[r].index()] = resolved_op.layouts.results[r].radices;
  const std::vector<Placed> results = run_op(local, id, resolved_op, operands);

  add_tasks(draft, local.draft, times, [](OpId) { return 0; });
  add_own_edges(draft, local.draft.graph);
  add_bytes(draft, local.draft.graph, own);

  OpFragment out;
  out.reads = out.writes = TasksAt(resolved_op.mesh.positions());
  for (const Placed& operand : operands) add_tasks_of(operand, draft.own_readers, out.reads);
  for (size_t r = 0; r < results.size(); ++r) {
    add_tasks_of(results[r], draft.writers, out.writes);
    const int tensor = op.bound->results[r];
    out.in_place.push_back(
        std::ranges::none_of(resolved_op.derived->inner, [&](const tdl::InnerStep& s) { return s.tensor == tensor; }));
  }
  const int size = draft.fragment.size();
  out.tasks = std::make_shared<const Fragment>(finish_fragment(draft, lists, {size}));
  out.resolved = std::move(resolved_op);
  return out;
}

// Returns the op's fragment on other devices of the same types.
OpFragment LocalTasks::Memory::moved(const OpForm& form, const Mesh& mesh) {
  const OpFragment& of = form.first;
  const auto device = [&](int p) { return mesh.devices[static_cast<size_t>(p)]; };
  Fragment tasks = *of.tasks;
  tasks.load_ns.clear();
  tasks.bytes.clear();
  for (size_t t = 0; t < tasks.duration_ns.size(); ++t) {
    tasks.queues[t] = local.draft.compute_queues[device(form.position[t]).index()].value;
    add_to(tasks.load_ns, tasks.queues[t], tasks.duration_ns[t]);
  }
  for (const auto& [d, bytes] : of.tasks->bytes)
    add_to(tasks.bytes, device(of.resolved.mesh.position_of(DeviceId(static_cast<size_t>(d)))).value, bytes);
  OpFragment out = of;
  out.tasks = std::make_shared<const Fragment>(std::move(tasks));
  out.resolved.mesh = mesh;
  for (std::vector<Layout>* layouts : {&out.resolved.layouts.operands, &out.resolved.layouts.results})
    for (Layout& layout : *layouts) layout.mesh = mesh;
  return out;
}

// By position of the mesh; kernels alone are the same on other devices.
std::vector<int> LocalTasks::Memory::positions_of_kernels() const {
  std::vector<int> positions;
  for (const Task& task : local.draft.graph.tasks) {
    if (!std::holds_alternative<KernelWork>(task.work)) return {};
    positions.push_back(task.key.position);
  }
  return positions;
}

const OpFragment& LocalTasks::op(OpId id, const OpChoice& choice) {
  Memory& m = *memory_;
  const Op& op = m.graph.op(id);
  OpForm& form = m.forms[{m.kind_of_op[id.index()], choice.mesh.extents, choice.strategies}];
  if (form.number < 0) form.number = static_cast<int>(m.forms.size());
  std::vector<int>& key = m.key;
  key.assign(1, form.number);
  for (const DeviceId d : choice.mesh.devices) key.push_back(d.value);
  const auto [found, fresh] = m.ops.try_emplace(key);
  if (!fresh) return *found->second;
  if (!form.position.empty() && m.times.same_types(form.first.resolved.mesh.devices, choice.mesh.devices)) {
    found->second = std::make_unique<OpFragment>(m.moved(form, choice.mesh));
  } else {
    ResolvedOp resolved{choice.mesh, m.derivations.get(op.bound, choice.mesh.extents, choice.strategies), {}, 0};
    if (!resolved.derived) m.ops.erase(found), fail("plan: {}", why_not_derived(op, choice));
    resolved.layouts = layouts_of(*op.bound, *resolved.derived, choice.mesh);
    found->second = std::make_unique<OpFragment>(m.made(id, std::move(resolved)));
    if (form.position.empty()) form.position = m.positions_of_kernels();
    if (!form.position.empty()) form.first = *found->second;
  }
  found->second->number = m.op_numbers++;
  m.number_layouts(*found->second);
  ++m.counters.op_fragments;
  m.counters.tasks += found->second->tasks->size();
  m.bytes += bytes_of(*found->second);
  return *found->second;
}

// ---------------------------------------------------------------- tensors

void LocalTasks::Memory::number_layouts(OpFragment& op) {
  op.reads_as.clear();
  op.leaves_as.clear();
  for (const Layout& layout : op.resolved.layouts.operands) op.reads_as.push_back(known.number(layout));
  for (const Layout& layout : op.resolved.layouts.results) op.leaves_as.push_back(known.number(layout));
}

// The layout of a tensor that is kept somewhere.
int LocalTasks::Memory::kept_layout(TensorId keeper, int kept) {
  const auto [found, fresh] = kept_layouts.try_emplace({kept, kind_of_tensor[keeper.index()]});
  if (fresh) found->second = known.number(layout_of(placements[static_cast<size_t>(kept)], graph.tensor(keeper).shape));
  return found->second;
}

// The readers whose ops are not left out: all, or else those in `read_here`.
const std::vector<Reader>& LocalTasks::Memory::readers_here(TensorId t, const Ops& ops) {
  const std::vector<Reader>& all = read_by[t.index()];
  const auto is_here = [&](const Reader& reader) { return ops[reader.op.index()] != nullptr; };
  if (std::ranges::all_of(all, is_here)) return all;
  read_here.clear();
  std::ranges::copy_if(all, std::back_inserter(read_here), is_here);
  return read_here;
}

// A family's tensor has no kept layout if its ops are left out: -1, and it needs nothing.
LocalTasks::Memory::NumberedNeeds LocalTasks::Memory::needs(const std::vector<TensorId>& of, int kept, const Ops& ops) {
  NumberedNeeds out;
  for (const TensorId t : of) {
    const OpId producer = graph.tensor(t).producer;
    if (producer.valid() && !ops[producer.index()]) {
      out.push_back({-1, {}});
      continue;
    }
    const int* made = nullptr;
    if (producer.valid()) {
      const auto r = std::ranges::find(graph.op(producer).results, t) - graph.op(producer).results.begin();
      made = &ops[producer.index()]->leaves_as[static_cast<size_t>(r)];
    }
    if (!made && kept < 0)
      fail("plan: {} '{}' has no kept layout; inputs, constants, parameters and state need one",
           name_of(graph.tensor(t).role), graph.tensor(t).name);
    const std::vector<Reader>& readers = readers_here(t, ops);
    const auto read = [&](const Reader& reader) {
      return &readers == &read_here ? ops[reader.op.index()]->reads_as[static_cast<size_t>(reader.operand)]
                                    : read_as(t, static_cast<size_t>(&reader - readers.data()), ops);
    };
    out.push_back(needs_of_readers(
        made, kept >= 0 ? kept_layout(of[0], kept) : *made, readers, read,
        [&](int a, int b) { return known.same_placement(a, b); }, [](const Reader&, const Reader&) { return true; }));
    resolved.kept_layouts[t.index()] = known.layout(out.back().kept_layout);
  }
  return out;
}

// Sets axes as common_axes() chooses them: if all layouts of the tensor have the same axes, these.
void LocalTasks::Memory::set_axes(const std::vector<TensorId>& of, const NumberedNeeds& all, const Ops& ops) {
  std::vector<int> taken;
  for (size_t i = 0; i < of.size(); ++i) {
    if (all[i].kept_layout >= 0) taken.push_back(all[i].kept_layout);
    for (const Needs<int>::Need& need : all[i].needs) taken.push_back(need.other);
    for (size_t reader = 0; reader < read_by[of[i].index()].size(); ++reader)
      if (ops[read_by[of[i].index()][reader].op.index()]) taken.push_back(read_as(of[i], reader, ops));
    const OpId producer = graph.tensor(of[i]).producer;
    if (!producer.valid() || !ops[producer.index()]) continue;
    const auto r = std::ranges::find(graph.op(producer).results, of[i]) - graph.op(producer).results.begin();
    taken.push_back(ops[producer.index()]->leaves_as[static_cast<size_t>(r)]);
  }
  std::ranges::sort(taken);
  taken.erase(std::unique(taken.begin(), taken.end()), taken.end());
  std::optional<std::vector<Shape>> axes;
  if (std::ranges::all_of(taken, [&](int layout) { return known.same_radices(layout, taken[0]); })) {
    axes = known.layout(taken[0]).radices;
  } else {
    std::vector<const Layout*> layouts;
    for (const int layout : taken) layouts.push_back(&known.layout(layout));
    for (size_t i = 0; i < of.size(); ++i)
      for (const Needs<int>::Need& need : all[i].needs)
        for (const Step& step : conversion(of[i], all[i], need).steps)
          layouts.insert(layouts.end(), {&step.from, &step.to});
    axes = common_axes(graph.tensor(of[0]).shape, layouts);
  }
  for (const TensorId t : of) {
    local.axes.mixed[t.index()] = !axes;
    local.axes.radices[t.index()] = axes.value_or(std::vector<Shape>());
  }
}

// Places the tensor in its kept layout. Returns the first register that no other fragment has.
size_t LocalTasks::Memory::place(TensorId id, const Needs<int>& needs, const Ops& ops) {
  const Tensor& tensor = graph.tensor(id);
  if (!tensor.producer.valid()) {
    local.placed[id.index()] = place_source(local, id);
    return 0;
  }
  const Op& op = graph.op(tensor.producer);
  const OpFragment& writer = *ops[tensor.producer.index()];
  const size_t r = static_cast<size_t>(std::ranges::find(op.results, id) - op.results.begin());
  Layout layout = over_register_axes(local.axes, writer.resolved.layouts.results[r], id);
  std::optional<Placed> made;
  if (tensor.replaces.valid()) {
    const TensorId w = tensor.replaces;
    local.placed[w.index()] = place_source(local, w);
    const Placed& replaced = *local.placed[w.index()];
    std::vector<std::optional<Placed>> operands(op.operands.size());
    for (size_t k = 0; k < op.operands.size(); ++k)
      if (op.operands[k] == w && known.same_placement(needs.kept_layout, writer.reads_as[k])) operands[k] = replaced;
    if (writer.in_place[r] && goes_into(*op.bound, operands, replaced, layout, static_cast<int>(r))) made = replaced;
  }
  if (!made)
    made = new_registers(
        local.draft,
        {named(local.draft, "{}", tensor.name), tensor.producer, op.phase, Task::Turn::kLazy, id, tensor.dtype},
        std::move(layout));
  for (const auto& [p, reg] : made->regs)
    for (const int task : writer.writes.at(r, p)) draft.writers.add(reg, {1, task});
  const size_t own = local.draft.graph.registers.size();
  settle_result(local, tensor.producer, r, std::move(*made), writer.resolved.layouts.results[r]);
  return own;
}

// Adds the edges to the tensor's readers: from its conversion for them, or else from its kept layout.
void LocalTasks::Memory::add_readers(TensorId id, const std::vector<Placed>& brought, const Needs<int>& needs,
                                     const Ops& ops) {
  const std::vector<Reader>& all = read_by[id.index()];
  std::vector<const Placed*> at(all.size(), &*local.placed[id.index()]);
  for (size_t n = 0; n < needs.needs.size(); ++n) {
    auto place = all.begin();
    for (const Reader& reader : needs.needs[n].readers) {  // in the order of all
      while (place->op != reader.op || place->operand != reader.operand) ++place;
      at[static_cast<size_t>(place - all.begin())] = &brought[n];
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (!ops[all[i].op.index()]) continue;
    const PositionRegisters& regs = at[i]->regs;
    // If nothing of this step writes the registers it reads, there is no edge.
    if (std::ranges::none_of(regs, [&](const auto& of) { return draft.writers.has(of.second); })) continue;
    const TasksAt& tasks = ops[all[i].op.index()]->reads;
    for (const auto& [p, reg] : regs)
      for (const int task : tasks.at(static_cast<size_t>(all[i].operand), p))
        draft.reads(local.draft.graph, reg, at[i]->fresh, {party_of_reader[id.index()][i], task});
  }
}

Fragment LocalTasks::Memory::made(TensorId id, int kept, const Ops& ops) {
  forget();
  const std::vector<TensorId>& of = family[id.index()];
  const std::vector<int>& parties = wired.wires[graph.ops.size() + id.index()].parties;
  std::vector<int> sizes{0};
  for (size_t p = 1; p < parties.size(); ++p) sizes.push_back(parties[p] < 0 ? 0 : party(id, p, ops).size);
  const NumberedNeeds all = needs(of, kept, ops);
  set_axes(of, all, ops);
  const Needs<int>& own = all[id == of[0] ? 0 : 1];

  local.kept[id.index()] =
      !own.needs.empty() && own.needs[0].readers.empty() ? &conversion(id, own, own.needs[0]) : nullptr;
  const size_t own_registers = place(id, own, ops);
  std::vector<Placed> brought(own.needs.size());
  for (size_t n = 0; n < own.needs.size(); ++n)
    if (const std::vector<Reader>& readers = own.needs[n].readers; !readers.empty())
      brought[n] = convert_for(local, readers[0], id, conversion(id, own, own.needs[n]), 1);
  if (std::ranges::find(graph.outputs, id) != graph.outputs.end()) lower_output(local, id);

  add_tasks(draft, local.draft, times, [&](OpId op) { return place_in(parties, op.value); });
  add_own_edges(draft, local.draft.graph);
  add_bytes(draft, local.draft.graph, own_registers);
  add_readers(id, brought, own, ops);
  for (const TensorId t : of) local.placed[t.index()].reset();
  local.kept[id.index()] = nullptr;
  sizes[0] = draft.fragment.size();
  return finish_fragment(draft, lists, sizes);
}

const FragmentPtr& LocalTasks::tensor(TensorId id, int kept, const std::vector<const OpFragment*>& ops) {
  Memory& m = *memory_;
  const std::vector<int>& parties = m.wired.wires[m.graph.ops.size() + id.index()].parties;
  std::vector<int>& key = m.key;
  key.assign({m.kind_of_tensor[id.index()], kept});
  for (size_t p = 1; p < parties.size(); ++p) key.push_back(parties[p] < 0 ? -1 : m.party(id, p, ops).number);
  for (const int op : m.beside[id.index()])
    key.push_back(ops[static_cast<size_t>(op)] ? ops[static_cast<size_t>(op)]->number : kLeftOut);
  const auto [found, fresh] = m.tensors.try_emplace(key);
  if (!fresh) return found->second;
  found->second = std::make_shared<const Fragment>(m.made(id, kept, ops));
  ++m.counters.tensor_fragments;
  m.counters.tasks += found->second->size();
  m.bytes += bytes_with_key(*found->second, key);
  return found->second;
}

void LocalTasks::forget_tensors() {
  Memory& m = *memory_;
  for (const auto& [key, tensor] : m.tensors) m.bytes -= bytes_with_key(*tensor, key);
  m.tensors.clear();
}

int64_t LocalTasks::bytes() const { return memory_->bytes; }

void LocalTasks::forget_others(const std::vector<const OpFragment*>& ops) {
  Memory& m = *memory_;
  std::set<const OpFragment*> used(ops.begin(), ops.end());
  std::erase_if(m.ops, [&](const auto& op) { return !used.contains(op.second.get()); });
  std::erase_if(m.tensors, [](const auto& tensor) { return tensor.second.use_count() == 1; });
  m.kept_as_read.clear();
  m.kept_layouts.clear();
  m.known.forget();
  m.forget_ops();
  for (const auto& [key, op] : m.ops) m.number_layouts(*op);
  m.bytes = 0;
  for (const auto& [key, op] : m.ops) m.bytes += bytes_of(*op);
  for (const auto& [key, tensor] : m.tensors) m.bytes += bytes_with_key(*tensor, key);
}

// ---------------------------------------------------------------- where tensors are kept

int LocalTasks::kept(const Placement& placement) {
  Memory& m = *memory_;
  std::string text = fmt::format("{} {}", to_string(placement.sbp), fmt::join(placement.mesh.extents, "x"));
  for (const DeviceId d : placement.mesh.devices) text += fmt::format(",{}", d.value);
  for (const Shape& radices : placement.radices) text += fmt::format(";{}", fmt::join(radices, "."));
  const auto [found, fresh] = m.placement_numbers.try_emplace(std::move(text), m.placements.size());
  if (fresh) m.placements.push_back(placement);
  return found->second;
}

int LocalTasks::kept_as_read(TensorId t, const std::vector<const OpFragment*>& ops) {
  Memory& m = *memory_;
  const TensorId keeper = m.family[t.index()][0];
  if (m.graph.tensor(keeper).producer.valid()) return -1;
  const std::vector<Reader>& read_by = m.read_by[keeper.index()];
  if (read_by.empty()) return kept({{{}, {DeviceId(0)}}, {}, {}});
  const Reader& first = read_by[0];
  const OpFragment& reader = *ops[first.op.index()];
  const auto [found, fresh] =
      m.kept_as_read.try_emplace({m.kind_of_tensor[keeper.index()], reader.number, first.operand});
  if (fresh)
    found->second = kept(partita::kept_as_read(m.graph, m.graph.op(first.op), keeper,
                                               reader.resolved.layouts.operands[static_cast<size_t>(first.operand)],
                                               read_by.size() == 1));
  return found->second;
}

LocalTasks::LocalTasks(const Graph& graph, const CostModel& cost, int64_t bucket_bytes) {
  if (graph.micro_batches() > 1)
    fail("model '{}': the local task graph has no micro-batches: plan it without them", graph.name);
  memory_ = std::make_unique<Memory>(graph, cost, bucket_bytes);
}
LocalTasks::~LocalTasks() = default;

const TaskGraph& LocalTasks::wired() const { return memory_->wired; }
std::vector<int> LocalTasks::tensors_of(OpId op) const {
  const TaskGraph::Wires& wires = memory_->wired.wires[op.index()];
  std::vector<int> slots = wires.results;
  for (const auto& [slot, party] : wires.operands) slots.push_back(slot);
  for (size_t t = 0; t < memory_->beside.size(); ++t)
    if (std::ranges::find(memory_->beside[t], op.value) != memory_->beside[t].end()) slots.push_back(slot(TensorId(t)));
  return slots;
}
int LocalTasks::slot(TensorId t) const { return memory_->wired.op_count + t.value; }
DerivationCache& LocalTasks::derivations() { return memory_->derivations; }
const LocalTasks::Counters& LocalTasks::counters() const { return memory_->counters; }

TaskGraph local_task_graph(const Graph& graph, const Plan& plan, LocalTasks& tasks) {
  TaskGraph out = tasks.wired();
  std::vector<const OpFragment*> ops;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    ops.push_back(&tasks.op(OpId(i), plan.ops[i]));
    out.fragments[i] = ops.back()->tasks;
  }
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const TensorId replaced = graph.tensors[t].replaces;
    const auto kept = plan.kept.find(replaced.valid() ? replaced : TensorId(t));
    out.fragments[graph.ops.size() + t] =
        tasks.tensor(TensorId(t), kept == plan.kept.end() ? -1 : tasks.kept(kept->second), ops);
  }
  return out;
}

}  // namespace partita
