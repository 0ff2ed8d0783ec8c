// Searches in rounds: elimination when its turn has come, the dual beside local search, and the proofs and reports.
#include <algorithm>
#include <future>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/run_async.h"
#include "partita/solver/round_state.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

namespace {

// Table entries that each side reads in a round.
int64_t work_of_round(const RoundState& r) {
  return std::clamp<int64_t>(2 * kTuning.round.passes * r.model.entries, kTuning.round.least_work,
                             kTuning.round.most_work);
}

// Tells whether the dual works alone. Local search has nothing to begin with yet, or nothing to find any more. Or it
// has found nothing for long while the dual advances, which alone would be faster: they share memory bandwidth.
bool is_for_dual_alone(const RoundState& r) {
  return r.round == 0 || r.settled() ||
         (r.closing && r.without > r.options.patience && r.round % kTuning.round.now_and_then != 0);
}

}  // namespace

bool always(const RoundState&) { return true; }

bool is_elimination_due(const RoundState& r) {
  return r.elimination && r.branch->work() + work_of_round(r) >= kTuning.round.elimination_slower * r.elimination->work;
}

// Finds the optimum without the limit: a bound, and the solution if it keeps the limit.
void eliminate_reduced(RoundState& r) {
  const EliminationPlan plan = *std::exchange(r.elimination, std::nullopt);
  const double before = r.seconds();
  if (const auto found = eliminate(r.network, plan, [&] { return r.stop(); })) {
    ++r.result.counters["eliminated"];
    if (found->solution) r.consider(r.best, r.completed(*found->solution));
    if (found->solution) r.computed = found->cost;
    else r.nothing = true;
    if (r.options.tell)
      r.options.tell(
          fmt::format("eliminated: width {}, largest table {} entries, {:.2f} s{}", plan.width, plan.largest_table,
                      r.seconds() - before,
                      r.settled() ? "" : fmt::format("; the least without the limit is {}", to_string(found->cost))));
  }
  if (!r.settled()) return;
  if (r.options.certify && r.what == Purpose::kItself) r.proof = r.original.plan_to_prove();
  r.ended = !r.options.certify || r.proof;
}

void work_on_both_sides(RoundState& r) {
  const int64_t work = work_of_round(r);
  Best below = r.best, above = r.best;  // each side's own until the round ends
  auto stop = [&] { return r.stop(); };
  auto dual = [&] {
    r.branch->advance(
        work, below.known(),
        [&](const Assignment& x) {
          r.consider(below, x);
          return below.known();
        },
        stop);
  };
  auto improve = [&] {
    r.primal->advance(
        work, [&](const Assignment& x) { r.consider(above, x); }, stop);
  };
  if (is_for_dual_alone(r)) {
    dual();
  } else if (r.options.threads < 2) {
    dual();
    improve();
  } else {
    auto other = run_async(improve);
    dual();
    other.get();
  }
  ++r.without;
  for (const Best& b : {below, above})
    if (b.solution && (!r.best.solution || b.cost < r.best.cost)) r.best = b, r.without = 0;
  const double now = r.best.solution ? static_cast<double>(r.best.cost) - r.branch->bound() : kInfinity;
  r.closing = now < kTuning.round.getting_on * r.gap;
  r.gap = now;
  r.primal->guide(r.branch->rounded(), r.branch->believed(), r.branch->prices());
  if (r.best.solution) r.primal->best(*r.best.solution);
}

bool is_told_or_timed(const RoundState& r) {
  return r.what == Purpose::kItself && (r.options.progress || r.options.deadline);
}

// Reserves as much time for the last certificate as this one makes likely.
void prove(RoundState& r) {
  if (r.computes()) return r.note(r.branch->bound(), r.branch->most_prices(), r.proved);
  if (r.stop()) return;  // the last certificate comes now
  if (r.proved_at < 0) {
    const double whole =
        r.options.deadline ? std::chrono::duration<double>(*r.options.deadline - r.began).count() : kInfinity;
    if (r.model.entries > kTuning.prove.long_entries &&
        r.seconds() < std::min(kTuning.prove.first_seconds, kTuning.prove.share_of_time * whole))
      return;
  } else if (r.proving_seconds > kTuning.prove.share_of_time * (r.seconds() - r.proved_at)) {
    return;
  }
  const double before = r.seconds();
  if (const auto bound = r.branch->certificate().bound; bound && (!r.proved || *bound > *r.proved)) r.proved = bound;
  r.proved_at = r.seconds();
  r.proving_seconds = r.proved_at - before;
  r.reserve = kTuning.prove.margin * r.proving_seconds;
}

void report(RoundState& r) {
  if (!r.options.progress || r.seconds() - r.reported < 1) return;
  r.reported = r.seconds();
  r.options.progress({r.best.known(), r.proved, r.seconds()});
}

bool gives_up(const RoundState& r) { return r.what != Purpose::kItself && r.without >= kTuning.round.giving_up; }

void end(RoundState& r) { r.ended = true; }

}  // namespace partita::solver
