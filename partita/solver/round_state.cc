// Tracks the rounds of a network: bounds and solutions as they come in, and the remaining time.
#include "partita/solver/round_state.h"

#include <algorithm>
#include <cmath>

#include "partita/solver/budget.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

namespace {

using Clock = std::chrono::steady_clock;

// The cost of an assignment of all the model's variables; infinite if it takes something forbidden or breaks the limit.
double model_cost(const Model& m, const Assignment& x) {
  double cost = 0;
  for (int v = 0; v < m.variables(); ++v) cost += m.unary[m.offset[v] + x[v]];
  if (cost == kInfinity) return cost;
  for (const Model::Pair& p : m.pairs) cost += m.tables[p.table]->at(x[p.a], x[p.b]);
  if (cost == kInfinity || !m.limited) return cost;
  std::vector<Wide> load(m.times.size() + 1, 0);
  for (int v = 0; v < m.variables(); ++v)
    for (const Model::Use& u : m.uses[v]) load[u.lower] += u.amounts[x[v]], load[u.upper] -= u.amounts[x[v]];
  Wide now = 0;
  for (Wide change : load)
    if ((now += change) > m.limit) return kInfinity;
  return cost;
}

}  // namespace

RoundState::RoundState(const Network& of, const Options& with, Purpose what_for, double headroom, Wide most,
                       OfOriginal proofs)
    : network(of),
      options(with),
      what(what_for),
      original(std::move(proofs)),
      model(compile(of)),
      checker(of, most),
      rounding(model),
      alive(model.unary.size(), 1),
      rng(with.seed) {
  model.headroom = headroom;
  if (what == Purpose::kItself && !computes())
    reserve = kTuning.prove.checking_seconds * static_cast<double>(model.entries);
}

double RoundState::seconds() const { return std::chrono::duration<double>(Clock::now() - began).count(); }

bool RoundState::stop() const {
  if (is_stopped(options)) return true;
  return options.deadline &&
         Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(reserve)) >=
             *options.deadline;
}

bool RoundState::computes() const { return !options.certify && model.entries > kTuning.prove.long_entries; }

void RoundState::note(double bound, double prices, std::optional<Wide>& to) const {
  if (!std::isfinite(bound)) return;
  Wide least = static_cast<Wide>(std::ceil(bound - rounding.at(prices)));
  if (best.solution) least = std::min(least, best.cost);
  if (!to || least > *to) to = least;
}

std::optional<Assignment> RoundState::completed(Assignment x) const {
  evaluate(network, x);
  for (const Model::Joint& j : model.joints) {
    Assignment tuple;
    for (int v : j.variables) tuple.push_back(x[v]);
    const auto at = std::lower_bound(j.tuples.begin(), j.tuples.end(), tuple);
    if (at == j.tuples.end() || *at != tuple) return std::nullopt;
    x.push_back(static_cast<int>(at - j.tuples.begin()));
  }
  return x;
}

void RoundState::consider(Best& to, const std::optional<Assignment>& x) const {
  if (!x) return;
  const double cost = model_cost(model, *x);
  if (cost == kInfinity || (to.solution && cost > static_cast<double>(to.cost) + rounding.at(0) + 1)) return;
  const Evaluation e = evaluate(network, Assignment(x->begin(), x->begin() + network.variables()));
  if (e.feasible && (!to.solution || e.cost < to.cost)) to = {x, e.cost};
}

Assignment RoundState::best_of_network() const {
  return {best.solution->begin(), best.solution->begin() + network.variables()};
}

}  // namespace partita::solver
