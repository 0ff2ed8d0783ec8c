// Runs the stages that make a network small before any search: elimination at once, and merging.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/solver/budget.h"
#include "partita/solver/eliminate.h"
#include "partita/solver/merge.h"
#include "partita/solver/state.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

namespace {

int64_t bytes_at_once(const Options& options) {
  return std::min(options.elimination_bytes, options.at_once * static_cast<int64_t>(sizeof(int64_t)));
}

// The budget of a merged network. If a certificate of the network itself is to follow, it is a part, and near is
// enough.
Options for_merged(const SolveState& s) {
  const Options& options = s.options;
  Options inside = options;
  inside.certify = false;
  inside.start.reset();
  inside.proving = nullptr;
  if (!options.certify) return inside;
  const Tuning::Merge& t = kTuning.merge;
  inside.gap = std::max(options.gap, t.near);
  inside.deadline = share_of_time(options, t.share_of_time);
  const double steps = t.share_of_steps * static_cast<double>(options.max_steps.value_or(0));
  if (options.max_steps) inside.max_steps = std::max<int64_t>(1, static_cast<int64_t>(steps));
  else if (!options.deadline) inside.max_steps = t.steps;
  return inside;
}

}  // namespace

bool has_small_tables(const SolveState& s) {
  return static_cast<double>(sizeof(int64_t)) * count_table_entries(s.network) <=
         static_cast<double>(bytes_at_once(s.options));
}

// Finds the optimum and its proof, if the limit does not exclude elimination's result. A solution that costs as much
// stays.
void eliminate_at_once(SolveState& s) {
  const auto plan = plan_elimination(s.network, bytes_at_once(s.options));
  if (!plan || plan->work > s.options.at_once) return;
  const auto least = eliminate(s.network, *plan, [&] { return is_stopped(s.options); });
  if (!least) return;
  Result r;
  r.status = Status::kInfeasible;
  if (least->solution) {
    r.status = Status::kOptimal;
    r.bound = r.certificate.bound = r.cost = least->cost;
    r.solution = s.solution && s.cost == least->cost ? s.solution : least->solution;
    if (!evaluate(s.network, *r.solution).feasible) return;
  }
  Certificate::Leaf leaf;
  leaf.order = plan->order;
  r.certificate.leaves = {std::move(leaf)};
  r.counters = {{"eliminated", 1}, {"width", plan->width}};
  if (s.options.tell)
    s.options.tell(fmt::format("eliminated: width {}, largest table {} entries, and nothing else was to be done",
                               plan->width, plan->largest_table));
  s.result = std::move(r);
}

bool is_not_merged(const SolveState& s) { return s.may_merge && !s.options.messages; }

// Without a certificate to follow, the merged network's answer is the answer; else it is a start, and a bound.
void solve_merged(SolveState& s) {
  const Network& network = s.network;
  const Merging merging(network);
  if (merging.infeasible() || merging.merged() < kTuning.merge.least_merged * network.variables()) return;
  const Network merged = merging.network();
  if (s.options.tell)
    s.options.tell(fmt::format("merged: {} variables that others decide, {:.0f} table entries to {:.0f}",
                               merging.merged(), count_table_entries(network), count_table_entries(merged)));
  SolveState inside(merged, for_merged(s));
  if (s.solution) inside.options.start = merging.lowered(*s.solution);
  inside.may_merge = false;
  Result r = solve_by_stages(inside);
  r.certificate = {};
  if (r.solution) {
    r.solution = merging.lifted(*r.solution);
    const Evaluation e = evaluate(network, *r.solution);
    ensure(e.feasible && e.cost == r.cost, "a solution of {} becomes one of {} in the network that was merged",
           to_string(r.cost), to_string(e.cost));
  }
  s.counters["merged"] = merging.merged();
  if (!s.options.certify) {
    s.result = std::move(r);
    return;
  }
  if (r.solution && (!s.solution || r.cost < s.cost)) s.options.start = r.solution;
  s.merged_bound = r.bound;
}

}  // namespace partita::solver
