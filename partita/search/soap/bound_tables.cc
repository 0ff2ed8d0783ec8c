// Tabulates loads and paths of units, and of tensors between them.
#include "partita/search/soap/bound_tables.h"

#include <algorithm>
#include <set>
#include <span>
#include <tuple>

#include "partita/base/error.h"
#include "partita/physical/draft.h"
#include "partita/plan/rules.h"

namespace partita {

std::vector<SoapClass> classes_of(const SoapSet& set, const Cluster& cluster) {
  const int of_node = node_size(cluster);
  std::map<std::pair<std::vector<int>, int>, size_t> known;
  std::vector<SoapClass> classes;
  for (int64_t i = 0; i < set.size(); ++i) {
    const SoapConfiguration c = set.at(i);
    std::set<int> nodes;
    for (const DeviceId d : c.devices) nodes.insert(d.value / of_node);
    const int count = static_cast<int>(nodes.size());
    const auto [at, fresh] = known.try_emplace({c.degrees, count}, classes.size());
    if (fresh) classes.push_back({c.degrees, count, {}});
    classes[at->second].numbers.push_back(i);
  }
  return classes;
}

namespace {

constexpr int64_t kKept = 20'000;  // fragments of tensors

// Names links by owner, height and direction.
std::vector<std::string> names_of_links(const Cluster& cluster) {
  std::vector<std::string> names(cluster.links.size(), "wires");
  for (size_t d = cluster.devices.size();
       d-- > 0;) {  // compute devices last: they own the links that they share with hosts
    const char* whose = static_cast<int>(d) < cluster.compute_count ? "devices" : "hosts";
    for (const Routes::Climb& climb : cluster.routes.climbs[d])
      for (size_t i = 0; i < climb.up.size(); ++i) {
        names[climb.up[i].index()] = fmt::format("links up from {}, level {}", whose, i + 1);
        names[climb.down[climb.down.size() - 1 - i].index()] = fmt::format("links down to {}, level {}", whose, i + 1);
      }
  }
  return names;
}

std::vector<LoadKind> kinds_of(const Cluster& cluster, std::vector<int>& kind_of_queue) {
  const std::vector<std::string> links = names_of_links(cluster);
  std::vector<LoadKind> kinds;
  for (const Queue& queue : make_draft("", cluster, nullptr).graph.queues) {
    std::string name;
    switch (queue.kind) {
      case QueueKind::kCompute:
        name = "compute";
        break;
      case QueueKind::kHost:
        name = "hosts";
        break;
      case QueueKind::kLink:
        name = links[queue.link.index()];
        break;
      case QueueKind::kCollective:
        name = "collectives of activations";
        break;
      case QueueKind::kParameterCollective:
        name = "collectives of parameters";
        break;
    }
    const auto at = std::ranges::find(kinds, name, &LoadKind::name);
    kind_of_queue.push_back(static_cast<int>(at - kinds.begin()));
    if (at == kinds.end()) kinds.push_back({name, 1});
    else ++at->queues;
  }
  return kinds;
}

// Longest paths through own tasks, by own task; -1: no path from `from` reaches it. `from`: whether a path may begin at
// this task, or, for a tensor, at tasks of party 1.
std::vector<int64_t> longest(const Fragment& fragment, const std::vector<bool>& from, bool from_writer) {
  const size_t size = static_cast<size_t>(fragment.size());
  std::vector<int64_t> ns(size, -1);
  std::vector<char> state(size, 0);
  std::vector<size_t> stack;
  const auto before = [&](size_t task) {
    std::vector<size_t> own;
    if (fragment.before.empty() || fragment.before[0].ends.empty()) return own;
    const TaskLists& lists = fragment.before[0];
    for (int i = task == 0 ? 0 : lists.ends[task - 1]; i < lists.ends[task]; ++i)
      if (lists.tasks[static_cast<size_t>(i)].party == 0)
        own.push_back(static_cast<size_t>(lists.tasks[static_cast<size_t>(i)].task));
      else if (from_writer && lists.tasks[static_cast<size_t>(i)].party == 1)
        ns[task] = std::max(ns[task], fragment.duration_ns[task]);
    return own;
  };
  for (size_t root = 0; root < size; ++root) {
    stack.push_back(root);
    while (!stack.empty()) {
      const size_t task = stack.back();
      if (state[task] == 2) {
        stack.pop_back();
        continue;
      }
      const std::vector<size_t> own = before(task);
      if (state[task] == 0) {
        state[task] = 1;
        for (const size_t b : own)
          if (state[b] == 0) stack.push_back(b);
        continue;
      }
      state[task] = 2;
      stack.pop_back();
      if (task < from.size() && from[task]) ns[task] = std::max(ns[task], fragment.duration_ns[task]);
      for (const size_t b : own)
        if (ns[b] >= 0) ns[task] = std::max(ns[task], ns[b] + fragment.duration_ns[task]);
    }
  }
  return ns;
}

int64_t through(const OpFragment& op, int operand, int result) {
  std::vector<bool> from(static_cast<size_t>(op.tasks->size()), operand < 0);
  if (operand >= 0)
    for (const int task : op.reads.of(static_cast<size_t>(operand))) from[static_cast<size_t>(task)] = true;
  const std::vector<int64_t> ns = longest(*op.tasks, from, false);
  int64_t least = -1;
  for (const int task : op.writes.of(static_cast<size_t>(result))) {
    if (ns[static_cast<size_t>(task)] < 0) return -1;
    if (least < 0 || ns[static_cast<size_t>(task)] < least) least = ns[static_cast<size_t>(task)];
  }
  return least;
}

// The time from the tensor's producer to the tasks that read it as this operand; from the beginning if no op makes it.
int64_t across(const Fragment& tensor, bool made, int party, std::span<const int> readers) {
  const std::vector<int64_t> ns = longest(tensor, std::vector<bool>(static_cast<size_t>(tensor.size()), !made), true);
  const TaskLists& before = tensor.before[static_cast<size_t>(party)];
  int64_t least = -1;
  for (const int task : readers) {
    int64_t most = made ? -1 : 0;
    if (!before.ends.empty())
      for (int i = task == 0 ? 0 : before.ends[static_cast<size_t>(task) - 1];
           i < before.ends[static_cast<size_t>(task)]; ++i) {
        const TaskOf& b = before.tasks[static_cast<size_t>(i)];
        most = std::max(most, b.party == 1 ? 0 : b.party == 0 ? ns[static_cast<size_t>(b.task)] : -1);
      }
    if (most < 0) return -1;
    if (least < 0 || most < least) least = most;
  }
  return least;
}

}  // namespace

struct SoapParts::Memory {
  const Problem& problem;
  const SoapSpace& space;
  LocalTasks tasks;
  UnitChoices choices;
  std::vector<int> kind_of_queue;
  std::vector<LoadKind> kinds;
  std::vector<std::vector<SoapClass>> classes;
  std::vector<std::vector<Reader>> read_by;
  std::vector<int> unit_of, base;
  std::vector<std::vector<TensorId>> of_one;  // by unit: tensors that it alone makes and keeps
  std::vector<SoapShared> shared;
  std::vector<std::map<int64_t, std::vector<const OpFragment*>>> ops_of;  // by unit
  std::vector<const OpFragment*> at;                                      // by op: null unless it is looked at
  std::vector<std::map<int64_t, KindLoads>> own;                          // by unit
  std::map<std::tuple<const OpFragment*, int, int>, int64_t> steps;
  std::map<std::pair<OpId, int>, bool> waits;
  int64_t between = 0, forgotten = 0;
  std::vector<FragmentPtr> firsts;  // of `alike`, so that no other has their address
  using Pieces = std::vector<SoapPiece>;
  std::map<std::vector<int64_t>, std::shared_ptr<const Pieces>> alike;
  std::vector<std::map<std::pair<int, int>, std::shared_ptr<const Pieces>>> pieces;  // by shared

  Memory(const Problem& p, const CostModel& cost, const SoapSpace& s)
      : problem(p),
        space(s),
        tasks(p.graph, cost, p.bucket_bytes),
        choices(p.graph),
        kinds(kinds_of(p.cluster, kind_of_queue)),
        read_by(readers_by_tensor(p.graph)),
        unit_of(units_of_ops(p.graph, s.units)),
        of_one(s.units.size()),
        ops_of(s.units.size()),
        at(p.graph.ops.size()),
        own(s.units.size()) {
    for (const SoapSet& set : s.sets) classes.push_back(classes_of(set, p.cluster));
    for (size_t t = 0; t < p.graph.tensors.size(); ++t) add_tensor(TensorId(t));
    pieces.resize(shared.size());
  }

  void add_tensor(TensorId t);
  const std::vector<const OpFragment*>& ops(int unit, int64_t number);
  const OpFragment& op(OpId id, int64_t number);
  void look(int unit, int64_t number);  // looks up its ops
  void leave(int unit);
  FragmentPtr tensor(TensorId t) { return tensor(t, at); }
  FragmentPtr tensor(TensorId t,
                     const std::vector<const OpFragment*>& of);  // for the ops that are looked at
  KindLoads loads(const Fragment& fragment) const;
  int party(TensorId t, OpId op) const;
  SoapPiece piece(const SoapShared& of, int64_t a, int64_t b);
};

// A tensor that replaces another may be kept where another unit reads that. Then it is between these two, and no other
// reader of it counts.
void SoapParts::Memory::add_tensor(TensorId t) {
  const Graph& graph = problem.graph;
  const TensorId replaced = graph.tensor(t).replaces, keeper = replaced.valid() ? replaced : t;
  const OpId writer = graph.tensor(t).producer;
  const std::vector<Reader>& keeps = read_by[keeper.index()];
  base.push_back(-1);
  if (!writer.valid() && keeps.empty()) return;
  const bool kept_by_reader = !graph.tensor(keeper).producer.valid() && !keeps.empty();
  const int a = unit_of[(kept_by_reader ? keeps[0].op : writer).index()];
  base.back() = a;
  if (writer.valid() && unit_of[writer.index()] != a) {
    shared.push_back({t, a, unit_of[writer.index()], 1, {}});
    return;
  }
  of_one[static_cast<size_t>(a)].push_back(t);
  std::map<int, SoapShared> by_unit;
  for (const Reader& reader : read_by[t.index()]) {
    const int b = unit_of[reader.op.index()];
    if (b == a) continue;
    SoapShared& of = by_unit.try_emplace(b, SoapShared{t, a, b, 1, {}}).first->second;
    if (writer.valid() || graph.tensor(t).role == Role::kInput) of.edges.emplace_back(reader.op, reader.operand);
  }
  for (auto& [b, of] : by_unit) {
    of.of = static_cast<int>(by_unit.size());
    shared.push_back(std::move(of));
  }
}

const std::vector<const OpFragment*>& SoapParts::Memory::ops(int unit, int64_t number) {
  const SoapUnit& of = space.units[static_cast<size_t>(unit)];
  const auto [known, fresh] = ops_of[static_cast<size_t>(unit)].try_emplace(number);
  if (fresh)
    known->second = op_fragments(problem, of, space.sets[static_cast<size_t>(unit)].at(number), choices, tasks);
  return known->second;
}

const OpFragment& SoapParts::Memory::op(OpId id, int64_t number) {
  const int unit = unit_of[id.index()];
  const std::vector<OpId>& of = space.units[static_cast<size_t>(unit)].ops;
  return *ops(unit, number)[static_cast<size_t>(std::ranges::lower_bound(of, id) - of.begin())];
}

void SoapParts::Memory::look(int unit, int64_t number) {
  const std::vector<const OpFragment*>& of = ops(unit, number);
  for (size_t i = 0; i < of.size(); ++i) at[space.units[static_cast<size_t>(unit)].ops[i].index()] = of[i];
}

void SoapParts::Memory::leave(int unit) {
  for (const OpId op : space.units[static_cast<size_t>(unit)].ops) at[op.index()] = nullptr;
}

FragmentPtr SoapParts::Memory::tensor(TensorId t, const std::vector<const OpFragment*>& of) {
  FragmentPtr fragment = tasks.tensor(t, kept_as_planned(problem, t, of, tasks), of);
  if (tasks.counters().tensor_fragments - forgotten > kKept) {
    forgotten = tasks.counters().tensor_fragments;
    tasks.forget_tensors();
  }
  return fragment;
}

KindLoads SoapParts::Memory::loads(const Fragment& fragment) const {
  KindLoads sums(kinds.size(), 0);
  for (const auto& [queue, ns] : fragment.load_ns)
    sums[static_cast<size_t>(kind_of_queue[static_cast<size_t>(queue)])] += ns;
  return sums;
}

int SoapParts::Memory::party(TensorId t, OpId op) const {
  const std::vector<int>& parties = tasks.wired().wires[static_cast<size_t>(tasks.slot(t))].parties;
  return static_cast<int>(std::ranges::find(parties, op.value) - parties.begin());
}

SoapPiece SoapParts::Memory::piece(const SoapShared& of, int64_t a, int64_t b) {
  look(of.a, a);
  KindLoads alone(kinds.size(), 0);
  const OpId writer = problem.graph.tensor(of.tensor).producer;
  if (!writer.valid() || unit_of[writer.index()] == of.a) alone = loads(*tensor(of.tensor));
  look(of.b, b);
  const FragmentPtr both = tensor(of.tensor);
  SoapPiece piece{loads(*both), {}};
  for (size_t k = 0; k < alone.size(); ++k) piece.loads[k] -= alone[k];
  for (const auto& [op, operand] : of.edges)
    piece.edges_ns.push_back(
        across(*both, writer.valid(), party(of.tensor, op), at[op.index()]->reads.of(static_cast<size_t>(operand))));
  leave(of.a);
  leave(of.b);
  return piece;
}

// ---------------------------------------------------------------- accessors

SoapParts::SoapParts(const Problem& problem, const CostModel& cost, const SoapSpace& space)
    : memory_(std::make_unique<Memory>(problem, cost, space)) {}
SoapParts::~SoapParts() = default;

const std::vector<LoadKind>& SoapParts::kinds() const { return memory_->kinds; }
int SoapParts::kind_of(int queue) const { return memory_->kind_of_queue[static_cast<size_t>(queue)]; }
const std::vector<SoapClass>& SoapParts::classes(int unit) const { return memory_->classes[static_cast<size_t>(unit)]; }
int SoapParts::producer_unit_of(TensorId t) const { return memory_->base[t.index()]; }
int SoapParts::unit_of(OpId op) const { return memory_->unit_of[op.index()]; }
const std::vector<SoapShared>& SoapParts::shared_tensors() const { return memory_->shared; }
int64_t SoapParts::between() const { return memory_->between; }

const std::vector<const OpFragment*>& SoapParts::ops(int unit, int64_t number) { return memory_->ops(unit, number); }
FragmentPtr SoapParts::tensor(TensorId t, const std::vector<const OpFragment*>& ops) { return memory_->tensor(t, ops); }
const TaskGraph& SoapParts::wired() const { return memory_->tasks.wired(); }

const KindLoads& SoapParts::own(int unit, int64_t number) {
  Memory& m = *memory_;
  const auto [known, fresh] = m.own[static_cast<size_t>(unit)].try_emplace(number, m.kinds.size(), 0);
  if (!fresh) return known->second;
  KindLoads& sums = known->second;
  const auto add = [&sums](const KindLoads& loads) {
    for (size_t k = 0; k < loads.size(); ++k) sums[k] += loads[k];
  };
  m.look(unit, number);
  for (const OpFragment* op : m.ops(unit, number)) add(m.loads(*op->tasks));
  for (const TensorId t : m.of_one[static_cast<size_t>(unit)]) add(m.loads(*m.tensor(t)));
  m.leave(unit);
  return known->second;
}

int64_t SoapParts::step_ns(OpId op, int64_t number, int operand, int result) {
  const OpFragment& of = memory_->op(op, number);
  const auto [known, fresh] = memory_->steps.try_emplace({&of, operand, result}, 0);
  if (fresh) known->second = through(of, operand, result);
  return known->second;
}

int64_t SoapParts::edge_ns(OpId op, int64_t number, int operand) {
  Memory& m = *memory_;
  const int unit = m.unit_of[op.index()];
  const TensorId t = m.problem.graph.op(op).operands[static_cast<size_t>(operand)];
  m.look(unit, number);
  const int64_t ns = across(*m.tensor(t), m.problem.graph.tensor(t).producer.valid(), m.party(t, op),
                            m.at[op.index()]->reads.of(static_cast<size_t>(operand)));
  m.leave(unit);
  return ns;
}

// The reader waits for its producing op: whole, non-empty shards of the op's values. For an input, a read that does not
// wait is 0 ns from the beginning.
bool SoapParts::waits(OpId op, int operand) {
  Memory& m = *memory_;
  const auto [known, fresh] = m.waits.try_emplace({op, operand}, false);
  if (!fresh) return known->second;
  const Tensor& tensor = m.problem.graph.tensor(m.problem.graph.op(op).operands[static_cast<size_t>(operand)]);
  if (!tensor.producer.valid()) return known->second = tensor.role == Role::kInput;
  if (tensor.replaces.valid()) return false;
  const int64_t size = m.space.sets[static_cast<size_t>(m.unit_of[op.index()])].size();
  for (int64_t number = 0; number < size; ++number) {
    const Layout& layout = m.op(op, number).resolved.layouts.operands[static_cast<size_t>(operand)];
    if (layout.is_partial() || layout.boxes.any_empty()) return false;
  }
  return known->second = true;
}

bool SoapParts::known(size_t shared, int class_a, int class_b) const {
  return memory_->pieces[shared].contains({class_a, class_b});
}

const std::vector<SoapPiece>& SoapParts::pieces(size_t shared, int class_a, int class_b) {
  Memory& m = *memory_;
  std::shared_ptr<const Memory::Pieces>& known = m.pieces[shared][{class_a, class_b}];
  if (known) return *known;
  const SoapShared& of = m.shared[shared];
  const SoapClass &a = classes(of.a)[static_cast<size_t>(class_a)], &b = classes(of.b)[static_cast<size_t>(class_b)];
  m.look(of.a, a.numbers[0]);
  m.look(of.b, b.numbers[0]);
  const FragmentPtr first = m.tensor(of.tensor);  // the same for alike tensors
  std::vector<int64_t> key{reinterpret_cast<int64_t>(first.get())};
  m.leave(of.a);
  m.leave(of.b);
  for (const auto& [unit, numbers] : {std::pair{of.a, &a.numbers}, std::pair{of.b, &b.numbers}})
    for (const int64_t number : *numbers)
      for (const OpFragment* op : m.ops(unit, number)) key.push_back(op->number);
  std::shared_ptr<const Memory::Pieces>& like = m.alike[key];
  if (!like) {
    std::set<SoapPiece> pieces;
    const int64_t before = m.tasks.counters().tensor_fragments;
    for (const int64_t na : a.numbers)
      for (const int64_t nb : b.numbers) pieces.insert(m.piece(of, na, nb));
    like = std::make_shared<const Memory::Pieces>(pieces.begin(), pieces.end());
    m.firsts.push_back(first);
    m.between += m.tasks.counters().tensor_fragments - before;
  }
  return *(known = like);
}

}  // namespace partita
