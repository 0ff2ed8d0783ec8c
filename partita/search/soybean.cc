#include "partita/search/soybean.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <numeric>
#include <set>

#include "partita/base/error.h"
#include "partita/graph/factors.h"
#include "partita/plan/resolve.h"
#include "partita/plan/rules.h"
#include "partita/tdl/affine.h"

namespace partita {

namespace {

constexpr int kFollowed = 4;                     // cuts of equal cost that are followed one cut further
constexpr int64_t kLevelTable = int64_t{1} << 16;  // states of a breadth-first level that are still tabulated
constexpr int64_t kEliminationTable = int64_t{1} << 22;  // entries of a table of variable elimination

// A tensor's tiling on the axis of one cut: split on one of its axes, each counted as often as it has radices (factored_radices), or
// replicated (-1).
using Tiling = int;
constexpr Tiling kWhole = -1;

// Where a cut splits a layout: a stored axis, and of that axis's radices in the layout the one. axis -1: nowhere.
struct SplitAt {
  int axis = -1;
  size_t digit = 0;
};

// One aligned strategy of an op on the axis of this cut: the layouts that the op then has on all cuts so far.
struct Aligned {
  tdl::AxisStrategy strategy;
  OpLayouts layouts;
  std::vector<SplitAt> operands, results;  // nowhere also where the part is partial
  int64_t inner_cost = 0;                 // what its inner steps move beyond those of the cuts before
};

// What one op looks like to a cut.
struct OpView {
  OpLayouts before;  // on the cuts before this one: its own ranges
  std::vector<Aligned> aligned;
};

// The choices so far: one entry a cut in each list.
struct State {
  std::vector<int> extents;
  std::vector<std::vector<tdl::AxisStrategy>> strategies;  // by op
  std::vector<std::vector<Tiling>> tilings;                // by tensor
  std::vector<double> deltas;                              // bytes, outermost cut first
};

bool reads_plainly(const tdl::Expr& e) {
  bool plainly = true;
  tdl::for_each_read(e, [&](const tdl::Expr& read) {
    for (const tdl::Affine& s : read.subscripts) plainly &= s.plain_index() >= 0 || s.terms.empty();
  });
  return plainly;
}

// Indices that stand in a subscript of several terms, or in a guard.
void entangled(const tdl::Expr& e, bool in_guard, std::vector<int>& out) {
  if (in_guard && e.kind == tdl::ExprKind::kIndex) out.push_back(e.index);
  if (e.kind == tdl::ExprKind::kRead)
    for (const tdl::Affine& s : e.subscripts)
      if (s.plain_index() < 0 || in_guard) tdl::collect_indices(s, out);
  for (size_t i = 0; i < e.args.size(); ++i) entangled(e.args[i], in_guard || (e.kind == tdl::ExprKind::kIf && i == 0), out);
}

// A product of two reads, maybe under guards.
bool is_product(const tdl::Expr& e) {
  if (e.kind == tdl::ExprKind::kIf) return e.args[2].kind == tdl::ExprKind::kNumber && e.args[2].number == 0 && is_product(e.args[1]);
  return e.kind == tdl::ExprKind::kBinary && e.function == "*" && e.args[0].kind == tdl::ExprKind::kRead && e.args[1].kind == tdl::ExprKind::kRead;
}

std::vector<int> prime_factors(int n) {  // largest first
  std::vector<int> factors;
  for (int f = 2; n > 1; ++f)
    for (; n % f == 0; n /= f) factors.push_back(f);
  return {factors.rbegin(), factors.rend()};
}

class KCuts {
 public:
  KCuts(const Problem& problem, const Budget& budget, bool all_tilings)
      : graph_(problem.graph), problem_(problem), budget_(budget), start_(std::chrono::steady_clock::now()), all_(all_tilings), read_by_(readers(problem.graph)), converter_(problem.cluster) {
    std::vector<DeviceId> devices = slowest_link_first(problem.cluster);
    mesh_ = {prime_factors(static_cast<int>(devices.size())), devices};
    radices_ = factored_radices(graph_);
    for (const auto& [id, placement] : problem.pins.kept) {
      if (!placement.radices.empty()) {
        radices_[id.index()] = placement.radices;
      } else {
        radices_[id.index()].clear();
        for (int64_t extent : graph_.tensor(id).shape) radices_[id.index()].push_back({extent});
      }
    }
    for (const Op& op : graph_.ops) {
      std::vector<std::string> names = paper_indices(graph_, op);
      paper_.emplace_back(names.begin(), names.end());
    }
  }

  SearchResult run() {
    const std::vector<int>& factors = mesh_.extents;
    State state{{}, std::vector<std::vector<tdl::AxisStrategy>>(graph_.ops.size()), std::vector<std::vector<Tiling>>(graph_.tensors.size()), {}};
    for (size_t c = 0; c < factors.size(); ++c) {
      std::vector<State> equal = one_cut(state, factors[c], kFollowed, true);
      std::string method = method_;
      size_t best = 0;
      double best_delta = 0;
      for (size_t i = 0; equal.size() > 1 && c + 1 < factors.size() && i < equal.size(); ++i) {
        double delta = one_cut(equal[i], factors[c + 1], 1, false)[0].deltas.back();
        if (i == 0 || delta < best_delta) best = i, best_delta = delta;
      }
      state = equal[best];
      result_.notes.push_back(fmt::format("cut {} into {}: delta_{} = {:.6g} bytes, {}; {} of equal cost followed", c + 1, factors[c], factors.size() - c,
                                          state.deltas.back(), method, equal.size()));
    }
    double total = 0;  // c_k = delta_k + p c_(k-1)
    for (size_t c = factors.size(); c-- > 0;) total = state.deltas[c] + factors[c] * total;
    result_.plan = make_plan(state);
    result_.plan->paper_cost = total;
    result_.notes.push_back(fmt::format("c_{} = {:.6g} bytes", factors.size(), total));
    return std::move(result_);
  }

  // The cost network of one cut, after the cuts in `state`.
  OneCut problem_of(const State& state, int p) {
    views_.clear();
    domains_.assign(graph_.tensors.size(), {});
    tile_layouts_.assign(graph_.tensors.size(), {});
    for (size_t i = 0; i < graph_.ops.size(); ++i) views_.push_back(view(i, state, p));
    std::vector<int> extents = state.extents;
    extents.push_back(p);
    const Mesh mesh = mesh_of(extents), mesh_before = mesh_of(state.extents);
    for (size_t t = 0; t < graph_.tensors.size(); ++t) {
      domains_[t] = domain(TensorId(t), state, p);
      tile_layouts_[t].clear();
      std::vector<Tiling> tilings = state.tilings[t];
      tilings.push_back(kWhole);
      for (Tiling tiling : domains_[t]) {
        tilings.back() = tiling;
        tile_layouts_[t].push_back(kept_layout(TensorId(t), mesh, tilings));
      }
    }
    OneCut cut;
    size_t tensors = graph_.tensors.size();
    for (size_t t = 0; t < tensors; ++t) {
      std::vector<Cost> unary;
      for (Tiling tiling : domains_[t]) unary.push_back({0, stored(TensorId(t), state, p, tiling)});
      cut.network.unary.push_back(std::move(unary));
    }
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const OpView& v = *views_[i];
      std::vector<Cost> unary;
      for (const Aligned& a : v.aligned) unary.push_back({a.inner_cost, 0});
      cut.network.unary.push_back(std::move(unary));
      int op = static_cast<int>(tensors + i);
      const Op& o = graph_.ops[i];
      auto pair = [&](TensorId id, const std::function<int64_t(const Layout&)>& before, const std::function<int64_t(const Layout&, const Aligned&)>& after) {
        TensorId keeper = keeper_of(id);
        int64_t paid = before(kept_layout(keeper, mesh_before, state.tilings[keeper.index()]));
        CostNetwork::Pair pair{static_cast<int>(keeper.index()), op, {}};
        for (size_t d = 0; d < domains_[keeper.index()].size(); ++d)
          for (const Aligned& a : v.aligned) pair.cost.push_back({after(tile_layouts_[keeper.index()][d], a) - paid, 0});
        cut.network.pairs.push_back(std::move(pair));
      };
      for (size_t k = 0; k < o.operands.size(); ++k) {
        auto first = std::find(o.operands.begin(), o.operands.end(), o.operands[k]);
        if (first != o.operands.begin() + static_cast<std::ptrdiff_t>(k)) continue;  // read twice: converted once
        int64_t element = bytes_of(graph_.tensor(o.operands[k]).dtype);
        pair(o.operands[k], [&](const Layout& kept) { return converter_.bytes(kept, v.before.operands[k], element); },
             [&](const Layout& kept, const Aligned& a) { return converter_.bytes(kept, a.layouts.operands[k], element); });
      }
      for (size_t r = 0; r < o.results.size(); ++r) {
        int64_t element = bytes_of(graph_.tensor(o.results[r]).dtype);
        pair(o.results[r], [&](const Layout& kept) { return converter_.bytes(v.before.results[r], kept, element); },
             [&](const Layout& kept, const Aligned& a) { return converter_.bytes(a.layouts.results[r], kept, element); });
      }
    }
    level_order(cut);
    return cut;
  }

 private:
  // A replaced tensor and its new value are kept alike.
  TensorId keeper_of(TensorId id) const {
    TensorId w = graph_.tensor(id).replaces;
    return w.valid() ? w : id;
  }

  // A step of the budget is one one-cut program. Before the last cut there is no solution to return.
  void spend() {
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    if (budget_.steps && solved_ >= *budget_.steps)
      throw Error(ExitCode::kTimeLimit, fmt::format("soybean: {} one-cut programs were solved, as many as --max-steps allows, before the last cut", solved_));
    if (budget_.seconds && seconds > *budget_.seconds)
      throw Error(ExitCode::kTimeLimit, fmt::format("soybean: the time limit of {} s passed before the last cut; {} one-cut programs were solved", *budget_.seconds, solved_));
    ++solved_;
  }

  std::vector<State> one_cut(const State& state, int p, int max_solutions, bool count) {
    spend();
    OneCut cut = problem_of(state, p);
    auto solved = eliminate(cut.network, cut.level_order, max_solutions, kLevelTable);
    bool levels = solved.has_value();
    if (!solved) solved = eliminate(cut.network, small_table_order(cut.network), max_solutions, kEliminationTable);
    method_ = levels ? fmt::format("by {} breadth-first levels, tables of up to {} states", cut.levels, solved->largest_table)
              : solved ? fmt::format("by variable elimination, width {}, tables of up to {}", solved->width, solved->largest_table)
                       : "";
    if (!solved) {
      Conditioned near = eliminate_around(cut.network);
      method_ = fmt::format("by elimination around {} of {} variables in {} rounds, not proved minimal", near.held, cut.network.variables(), near.rounds);
      solved = Elimination{near.cost, {std::move(near.solution)}, 0, 0};
    }
    if (count) {
      std::string prefix = fmt::format("cut{}_", state.extents.size() + 1);
      result_.counters[prefix + "levels"] = cut.levels;
      result_.counters[prefix + "by_levels"] = levels;
      result_.counters[prefix + "width"] = solved->width;
      result_.counters[prefix + "largest_table"] = static_cast<double>(solved->largest_table);
    }
    std::vector<State> out;
    for (const std::vector<int>& values : solved->solutions) {
      State next = state;
      next.extents.push_back(p);
      for (size_t t = 0; t < graph_.tensors.size(); ++t) next.tilings[t].push_back(domains_[t][values[t]]);
      for (size_t i = 0; i < graph_.ops.size(); ++i)
        next.strategies[i].push_back(views_[i]->aligned[values[graph_.tensors.size() + i]].strategy);
      // The network counts all groups of the cuts before; delta is one group's share.
      next.deltas.push_back(static_cast<double>(solved->cost.moved) / groups(state));
      out.push_back(std::move(next));
    }
    return out;
  }

  // ------------------------------------------------------------------ what a cut may do to an op

  std::shared_ptr<const OpView> view(size_t i, const State& state, int p) {
    const Op& op = graph_.ops[i];
    auto pinned = problem_.pins.ops.find(OpId(i));
    auto key = std::make_tuple(op.bound.get(), state.strategies[i], state.extents, p, paper_[i], inner_dtype(graph_, op));
    if (pinned == problem_.pins.ops.end())
      if (auto found = known_.find(key); found != known_.end()) return found->second;
    auto v = std::make_shared<OpView>();
    const tdl::Bound& bound = *op.bound;
    auto before = derivations_.get(op.bound, state.extents, state.strategies[i]);
    ensure(before != nullptr, "op '{}': the cuts so far do not exist together", op.name);
    v->before = layouts_of(bound, *before, mesh_of(state.extents));
    if (pinned != problem_.pins.ops.end()) {
      if (pinned->second.mesh != mesh_)
        fail("pins: op '{}': soybean cuts {} devices as mesh {}, the pin has {}", op.name, mesh_.devices.size(), to_string(mesh_), to_string(pinned->second.mesh));
      add_aligned(op, state, p, *before, pinned->second.strategies[state.extents.size()], *v);
      if (v->aligned.empty()) fail("pins: op '{}': the pinned strategy does not exist", op.name);
      return v;
    }
    std::vector<tdl::AxisStrategy> offered;
    for (const tdl::AxisStrategy& s : tdl::strategies(bound, p)) {
      if (s.names.empty()) continue;
      bool in_space = all_ || (s.names.size() == 1 && paper_[i].contains(s.names[0]));
      for (const std::string& name : s.names) in_space &= left(bound, name, state, i) >= p;
      if (in_space) add_aligned(op, state, p, *before, s, *v);
    }
    if (v->aligned.empty()) add_aligned(op, state, p, *before, {}, *v);  // nothing else is left
    ensure(!v->aligned.empty(), "op '{}' can't even be replicated", op.name);
    known_[key] = v;
    return v;
  }

  // How many values of an index the smallest part of the cuts so far has.
  int64_t left(const tdl::Bound& bound, const std::string& name, const State& state, size_t i) const {
    int64_t parts = 1;
    for (size_t c = 0; c < state.extents.size(); ++c)
      for (const std::string& n : state.strategies[i][c].names)
        if (n == name) parts *= state.extents[c];
    return bound.indices[bound.find_index(name)].extent / parts;
  }

  void add_aligned(const Op& op, const State& state, int p, const tdl::Derived& before, const tdl::AxisStrategy& s, OpView& v) {
    std::vector<int> extents = state.extents;
    extents.push_back(p);
    std::vector<tdl::AxisStrategy> strategies = before.axes;
    strategies.push_back(s);
    auto derived = derivations_.get(op.bound, extents, strategies);
    if (!derived) return;
    Mesh mesh = mesh_of(extents);
    Aligned a{s, layouts_of(*op.bound, *derived, mesh), {}, {}, 0};
    for (const Layout& layout : a.layouts.operands) a.operands.push_back(split_at(layout));
    for (const Layout& layout : a.layouts.results) a.results.push_back(split_at(layout));
    int64_t element = bytes_of(inner_dtype(graph_, op));
    if (!derived->inner.empty()) a.inner_cost = inner_bytes(*op.bound, *derived, mesh, element, problem_.cluster);
    if (!before.inner.empty()) a.inner_cost -= inner_bytes(*op.bound, before, mesh_of(state.extents), element, problem_.cluster);
    v.aligned.push_back(std::move(a));
  }

  // Where the last cut splits a layout, named or not: the axis on which the boxes of its groups differ.
  static SplitAt split_at(const Layout& layout) {
    if (layout.kinds.back()) return {};
    int parts = layout.mesh.extents.back();
    size_t at = 0;
    for (size_t axis = 0; axis < layout.radices.size(); ++axis)
      for (size_t digit = 0; digit < layout.radices[axis].size(); ++digit, ++at)
        for (int p = 0; p < layout.mesh.positions(); ++p)
          if (layout.boxes[p][at] != layout.boxes[p / parts * parts][at]) return {static_cast<int>(axis), digit};
    return {};
  }

  // The tiling of a tensor that this split of one of its layouts comes to.
  Tiling tiling_of(TensorId id, const Layout& layout, const SplitAt& split) const {
    if (split.axis < 0) return kWhole;
    const std::vector<Shape>& radices = radices_[id.index()];
    Tiling first = 0;
    for (int axis = 0; axis < split.axis; ++axis) first += static_cast<Tiling>(radices[axis].size());
    if (radices[split.axis].size() == 1) return first;
    const auto counts = radices_within(radices[split.axis], layout.radices[split.axis]);
    if (!counts) return kWhole;
    size_t past = 0;
    for (size_t digit = 0; digit < counts->size(); ++digit)
      if (past += (*counts)[digit]; split.digit < past) return first + static_cast<Tiling>(digit);
    return kWhole;
  }

  // A tiling as a name, and how many values it divides.
  Sbp sbp_of(TensorId id, Tiling tiling) const {
    if (tiling == kWhole) return Sbp::broadcast();
    int axis = 0;
    for (const Shape& radices : radices_[id.index()]) {
      if (tiling < static_cast<Tiling>(radices.size())) return Sbp::split(axis, tiling);
      tiling -= static_cast<Tiling>(radices.size());
      ++axis;
    }
    ensure(false, "tensor '{}' has no such tiling", graph_.tensor(id).name);
    return {};
  }
  int64_t extent_of(TensorId id, Tiling tiling) const {
    const Sbp sbp = sbp_of(id, tiling);
    return radices_[id.index()][sbp.axis][sbp.sub_axis];
  }

  static int groups(const State& state) { return std::accumulate(state.extents.begin(), state.extents.end(), 1, std::multiplies<>()); }

  // The mesh of the first few cuts: one device stands for each group.
  Mesh mesh_of(const std::vector<int>& extents) const {
    Mesh mesh{extents, {}};
    size_t positions = 1;
    for (int e : extents) positions *= static_cast<size_t>(e);
    for (size_t g = 0; g < positions; ++g) mesh.devices.push_back(mesh_.devices[g * (mesh_.devices.size() / positions)]);
    return mesh;
  }

  // A tensor by its tiling on each of a mesh's axes.
  Layout kept_layout(TensorId id, const Mesh& mesh, const std::vector<Tiling>& tilings) const {
    NdSbp sbp;
    for (Tiling tiling : tilings) sbp.push_back(sbp_of(id, tiling));
    return make_layout(mesh, sbp, radices_[id.index()]);
  }

  // ------------------------------------------------------------------ what a cut may do to a tensor

  // Replicated, or split on an axis that some op wants split: another axis would only be converted again.
  std::vector<Tiling> domain(TensorId id, const State& state, int p) const {
    const Tensor& tensor = graph_.tensor(id);
    if (tensor.replaces.valid()) return {kWhole};  // stands for nothing: its keeper is asked
    if (auto pin = problem_.pins.kept.find(id); pin != problem_.pins.kept.end()) {
      if (pin->second.mesh != mesh_) fail("pins: tensor '{}': soybean cuts the devices as mesh {}, the pin has {}", tensor.name, to_string(mesh_), to_string(pin->second.mesh));
      const Sbp& sbp = pin->second.sbp[state.extents.size()];
      if (sbp.kind == Sbp::Kind::kPartial) fail("pins: tensor '{}': soybean keeps no partial values", tensor.name);
      if (sbp.kind != Sbp::Kind::kSplit) return {kWhole};
      Tiling tiling = sbp.sub_axis;
      for (int axis = 0; axis < sbp.axis; ++axis) tiling += static_cast<Tiling>(radices_[id.index()][axis].size());
      return {tiling};
    }
    std::set<Tiling> wanted;
    auto want = [&](Tiling t) {
      if (t != kWhole) wanted.insert(t);
    };
    auto ask = [&](TensorId t) {
      for (const Reader& reader : read_by_[t.index()])
        for (const Aligned& a : views_[reader.op.index()]->aligned)
          want(tiling_of(id, a.layouts.operands[reader.operand], a.operands[reader.operand]));
      if (!graph_.tensor(t).producer.valid()) return;
      const Op& op = graph_.op(graph_.tensor(t).producer);
      size_t r = static_cast<size_t>(std::find(op.results.begin(), op.results.end(), t) - op.results.begin());
      for (const Aligned& a : views_[graph_.tensor(t).producer.index()]->aligned) want(tiling_of(id, a.layouts.results[r], a.results[r]));
    };
    ask(id);
    if (TensorId next = graph_.replacement_of(id); next.valid()) ask(next);
    std::vector<Tiling> out;
    for (Tiling tiling : wanted) {
      int64_t parts = 1;
      for (size_t c = 0; c < state.extents.size(); ++c)
        if (state.tilings[id.index()][c] == tiling) parts *= state.extents[c];
      if (extent_of(id, tiling) / parts >= p) out.push_back(tiling);
    }
    out.push_back(kWhole);
    return out;
  }

  int64_t stored(TensorId id, const State& state, int p, Tiling tiling) const {
    int64_t bytes = graph_.tensor(id).bytes();
    for (size_t c = 0; c < state.extents.size(); ++c)
      if (state.tilings[id.index()][c] != kWhole) bytes /= state.extents[c];
    return tiling == kWhole ? bytes * p : bytes;
  }

  // ------------------------------------------------------------------ breadth-first levels

  // Section 4.2.2: ops that share a tensor stand in adjacent levels. Variables go level by level: first the ops of a level,
  // then the tensors that no later level uses; the tables left between are the states tau_l of equation (5).
  void level_order(OneCut& cut) const {
    size_t tensors = graph_.tensors.size(), n = graph_.ops.size();
    std::vector<std::vector<int>> ops_of(tensors);  // by keeper
    for (size_t i = 0; i < n; ++i) {
      std::set<size_t> mine;
      for (TensorId t : graph_.ops[i].operands) mine.insert(keeper_of(t).index());
      for (TensorId t : graph_.ops[i].results) mine.insert(keeper_of(t).index());
      for (size_t t : mine) ops_of[t].push_back(static_cast<int>(i));
    }
    std::vector<int> level(n, -1);
    int deepest = 0;
    for (size_t start = 0; start < n; ++start) {
      if (level[start] >= 0) continue;
      std::deque<size_t> queue = {start};
      level[start] = 0;
      while (!queue.empty()) {
        size_t i = queue.front();
        queue.pop_front();
        deepest = std::max(deepest, level[i]);
        auto spread = [&](TensorId id) {
          // A scalar is whole everywhere: it ties no tilings together.
          if (domains_[keeper_of(id).index()].size() < 2) return;
          for (int j : ops_of[keeper_of(id).index()])
            if (level[j] < 0) level[j] = level[i] + 1, queue.push_back(static_cast<size_t>(j));
        };
        for (TensorId t : graph_.ops[i].operands) spread(t);
        for (TensorId t : graph_.ops[i].results) spread(t);
      }
    }
    cut.levels = deepest + 1;
    std::vector<std::vector<int>> gone(deepest + 1);
    for (size_t i = 0; i < n; ++i) gone[level[i]].push_back(static_cast<int>(tensors + i));
    for (size_t t = 0; t < tensors; ++t) {
      int last = 0;
      if (domains_[t].size() > 1)
        for (int i : ops_of[t]) last = std::max(last, level[i]);
      gone[last].push_back(static_cast<int>(t));
    }
    for (std::vector<int>& level_vars : gone) {
      std::stable_partition(level_vars.begin(), level_vars.end(), [&](int v) { return v >= static_cast<int>(tensors); });
      cut.level_order.insert(cut.level_order.end(), level_vars.begin(), level_vars.end());
    }
  }

  Plan make_plan(const State& state) const {
    Plan plan;
    for (size_t i = 0; i < graph_.ops.size(); ++i) plan.ops.push_back({mesh_, state.strategies[i]});
    for (size_t t = 0; t < graph_.tensors.size(); ++t) {
      if (graph_.tensors[t].replaces.valid()) continue;
      Placement kept{mesh_, {}, {}};
      for (Tiling tiling : state.tilings[t]) kept.sbp.push_back(sbp_of(TensorId(t), tiling));
      if (std::any_of(radices_[t].begin(), radices_[t].end(), [](const Shape& r) { return r.size() > 1; })) kept.radices = radices_[t];
      plan.kept[TensorId(t)] = std::move(kept);
    }
    plan.search = all_ ? "soybean?tilings=all" : "soybean";
    return plan;
  }

  const Graph& graph_;
  const Problem& problem_;
  const Budget budget_;
  const std::chrono::steady_clock::time_point start_;
  int64_t solved_ = 0;
  bool all_;
  Mesh mesh_;
  std::vector<std::vector<Reader>> read_by_;
  std::vector<std::set<std::string>> paper_;  // by op: the indices of section 4.5
  std::vector<std::shared_ptr<const OpView>> views_;
  std::vector<std::vector<Tiling>> domains_;
  std::vector<std::vector<Shape>> radices_;  // by tensor, per stored axis: what a tiling may split
  DerivationCache derivations_;
  std::vector<std::vector<Layout>> tile_layouts_;  // by tensor, by value of its domain
  Converter converter_;
  std::map<std::tuple<const tdl::Bound*, std::vector<tdl::AxisStrategy>, std::vector<int>, int, std::set<std::string>, DType>,
           std::shared_ptr<const OpView>>
      known_;
  SearchResult result_;
  std::string method_;  // of the last cut, for the reader
};

class SoyBean final : public Searcher {
 public:
  SearchResult search(const Problem& problem, const Budget& budget, Rng&) const override {
    auto tilings = problem.options.find("tilings");
    return KCuts(problem, budget, tilings != problem.options.end() && tilings->second == "all").run();
  }
};

}  // namespace

std::unique_ptr<Searcher> make_soybean() { return std::make_unique<SoyBean>(); }

std::vector<std::string> paper_indices(const Graph& graph, const Op& op) {
  const tdl::Bound& bound = *op.bound;
  bool product = false, convolution = false, other = false;
  std::vector<int> tangled;
  for (const tdl::Stage& stage : bound.stages) {
    bool plain_lhs = std::all_of(stage.lhs.begin(), stage.lhs.end(), [](const tdl::Affine& a) { return a.plain_index() >= 0; });
    if (stage.body.kind == tdl::ExprKind::kReduce) {
      const tdl::Expr& body = stage.body.args[0];
      if (stage.body.reducer != tdl::Reducer::kSum || !is_product(body) || !plain_lhs) other = true;
      else if (body.kind != tdl::ExprKind::kIf && reads_plainly(body)) product = true;
      else convolution = true;
      entangled(body, false, tangled);
    } else if (!reads_plainly(stage.body) || !plain_lhs) {
      other = true;
    }
  }
  std::vector<std::string> names;
  bool all = tdl::is_elementwise(bound) || (product && !convolution && !other);
  if (all || (convolution && !other)) {
    for (size_t i = 0; i < bound.indices.size(); ++i)
      if (bound.indices[i].splittable && (all || std::find(tangled.begin(), tangled.end(), static_cast<int>(i)) == tangled.end())) names.push_back(bound.indices[i].name);
  } else {
    names = sample_indices(graph, op);
  }
  return names;
}

OneCut one_cut_problem(const Graph& graph, const Cluster& cluster, bool all_tilings) {
  Problem problem{graph, cluster, "comm", {}, {}};
  KCuts cuts(problem, {}, all_tilings);
  State state{{}, std::vector<std::vector<tdl::AxisStrategy>>(graph.ops.size()), std::vector<std::vector<Tiling>>(graph.tensors.size()), {}};
  return cuts.problem_of(state, prime_factors(cluster.compute_count)[0]);
}

}  // namespace partita
