// Implements SoyBean's one-cut program by breadth-first levels, and its k-cuts recursion.
#include "partita/search/cuts/soybean.h"

#include <algorithm>
#include <deque>
#include <set>

#include "partita/base/error.h"
#include "partita/base/prime_factors.h"
#include "partita/plan/rules.h"
#include "partita/search/cuts/one_cut.h"
#include "partita/tdl/affine.h"

namespace partita {

namespace {

constexpr int kFollowed = 4;                             // cuts of equal cost that are followed one cut further
constexpr int64_t kLevelTable = int64_t{1} << 16;        // states of a breadth-first level that are still tabulated
constexpr int64_t kEliminationTable = int64_t{1} << 22;  // entries of a table of variable elimination

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
  for (size_t i = 0; i < e.args.size(); ++i)
    entangled(e.args[i], in_guard || (e.kind == tdl::ExprKind::kIf && i == 0), out);
}

// A product of two reads, maybe under guards.
bool is_product(const tdl::Expr& e) {
  if (e.kind == tdl::ExprKind::kIf)
    return e.args[2].kind == tdl::ExprKind::kNumber && e.args[2].number == 0 && is_product(e.args[1]);
  return e.kind == tdl::ExprKind::kBinary && e.function == "*" && e.args[0].kind == tdl::ExprKind::kRead &&
         e.args[1].kind == tdl::ExprKind::kRead;
}

CutSpace space_of(const Graph& graph, bool all_tilings) {
  if (all_tilings) return {"soybean?tilings=all", [](OpId, const tdl::AxisStrategy&) { return true; }};
  std::vector<std::set<std::string>> paper;  // by op: the indices of section 4.5
  for (const Op& op : graph.ops) {
    std::vector<std::string> names = paper_indices(graph, op);
    paper.emplace_back(names.begin(), names.end());
  }
  return {"soybean", [paper](OpId op, const tdl::AxisStrategy& s) {
            return s.names.size() == 1 && paper[op.index()].contains(s.names[0]);
          }};
}

struct Levels {
  std::vector<int> order;  // of the cut's variables
  int count = 0;
};

// Section 4.2.2: ops that share a tensor stand in adjacent levels. Variables go level by level: first the ops of a
// level, then the tensors that no later level uses. The tables left between are the states tau_l of equation (5).
Levels breadth_first(const Cuts& cuts, const OneCut& cut) {
  const Graph& graph = cuts.graph();
  size_t tensors = graph.tensors.size(), n = graph.ops.size();
  std::vector<std::vector<int>> ops_of(tensors);  // by keeper
  for (size_t i = 0; i < n; ++i) {
    std::set<size_t> mine;
    for (TensorId t : graph.ops[i].operands) mine.insert(cuts.keeper_of(t).index());
    for (TensorId t : graph.ops[i].results) mine.insert(cuts.keeper_of(t).index());
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
        if (cut.tilings[cuts.keeper_of(id).index()].size() < 2) return;
        for (int j : ops_of[cuts.keeper_of(id).index()])
          if (level[j] < 0) level[j] = level[i] + 1, queue.push_back(static_cast<size_t>(j));
      };
      for (TensorId t : graph.ops[i].operands) spread(t);
      for (TensorId t : graph.ops[i].results) spread(t);
    }
  }
  Levels levels{{}, deepest + 1};
  std::vector<std::vector<int>> gone(deepest + 1);
  for (size_t i = 0; i < n; ++i) gone[level[i]].push_back(static_cast<int>(tensors + i));
  for (size_t t = 0; t < tensors; ++t) {
    int last = 0;
    if (cut.tilings[t].size() > 1)
      for (int i : ops_of[t]) last = std::max(last, level[i]);
    gone[last].push_back(static_cast<int>(t));
  }
  for (std::vector<int>& level_vars : gone) {
    std::stable_partition(level_vars.begin(), level_vars.end(), [&](int v) { return v >= static_cast<int>(tensors); });
    levels.order.insert(levels.order.end(), level_vars.begin(), level_vars.end());
  }
  return levels;
}

class KCuts {
 public:
  KCuts(const Problem& problem, const Budget& budget, bool all_tilings)
      : cuts_(problem, space_of(problem.graph, all_tilings), prime_factors(problem.cluster.compute_count), budget) {}

  SearchResult run() {
    const std::vector<int>& factors = cuts_.mesh().extents;
    State state{cuts_.start(), {}};
    for (size_t c = 0; c < factors.size(); ++c) {
      std::vector<State> equal = one_cut(state, kFollowed, true);
      std::string method = method_;
      size_t best = 0;
      double best_delta = 0;
      for (size_t i = 0; equal.size() > 1 && c + 1 < factors.size() && i < equal.size(); ++i) {
        double delta = one_cut(equal[i], 1, false)[0].deltas.back();
        if (i == 0 || delta < best_delta) best = i, best_delta = delta;
      }
      state = equal[best];
      result_.notes.push_back(fmt::format("cut {} into {}: delta_{} = {:.6g} bytes, {}; {} of equal cost followed",
                                          c + 1, factors[c], factors.size() - c, state.deltas.back(), method,
                                          equal.size()));
    }
    double total = 0;  // c_k = delta_k + p c_(k-1)
    for (size_t c = factors.size(); c-- > 0;) total = state.deltas[c] + factors[c] * total;
    result_.plan = cuts_.plan(state.cuts);
    result_.plan->paper_cost = total;
    result_.notes.push_back(fmt::format("c_{} = {:.6g} bytes", factors.size(), total));
    return std::move(result_);
  }

 private:
  struct State {
    CutState cuts;
    std::vector<double> deltas;  // bytes of one group, outermost cut first
  };

  std::vector<State> one_cut(const State& state, int max_solutions, bool count) {
    const OneCut cut = cuts_.next(state.cuts);
    const Levels order = breadth_first(cuts_, cut);
    auto solved = eliminate(cut.network, order.order, max_solutions, kLevelTable, cuts_.watch());
    bool levels = solved.has_value();
    if (!solved)
      solved = eliminate(cut.network, small_table_order(cut.network, cuts_.watch()), max_solutions, kEliminationTable,
                         cuts_.watch());
    method_ =
        levels
            ? fmt::format("by {} breadth-first levels, tables of up to {} states", order.count, solved->largest_table)
        : solved
            ? fmt::format("by variable elimination, width {}, tables of up to {}", solved->width, solved->largest_table)
            : "";
    if (!solved) {
      Conditioned near = eliminate_around(cut.network, cuts_.watch());
      method_ = fmt::format("by elimination around {} of {} variables in {} rounds, not proved minimal", near.held,
                            cut.network.variables(), near.rounds);
      solved = Elimination{near.cost, {std::move(near.solution)}, 0, 0};
    }
    if (count) {
      std::string prefix = fmt::format("cut{}_", state.deltas.size() + 1);
      result_.counters[prefix + "levels"] = order.count;
      result_.counters[prefix + "by_levels"] = levels;
      result_.counters[prefix + "width"] = solved->width;
      result_.counters[prefix + "largest_table"] = static_cast<double>(solved->largest_table);
    }
    std::vector<State> out;
    for (const std::vector<int>& values : solved->solutions) {
      State next{cuts_.after(state.cuts, cut, values), state.deltas};
      // The network counts all groups of the cuts before; delta is one group's share.
      next.deltas.push_back(static_cast<double>(solved->cost.moved) / groups_of(state.cuts.extents));
      out.push_back(std::move(next));
    }
    return out;
  }

  Cuts cuts_;
  SearchResult result_;
  std::string method_;  // of the last cut, for the reader
};

SearchResult search(const Problem& problem, const Budget& budget, Rng&) {
  auto tilings = problem.options.find("tilings");
  return KCuts(problem, budget, tilings != problem.options.end() && tilings->second == "all").run();
}

}  // namespace

SearchEntry soybean_search() {
  return {.name = "soybean",
          .source = "SoyBean",
          .summary = "one-cut tiling program and k-cuts recursion, slowest link first",
          .options = {{"tilings", {"paper", "all"}}},
          .search = search,
          .offers = {.initial = {.work = cuts_work, .every = {"tilings"}, .applies = soybean_is_quick}}};
}

bool soybean_is_quick(const Problem& problem, const Budget& budget) {
  constexpr int64_t kTable = int64_t{1} << 16;
  const Problem free{problem.graph, problem.cluster};
  Cuts cuts(free, space_of(problem.graph, true), prime_factors(problem.cluster.compute_count), budget);
  return fits_elimination(cuts.next(cuts.start()).network, kTable, cuts.watch());
}

std::vector<std::string> paper_indices(const Graph& graph, const Op& op) {
  const tdl::Bound& bound = *op.bound;
  bool product = false, convolution = false, other = false;
  std::vector<int> tangled;
  for (const tdl::Stage& stage : bound.stages) {
    bool plain_lhs =
        std::all_of(stage.lhs.begin(), stage.lhs.end(), [](const tdl::Affine& a) { return a.plain_index() >= 0; });
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
      if (bound.indices[i].splittable &&
          (all || std::find(tangled.begin(), tangled.end(), static_cast<int>(i)) == tangled.end()))
        names.push_back(bound.indices[i].name);
  } else {
    names = sample_indices(graph, op);
  }
  return names;
}

FirstCut soybean_first_cut(const Graph& graph, const Cluster& cluster, bool all_tilings) {
  const Problem problem{graph, cluster};
  Cuts cuts(problem, space_of(graph, all_tilings), prime_factors(cluster.compute_count));
  const OneCut cut = cuts.next(cuts.start());
  return {cut.network, breadth_first(cuts, cut).order};
}

}  // namespace partita
