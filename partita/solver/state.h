// Holds the state that the stages of solve() share for one network, and declares the stages that portfolio.cc lists in
// order. Each is a question whether it applies, and the work itself.
//
// Example: a network of 40 equal layers, 4 million table entries, a third of which would lie across two layers. "fold"
// leaves a solution of cost 104 and a dual of the layers in `solution`, `cost` and `dual`. "narrow" begins with that
// dual, proves 100 for the whole (`bound`) and leaves a third of the table entries (`rest`), which "rest" then solves.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partita/solver/lift.h"
#include "partita/solver/solver.h"

namespace partita::solver {

struct SolveState {
  // Both must stay; `options` is a copy, whose start and messages stages replace.
  SolveState(const Network& of, const Options& with) : network(of), options(with) {}

  const Network& network;
  Options options;
  bool may_merge = true;  // it is no merged network itself

  // Known solutions and bounds.
  std::optional<Assignment> solution;  // the best
  Wide cost = 0;
  std::optional<Wide> bound;         // by computation, without a certificate
  std::optional<Wide> merged_bound;  // of the merged network: reported in the end, but it decides nothing
  Certificate of_parts;              // the proof by parts; empty bound: none
  std::map<std::string, double> counters;

  // Results of folding.
  PairTables tables;                 // of the network, as the duals have them
  std::unique_ptr<LiftedDual> dual;  // of the last folding; null: nothing is repeated, or it is no longer needed
  std::vector<int> alike;            // by variable, its class in the first folding
  std::vector<int> first_parts;      // by variable, its part, if the network is cut apart first; or empty
  std::optional<Assignment> folded;  // the best that is alike in all copies, and its cost
  Wide folded_cost = 0;
  bool very_large = false;  // a pass over the whole takes too long, and little of it could be left out
  std::chrono::steady_clock::time_point began;  // folding
  std::chrono::steady_clock::duration taken{};  // by the work after the certificate's steps

  // Results of narrowing.
  std::optional<Subset> rest;
  bool narrowed = false;  // whether it has proved something of the whole
  bool cut = false;       // parts have proved something of the whole

  std::optional<Result> result;  // set: the answer; no more stages run

  // Takes a solution, if it is feasible and better. Throws (bad input) if it is none of this network.
  void consider(const std::optional<Assignment>& x);
  bool is_near(double gap) const;  // the best solution to the bound
  // The best solution, as the answer.
  Result best_as_result() const;
};

// One line of portfolio.cc.
struct Stage {
  std::string_view name;
  bool (*applies)(const SolveState&);
  void (*run)(SolveState&);
};
// Runs the stages in turn, until one sets `state.result`, the answer.
void run_stages(SolveState& state);
// The result of run_stages(), with all else that is known.
Result solve_by_stages(SolveState& state);

// The number of table entries from which on a network is very large.
double very_large(const Options& options);
bool is_very_large(const SolveState& s);

// stage_merge.cc
bool has_small_tables(const SolveState& s);
void eliminate_at_once(SolveState& s);  // variable elimination, if it takes no longer than the next stages would
bool is_not_merged(const SolveState& s);
void solve_merged(SolveState& s);  // solves the network with decided variables merged into the deciding ones (merge.h)

// stage_fold.cc
bool has_start(const SolveState& s);
void take_start(SolveState& s);
bool always(const SolveState& s);
void solve_folded(SolveState& s);  // repeated parts choose alike (fold.h): a solution, and messages
bool is_solved_alike(const SolveState& s);
void solve_alike(SolveState& s);  // a very large network's repeated parts, in earnest

// stage_parts.cc
bool is_solved_in_parts_first(const SolveState& s);
void solve_in_parts_first(SolveState& s);  // into equal parts (parts.h), some times over
bool is_proved_in_steps(const SolveState& s);
void prove_in_steps(SolveState& s);  // the certificate's steps (steps.h), from the folded dual's messages
bool is_solved_in_parts_as_very_large(const SolveState& s);
bool is_solved_in_parts_after_all(const SolveState& s);
void solve_in_parts(SolveState& s);

// stage_narrow.cc
bool has_dual_to_narrow(const SolveState& s);
void narrow(SolveState& s);  // leaves out values that cost as much as the best solution (narrow.h)
bool is_enough(const SolveState& s);
void answer_with_best(SolveState& s);
bool has_rest(const SolveState& s);
void solve_remaining(SolveState& s);
void solve_whole(SolveState& s);  // in rounds (rounds.h)

// For stages: solves the folded network with only so many values of each variable, those that the dual finds likeliest,
// and those of the start. It need not have a solution.
Result solve_likeliest(const LiftedDual& dual, size_t values, const Options& options);
// Options for a solve that yields a start: few rounds, little of the time, and only costs reported. `options` must
// stay.
Options options_for_start(const Options& options);

}  // namespace partita::solver
