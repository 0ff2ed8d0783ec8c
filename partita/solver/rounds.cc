// Solves a network in rounds: reduces it, solves the rest, and maps solution and certificate back to the network.
#include "partita/solver/rounds.h"

#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/solver/budget.h"
#include "partita/solver/reduce.h"
#include "partita/solver/round_state.h"
#include "partita/solver/steps.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

namespace {

bool is_close_enough(const RoundState& r) {
  return r.options.gap > 0 && r.best.solution &&
         static_cast<double>(r.best.cost) - r.branch->bound() <=
             r.options.gap * std::abs(static_cast<double>(r.best.cost));
}

void add_counters(RoundState& r) {
  auto& counters = r.result.counters;
  counters["rounds"] = static_cast<double>(r.round);
  counters["parts"] = static_cast<double>(r.branch->parts());
  counters["passes"] = static_cast<double>(r.branch->passes());
  counters["work"] = static_cast<double>(r.branch->work());
  counters["restarts"] = static_cast<double>(r.primal->restarts());
  for (const auto& [count, number] : r.counters) counters[count] += number;
}

// Makes the certificate, or the bound in its place.
void conclude(RoundState& r) {
  if (r.proof) {
    Certificate::Leaf leaf;
    leaf.order = r.proof->order;
    r.result.certificate.bound = r.computed;
    r.result.certificate.leaves = {std::move(leaf)};
  } else if (r.what == Purpose::kItself && !r.computes()) {
    if (r.options.certify || !r.settled()) r.result.certificate = r.branch->certificate();
  } else if (r.branch->done()) {
    if (r.best.solution) r.computed = r.best.cost;
    else r.nothing = true;
  } else if (r.what == Purpose::kItself) {
    r.note(r.branch->bound(), r.branch->most_prices(), r.computed);
  }
}

Result finished(RoundState& r) {
  Result& result = r.result;
  result.bound = result.certificate.bound;
  const bool empty = !result.bound && !result.certificate.leaves.empty();  // a bound is still to be proved
  if (r.computed && !empty && (!result.bound || *r.computed > *result.bound)) result.bound = r.computed;
  if (!r.best.solution) {
    if (r.nothing) result.bound.reset();
    result.status = r.nothing || empty ? Status::kInfeasible : Status::kUnknown;
    return std::move(result);
  }
  ensure(result.bound ? *result.bound <= r.best.cost : r.what != Purpose::kItself || r.computes(),
         "a bound of {} above a solution of {}", to_string(result.bound.value_or(0)), to_string(r.best.cost));
  result.solution = r.best_of_network();
  result.cost = r.best.cost;
  result.status = result.bound == r.best.cost ? Status::kOptimal : Status::kFeasible;
  return std::move(result);
}

// Solves a reduced network. Its solutions, bounds and leaves are those of the reduced network too.
Result in_rounds(RoundState& r) {
  if (!propagate(r.model, r.alive)) {
    r.result.certificate.leaves.emplace_back();
    return finished(r);
  }
  r.elimination = plan_elimination(r.network, r.options.elimination_bytes);
  if (r.elimination) r.result.counters["width"] = r.elimination->width;
  r.branch.emplace(r.model, r.checker, r.alive, r.options.messages.get());
  r.primal.emplace(r.model, r.alive, r.rng.next());
  if (r.options.start) r.consider(r.best, r.completed(*r.options.start));
  while (!r.branch->done() && !r.stop() && !is_close_enough(r)) {
    if (r.options.max_steps && r.round >= *r.options.max_steps) break;
    run_round(r);
    if (r.ended) break;
    ++r.round;
  }
  add_counters(r);
  conclude(r);
  return finished(r);
}

void tell_reduction(const Network& network, const Reduction& reduction, const Options& options) {
  const auto& counts = reduction.counts();
  if (!options.tell || counts.empty()) return;
  auto count = [&](const char* rule) { return counts.contains(rule) ? counts.at(rule) : 0; };
  const Network& reduced = reduction.reduced();
  options.tell(fmt::format(
      "reduced: {} variables to {} ({} of degree one, {} of degree two), {} edges to {}, {} values dominated",
      network.variables(), reduced.variables(), count("degree_one"), count("degree_two"), network.edges.size(),
      reduced.edges.size(), count("dominated")));
}

}  // namespace

Result solve_reduced(const Network& network, const Options& options, Purpose what) {
  const Reduction reduction(network);
  Options inside = options;
  if (options.start) inside.start = reduction.lowered(*options.start);
  if (options.messages) inside.messages = std::make_shared<Certificate::Leaf>(reduction.lowered(*options.messages));
  tell_reduction(network, reduction, options);
  OfOriginal original;
  original.plan_to_prove = [&] { return plan_to_prove(network, options.elimination_bytes); };
  Result in_steps;
  original.in_steps = [&](const Assignment& solution, const Certificate::Leaf& messages) {
    Options of_steps = options;
    of_steps.deadline = share_of_time(options, kTuning.steps.share_of_time_in_rounds);
    in_steps = solve_in_steps(network, reduction.lifted(solution), reduction.lifted(messages), of_steps);
    return is_closed(in_steps, options.gap);
  };
  RoundState rounds(reduction.reduced(), inside, what, reduction.headroom(), largest_total_cost(network),
                    std::move(original));
  Result r = in_rounds(rounds);
  for (const auto& [rule, times] : reduction.counts()) r.counters[rule] = times;
  r.counters["reduced_variables"] = reduction.reduced().variables();
  if (is_closed(in_steps, options.gap)) {
    in_steps.counters = std::move(r.counters);
    return in_steps;
  }
  if (r.solution) {
    r.solution = reduction.lifted(*r.solution);
    const Evaluation e = evaluate(network, *r.solution);
    ensure(e.feasible && e.cost == r.cost, "a solution of {} becomes one of {} in the network that was reduced",
           to_string(r.cost), to_string(e.cost));
  }
  for (Certificate::Leaf& leaf : r.certificate.leaves)
    if (leaf.order.empty()) leaf = reduction.lifted(leaf);
  return r;
}

Result solve_rest(const Subset& rest, const Options& options, Purpose what, Wide cost) {
  Options inside = options;
  if (options.progress)
    inside.progress = [&](Progress p) {
      if (!p.cost || *p.cost > cost) p.cost = cost;
      if (p.bound) p.bound = std::min(*p.bound, *p.cost);
      options.progress(p);
    };
  Result r = solve_reduced(rest.network(), inside, what);
  if (r.solution) r.solution = rest.whole(*r.solution);
  if (r.status == Status::kInfeasible || (r.bound && *r.bound > cost)) r.bound = cost;
  r.certificate = {};
  return r;
}

}  // namespace partita::solver
