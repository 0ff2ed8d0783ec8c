#include "partita/search/joint.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>

#include "partita/base/error.h"
#include "partita/base/radices.h"
#include "partita/base/threads.h"
#include "partita/base/tuples.h"
#include "partita/cost/alone.h"
#include "partita/plan/resolve.h"
#include "partita/plan/rules.h"
#include "partita/search/one_cut.h"

namespace partita {

class JointCosts {
 public:
  JointCosts(const Cluster& cluster, bool in_time) : cluster_(cluster), converter_(cluster) {
    if (in_time) times_.emplace(cluster);
  }
  // The same for a second thread.
  JointCosts& other() {
    if (!other_) other_ = std::make_unique<JointCosts>(cluster_, in_time());
    return *other_;
  }
  bool in_time() const { return times_.has_value(); }
  ConversionTimes& times() { return *times_; }
  std::vector<int64_t> table(const std::vector<Layout>& layouts, const std::vector<int>& from,
                             const std::vector<int>& to, int64_t element) {
    return times_ ? times_->table(layouts, from, to, element) : converter_.table(layouts, from, to, element);
  }
  int64_t inner(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh, int64_t element) {
    return times_ ? times_->inner_ns(bound, derived, mesh, element)
                  : converter_.inner_bytes(bound, derived, mesh, element);
  }

 private:
  const Cluster& cluster_;
  Converter converter_;
  std::optional<ConversionTimes> times_;
  std::unique_ptr<JointCosts> other_;
};

namespace {

using solver::kForbidden;
using solver::Table;

// What conversions between some layouts of a list cost.
class ConversionCosts {
 public:
  // From each of `from` to each of `to`, places in the list, in any order and any number of times.
  ConversionCosts(JointCosts& costs, const std::vector<Layout>& layouts, const std::vector<int>& from,
                  const std::vector<int>& to, int64_t element) {
    const std::set<int> rows(from.begin(), from.end()), columns(to.begin(), to.end());
    row_ = column_ = std::vector<size_t>(layouts.size(), 0);
    size_t next = 0;
    for (int r : rows) row_[r] = next++;
    next = 0;
    for (int c : columns) column_[c] = next++;
    columns_ = next;
    table_ = costs.table(layouts, {rows.begin(), rows.end()}, {columns.begin(), columns.end()}, element);
  }
  int64_t operator()(int from, int to) const { return table_[row_[from] * columns_ + column_[to]]; }

 private:
  std::vector<size_t> row_, column_;
  size_t columns_ = 0;
  std::vector<int64_t> table_;
};

// One who reads a tensor: an op's operands, all that read it.
struct ReadingOp {
  OpId op;
  std::vector<int> operands;
};

// What a tensor's tables depend on of one who reads it.
struct ReadingSpace {
  const OpSpace* op = nullptr;
  std::vector<int> operands;
  bool backward = false;  // of the backward pass
  auto operator<=>(const ReadingSpace&) const = default;
};

using Choices = std::vector<std::vector<tdl::AxisStrategy>>;

// Whether a position finds what it wants of a tensor in what it holds of it.
bool is_view(const Layout& held, const Layout& wanted, int position) {
  if (held.is_partial() || wanted.is_partial()) return same_placement(held, wanted);
  const auto box = over_radices(wanted.boxes[position], wanted.radices, held.radices);
  return box && contains(held.boxes[position], *box);
}

class Builder {
 public:
  Builder(const Problem& problem, const JointSpace& space, const JointLimits& limits)
      : problem_(problem),
        graph_(problem.graph),
        space_(space),
        limits_(limits),
        cost_(problem.cluster),
        known_costs_(limits.costs ? limits.costs : joint_costs(problem)),
        costs_(*known_costs_) {
    joint_.mesh = space.mesh;
    joint_.tensor_entries = limits_.tensor_entries;
    replacements_.resize(graph_.tensors.size());
    for (size_t t = 0; t < graph_.tensors.size(); ++t)
      if (const TensorId w = graph_.tensors[t].replaces; w.valid()) replacements_[w.index()] = TensorId(t);
    readers_.resize(graph_.tensors.size());
    for (size_t i = 0; i < graph_.ops.size(); ++i)
      for (size_t k = 0; k < graph_.ops[i].operands.size(); ++k) {
        std::vector<ReadingOp>& list = readers_[graph_.ops[i].operands[k].index()];
        if (list.empty() || list.back().op != OpId(i)) list.push_back({OpId(i), {}});
        list.back().operands.push_back(static_cast<int>(k));
      }
  }

  std::optional<JointProblem> build() try {
    solver::Network& network = joint_.network;
    make_op_spaces();
    for (const std::shared_ptr<const OpSpace>& space : joint_.ops) {
      joint_.op_variable.push_back(network.variables());
      network.costs.push_back(space->costs);
    }
    make_tables();
    joint_.tensors.resize(graph_.tensors.size());
    joint_.straight.resize(graph_.tensors.size());
    joint_.tensor_variable.assign(graph_.tensors.size(), -1);
    joint_.brought_variables.resize(graph_.tensors.size());
    for (size_t t = 0; t < graph_.tensors.size(); ++t) {
      check_time();
      if (graph_.tensors[t].replaces.valid()) continue;
      if (goes_straight(TensorId(t))) connect_straight(TensorId(t));
      else add_tensor(TensorId(t));
    }
    add_uses();
    number_by_nearness();
    return std::move(joint_);
  } catch (const GivenUp&) {
    return std::nullopt;
  }

 private:
  struct GivenUp {};  // over a limit

  void check_time() const {
    if (limits_.stop && *limits_.stop) throw GivenUp();
    if (limits_.deadline && std::chrono::steady_clock::now() > *limits_.deadline) throw GivenUp();
  }
  void check_size(size_t entries) {
    if (entries_ += static_cast<int64_t>(entries); entries_ > limits_.entries) throw GivenUp();
  }

  // What is different is made by two threads, each with costs of its own, where it may take long.
  int threads() const {
    constexpr size_t kMany = 10'000;
    return graph_.ops.size() * static_cast<size_t>(joint_.mesh.positions()) > kMany ? 2 : 1;
  }
  JointCosts& costs_of(int thread) { return thread == 0 ? costs_ : costs_.other(); }

  // Equal tables are one.
  std::shared_ptr<const Table> shared(Table table) {
    size_t hash = table.size();
    for (int64_t x : table) hash = (hash ^ static_cast<size_t>(x)) * 0x9E3779B97F4A7C15u;
    const std::lock_guard lock(tables_lock_);
    for (const auto& same : tables_[hash])
      if (*same == table) return same;
    return tables_[hash].emplace_back(std::make_shared<const Table>(std::move(table)));
  }

  TensorId replacement(TensorId id) const { return replacements_[id.index()]; }
  int64_t element(TensorId id) const { return bytes_of(graph_.tensor(id).dtype); }
  int result_position(TensorId id) const {
    const std::vector<TensorId>& results = graph_.op(graph_.tensor(id).producer).results;
    return static_cast<int>(std::find(results.begin(), results.end(), id) - results.begin());
  }

  // ------------------------------------------------------------------ ops

  void make_op_spaces() {
    struct Missing {
      const Op* op;
      const Choices* given;
      OpSpace* space;
    };
    std::map<std::tuple<const tdl::Bound*, std::vector<DType>, Choices>, std::shared_ptr<OpSpace>> spaces;
    std::vector<Missing> missing;
    const Choices all;
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      if (const auto pin = problem_.pins.ops.find(OpId(i)); pin != problem_.pins.ops.end()) {
        joint_.ops.push_back(std::make_shared<OpSpace>(pinned_op_space(op, pin->second)));
        continue;
      }
      const Choices& given = space_.strategies.empty() ? all : space_.strategies[i];
      std::vector<DType> dtypes = {inner_dtype(graph_, op)};
      if (costs_.in_time())  // kernels read and write their tensors'
        for (const std::vector<TensorId>* list : {&op.operands, &op.results})
          for (TensorId t : *list) dtypes.push_back(graph_.tensor(t).dtype);
      const auto [found, fresh] = spaces.try_emplace({op.bound.get(), dtypes, given});
      if (fresh) {
        found->second = std::make_shared<OpSpace>();
        missing.push_back({&op, &given, found->second.get()});
      }
      joint_.ops.push_back(found->second);
    }
    std::stable_sort(missing.begin(), missing.end(), [](const Missing& a, const Missing& b) {
      return a.op->bound->indices.size() > b.op->bound->indices.size();
    });
    shared_out(threads(), missing.size(), [&](size_t i, int thread) {
      check_time();
      const auto& [op, given, space] = missing[i];
      *space = given->empty() ? make_op_space(*op, costs_of(thread)) : op_space_of(*op, *given, costs_of(thread));
    });
  }

  OpSpace pinned_op_space(const Op& op, const OpChoice& pin) {
    if (pin.mesh != joint_.mesh)
      fail("pins: op '{}': exact splits over mesh {}, the pin has {}", op.name, to_string(joint_.mesh),
           to_string(pin.mesh));
    OpSpace space;
    tdl::Deriver deriver(*op.bound, joint_.mesh.extents);
    if (!add_strategy(op, deriver, pin.strategies, space, costs_))
      fail("pins: op '{}': the pinned strategy does not exist", op.name);
    return space;
  }

  OpSpace op_space_of(const Op& op, const Choices& given, JointCosts& costs) const {
    OpSpace space;
    tdl::Deriver deriver(*op.bound, joint_.mesh.extents);
    for (const std::vector<tdl::AxisStrategy>& strategies : given)
      if (check_time(); fits(*op.bound, strategies)) add_strategy(op, deriver, strategies, space, costs);
    ensure(!space.strategies.empty(), "op '{}': of what it may do nothing exists", op.name);
    return space;
  }

  OpSpace make_op_space(const Op& op, JointCosts& costs) const {
    const std::vector<int>& extents = joint_.mesh.extents;
    const bool elementwise = tdl::is_elementwise(*op.bound);
    std::vector<std::vector<tdl::AxisStrategy>> offered;
    std::vector<size_t> counts;
    for (int p : extents) {
      offered.emplace_back();
      for (tdl::AxisStrategy& s : allowed_strategies(op, p))
        if (elementwise || !s.names.empty() || s.partial.empty()) offered.back().push_back(std::move(s));
      counts.push_back(offered.back().size());
    }
    OpSpace all;
    tdl::Deriver deriver(*op.bound, extents);
    std::map<std::vector<size_t>, size_t> value_of;  // by place in `offered`
    for_each_tuple(counts, [&](const std::vector<size_t>& at) {
      check_time();
      std::vector<tdl::AxisStrategy> strategies;
      for (size_t a = 0; a < at.size(); ++a) strategies.push_back(offered[a][at[a]]);
      if (fits(*op.bound, strategies) && add_strategy(op, deriver, strategies, all, costs))
        value_of[at] = all.strategies.size() - 1;
    });
    if (costs_.in_time()) {
      ensure(!all.strategies.empty(), "op '{}' can't even be replicated", op.name);
      return all;
    }
    // Replicated on an axis only where nothing divides the work there, the other axes being as they are.
    OpSpace space;
    for (const auto& [at, value] : value_of) {
      bool idle = false;
      for (size_t a = 0; a < at.size() && !idle; ++a) {
        if (!is_replicate(offered[a][at[a]])) continue;
        std::vector<size_t> other = at;
        for (other[a] = 0; other[a] < offered[a].size() && !idle; ++other[a])
          idle = !offered[a][other[a]].names.empty() && value_of.contains(other);
      }
      if (idle) continue;
      space.strategies.push_back(all.strategies[value]);
      space.layouts.push_back(all.layouts[value]);
      space.costs.push_back(all.costs[value]);
    }
    ensure(!space.strategies.empty(), "op '{}' can't even be replicated", op.name);
    return space;
  }

  static bool is_replicate(const tdl::AxisStrategy& s) { return s.names.empty() && s.partial.empty(); }

  // No index is split into more parts than it has values.
  bool fits(const tdl::Bound& bound, const std::vector<tdl::AxisStrategy>& strategies) const {
    std::map<std::string, int64_t> parts;
    for (size_t a = 0; a < strategies.size(); ++a)
      for (const std::string& name : strategies[a].names) {
        int64_t& count = parts.try_emplace(name, 1).first->second;
        count *= joint_.mesh.extents[a];
        if (count > bound.indices[bound.find_index(name)].extent) return false;
      }
    return true;
  }

  bool add_strategy(const Op& op, tdl::Deriver& deriver, const std::vector<tdl::AxisStrategy>& strategies,
                    OpSpace& space, JointCosts& costs) const {
    if (strategies.size() != joint_.mesh.extents.size()) return false;
    const auto derived = deriver.derive(strategies);
    if (!derived) return false;
    space.strategies.push_back(strategies);
    space.layouts.push_back(layouts_of(*op.bound, *derived, joint_.mesh));
    space.costs.push_back(costs.inner(*op.bound, *derived, joint_.mesh, bytes_of(inner_dtype(graph_, op))));
    if (costs_.in_time()) space.costs.back() += kernels_ns(cost_, graph_, op, *derived, joint_.mesh);
    return true;
  }

  // ------------------------------------------------------------------ tensors

  // Made for one reader, that takes it from where its producer leaves it: on the way it is kept nowhere else.
  bool goes_straight(TensorId id) const {
    return graph_.tensor(id).producer.valid() && !replacement(id).valid() && !problem_.pins.kept.contains(id) &&
           readers_[id.index()].size() <= 1;
  }

  // In time: to a host.
  bool is_given(TensorId id) const {
    return costs_.in_time() && std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end();
  }

  void connect_straight(TensorId id) {
    const OpId producer = graph_.tensor(id).producer;
    const auto& made = joint_.ops[producer.index()];
    if (is_given(id)) {
      Table& costs = joint_.network.costs[joint_.op_variable[producer.index()]];
      for (size_t x = 0; x < costs.size(); ++x)
        costs[x] += costs_.times().give_ns(made->layouts[x].results[result_position(id)], element(id));
    }
    if (readers_[id.index()].empty()) return;
    joint_.straight[id.index()] = straight_of_[id.index()]->space;
    joint_.network.edges.push_back(
        {{joint_.op_variable[producer.index()], joint_.op_variable[readers_[id.index()][0].op.index()]},
         straight_of_[id.index()]->table});
  }

  struct KnownStraight {
    std::shared_ptr<const Table> table;
    std::shared_ptr<const StraightSpace> space;  // null: always kept as it was made
  };

  // What its table depends on.
  struct StraightKind {
    const OpSpace* made = nullptr;
    int result = 0;
    ReadingSpace read;
    int64_t element = 0;
    bool given = false;
    auto operator<=>(const StraightKind&) const = default;
  };

  StraightKind straight_kind_of(TensorId id) const {
    const ReadingOp& reader = readers_[id.index()][0];
    return {joint_.ops[graph_.tensor(id).producer.index()].get(),
            result_position(id),
            {joint_.ops[reader.op.index()].get(), reader.operands},
            element(id),
            is_given(id)};
  }

  KnownStraight make_straight(const StraightKind& kind, JointCosts& by) {
    const OpSpace& made = *kind.made;
    StraightSpace space;
    std::vector<Layout>& layouts = space.layouts;
    std::vector<int> from;
    for (const OpLayouts& l : made.layouts) from.push_back(place(l.results[kind.result], layouts));
    const std::vector<std::vector<int>> needs = needs_of(*kind.read.op, kind.read.operands, layouts);
    std::vector<int> starts = from, homes;
    if (by.in_time() && !kind.given)
      for (size_t l = 0; l < layouts.size(); ++l)
        if (is_named(layouts[l])) homes.push_back(static_cast<int>(l));
    starts.insert(starts.end(), homes.begin(), homes.end());
    std::vector<int> ends = joined(needs);
    ends.insert(ends.end(), homes.begin(), homes.end());
    const ConversionCosts costs(by, layouts, starts, ends, kind.element);
    auto to_all = [&](int at, const std::vector<int>& need) {
      int64_t sum = 0;
      for (int n : need) sum += costs(at, n);
      return sum;
    };
    Table table;
    std::map<std::pair<int, std::vector<int>>, std::pair<int64_t, int>> known;  // cost, and home
    bool kept = false;
    for (int f : from) {
      check_time();
      for (const std::vector<int>& need : needs) {
        const auto [best, fresh] = known.try_emplace({f, need}, to_all(f, need), -1);
        if (fresh)
          for (int h : homes)
            if (const int64_t cost = costs(f, h) + to_all(h, need); h != f && cost < best->second.first)
              best->second = {cost, h}, kept = true;
        table.push_back(best->second.first);
        space.homes.push_back(best->second.second);
      }
    }
    return {shared(std::move(table)), kept ? std::make_shared<const StraightSpace>(std::move(space)) : nullptr};
  }

  // The position of a layout in a list; the list grows where it is not there yet.
  static int place(const Layout& layout, std::vector<Layout>& list) {
    for (size_t i = 0; i < list.size(); ++i)
      if (same_placement(list[i], layout)) return static_cast<int>(i);
    list.push_back(layout);
    return static_cast<int>(list.size()) - 1;
  }

  // Per value of an op, the different layouts in which it wants what these operands read.
  static std::vector<std::vector<int>> needs_of(const OpSpace& op, const std::vector<int>& operands,
                                                std::vector<Layout>& layouts) {
    std::vector<std::vector<int>> needs;
    for (const OpLayouts& l : op.layouts) {
      std::set<int> mine;
      for (int k : operands) mine.insert(place(l.operands[k], layouts));
      needs.emplace_back(mine.begin(), mine.end());
    }
    return needs;
  }

  static std::vector<int> joined(const std::vector<std::vector<int>>& lists) {
    std::vector<int> all;
    for (const std::vector<int>& l : lists) all.insert(all.end(), l.begin(), l.end());
    return all;
  }

  // What a tensor's variable and its tables depend on.
  struct TensorKind {
    const OpSpace* made = nullptr;  // by an op, as its result; null: an input, a parameter, ..
    int result = 0;
    const OpSpace* remade = nullptr;  // what replaces it
    int remade_result = 0;
    std::vector<ReadingSpace> read;
    Shape shape;
    int64_t element = 0;
    bool pinned = false;
    bool loaded = false, given = false;  // in time: from hosts, to one
    auto operator<=>(const TensorKind&) const = default;
  };
  struct KnownTensor {
    std::shared_ptr<const TensorSpace> space;
    std::shared_ptr<const Table> cost, from_made, from_remade;
    std::vector<std::shared_ptr<const Table>> to_reader;
    // The variable of a layout that has its own: what its ways cost from each home, and per reader that may want it,
    // that it is brought for it. A copy that lies from the others' to the backward pass lies between these two readers
    // (of kind.read), whichever of them share it.
    struct Shared {
      std::shared_ptr<const Table> from_home;
      std::vector<std::pair<size_t, std::shared_ptr<const Table>>> readers;
      std::optional<std::pair<size_t, size_t>> between;
    };
    std::vector<Shared> shared;
    // Layouts that two readers alone may want, by these (of kind.read): where it is brought for several, its copy lies
    // from the one to the other.
    std::map<std::pair<size_t, size_t>, std::vector<int>> between;
    bool leaves_copies_out = false;
    size_t tensors = 0;  // of this kind
  };

  TensorKind kind_of(TensorId id) const {
    TensorKind kind;
    kind.shape = graph_.tensor(id).shape;
    kind.element = element(id);
    kind.loaded = costs_.in_time() && graph_.tensor(id).role == Role::kInput;
    kind.given = is_given(id);
    if (const OpId op = graph_.tensor(id).producer; op.valid())
      kind.made = joint_.ops[op.index()].get(), kind.result = result_position(id);
    if (const TensorId next = replacement(id); next.valid())
      kind.remade = joint_.ops[graph_.tensor(next).producer.index()].get(), kind.remade_result = result_position(next);
    auto add_reader = [&](const ReadingOp& r) {
      kind.read.push_back({joint_.ops[r.op.index()].get(), r.operands, graph_.op(r.op).phase == Phase::kBackward});
    };
    for (const ReadingOp& r : readers_[id.index()]) add_reader(r);
    if (const TensorId next = replacement(id); next.valid())
      for (const ReadingOp& r : readers_[next.index()]) add_reader(r);
    return kind;
  }

  // The tables of tensors, which are alike for many. Those of one shape by one thread: they cross the same layouts.
  void make_tables() {
    struct Missing {
      size_t size = 0;  // entries, about
      std::vector<std::function<void(JointCosts&)>> make;
    };
    std::map<Shape, Missing> by_shape;
    auto missing = [&](TensorId id, size_t size) -> Missing& {
      Missing& all = by_shape[graph_.tensor(id).shape];
      all.size += size;
      return all;
    };
    straight_of_.assign(graph_.tensors.size(), nullptr);
    known_of_.assign(graph_.tensors.size(), nullptr);
    for (size_t t = 0; t < graph_.tensors.size(); ++t) {
      const TensorId id(t);
      if (graph_.tensor(id).replaces.valid()) continue;
      if (goes_straight(id)) {
        if (readers_[t].empty()) continue;
        const StraightKind kind = straight_kind_of(id);
        const size_t size = kind.made->layouts.size() * kind.read.op->layouts.size();
        check_size(size);
        const auto [found, fresh] = straight_.try_emplace(kind);
        straight_of_[t] = &found->second;
        if (fresh)
          missing(id, size).make.push_back(
              [this, one = &*found](JointCosts& by) { one->second = make_straight(one->first, by); });
        continue;
      }
      TensorKind kind = kind_of(id);
      const auto pin = problem_.pins.kept.find(id);
      kind.pinned = pin != problem_.pins.kept.end();
      if (kind.pinned) {
        known_of_[t] = &pinned_.emplace_back();
        pinned_.back().tensors = 1;
        make_tensor(pinned_.back(), id, kind, &pin->second, costs_);
        continue;
      }
      const auto [found, fresh] = known_.try_emplace(kind);
      known_of_[t] = &found->second;
      ++found->second.tensors;
      if (!fresh) continue;
      size_t ends = kind.made ? kind.made->layouts.size() : 1;
      for (const ReadingSpace& r : kind.read) ends += r.op->layouts.size();
      missing(id, ends * ends).make.push_back([this, id, one = &*found](JointCosts& by) {
        make_tensor(one->second, id, one->first, nullptr, by);
      });
    }
    std::vector<const Missing*> largest_first;
    for (const auto& [shape, all] : by_shape) largest_first.push_back(&all);
    std::stable_sort(largest_first.begin(), largest_first.end(),
                     [](const Missing* a, const Missing* b) { return a->size > b->size; });
    shared_out(threads(), largest_first.size(), [&](size_t i, int thread) {
      for (const auto& make : largest_first[i]->make) {
        check_time();
        make(costs_of(thread));
      }
    });
  }

  void add_tensor(TensorId id) {
    const KnownTensor& made = *known_of_[id.index()];
    joint_.leaves_copies_out |= made.leaves_copies_out;
    solver::Network& network = joint_.network;
    const int variable = network.variables();
    joint_.tensors[id.index()] = made.space;
    joint_.tensor_variable[id.index()] = variable;
    network.costs.push_back(*made.cost);
    auto connect = [&](OpId op, const std::shared_ptr<const Table>& table) {
      network.edges.push_back({{variable, joint_.op_variable[op.index()]}, table});
    };
    if (made.from_made) connect(graph_.tensor(id).producer, made.from_made);
    const TensorId next = replacement(id);
    if (next.valid()) connect(graph_.tensor(next).producer, made.from_remade);
    std::vector<OpId> reading;
    for (const ReadingOp& reader : readers_[id.index()]) reading.push_back(reader.op);
    if (next.valid())
      for (const ReadingOp& reader : readers_[next.index()]) reading.push_back(reader.op);
    for (size_t r = 0; r < reading.size(); ++r) connect(reading[r], made.to_reader[r]);
    for (const auto& [ends, layouts] : made.between)
      if (ends.second < readers_[id.index()].size())
        copies_.push_back({id, layouts, reading[ends.first], reading[ends.second]});
    for (size_t b = 0; b < made.shared.size(); ++b) {
      const KnownTensor::Shared& shared = made.shared[b];
      const int brought = network.variables();
      joint_.brought_variables[id.index()].push_back(brought);
      network.costs.push_back(Table(made.space->brought[b].ways.size(), 0));
      network.edges.push_back({{variable, brought}, shared.from_home});
      for (const auto& [r, table] : shared.readers)
        network.edges.push_back({{brought, joint_.op_variable[reading[r].index()]}, table});
      if (const auto& ends = shared.between;
          ends && ends->second < readers_[id.index()].size() && graph_.op(reading[ends->first]).phase != Phase::kUpdate)
        brought_copies_.push_back({id, b, reading[ends->first], reading[ends->second]});
    }
  }

  void make_tensor(KnownTensor& known, TensorId id, const TensorKind& kind, const Placement* pin, JointCosts& by) {
    auto space = std::make_shared<TensorSpace>();
    std::vector<Layout>& layouts = space->layouts;
    std::vector<int> made, remade;
    if (kind.made)
      for (const OpLayouts& l : kind.made->layouts) made.push_back(place(l.results[kind.result], layouts));
    if (kind.remade)
      for (const OpLayouts& l : kind.remade->layouts) remade.push_back(place(l.results[kind.remade_result], layouts));
    std::vector<std::vector<std::vector<int>>> needs;  // [reader][its value]
    for (const ReadingSpace& r : kind.read) needs.push_back(needs_of(*r.op, r.operands, layouts));
    std::vector<int> homes;
    if (pin) {
      if (pin->mesh != joint_.mesh)
        fail("pins: tensor '{}': exact splits over mesh {}, the pin has {}", graph_.tensor(id).name,
             to_string(joint_.mesh), to_string(pin->mesh));
      homes = {place(layout_of(*pin, graph_.tensor(id).shape), layouts)};
    } else {
      homes = homes_of(id, std::set<int>(made.begin(), made.end()), layouts);
    }
    std::vector<int> wanted;
    for (const auto& per_value : needs)
      for (int n : joined(per_value)) wanted.push_back(n);
    const ConversionCosts costs(by, layouts, homes, wanted, kind.element);
    std::vector<int64_t> arrivals(layouts.size(), 0);  // by home: of an input from its hosts, of an output to its own
    for (int h : homes) {
      if (kind.loaded) arrivals[h] += by.times().load_ns(layouts[h], kind.element);
      if (kind.given) arrivals[h] += by.times().give_ns(layouts[h], kind.element);
    }

    const std::map<int, std::vector<size_t>> wanted_by = wanted_together(needs);
    std::vector<int> together;
    for (const auto& [layout, readers] : wanted_by) together.push_back(layout);
    size_t columns = made.size() + remade.size();
    for (const auto& per_value : needs) columns += per_value.size();
    const bool listed = list_values(*space, homes, together, kind,
                                    never_shared(layouts, homes, together, made, arrivals, costs, kind, by), columns);
    auto has_variable = [&](int layout) {
      return !listed && std::binary_search(together.begin(), together.end(), layout);
    };
    const size_t entries = space->values.size() * columns;
    check_size(entries * known.tensors);
    Table cost;
    for (const TensorSpace::Value& v : space->values) {
      int64_t sum = arrivals[v.home];
      for (int a : v.also) sum += costs(v.home, a);
      cost.push_back(sum);
    }
    known.cost = std::make_shared<const Table>(std::move(cost));
    if (kind.made) known.from_made = arrival_table(*space, kind.element, made, by);
    if (kind.remade) known.from_remade = arrival_table(*space, kind.element, remade, by);
    for (const auto& per_value : needs) {
      check_time();
      std::vector<std::vector<size_t>> wanting(layouts.size());  // [layout]: the reader's values that want it
      for (size_t y = 0; y < per_value.size(); ++y)
        for (int n : per_value[y])
          if (!has_variable(n)) wanting[n].push_back(y);
      std::vector<Table> of_home(layouts.size());  // what its values cost beside a home alone
      for (int h : homes) {
        of_home[h].assign(per_value.size(), 0);
        for (size_t n = 0; n < layouts.size(); ++n)
          for (size_t y : wanting[n]) of_home[h][y] += costs(h, static_cast<int>(n));
      }
      Table table;
      table.reserve(space->values.size() * per_value.size());
      size_t rows = 0;
      for (const TensorSpace::Value& v : space->values) {
        if (++rows % 1024 == 0) check_time();
        const size_t row = table.size();
        table.insert(table.end(), of_home[v.home].begin(), of_home[v.home].end());
        for (int a : v.also)
          for (size_t y : wanting[a]) table[row + y] -= costs(v.home, a);
      }
      known.to_reader.push_back(shared(std::move(table)));
    }
    check_time();
    const bool copies_lie = !kind.made || kind.read.size() > 2;  // beside the home
    // So that a limit may count too little: where its layouts could have variables that count more, or have, and do
    // not.
    const bool counts_less =
        listed ? copies_lie && static_cast<int64_t>(entries) > JointLimits::kEntries : !limits_.counts_copies;
    for (const auto& [layout, readers] : wanted_by) {
      if (!listed) known.shared.push_back(brought_to(layout, readers, *space, kind, needs, costs));
      else if (copies_lie && readers.size() == 2) known.between[{readers[0], readers[1]}].push_back(layout);
      const auto backward =
          std::count_if(readers.begin(), readers.end(), [&](size_t r) { return kind.read[r].backward; });
      known.leaves_copies_out |= counts_less && backward > 0 && backward < static_cast<std::ptrdiff_t>(readers.size());
    }
    known.space = std::move(space);
  }

  // Where the tensor may be kept: as its producer leaves it, or under the name of a layout that someone makes or wants.
  // Partial values are kept only as they were made.
  std::vector<int> homes_of(TensorId id, const std::set<int>& made, std::vector<Layout>& layouts) const {
    if (!graph_.tensor(id).producer.valid())
      place(make_layout(joint_.mesh, NdSbp(joint_.mesh.extents.size(), Sbp::broadcast()),
                        unfactored(graph_.tensor(id).shape)),
            layouts);
    std::vector<int> homes;
    for (size_t l = 0; l < layouts.size(); ++l)
      if (made.contains(static_cast<int>(l)) || is_named(layouts[l])) homes.push_back(static_cast<int>(l));
    return homes;
  }

  // The layouts that at least two readers may want, and those readers.
  static std::map<int, std::vector<size_t>> wanted_together(const std::vector<std::vector<std::vector<int>>>& needs) {
    std::map<int, std::vector<size_t>> wanted;
    for (size_t r = 0; r < needs.size(); ++r) {
      std::set<int> mine;
      for (const std::vector<int>& need : needs[r]) mine.insert(need.begin(), need.end());
      for (int n : mine) wanted[n].push_back(r);
    }
    std::erase_if(wanted, [](const auto& by) { return by.second.size() < 2; });
    return wanted;
  }

  KnownTensor::Shared brought_to(int layout, const std::vector<size_t>& readers, TensorSpace& space,
                                 const TensorKind& kind, const std::vector<std::vector<std::vector<int>>>& needs,
                                 const ConversionCosts& costs) {
    using Way = TensorSpace::Way;
    std::vector<size_t> others, backward;
    for (size_t r : readers) (kind.read[r].backward ? backward : others).push_back(r);
    const bool for_both = !others.empty() && !backward.empty();
    std::vector<Way> ways = {{}};
    std::vector<int64_t> elements(space.layouts.size(), 0);  // by home
    if (!limits_.counts_copies) {
      ways.push_back({true, true, true});
    } else {
      if (!others.empty()) ways.push_back({.others = true});
      if (!backward.empty()) ways.push_back({.backward = true});
      if (for_both) {
        ways.push_back({true, true});
        std::set<int64_t> different;
        for (const TensorSpace::Value& v : space.values) {
          const Layout &home = space.layouts[v.home], &copy = space.layouts[layout];
          elements[v.home] = elements_beside(home, copy, kind.made != nullptr);
          if (kind.made && copy.elements(last()) < home.elements(last()) && !is_view(home, copy, last()))
            elements[v.home] = kNoCopy;  // the home counts whole until the backward pass
          else different.insert(elements[v.home]);
        }
        for (int64_t e : different) ways.push_back({true, true, true, e});
      }
    }
    KnownTensor::Shared out;
    Table from_home;
    for (const TensorSpace::Value& v : space.values)
      for (const Way& way : ways)
        from_home.push_back(way.once && way.elements != elements[v.home]
                                ? kForbidden
                                : costs(v.home, layout) * (way.once ? 1 : way.others + way.backward));
    out.from_home = shared(std::move(from_home));
    for (size_t r : readers) {
      Table table;
      for (const Way& way : ways)
        for (const std::vector<int>& need : needs[r])
          table.push_back((kind.read[r].backward ? way.backward : way.others) ||
                                  !std::binary_search(need.begin(), need.end(), layout)
                              ? 0
                              : kForbidden);
      out.readers.push_back({r, shared(std::move(table))});
    }
    // Readers are in the graph's order.
    if (for_both && others.back() < backward.front()) out.between = {others.back(), backward.front()};
    space.brought.push_back({layout, std::move(ways)});
    return out;
  }

  // What a copy takes on the last device beside the tensor's home, which need not stay there where all readers take
  // copies, but for what has no producer.
  int64_t elements_beside(const Layout& home, const Layout& copy, bool made) const {
    if (is_view(home, copy, last())) return 0;
    return std::max<int64_t>(0, copy.elements(last()) - (made ? home.elements(last()) : 0));
  }
  static constexpr int64_t kNoCopy = -1, kUnknown = -1;
  int last() const { return joint_.mesh.positions() - 1; }

  using NeverShared = std::function<bool(int home, int layout)>;

  // Whether it is never better that two readers share a layout than that it is the home: in bytes always where it can
  // be one whoever makes the tensor, since no detour is shorter; in time where bringing the tensor there straight takes
  // no longer than by way of this home.
  NeverShared never_shared(const std::vector<Layout>& layouts, const std::vector<int>& homes,
                           const std::vector<int>& shared, const std::vector<int>& made,
                           const std::vector<int64_t>& arrivals, const ConversionCosts& costs, const TensorKind& kind,
                           JointCosts& by) const {
    if (kind.read.size() > 2 || kind.remade || kind.pinned) return [](int, int) { return false; };
    std::vector<bool> named;
    for (const Layout& l : layouts) named.push_back(is_named(l));
    if (!by.in_time())
      return [&homes, named](int, int layout) {
        return named[layout] && std::binary_search(homes.begin(), homes.end(), layout);
      };
    const ConversionCosts from_made(by, layouts, made, homes, kind.element);
    std::set<std::pair<int, int>> never;
    for (int h : homes)
      for (int s : shared) {
        if (s == h) continue;
        bool needed = costs(h, s) > 0;
        if (needed && std::binary_search(homes.begin(), homes.end(), s) && named[s]) {
          auto longer = [&](int64_t straight, int64_t to_home) {
            return arrivals[s] + straight > arrivals[h] + to_home + costs(h, s);
          };
          needed = made.empty() && longer(0, 0);
          for (int m : made)
            if (m == h || named[h])
              needed = needed || longer(m == s ? 0 : from_made(m, s), m == h ? 0 : from_made(m, h));
        }
        if (!needed) never.insert({h, s});
      }
    return [never = std::move(never)](int home, int layout) { return never.contains({home, layout}); };
  }

  // Whoever makes a tensor, it can be kept there: in a layout with a name, and none that splits an axis into more parts
  // than it has values.
  static bool is_named(const Layout& layout) {
    return !layout.is_partial() && !layout.boxes.any_empty() && name_of(layout).has_value();
  }

  // Homes, each with every set of layouts that readers may share; false, and the homes alone, where these, or their
  // tables of so many columns, are more than the limits allow.
  bool list_values(TensorSpace& space, const std::vector<int>& homes, const std::vector<int>& shared,
                   const TensorKind& kind, const NeverShared& never, size_t columns) const {
    const size_t most = kind.read.size() / 2;
    for (int h : homes) space.values.push_back({h, {}});
    size_t before = 0;
    for (size_t size = 1; size <= std::min(most, shared.size()); ++size) {
      std::vector<TensorSpace::Value> larger;
      for (size_t v = before; v < space.values.size(); ++v)
        for (int s : shared) {
          const TensorSpace::Value& smaller = space.values[v];
          if (s == smaller.home || (!smaller.also.empty() && s <= smaller.also.back()) || never(smaller.home, s))
            continue;
          larger.push_back(smaller);
          larger.back().also.push_back(s);
        }
      const auto count = static_cast<int64_t>(space.values.size() + larger.size());
      if (count > limits_.tensor_values || count * static_cast<int64_t>(columns) > limits_.tensor_entries) {
        space.values.resize(homes.size());
        return false;
      }
      before = space.values.size();
      space.values.insert(space.values.end(), larger.begin(), larger.end());
    }
    return true;
  }

  // From what each value of the op that makes it leaves to each home. A home without a name is only where the producer
  // leaves it.
  std::shared_ptr<const Table> arrival_table(const TensorSpace& space, int64_t element, const std::vector<int>& made,
                                             JointCosts& by) {
    std::vector<bool> named;
    for (const Layout& l : space.layouts) named.push_back(is_named(l));
    std::vector<int> homes;
    for (const TensorSpace::Value& v : space.values)
      if (named[v.home]) homes.push_back(v.home);
    const ConversionCosts costs(by, space.layouts, made, homes, element);
    std::vector<Table> of_home(space.layouts.size());
    Table table;
    table.reserve(space.values.size() * made.size());
    for (const TensorSpace::Value& v : space.values) {
      Table& row = of_home[v.home];
      if (row.empty())
        for (int m : made) row.push_back(m == v.home ? 0 : named[v.home] ? costs(m, v.home) : kForbidden);
      table.insert(table.end(), row.begin(), row.end());
    }
    return shared(std::move(table));
  }

  // ------------------------------------------------------------------ memory

  // When each op acts in the default order: the graph's own, an update as soon as what it reads is there.
  std::vector<int64_t> times() const {
    std::vector<size_t> after(graph_.ops.size()), order(graph_.ops.size());
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      after[i] = i;
      order[i] = i;
      if (graph_.ops[i].phase != Phase::kUpdate) continue;
      after[i] = 0;
      for (TensorId t : graph_.ops[i].operands)
        if (const OpId made_by = graph_.tensor(t).producer; made_by.valid())
          after[i] = std::max(after[i], after[made_by.index()]);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return after[a] < after[b]; });
    std::vector<int64_t> time(order.size());
    for (size_t place = 0; place < order.size(); ++place) time[order[place]] = static_cast<int64_t>(place);
    return time;
  }

  // An element-wise op may write its result over the operand that it reads last.
  bool may_lie_under(TensorId operand, OpId reader) const {
    const Op& op = graph_.op(reader);
    if (op.results.size() != 1 || !tdl::is_elementwise(*op.bound)) return false;
    const Tensor &from = graph_.tensor(operand), &to = graph_.tensor(op.results[0]);
    return from.shape == to.shape && from.dtype == to.dtype;
  }

  // What a tensor takes on the last device, by value: in its home, and the least of that and the copies that may do in
  // its stead.
  struct Amounts {
    std::vector<int64_t> home, least;
  };

  // The same for all tensors of a space.
  const Amounts& amounts_of(TensorId id) {
    const auto [found, fresh] = amounts_.try_emplace({joint_.tensors[id.index()].get(), element(id)});
    Amounts& amounts = found->second;
    if (!fresh) return amounts;
    const TensorSpace& space = *joint_.tensors[id.index()];
    std::vector<int64_t> bytes;  // by layout
    for (const Layout& layout : space.layouts) bytes.push_back(layout.elements(last()) * element(id));
    std::vector<std::vector<int64_t>> beside(space.layouts.size());  // [home][copy], as they are asked for
    auto taken_by = [&](int home, int copy) {
      std::vector<int64_t>& row = beside[home];
      if (row.empty()) row.resize(space.layouts.size(), kUnknown);
      if (row[copy] == kUnknown)
        row[copy] = bytes[is_view(space.layouts[home], space.layouts[copy], last()) ? home : copy];
      return row[copy];
    };
    amounts.home.reserve(space.values.size());
    amounts.least.reserve(space.values.size());
    for (const TensorSpace::Value& v : space.values) {
      amounts.home.push_back(bytes[v.home]);
      int64_t least = bytes[v.home];
      for (int copy : v.also) least = std::min(least, taken_by(v.home, copy));
      for (const TensorSpace::Brought& b : space.brought) least = std::min(least, taken_by(v.home, b.layout));
      amounts.least.push_back(least);
    }
    return amounts;
  }

  // From its first reader on, or as soon as it is made where that is an update, a result need not lie in its home where
  // all who are yet to read it have a copy; the least of these does then. Where copies are counted, from its first
  // reader of the backward pass on.
  void split_where_copies_may_do(solver::Network::Use& use, TensorId id) {
    const TensorSpace& space = *joint_.tensors[id.index()];
    const Amounts& amounts = amounts_of(id);
    if (amounts.least == amounts.home) return;
    solver::Network::Use later{use.variable, use.lower, use.upper, amounts.least};
    int64_t first = use.upper, first_backward = use.upper;
    for (const ReadingOp& reader : readers_[id.index()]) {
      const Phase phase = graph_.op(reader.op).phase;
      first = std::min(first, phase == Phase::kUpdate ? use.lower + 1 : times_[reader.op.index()]);
      if (phase == Phase::kBackward) first_backward = std::min(first_backward, times_[reader.op.index()]);
    }
    if (limits_.counts_copies && !space.brought.empty() && first_backward < use.upper) first = first_backward;
    later.lower = use.upper = std::max(first, use.lower + 1);
    if (later.lower < later.upper) joint_.network.uses.push_back(std::move(later));
  }

  // What is certain to lie on the last of the mesh's devices, whose part of every split is the largest: parameters,
  // states and inputs always, a result from its op to its last reader (or the least copy that may do in its stead), and
  // copies that two readers share who alone may want them, or that lie from the forward to the backward pass where
  // these are counted, as far as a result need not lie in its home beside them. Other copies come on top of it.
  void add_uses() {
    times_ = times();
    const std::vector<int64_t>& time = times_;
    const auto end = static_cast<int64_t>(time.size());
    auto bytes_at_last = [&](const Layout& layout, TensorId id) { return layout.elements(last()) * element(id); };
    for (size_t t = 0; t < graph_.tensors.size(); ++t) {
      const TensorId id(t);
      if (graph_.tensors[t].replaces.valid()) continue;
      solver::Network::Use use{joint_.tensor_variable[t], 0, end, {}};
      const OpId producer = graph_.tensors[t].producer;
      if (producer.valid()) {
        use.lower = time[producer.index()];
        use.upper = use.lower + 1;
        for (const ReadingOp& reader : readers_[t])
          use.upper = std::max(use.upper, time[reader.op.index()] + (may_lie_under(id, reader.op) ? 0 : 1));
      }
      if (joint_.tensors[t]) {
        use.amounts = amounts_of(id).home;
        if (producer.valid()) split_where_copies_may_do(use, id);
      } else {
        use.variable = joint_.op_variable[producer.index()];
        for (const OpLayouts& l : joint_.ops[producer.index()]->layouts)
          use.amounts.push_back(bytes_at_last(l.results[result_position(id)], id));
        if (const StraightSpace* straight = joint_.straight[t].get()) {  // or less, in a home on the way
          const size_t columns = straight->homes.size() / use.amounts.size();
          for (size_t at = 0; at < straight->homes.size(); ++at)
            if (const int home = straight->homes[at]; home >= 0)
              use.amounts[at / columns] =
                  std::min(use.amounts[at / columns], bytes_at_last(straight->layouts[home], id));
        }
      }
      joint_.network.uses.push_back(std::move(use));
    }
    // Of something that lies from one reader to another.
    auto use_between = [&](int variable, TensorId tensor, OpId a, OpId b) {
      const auto [first, second] = std::minmax(time[a.index()], time[b.index()]);
      const OpId later = second == time[b.index()] ? b : a;
      return solver::Network::Use{variable, first, second + (may_lie_under(tensor, later) ? 0 : 1), {}};
    };
    auto add_use = [&](solver::Network::Use use) {
      if (std::any_of(use.amounts.begin(), use.amounts.end(), [](int64_t a) { return a > 0; }))
        joint_.network.uses.push_back(std::move(use));
    };
    for (const BroughtCopy& copy : brought_copies_) {
      solver::Network::Use use =
          use_between(joint_.brought_variables[copy.tensor.index()][copy.number], copy.tensor, copy.first, copy.last);
      for (const TensorSpace::Way& way : joint_.tensors[copy.tensor.index()]->brought[copy.number].ways)
        use.amounts.push_back(way.elements * element(copy.tensor));
      add_use(std::move(use));
    }
    for (const Copy& copy : copies_) {
      solver::Network::Use use =
          use_between(joint_.tensor_variable[copy.tensor.index()], copy.tensor, copy.first, copy.last);
      const TensorSpace& space = *joint_.tensors[copy.tensor.index()];
      const bool stays = !graph_.tensor(copy.tensor).producer.valid();
      std::map<std::pair<int, int>, int64_t> known;  // by home and copy
      for (const TensorSpace::Value& v : space.values) {
        int64_t sum = 0;
        for (int to : v.also) {
          if (!std::binary_search(copy.layouts.begin(), copy.layouts.end(), to)) continue;
          const auto [found, fresh] = known.try_emplace({v.home, to}, 0);
          if (fresh)
            found->second = elements_beside(space.layouts[v.home], space.layouts[to], !stays) * element(copy.tensor);
          sum += found->second;
        }
        use.amounts.push_back(sum);
      }
      add_use(std::move(use));
    }
    joint_.network.limit = problem_.cluster.device(joint_.mesh.devices.back()).memory_bytes;
  }

  // Renumbers the variables breadth first, since the solver's passes go by number: what one says travels along edges as
  // long as numbers ascend. Those with very many neighbours, which bring all close to all, come last.
  void number_by_nearness() {
    constexpr size_t kVeryMany = 100;
    solver::Network& network = joint_.network;
    std::vector<std::vector<int>> beside(network.variables());
    for (const solver::Network::Edge& e : network.edges) {
      beside[e.variables[0]].push_back(e.variables[1]);
      beside[e.variables[1]].push_back(e.variables[0]);
    }
    std::vector<int> order, number(network.variables(), -1), last;
    auto take = [&](int v) { number[v] = static_cast<int>(order.size()), order.push_back(v); };
    for (int start = 0; start < network.variables(); ++start) {
      if (beside[start].size() > kVeryMany) {
        last.push_back(start);
        continue;
      }
      if (number[start] >= 0) continue;
      size_t at = order.size();
      for (take(start); at < order.size(); ++at)
        for (int v : beside[order[at]])
          if (number[v] < 0 && beside[v].size() <= kVeryMany) take(v);
    }
    for (int v : last) take(v);
    std::vector<Table> costs;
    for (int v : order) costs.push_back(std::move(network.costs[v]));
    network.costs = std::move(costs);
    for (solver::Network::Edge& e : network.edges)
      for (int& v : e.variables) v = number[v];
    for (solver::Network::Use& u : network.uses) u.variable = number[u.variable];
    for (int& v : joint_.op_variable) v = number[v];
    for (int& v : joint_.tensor_variable)
      if (v >= 0) v = number[v];
    for (std::vector<int>& list : joint_.brought_variables)
      for (int& v : list) v = number[v];
  }

  struct Copy {
    TensorId tensor;
    std::vector<int> layouts;  // of its space; ascending
    OpId first, last;
  };
  struct BroughtCopy {
    TensorId tensor;
    size_t number = 0;  // of its space's `brought`
    OpId first, last;
  };

  const Problem& problem_;
  const Graph& graph_;
  const JointSpace& space_;
  const JointLimits limits_;
  const CostModel cost_;
  const std::shared_ptr<JointCosts> known_costs_;
  JointCosts& costs_;
  JointProblem joint_;
  std::atomic<int64_t> entries_ = 0;  // of all edges' tables so far
  std::mutex tables_lock_;
  std::unordered_map<size_t, std::vector<std::shared_ptr<const Table>>> tables_;  // by hash
  std::vector<TensorId> replacements_;           // by tensor: what replaces it, or none
  std::vector<std::vector<ReadingOp>> readers_;  // by tensor
  std::map<StraightKind, KnownStraight> straight_;
  std::map<TensorKind, KnownTensor> known_;
  std::deque<KnownTensor> pinned_;
  std::vector<const KnownStraight*> straight_of_;                      // by tensor, or null
  std::vector<const KnownTensor*> known_of_;                           // likewise
  std::map<std::pair<const TensorSpace*, int64_t>, Amounts> amounts_;  // by space and bytes of an element
  std::vector<int64_t> times_;                                         // by op, in the default order
  std::vector<Copy> copies_;
  std::vector<BroughtCopy> brought_copies_;
};

// Per axis of `to`, what each of the axes of `from` says that lie across it, one of `values` an axis; empty where they
// differ. A mesh numbers its positions in mixed radix: axes that are alike act as one.
template <typename T>
std::optional<std::vector<T>> on_axes(const Mesh& from, const std::vector<T>& values, const Mesh& to) {
  if (from.devices != to.devices || values.size() != from.extents.size()) return std::nullopt;
  std::vector<T> out;
  int64_t begin = 1;
  for (int extent : to.extents) {
    const int64_t end = begin * extent;
    std::optional<T> said;
    int64_t first = 1;
    for (size_t a = 0; a < values.size(); ++a) {
      const int64_t last = first * from.extents[a];
      if (first < last && first < end && last > begin) {
        if (said && *said != values[a]) return std::nullopt;
        said = values[a];
      }
      first = last;
    }
    if (!said) return std::nullopt;
    out.push_back(*said);
    begin = end;
  }
  return out;
}

// One of `may` for each variable of a network whose edges are pairs: in this order and twice, the cheapest beside what
// is settled and the cheapest of what is not. A follower, behind the first variable of the edge that ends at it, is
// then what is cheapest beside all its others.
solver::Assignment settled(const solver::Network& network, const std::vector<std::vector<int>>& may,
                           const std::vector<int>& order, const std::vector<char>& follows) {
  using Edge = solver::Network::Edge;
  std::vector<std::vector<const Edge*>> edges(may.size());
  for (const Edge& e : network.edges)
    for (int v : e.variables) edges[v].push_back(&e);
  solver::Assignment values(may.size(), -1);
  auto at = [&](const Edge& e, int v, int x, int y) {
    const bool first = e.variables[0] == v;
    return (*e.table)[static_cast<size_t>(first ? x : y) * network.costs[e.variables[1]].size() +
                      static_cast<size_t>(first ? y : x)];
  };
  auto other = [](const Edge& e, int v) { return e.variables[e.variables[0] == v ? 1 : 0]; };
  // By value, what a variable costs beside what is settled, without one edge.
  auto costs_without = [&](int v, const Edge* left_out) {
    std::vector<solver::Wide> costs;
    for (int x : may[v]) {
      costs.push_back(network.costs[v][x]);
      for (const Edge* e : edges[v])
        if (const int w = other(*e, v); e != left_out && values[w] >= 0) costs.back() += at(*e, v, x, values[w]);
    }
    return costs;
  };
  for (int pass = 0; pass < 2; ++pass)
    for (int v : order) {
      values[v] = may[v][0];
      if (may[v].size() == 1) continue;
      std::vector<solver::Wide> costs(may[v].size());
      for (size_t i = 0; i < costs.size(); ++i) costs[i] = network.costs[v][may[v][i]];
      for (const Edge* e : edges[v]) {
        const int w = other(*e, v);
        const bool follower = follows[w] && e->variables[1] == w;
        const std::vector<solver::Wide> beyond =
            follower ? costs_without(w, e) : std::vector<solver::Wide>(may[w].size(), 0);
        for (size_t i = 0; i < costs.size(); ++i) {
          const int x = may[v][i];
          if (!follower && values[w] >= 0) {
            costs[i] += at(*e, v, x, values[w]);
            continue;
          }
          std::optional<solver::Wide> least;
          for (size_t j = 0; j < may[w].size(); ++j)
            if (const solver::Wide cost = at(*e, v, x, may[w][j]) + beyond[j]; !least || cost < *least) least = cost;
          costs[i] += *least;
        }
      }
      values[v] = may[v][static_cast<size_t>(std::min_element(costs.begin(), costs.end()) - costs.begin())];
    }
  return values;
}

// By variable, all of its values.
std::vector<std::vector<int>> all_values(const solver::Network& network) {
  std::vector<std::vector<int>> all;
  for (int v = 0; v < network.variables(); ++v) {
    all.emplace_back(static_cast<size_t>(network.domain(v)));
    std::iota(all.back().begin(), all.back().end(), 0);
  }
  return all;
}

// What else there is behind the ops: where tensors are kept, and behind these, into which layouts they are brought.
solver::Assignment settled(const JointProblem& joint, const std::vector<std::vector<int>>& may,
                           std::vector<int> order) {
  std::vector<char> follows(may.size(), 0);
  for (int v : joint.tensor_variable)
    if (v >= 0) order.push_back(v);
  for (const std::vector<int>& list : joint.brought_variables)
    for (int v : list) order.push_back(v), follows[v] = 1;
  return settled(joint.network, may, order, follows);
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

std::shared_ptr<JointCosts> joint_costs(const Problem& problem) {
  return std::make_shared<JointCosts>(problem.cluster, problem.in_time());
}

std::optional<JointProblem> joint_problem(const Problem& problem, const JointSpace& space, const JointLimits& limits) {
  return Builder(problem, space, limits).build();
}

namespace {

// Whether what is brought to an op of the backward pass and to another one is brought to each of them: where they want
// the same, which is not the home and not brought for several readers. Not where anything is brought for several of
// both, since a plan has both or neither.
bool is_refetched(const JointProblem& joint, const Graph& graph, TensorId id, const std::vector<Reader>& readers,
                  const solver::Assignment& values) {
  const TensorSpace& space = *joint.tensors[id.index()];
  const TensorSpace::Value& value = space.values[values[joint.tensor_variable[id.index()]]];
  const Layout& home = space.layouts[value.home];
  auto is_shared = [&](const Layout& l) {
    auto is_it = [&](int a) { return same_placement(space.layouts[a], l); };
    for (size_t b = 0; b < space.brought.size(); ++b)
      if (is_it(space.brought[b].layout))
        return space.brought[b].ways[values[joint.brought_variables[id.index()][b]]].once;
    return std::any_of(value.also.begin(), value.also.end(), is_it);
  };
  auto wanted = [&](const Reader& r) -> const Layout& {
    return joint.ops[r.op.index()]->layouts[values[joint.op_variable[r.op.index()]]].operands[r.operand];
  };
  auto is_backward = [&](const Reader& r) { return graph.op(r.op).phase == Phase::kBackward; };
  bool twice = false;
  for (const Reader& b : readers) {
    if (!is_backward(b) || same_placement(wanted(b), home)) continue;
    for (const Reader& other : readers) {
      if (is_backward(other) || !same_placement(wanted(b), wanted(other))) continue;
      if (is_shared(wanted(b))) return false;
      for (int p = 0; p < joint.mesh.positions() && !twice; ++p) twice = !is_view(home, wanted(b), p);
    }
  }
  return twice;
}

}  // namespace

Plan plan_of(const JointProblem& joint, const Graph& graph, const solver::Assignment& values) {
  Plan plan;
  plan.search = "exact";
  for (size_t i = 0; i < graph.ops.size(); ++i)
    plan.ops.push_back({joint.mesh, joint.ops[i]->strategies[values[joint.op_variable[i]]]});
  auto keep = [&](size_t t, const Layout& home) {
    const auto name = name_of(home);
    ensure(name.has_value(), "tensor '{}' is to be kept in a layout without a name", graph.tensors[t].name);
    plan.kept[TensorId(t)] = placement_of(home, *name);
  };
  const auto read_by = readers(graph);
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (const StraightSpace* straight = joint.straight[t].get()) {
      const size_t reader = read_by[t][0].op.index(), columns = joint.ops[reader]->strategies.size();
      const auto made = static_cast<size_t>(values[joint.op_variable[graph.tensors[t].producer.index()]]),
                 read = static_cast<size_t>(values[joint.op_variable[reader]]);
      if (const int home = straight->homes[made * columns + read]; home >= 0) keep(t, straight->layouts[home]);
    }
    if (!joint.tensors[t]) continue;
    const TensorSpace& space = *joint.tensors[t];
    const Layout& home = space.layouts[space.values[values[joint.tensor_variable[t]]].home];
    if (is_refetched(joint, graph, TensorId(t), read_by[t], values)) plan.refetched.insert(TensorId(t));
    if (const OpId producer = graph.tensors[t].producer; producer.valid()) {
      const std::vector<TensorId>& results = graph.op(producer).results;
      const size_t r = static_cast<size_t>(std::find(results.begin(), results.end(), TensorId(t)) - results.begin());
      if (same_placement(home,
                         joint.ops[producer.index()]->layouts[values[joint.op_variable[producer.index()]]].results[r]))
        continue;
    }
    keep(t, home);
  }
  return plan;
}

std::optional<solver::Assignment> values_of(const JointProblem& joint, const Graph& graph, const Plan& plan) {
  const solver::Network& network = joint.network;
  std::vector<std::vector<int>> may = all_values(network);
  std::vector<int> order, open;  // the ops that the plan settles, those that it does not
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const int v = joint.op_variable[i];
    open.push_back(v);
    const auto strategies = on_axes(plan.ops[i].mesh, plan.ops[i].strategies, joint.mesh);
    if (!strategies) continue;
    const auto& known = joint.ops[i]->strategies;
    const auto found = std::find(known.begin(), known.end(), *strategies);
    if (found == known.end()) continue;
    may[v] = {static_cast<int>(found - known.begin())};
    open.pop_back();
    order.push_back(v);
  }
  if (order.empty()) return std::nullopt;
  order.insert(order.end(), open.begin(), open.end());
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (!joint.tensors[t]) continue;
    const int v = joint.tensor_variable[t];
    std::optional<Layout> home;
    if (const auto kept = plan.kept.find(TensorId(t)); kept != plan.kept.end()) {
      const Placement& placement = kept->second;
      if (auto sbp = on_axes(placement.mesh, placement.sbp, joint.mesh))
        home = layout_of({joint.mesh, std::move(*sbp), placement.radices}, graph.tensors[t].shape);
    } else if (const OpId producer = graph.tensors[t].producer;
               producer.valid() && may[joint.op_variable[producer.index()]].size() == 1) {
      const std::vector<TensorId>& results = graph.op(producer).results;
      const size_t r = static_cast<size_t>(std::find(results.begin(), results.end(), TensorId(t)) - results.begin());
      home = joint.ops[producer.index()]->layouts[may[joint.op_variable[producer.index()]][0]].results[r];
    }
    const TensorSpace& space = *joint.tensors[t];
    std::vector<int> there;
    for (size_t x = 0; home && x < space.values.size(); ++x)
      if (same_placement(space.layouts[space.values[x].home], *home)) there.push_back(static_cast<int>(x));
    if (plan.refetched.contains(TensorId(t))) {  // brought to each of its readers
      std::erase_if(there, [&](int x) { return !space.values[x].also.empty(); });
      for (size_t b = 0; b < space.brought.size(); ++b) {
        const std::vector<TensorSpace::Way>& ways = space.brought[b].ways;
        if (std::any_of(ways.begin() + 1, ways.end(), [](const TensorSpace::Way& w) { return !w.once; }))
          std::erase_if(may[joint.brought_variables[t][b]], [&](int x) { return ways[x].once; });
      }
    }
    if (!there.empty()) may[v] = std::move(there);
  }
  return settled(joint, may, std::move(order));
}

solver::Assignment with_best_tensors(const JointProblem& joint, const std::vector<int>& op_values) {
  std::vector<std::vector<int>> may = all_values(joint.network);
  for (size_t i = 0; i < op_values.size(); ++i) may[joint.op_variable[i]] = {op_values[i]};
  return settled(joint, may, joint.op_variable);
}

}  // namespace partita
