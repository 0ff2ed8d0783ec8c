// Holds the shared state of one reduced network's rounds, and declares the stages of a round that portfolio.cc lists.
// Each is a question whether it applies, and the work itself.
//
// Example: the best solution costs 104, the dual proves 100, and a round brings neither a better solution nor a better
// bound. Then `without` is 1 more than before, and `closing` false: the next round works on both sides again. Since the
// gap of 4 is above 3 % of the cost, neither narrowing nor cores are tried.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "partita/base/rng.h"
#include "partita/solver/branch.h"
#include "partita/solver/eliminate.h"
#include "partita/solver/narrow.h"
#include "partita/solver/primal.h"
#include "partita/solver/rounds.h"

namespace partita::solver {

// A solution of a model's variables (model.h), joint factors' included, and its cost.
struct Best {
  std::optional<Assignment> solution;
  Wide cost = 0;
  std::optional<Wide> known() const { return solution ? std::optional<Wide>(cost) : std::nullopt; }
};

// The means to prove bounds of the original network.
struct OfOriginal {
  std::function<std::optional<EliminationPlan>()> plan_to_prove;
  // Tells whether steps from a solution and messages of the reduced network prove that nothing is better.
  std::function<bool(const Assignment& solution, const Certificate::Leaf& messages)> in_steps;
};

struct RoundState {
  // `most`: no solution of the original costs more. All but the numbers must stay.
  RoundState(const Network& network, const Options& options, Purpose what, double headroom, Wide most,
             OfOriginal original);

  // The problem.
  const Network& network;
  const Options& options;
  const Purpose what;
  const OfOriginal original;
  Model model;
  LeafChecker checker;
  const Rounding rounding;
  Alive alive;  // propagated, before the first round
  Rng rng;

  // The two sides, once `alive` is propagated.
  std::optional<Branch> branch;  // bounds: the dual, and what it is split into
  std::optional<Primal> primal;  // solutions: local search

  // Known solutions and bounds.
  Best best;
  std::optional<Wide> proved;                  // so far, by a certificate unless computes()
  std::optional<Wide> computed;                // by elimination, narrowing, or the dual in the end
  bool nothing = false;                        // it has been found that there is no solution
  std::optional<EliminationPlan> elimination;  // still to be made
  std::optional<EliminationPlan> proof;        // of the original, that computes `computed` again

  // The progress of the rounds.
  int64_t round = 0;
  int64_t without = 0;                         // rounds since the last better solution
  double gap = kInfinity;                      // after the last round
  bool closing = false;                        // the gap closes though no solution is found: the dual works alone
  bool ended = false;                          // a stage has found that there is nothing more to do
  double looked_at = kInfinity;                // the gap at the last narrowing
  double core_at = kInfinity;                  // the gap at the last core
  double core_work = 0;                        // table entries
  std::atomic<double> reserve = 0;             // seconds before the deadline, for the certificate; both sides read it
  double proved_at = -1, proving_seconds = 0;  // seconds: when the last certificate was made, and how long it took
  double reported = -1;                        // seconds
  const std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();

  Result result;                           // counters and the certificate, as they come
  std::map<std::string, double> counters;  // of the networks solved within

  double seconds() const;
  bool stop() const;  // told so, or only the certificate's time is left
  // Tells whether nothing better can be found any more.
  bool settled() const { return nothing || (computed && best.solution && best.cost == *computed); }
  // Tells whether a large network gets no certificate because nobody asks for one: its bound is the dual's, less a
  // margin for rounding.
  bool computes() const;
  // Takes that bound into `to`, if it is better.
  void note(double bound, double prices, std::optional<Wide>& to) const;
  // A solution of the network, with the tuple of each joint factor; empty if one is forbidden.
  std::optional<Assignment> completed(Assignment solution) const;
  // Takes a solution of the model's variables into `to`, if it is feasible and better.
  void consider(Best& to, const std::optional<Assignment>& solution) const;
  // The best solution, of the network's own variables.
  Assignment best_of_network() const;
};

// One line of portfolio.cc.
struct RoundStage {
  std::string_view name;
  bool (*applies)(const RoundState&);
  void (*run)(RoundState&);
};
// Runs the stages in turn, until one ends the rounds.
void run_round(RoundState& rounds);

// round_search.cc
bool is_elimination_due(const RoundState& r);  // the other stages have worked as much as elimination would
void eliminate_reduced(RoundState& r);
bool always(const RoundState& r);
void work_on_both_sides(RoundState& r);  // a share of work for the dual, beside it the same for local search
bool is_told_or_timed(const RoundState& r);
void prove(RoundState& r);   // now and then, a certificate of what is known so far
void report(RoundState& r);  // to Options::progress
bool gives_up(const RoundState& r);
void end(RoundState& r);

// round_narrow.cc
bool may_narrow(const RoundState& r);
void narrow(RoundState& r);  // if little costs less than the best, solves that little
bool may_take_steps(const RoundState& r);
void prove_in_steps(RoundState& r);  // the original (steps.h); ends the rounds if that proves the best
bool may_have_core(const RoundState& r);
void search_core(RoundState& r);  // solves cores, for a better solution

}  // namespace partita::solver
