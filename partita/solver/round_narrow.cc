// Narrows in rounds once the gap is small: solves the values that may beat the best solution, proves in steps, and
// solves cores.
#include <algorithm>
#include <cmath>

#include "partita/solver/round_state.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

namespace {

using Clock = std::chrono::steady_clock;

double root_gap(const RoundState& r) { return static_cast<double>(r.best.cost) - r.branch->root_bound(); }

// Tells whether the gap is small enough for most values to cost more than the best solution, and smaller than at the
// last narrowing.
bool is_near(const RoundState& r) {
  if (!r.best.solution || r.branch->done() || r.settled()) return false;
  return root_gap(r) <=
         std::min(kTuning.round.near * std::abs(static_cast<double>(r.best.cost)), kTuning.round.nearer * r.looked_at);
}

// Starts the narrowed network with all that is known of the whole, and leaves time for the certificate, which comes
// after it.
void begin_with(RoundState& r, const Subset& rest, Options& inside) {
  if (r.options.deadline)
    *inside.deadline -= std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(r.reserve));
  inside.seed = r.rng.next();
  inside.start = rest.lowered(*r.best.solution);
  inside.messages = std::make_shared<Certificate::Leaf>(rest.lowered(r.branch->root()));
  inside.tell = nullptr;
}

// Solves the narrowed network, with the remaining steps: anything better is in it.
void solve_narrowed(RoundState& r, const Subset& rest) {
  ++r.result.counters["narrowed"];
  Options inside = r.options;
  if (r.options.max_steps) inside.max_steps = *r.options.max_steps - (r.round + 1);
  begin_with(r, rest, inside);
  if (r.options.progress)
    inside.progress = [&](const Progress& p) {
      r.options.progress({p.cost, r.proved && (!p.bound || *p.bound < *r.proved) ? r.proved : p.bound, r.seconds()});
    };
  const Result found = solve_rest(rest, inside, r.what, r.best.cost);
  if (found.solution) r.consider(r.best, r.completed(*found.solution));
  if (found.bound && (!r.computed || *found.bound > *r.computed)) r.computed = found.bound;
  for (const char* count : {"work", "narrowed", "cores", "eliminated", "passes", "rounds", "parts", "restarts"})
    if (found.counters.contains(count)) r.counters[count] += found.counters.at(count);
}

}  // namespace

// Not if a certificate is asked for: messages to the narrowed network prove nothing of the rest.
bool may_narrow(const RoundState& r) { return !r.options.certify && is_near(r); }

void narrow(RoundState& r) {
  r.looked_at = root_gap(r);
  const double enough = static_cast<double>(r.best.cost) + 1 + r.rounding.at(r.branch->most_prices());
  const auto left = small_subset_of_alive(r.network, r.model, values_within_cost(enough, r.branch->least_costs()),
                                          *r.best.solution, r.options);
  if (!left) return;
  solve_narrowed(r, *left);
  r.ended = true;
}

bool may_take_steps(const RoundState& r) { return r.options.certify && r.what == Purpose::kItself && is_near(r); }

void prove_in_steps(RoundState& r) {
  r.looked_at = root_gap(r);
  r.ended = r.original.in_steps(r.best_of_network(), r.branch->root());
}

bool may_have_core(const RoundState& r) {
  if (r.what == Purpose::kCore || !r.best.solution || r.branch->done() || r.settled() || r.without == 0 ||
      r.core_work > kTuning.core.share_of_work * static_cast<double>(r.branch->work()))
    return false;
  const double gap = root_gap(r);
  return gap <= kTuning.core.near * std::abs(static_cast<double>(r.best.cost)) &&
         (gap <= kTuning.core.nearer * r.core_at || r.without % kTuning.core.again == 0);
}

// If the bound is near, the best solution is as a rule among the values that cost next to nothing more with the dual's
// messages. These are solved as a network of their own, for a solution alone, with ever fewer values if more bring
// nothing.
void search_core(RoundState& r) {
  const Tuning::Core& t = kTuning.core;
  const double bound = r.branch->root_bound(), gap = root_gap(r);
  r.core_at = gap;
  const Wide before = r.best.cost;
  const std::vector<double> least = r.branch->least_costs();
  for (double room = gap / t.widest; room > gap / t.narrowest && r.best.cost == before && !r.stop();
       room /= t.narrowing) {
    const Alive alive = values_within_cost(bound + room + r.rounding.at(r.branch->most_prices()), least);
    const auto entries = static_cast<double>(sweep_entries(r.model, alive));
    if (entries > t.most_entries * static_cast<double>(r.model.sweep) ||
        r.core_work + t.set_up * entries > t.share_of_work * static_cast<double>(r.branch->work()))
      continue;
    ++r.result.counters["cores"];
    Options inside = r.options;
    inside.max_steps = t.steps;
    inside.certify = false;
    inside.progress = nullptr;
    const Subset rest = subset_of_alive(r.network, r.model, alive, *r.best.solution);
    begin_with(r, rest, inside);
    const Result found = solve_reduced(rest.network(), inside, Purpose::kCore);
    if (found.solution) r.consider(r.best, r.completed(rest.whole(*found.solution)));
    r.core_work += found.counters.at("work") + t.set_up * entries;
    if (found.status == Status::kOptimal) return;
  }
}

}  // namespace partita::solver
