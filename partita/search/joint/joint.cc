// Builds the network of a joint problem: variables, tables, edges and uses.
#include "partita/search/joint/joint.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>

#include "partita/base/error.h"
#include "partita/base/prime_factors.h"
#include "partita/base/threads.h"
#include "partita/plan/resolve.h"
#include "partita/search/cuts/one_cut.h"
#include "partita/search/joint/memory_uses.h"
#include "partita/search/joint/readers.h"
#include "partita/search/joint/tensor_tables.h"

namespace partita {

namespace {

using solver::Table;

// The inputs of all phases.
struct Building {
  const Problem& problem;
  const Graph& graph;
  const JointReaders& readers;
  JointCosts& costs;
  LimitKeeper& keeper;

  int64_t element_bytes(TensorId id) const { return bytes_of(graph.tensor(id).dtype); }
  Firings firings(TensorId id) const {
    const OpId op = graph.tensor(id).producer;
    return {op.valid() ? graph.firings(graph.op(op)) : 1, reads_a_step(graph, id)};
  }
  // If the objective is time: whether it is an output, which goes to a host.
  bool is_given(TensorId id) const {
    return costs.in_time() && std::find(graph.outputs.begin(), graph.outputs.end(), id) != graph.outputs.end();
  }
  // Tells whether one reader at most takes it from where its producer leaves it: it has no variable.
  bool goes_straight(TensorId id) const {
    return graph.tensor(id).producer.valid() && !readers.replacement[id.index()].valid() &&
           !problem.constraints.kept_of(id) && readers.of(id).size() <= 1;
  }
};

// ------------------------------------------------------------------ tables

StraightKind straight_kind(const Building& building, const JointProblem& joint, TensorId id) {
  const ReadingOp& reader = building.readers.of(id)[0];
  return {joint.ops[building.graph.tensor(id).producer.index()].get(),
          result_position(building.graph, id),
          {joint.ops[reader.op.index()].get(), reader.operands},
          building.element_bytes(id),
          building.firings(id),
          building.is_given(id)};
}

TensorKind tensor_kind(const Building& building, const JointProblem& joint, TensorId id) {
  const Graph& graph = building.graph;
  TensorKind kind;
  kind.shape = graph.tensor(id).shape;
  kind.element_bytes = building.element_bytes(id);
  kind.firings = building.firings(id);
  kind.loaded = building.costs.in_time() && graph.tensor(id).role == Role::kInput;
  kind.given = building.is_given(id);
  kind.pinned = building.problem.constraints.kept_of(id) != nullptr;
  if (const OpId op = graph.tensor(id).producer; op.valid())
    kind.made = joint.ops[op.index()].get(), kind.result = result_position(graph, id);
  auto add_readers = [&](TensorId read) {
    for (const ReadingOp& r : building.readers.of(read)) {
      kind.read.push_back({joint.ops[r.op.index()].get(), r.operands, graph.op(r.op).phase == Phase::kBackward});
      kind.once_for_parts |= graph.firings(graph.op(r.op)) > kind.firings.read;
    }
  };
  add_readers(id);
  if (const TensorId next = building.readers.replacement[id.index()]; next.valid()) {
    kind.remade = joint.ops[graph.tensor(next).producer.index()].get();
    kind.remade_result = result_position(graph, next);
    add_readers(next);
  }
  return kind;
}

// The tables of all tensors; alike tensors share them.
struct AllTables {
  std::map<StraightKind, StraightTable> straight;
  std::map<TensorKind, TensorTables> known;
  std::deque<TensorTables> pinned;
  std::vector<const StraightTable*> straight_of;  // by TensorId, or null
  std::vector<const TensorTables*> tensor_of;     // likewise
};

// Tables that are not made yet, of tensors of one shape.
struct Missing {
  size_t size = 0;  // entries, about
  std::vector<std::function<void(JointCosts&)>> make;
};

// Makes missing tables, most entries first. One thread makes the tables of one shape: they cross the same layouts.
void make_missing(const std::map<Shape, Missing>& by_shape, const Mesh& mesh, const Building& building) {
  std::vector<const Missing*> largest_first;
  for (const auto& [shape, all] : by_shape) largest_first.push_back(&all);
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [](const Missing* a, const Missing* b) { return a->size > b->size; });
  parallel_for(joint_threads(building.graph, mesh), largest_first.size(), [&](size_t i, int thread) {
    for (const auto& make : largest_first[i]->make) {
      building.keeper.check_time();
      make(building.costs.of_thread(thread));
    }
  });
}

void fill_pinned(const Building& building, const TableMaking& making, TensorId id, const TensorKind& kind,
                 TensorTables& tables) {
  const Placement* fixed = building.problem.constraints.kept_of(id);
  if (fixed->mesh != making.mesh)
    fail_pinned_mesh("tensor", building.graph.tensor(id).name, "exact splits over", making.mesh, fixed->mesh);
  tables.tensors = 1;
  fill_tensor_tables(making, kind, fixed, building.costs, tables);
}

void make_tables(const Building& building, const TableMaking& making, const JointProblem& joint, AllTables& all) {
  const Graph& graph = building.graph;
  std::map<Shape, Missing> by_shape;
  auto add_missing = [&](TensorId id, size_t size, std::function<void(JointCosts&)> make) {
    Missing& missing = by_shape[graph.tensor(id).shape];
    missing.size += size;
    missing.make.push_back(std::move(make));
  };
  all.straight_of.assign(graph.tensors.size(), nullptr);
  all.tensor_of.assign(graph.tensors.size(), nullptr);
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const TensorId id(t);
    if (graph.tensor(id).replaces.valid()) continue;
    if (building.goes_straight(id)) {
      if (building.readers.of(id).empty()) continue;
      const StraightKind kind = straight_kind(building, joint, id);
      const size_t size = kind.made->layouts.size() * kind.read.op->layouts.size();
      building.keeper.count_entries(size);
      const auto [found, fresh] = all.straight.try_emplace(kind);
      all.straight_of[t] = &found->second;
      if (fresh)
        add_missing(id, size,
                    [&making, one = &*found](JointCosts& by) { one->second = straight_table(making, one->first, by); });
      continue;
    }
    const TensorKind kind = tensor_kind(building, joint, id);
    if (kind.pinned) {
      all.tensor_of[t] = &all.pinned.emplace_back();
      fill_pinned(building, making, id, kind, all.pinned.back());
      continue;
    }
    const auto [found, fresh] = all.known.try_emplace(kind);
    all.tensor_of[t] = &found->second;
    ++found->second.tensors;
    if (!fresh) continue;
    size_t ends = kind.made ? kind.made->layouts.size() : 1;
    for (const ReadingSpace& r : kind.read) ends += r.op->layouts.size();
    add_missing(id, ends * ends, [&making, one = &*found](JointCosts& by) {
      fill_tensor_tables(making, one->first, nullptr, by, one->second);
    });
  }
  make_missing(by_shape, making.mesh, building);
}

// ------------------------------------------------------------------ variables and edges

void connect_straight(const Building& building, TensorId id, const StraightTable* straight, JointProblem& joint) {
  const OpId producer = building.graph.tensor(id).producer;
  const int made_by = joint.op_variable[producer.index()];
  if (building.is_given(id)) {
    const int result = result_position(building.graph, id);
    Table& costs = joint.network.costs[made_by];
    for (size_t x = 0; x < costs.size(); ++x)
      costs[x] += building.firings(id).read *
                  building.costs.times().give_ns(joint.ops[producer.index()]->layouts[x].results[result],
                                                 building.element_bytes(id));
  }
  if (!straight) return;  // nobody reads it
  joint.straight[id.index()] = straight->space;
  const OpId reader = building.readers.of(id)[0].op;
  joint.network.edges.push_back({{made_by, joint.op_variable[reader.index()]}, straight->table});
}

// The copies that the readers of tensors share.
struct Copies {
  std::vector<SharedCopy> shared;
  std::vector<ReshardedCopy> resharded;
};

// Adds variables of the layouts that have their own, behind the tensor's.
void add_brought(const Building& building, TensorId id, const TensorTables& tables, const std::vector<OpId>& reading,
                 JointProblem& joint, Copies& copies) {
  solver::Network& network = joint.network;
  for (size_t b = 0; b < tables.shared.size(); ++b) {
    const TensorTables::Shared& shared = tables.shared[b];
    const int resharded = network.variables();
    joint.resharded_variables[id.index()].push_back(resharded);
    network.costs.push_back(Table(tables.space->resharded[b].choices.size(), 0));
    network.edges.push_back({{joint.tensor_variable[id.index()], resharded}, shared.from_home});
    for (const auto& [r, table] : shared.readers)
      network.edges.push_back({{resharded, joint.op_variable[reading[r].index()]}, table});
    if (const auto& ends = shared.between; ends && ends->second < building.readers.of(id).size() &&
                                           building.graph.op(reading[ends->first]).phase != Phase::kUpdate)
      copies.resharded.push_back({id, b, reading[ends->first], reading[ends->second]});
  }
}

void add_tensor(const Building& building, TensorId id, const TensorTables& tables, JointProblem& joint,
                Copies& copies) {
  joint.leaves_copies_out |= tables.leaves_copies_out;
  solver::Network& network = joint.network;
  const int variable = network.variables();
  joint.tensors[id.index()] = tables.space;
  joint.tensor_variable[id.index()] = variable;
  network.costs.push_back(*tables.cost);
  auto connect = [&](OpId op, const TablePointer& table) {
    network.edges.push_back({{variable, joint.op_variable[op.index()]}, table});
  };
  if (tables.from_made) connect(building.graph.tensor(id).producer, tables.from_made);
  const TensorId next = building.readers.replacement[id.index()];
  if (next.valid()) connect(building.graph.tensor(next).producer, tables.from_remade);
  std::vector<OpId> reading;
  for (const ReadingOp& reader : building.readers.of(id)) reading.push_back(reader.op);
  if (next.valid())
    for (const ReadingOp& reader : building.readers.of(next)) reading.push_back(reader.op);
  for (size_t r = 0; r < reading.size(); ++r) connect(reading[r], tables.to_reader[r]);
  for (const auto& [ends, layouts] : tables.between)
    if (ends.second < building.readers.of(id).size())
      copies.shared.push_back({id, layouts, reading[ends.first], reading[ends.second]});
  add_brought(building, id, tables, reading, joint, copies);
}

// ------------------------------------------------------------------ numbers

// The variables in breadth-first order. Those with very many neighbours bring all close to all, so they come last.
std::vector<int> breadth_first(const solver::Network& network) {
  constexpr size_t kVeryMany = 100;
  std::vector<std::vector<int>> beside(network.variables());
  for (const solver::Network::Edge& e : network.edges) {
    beside[e.variables[0]].push_back(e.variables[1]);
    beside[e.variables[1]].push_back(e.variables[0]);
  }
  std::vector<int> order, last;
  std::vector<char> taken(network.variables(), 0);
  auto take = [&](int v) { taken[v] = 1, order.push_back(v); };
  for (int start = 0; start < network.variables(); ++start) {
    if (beside[start].size() > kVeryMany) {
      last.push_back(start);
      continue;
    }
    if (taken[start]) continue;
    size_t at = order.size();
    for (take(start); at < order.size(); ++at)
      for (int v : beside[order[at]])
        if (!taken[v] && beside[v].size() <= kVeryMany) take(v);
  }
  order.insert(order.end(), last.begin(), last.end());
  return order;
}

// Numbers the variables breadth first. The solver's passes go by number, and a variable's message travels along edges
// as long as the numbers ascend.
void number_by_nearness(JointProblem& joint) {
  solver::Network& network = joint.network;
  const std::vector<int> order = breadth_first(network);
  std::vector<int> number(order.size());
  std::vector<Table> costs;
  for (size_t i = 0; i < order.size(); ++i) {
    number[order[i]] = static_cast<int>(i);
    costs.push_back(std::move(network.costs[order[i]]));
  }
  network.costs = std::move(costs);
  for (solver::Network::Edge& e : network.edges)
    for (int& v : e.variables) v = number[v];
  for (solver::Network::Use& u : network.uses) u.variable = number[u.variable];
  for (int& v : joint.op_variable) v = number[v];
  for (int& v : joint.tensor_variable)
    if (v >= 0) v = number[v];
  for (std::vector<int>& list : joint.resharded_variables)
    for (int& v : list) v = number[v];
}

}  // namespace

std::vector<int> joint_extents(int devices, int axes) {
  std::vector<int> extents(static_cast<size_t>(axes), 1);
  for (int f : prime_factors(devices)) *std::min_element(extents.begin(), extents.end()) *= f;
  std::erase(extents, 1);
  std::sort(extents.rbegin(), extents.rend());
  return extents;
}

Mesh joint_mesh(const Cluster& cluster, int axes) {
  return {joint_extents(cluster.compute_count, axes), slowest_link_first(cluster)};
}

std::optional<JointProblem> joint_problem(const Problem& problem, const JointSpace& space,
                                          const JointLimits& limits) try {
  const Graph& graph = problem.graph;
  const std::shared_ptr<JointCosts> costs = limits.costs ? limits.costs : joint_costs(problem);
  const JointReaders readers = joint_readers(graph);
  LimitKeeper keeper(limits);
  const Building building{problem, graph, readers, *costs, keeper};
  JointProblem joint;
  joint.mesh = space.mesh;
  joint.tensor_entries = limits.tensor_entries;
  joint.ops = op_spaces(problem, space, *costs, keeper);
  for (const std::shared_ptr<const OpSpace>& op : joint.ops) {
    joint.op_variable.push_back(joint.network.variables());
    joint.network.costs.push_back(op->costs);
  }
  SharedTables tables;
  AllTables all;
  make_tables(building, {joint.mesh, keeper, tables}, joint, all);
  joint.tensors.resize(graph.tensors.size());
  joint.straight.resize(graph.tensors.size());
  joint.tensor_variable.assign(graph.tensors.size(), -1);
  joint.resharded_variables.resize(graph.tensors.size());
  Copies copies;
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    keeper.check_time();
    if (graph.tensors[t].replaces.valid()) continue;
    if (building.goes_straight(TensorId(t))) connect_straight(building, TensorId(t), all.straight_of[t], joint);
    else add_tensor(building, TensorId(t), *all.tensor_of[t], joint, copies);
  }
  add_uses(problem, readers, limits.counts_copies, copies.shared, copies.resharded, joint);
  number_by_nearness(joint);
  return joint;
} catch (const GivenUp&) {
  return std::nullopt;
}

}  // namespace partita
