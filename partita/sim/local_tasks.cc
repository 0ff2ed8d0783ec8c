// Lowers ops and tensors alone, each kind once.
#include "partita/sim/local_tasks.h"

#include <algorithm>
#include <deque>
#include <span>
#include <tuple>
#include <unordered_map>

#include "partita/base/error.h"
#include "partita/graph/of_samples.h"
#include "partita/physical/lower_op.h"
#include "partita/plan/needs.h"
#include "partita/plan/rule_planner.h"
#include "partita/sim/fragments.h"
#include "partita/sim/nodes.h"

namespace partita {

namespace {

struct NumbersHash {
  size_t operator()(const std::vector<int>& numbers) const {
    size_t h = numbers.size();
    for (const int n : numbers) h = (h ^ static_cast<size_t>(n)) * 0x9E3779B97F4A7C15u + (h >> 29);
    return h;
  }
};

// All that an op's tasks depend on but for the configuration.
using OpKind = std::tuple<const tdl::Bound*, std::string, tdl::Attributes, std::vector<int>>;
// All that a tensor's depend on but for the fragments of its parties.
using TensorKind = std::tuple<Shape, std::vector<int>>;
using OpConfiguration = std::tuple<int, std::vector<int>, std::vector<DeviceId>, std::vector<tdl::AxisStrategy>>;

OpKind kind_of(const Graph& graph, const std::vector<char>& of_samples, const Op& op) {
  std::vector<int> flags{static_cast<int>(inner_dtype(graph, op)), reads_samples(op, of_samples)};
  for (const std::vector<TensorId>* tensors : {&op.operands, &op.results})
    for (const TensorId t : *tensors) flags.push_back(static_cast<int>(graph.tensor(t).dtype));
  return {op.bound.get(), op.definition, op.attributes, std::move(flags)};
}

void add_party(TaskGraph::Wires& wires, int slot) {
  if (std::ranges::find(wires.parties, slot) == wires.parties.end()) wires.parties.push_back(slot);
}

// A tensor and what replaces it have one buffer, and so one place to be kept and one set of axes.
std::vector<TensorId> family_of(const Graph& graph, TensorId t) {
  const TensorId replaced = graph.tensor(t).replaces, keeper = replaced.valid() ? replaced : t;
  const TensorId replacement = graph.replacement_of(keeper);
  return replacement.valid() ? std::vector{keeper, replacement} : std::vector{keeper};
}

TaskGraph wired_graph(const Graph& graph, const std::vector<std::vector<Reader>>& read_by, int queues) {
  TaskGraph out;
  out.queue_count = queues;
  out.op_count = static_cast<int>(graph.ops.size());
  out.wires.resize(graph.ops.size() + graph.tensors.size());
  out.fragments.resize(out.wires.size());
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const int slot = out.op_count + static_cast<int>(t);
    TaskGraph::Wires& wires = out.wires[static_cast<size_t>(slot)];
    const OpId producer = graph.tensors[t].producer;
    wires.parties = {slot, producer.value};
    for (const Reader& reader : read_by[t]) add_party(wires, reader.op.value);
    // An input that nobody reads, and an output that nobody makes, belong to the last op.
    if (!producer.valid()) add_party(wires, out.op_count - 1);
    for (size_t p = 1; p < wires.parties.size(); ++p) {
      if (wires.parties[p] < 0) continue;
      TaskGraph::Wires& op = out.wires[static_cast<size_t>(wires.parties[p])];
      if (p == 1) op.results.push_back(slot);
      else op.operands.emplace_back(slot, static_cast<int>(p));
    }
  }
  return out;
}

// By tensor: the ops on whose configurations its tasks depend, without edges to or from them. They read or write what
// has one buffer with it.
std::vector<std::vector<int>> ops_of_families(const Graph& graph, const TaskGraph& wired,
                                              const std::vector<std::vector<Reader>>& read_by) {
  std::vector<std::vector<int>> out(graph.tensors.size());
  for (size_t t = 0; t < out.size(); ++t) {
    const std::vector<int>& parties = wired.wires[graph.ops.size() + t].parties;
    const auto add = [&](OpId op) {
      if (std::ranges::find(parties, op.value) == parties.end() && std::ranges::find(out[t], op.value) == out[t].end())
        out[t].push_back(op.value);
    };
    for (const TensorId other : family_of(graph, TensorId(t))) {
      for (const Reader& reader : read_by[other.index()]) add(reader.op);
      if (const OpId writer = graph.tensor(other).producer; writer.valid()) add(writer);
    }
  }
  return out;
}

}  // namespace

struct LocalTasks::Memory {
  const Graph& graph;
  const CostModel& cost;
  Resolved resolved;  // of what is being lowered
  LocalLowering local;
  std::unique_ptr<Converter> converter = std::make_unique<Converter>(cost.cluster());  // of tensors
  std::vector<std::vector<Reader>> read_by;
  std::vector<std::vector<Reader>> read_here;  // of the tensor at hand and its family: by ops that are not left out
  FragmentTimes times;
  TaskGraph wired;
  std::vector<std::vector<int>> beside;   // by tensor: ops_of_families()
  Plan plan;                              // what the tensor at hand is kept as
  std::vector<const OpLayouts*> layouts;  // of its parties
  DerivationCache derivations;
  std::map<OpKind, int> op_kinds;
  std::map<TensorKind, int> tensor_kinds;
  std::vector<int> kind_of_op, kind_of_tensor;
  std::map<OpConfiguration, std::unique_ptr<OpFragment>> ops;
  std::deque<Placement> placements;
  std::map<std::string, int> placement_numbers;
  std::unordered_map<std::vector<int>, FragmentPtr, NumbersHash> tensors;
  std::unordered_map<std::vector<int>, int, NumbersHash> kept_as_read;
  Counters counters;
  int64_t conversions = 0;

  Memory(const Graph& g, const CostModel& c, int64_t bucket_bytes)
      : graph(g),
        cost(c),
        local{g,
              resolved,
              {std::vector<std::vector<Shape>>(g.tensors.size()), std::vector<bool>(g.tensors.size(), false)},
              of_samples(g),
              make_draft(g.name, c.cluster(), nullptr),
              Converter(c.cluster()),
              std::vector<std::optional<Placed>>(g.tensors.size()),
              {},
              std::vector<const ResolvedConversion*>(g.tensors.size()),
              {}},
        read_by(readers(g)),
        read_here(read_by),
        times{c, queues_of_links(local.draft.graph), bucket_bytes},
        wired(wired_graph(g, read_by, static_cast<int>(local.draft.graph.queues.size()))),
        beside(ops_of_families(g, wired, read_by)),
        layouts(g.ops.size()) {
    resolved.home.resize(g.tensors.size());
    for (const Op& op : g.ops)
      kind_of_op.push_back(op_kinds.try_emplace(kind_of(g, local.of_samples, op), op_kinds.size()).first->second);
    for (size_t t = 0; t < g.tensors.size(); ++t)
      kind_of_tensor.push_back(tensor_kinds.try_emplace(tensor_kind(TensorId(t)), tensor_kinds.size()).first->second);
  }

  TensorKind tensor_kind(TensorId id) const;
  void forget();
  std::vector<Conversion> resolve(const std::vector<TensorId>& family, std::vector<TensorNeeds>& needs);
  void set_axes(const std::vector<TensorId>& family, const std::vector<TensorNeeds>& needs,
                const std::vector<Conversion>& conversions, const std::vector<const OpFragment*>& ops);
  void look_at(const std::vector<TensorId>& family, TensorId id, const std::vector<const OpFragment*>& ops);
  size_t place(TensorId id, const std::vector<const OpFragment*>& ops, FragmentDraft& draft);
  OpFragment made(OpId id, ResolvedOp resolved_op);
  Fragment made(TensorId id, int kept, const std::vector<const OpFragment*>& ops);
};

TensorKind LocalTasks::Memory::tensor_kind(TensorId id) const {
  const Tensor& tensor = graph.tensor(id);
  const auto place_in = [&](const std::vector<TensorId>& list) {
    const auto found = std::ranges::find(list, id);
    return found == list.end() ? -1 : static_cast<int>(found - list.begin());
  };
  std::vector<int> flags{static_cast<int>(tensor.dtype), static_cast<int>(tensor.role), local.of_samples[id.index()],
                         tensor.replaces.valid(),        place_in(graph.inputs),        place_in(graph.outputs)};
  const std::vector<int>& parties = wired.wires[graph.ops.size() + id.index()].parties;
  for (const TensorId t : family_of(graph, id)) {
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
      // In whose place its conversion is: updates' are as soon as they are ready. The kinds of ops say the rest.
      flags.push_back(static_cast<int>(op.phase));
    }
  }
  return {tensor.shape, std::move(flags)};
}

// Whatever the last op or tensor has left.
void LocalTasks::Memory::forget() {
  Draft& draft = local.draft;
  draft.graph.tasks.clear();
  draft.graph.registers.clear();
  draft.time_axes.clear();
  draft.positions.clear();
  draft.collectives = 0;
  local.kernels.clear();
  constexpr int64_t kMany = 4096;
  if (conversions > kMany) converter = std::make_unique<Converter>(cost.cluster()), conversions = 0;
}

// ---------------------------------------------------------------- ops

namespace {

std::vector<std::vector<int>> tasks_of(const Placed& placed, const std::vector<std::vector<int>>& by_register) {
  std::vector<std::vector<int>> tasks(static_cast<size_t>(placed.layout.mesh.positions()));
  for (const auto& [p, reg] : placed.regs) tasks[static_cast<size_t>(p)] = by_register[reg.index()];
  return tasks;
}

}  // namespace

OpFragment LocalTasks::Memory::made(OpId id, ResolvedOp resolved_op) {
  const Op& op = graph.op(id);
  forget();
  std::vector<Placed> operands;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    const TensorId t = op.operands[k];
    const Context at{graph.tensor(t).name, id, Phase::kForward, Task::Turn::kLazy, t, graph.tensor(t).dtype};
    operands.push_back(new_registers(local.draft, at, resolved_op.layouts.operands[k]));
  }
  const size_t own = local.draft.graph.registers.size();
  for (size_t r = 0; r < op.results.size(); ++r)
    local.axes.radices[op.results[r].index()] = resolved_op.layouts.results[r].radices;
  const std::vector<Placed> results = run_op(local, id, resolved_op, operands);

  FragmentDraft draft;
  add_tasks(draft, local.draft.graph, times, [](OpId) { return 0; });
  add_own_edges(draft, local.draft.graph);
  add_bytes(draft, local.draft.graph, own);

  OpFragment out;
  for (const Placed& operand : operands) out.reads.push_back(tasks_of(operand, draft.own_readers));
  std::vector<std::vector<int>> writers;
  for (const std::vector<TaskOf>& tasks : draft.writers) {
    writers.emplace_back();
    for (const TaskOf& task : tasks) writers.back().push_back(task.task);
  }
  for (size_t r = 0; r < results.size(); ++r) {
    out.writes.push_back(tasks_of(results[r], writers));
    const int tensor = op.bound->results[r];
    out.in_place.push_back(
        std::ranges::none_of(resolved_op.derived->inner, [&](const tdl::InnerStep& s) { return s.tensor == tensor; }));
  }
  const int size = draft.fragment.size();
  out.tasks = std::make_shared<const Fragment>(finished(std::move(draft), {size}));
  out.resolved = std::move(resolved_op);
  out.number = static_cast<int>(ops.size());
  return out;
}

const OpFragment& LocalTasks::op(OpId id, const OpChoice& choice) {
  Memory& m = *memory_;
  const Op& op = m.graph.op(id);
  const auto [found, fresh] =
      m.ops.try_emplace({m.kind_of_op[id.index()], choice.mesh.extents, choice.mesh.devices, choice.strategies});
  if (!fresh) return *found->second;
  ResolvedOp resolved{choice.mesh, m.derivations.get(op.bound, choice.mesh.extents, choice.strategies), {}, 0};
  if (!resolved.derived) refuse_strategies("plan", op, choice);
  resolved.layouts = layouts_of(*op.bound, *resolved.derived, choice.mesh);
  found->second = std::make_unique<OpFragment>(m.made(id, std::move(resolved)));
  ++m.counters.op_fragments;
  m.counters.tasks += found->second->tasks->size();
  return *found->second;
}

// ---------------------------------------------------------------- tensors

// What the tensors need, and its conversions one after another.
std::vector<Conversion> LocalTasks::Memory::resolve(const std::vector<TensorId>& family,
                                                    std::vector<TensorNeeds>& needs) {
  std::vector<Conversion> out;
  for (const TensorId t : family) {
    const OpId producer = graph.tensor(t).producer;
    needs.emplace_back();
    if (producer.valid() && !layouts[producer.index()]) continue;  // of a family, where its ops are left out
    needs.back() = needs_of(graph, plan, layouts, read_here, t);
    resolved.home[t.index()] = needs.back().home;
    for (const TensorNeeds::Need& need : needs.back().needs)
      out.push_back(converter->convert(need.from, need.to, bytes_of(graph.tensor(t).dtype)));
  }
  conversions += static_cast<int64_t>(out.size());
  return out;
}

void LocalTasks::Memory::set_axes(const std::vector<TensorId>& family, const std::vector<TensorNeeds>& needs,
                                  const std::vector<Conversion>& all, const std::vector<const OpFragment*>& ops) {
  std::vector<const Layout*> taken;
  for (const TensorNeeds& of : needs) taken.push_back(&of.home);
  for (const Conversion& c : all) {
    taken.insert(taken.end(), {&c.from, &c.to});
    for (const Step& step : c.steps) taken.insert(taken.end(), {&step.from, &step.to});
  }
  for (const TensorId t : family) {
    for (const Reader& reader : read_here[t.index()])
      taken.push_back(&ops[reader.op.index()]->resolved.layouts.operands[static_cast<size_t>(reader.operand)]);
    const OpId producer = graph.tensor(t).producer;
    if (!producer.valid() || !ops[producer.index()]) continue;
    const std::vector<TensorId>& results = graph.op(producer).results;
    for (size_t r = 0; r < results.size(); ++r)
      if (results[r] == t) taken.push_back(&ops[producer.index()]->resolved.layouts.results[r]);
  }
  const auto axes = common_axes(graph.tensor(family[0]).shape, taken);
  for (const TensorId t : family) {
    local.axes.mixed[t.index()] = !axes;
    local.axes.radices[t.index()] = axes.value_or(std::vector<Shape>());
  }
}

// The tensor in its home. The first register that no other fragment has.
size_t LocalTasks::Memory::place(TensorId id, const std::vector<const OpFragment*>& ops, FragmentDraft& draft) {
  const Tensor& tensor = graph.tensor(id);
  if (!tensor.producer.valid()) {
    local.placed[id.index()] = place_source(local, id);
    return 0;
  }
  const Op& op = graph.op(tensor.producer);
  const OpFragment& writer = *ops[tensor.producer.index()];
  const size_t r = static_cast<size_t>(std::ranges::find(op.results, id) - op.results.begin());
  const Layout layout = over_register_axes(local.axes, writer.resolved.layouts.results[r], id);
  std::optional<Placed> made;
  if (tensor.replaces.valid()) {
    const TensorId w = tensor.replaces;
    local.placed[w.index()] = place_source(local, w);
    const Placed& replaced = *local.placed[w.index()];
    std::vector<std::optional<Placed>> operands(op.operands.size());
    for (size_t k = 0; k < op.operands.size(); ++k)
      if (op.operands[k] == w && same_placement(resolved.home[w.index()], writer.resolved.layouts.operands[k]))
        operands[k] = replaced;
    if (writer.in_place[r] && goes_into(*op.bound, operands, replaced, layout, static_cast<int>(r))) made = replaced;
  }
  if (!made)
    made = new_registers(local.draft, {tensor.name, tensor.producer, op.phase, Task::Turn::kLazy, id, tensor.dtype},
                         layout);
  draft.writers.resize(local.draft.graph.registers.size());
  for (const auto& [p, reg] : made->regs)
    for (const int task : writer.writes[r][static_cast<size_t>(p)]) draft.writers[reg.index()].push_back({1, task});
  const size_t own = local.draft.graph.registers.size();
  settle_result(local, tensor.producer, r, *made, writer.resolved.layouts.results[r]);
  return own;
}

// What the ops that the tensor depends on read and make, and by which it is read.
void LocalTasks::Memory::look_at(const std::vector<TensorId>& family, TensorId id,
                                 const std::vector<const OpFragment*>& ops) {
  const auto look = [&](int op) {
    const OpFragment* of = op < 0 ? nullptr : ops[static_cast<size_t>(op)];
    if (op >= 0) layouts[static_cast<size_t>(op)] = of ? &of->resolved.layouts : nullptr;
  };
  for (const int op : std::span(wired.wires[graph.ops.size() + id.index()].parties).subspan(1)) look(op);
  for (const int op : beside[id.index()]) look(op);
  for (const TensorId t : family) {
    read_here[t.index()] = read_by[t.index()];
    std::erase_if(read_here[t.index()], [&](const Reader& reader) { return !ops[reader.op.index()]; });
  }
}

Fragment LocalTasks::Memory::made(TensorId id, int kept, const std::vector<const OpFragment*>& ops) {
  forget();
  const std::vector<TensorId> family = family_of(graph, id);
  plan.kept.clear();
  if (kept >= 0) plan.kept[family[0]] = placements[static_cast<size_t>(kept)];
  const TaskGraph::Wires& wires = wired.wires[graph.ops.size() + id.index()];
  std::vector<int> sizes{0};
  for (size_t p = 1; p < wires.parties.size(); ++p) {
    const int op = wires.parties[p];
    sizes.push_back(op < 0 || !ops[static_cast<size_t>(op)] ? 0 : ops[static_cast<size_t>(op)]->tasks->size());
  }
  look_at(family, id, ops);
  std::vector<TensorNeeds> needs;
  const std::vector<Conversion> all = resolve(family, needs);
  set_axes(family, needs, all, ops);
  const TensorNeeds& own = needs[id == family[0] ? 0 : 1];
  const size_t first = id == family[0] ? 0 : needs[0].needs.size();

  FragmentDraft draft;
  std::vector<ResolvedConversion> conversions_of_it;
  for (size_t n = 0; n < own.needs.size(); ++n)
    conversions_of_it.push_back({id, all[first + n], own.needs[n].readers, 1});
  local.kept[id.index()] =
      !conversions_of_it.empty() && conversions_of_it[0].readers.empty() ? conversions_of_it.data() : nullptr;
  const size_t own_registers = place(id, ops, draft);
  const Placed home = *local.placed[id.index()];
  std::map<std::pair<OpId, int>, Placed> brought;  // by reader
  for (const ResolvedConversion& c : conversions_of_it) {
    if (c.readers.empty()) continue;
    const Placed to = convert_for(local, c.readers[0], c);
    for (const Reader& reader : c.readers) brought[{reader.op, reader.operand}] = to;
  }
  if (std::ranges::find(graph.outputs, id) != graph.outputs.end()) lower_output(local, id);

  const PhysicalGraph& physical = local.draft.graph;
  const auto party_of = [&](OpId op) {
    return static_cast<int>(std::ranges::find(wires.parties, op.value) - wires.parties.begin());
  };
  add_tasks(draft, physical, times, party_of);
  add_own_edges(draft, physical);
  add_bytes(draft, physical, own_registers);
  for (const Reader& reader : read_here[id.index()]) {
    const auto found = brought.find({reader.op, reader.operand});
    const Placed& at = found == brought.end() ? home : found->second;
    const auto& tasks = ops[reader.op.index()]->reads[static_cast<size_t>(reader.operand)];
    for (const auto& [p, reg] : at.regs)
      for (const int task : tasks[static_cast<size_t>(p)])
        draft.reads(physical, reg, at.fresh, {party_of(reader.op), task});
  }
  for (const TensorId t : family) local.placed[t.index()].reset();
  local.kept[id.index()] = nullptr;
  sizes[0] = draft.fragment.size();
  return finished(std::move(draft), sizes);
}

const FragmentPtr& LocalTasks::tensor(TensorId id, int kept, const std::vector<const OpFragment*>& ops) {
  Memory& m = *memory_;
  std::vector<int> key{m.kind_of_tensor[id.index()], kept};
  const auto number = [&](int op) { return ops[static_cast<size_t>(op)] ? ops[static_cast<size_t>(op)]->number : -2; };
  for (const int party : std::span(m.wired.wires[m.graph.ops.size() + id.index()].parties).subspan(1))
    key.push_back(party < 0 ? -1 : number(party));
  for (const int op : m.beside[id.index()]) key.push_back(number(op));
  const auto [found, fresh] = m.tensors.try_emplace(std::move(key));
  if (!fresh) return found->second;
  found->second = std::make_shared<const Fragment>(m.made(id, kept, ops));
  ++m.counters.tensor_fragments;
  m.counters.tasks += found->second->size();
  return found->second;
}

void LocalTasks::forget_tensors() { memory_->tensors.clear(); }

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
  const TensorId keeper = family_of(m.graph, t)[0];
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
const LocalTasks::Counters& LocalTasks::counters() const { return memory_->counters; }

TaskGraph local_task_graph(const Graph& graph, const Plan& plan, LocalTasks& tasks) {
  TaskGraph out = tasks.wired();
  std::vector<const OpFragment*> ops;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    ops.push_back(&tasks.op(OpId(i), plan.ops[i]));
    out.fragments[i] = ops.back()->tasks;
  }
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const auto kept = plan.kept.find(family_of(graph, TensorId(t))[0]);
    out.fragments[graph.ops.size() + t] =
        tasks.tensor(TensorId(t), kept == plan.kept.end() ? -1 : tasks.kept(kept->second), ops);
  }
  return out;
}

}  // namespace partita
