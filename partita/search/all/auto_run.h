// One call of `auto`: what its stages (auto_stages.h) know together, and how they call other searches.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/machine_memory.h"
#include "partita/search/all/candidates.h"
#include "partita/search/entry.h"
#include "partita/search/evaluate.h"
#include "partita/search/memory_watch.h"

namespace partita {

// A search with its options, to be called as if it were the only one.
struct SearchCall {
  const SearchEntry* entry = nullptr;
  std::map<std::string, std::string> options = {};
  std::optional<Objective> objective = {};  // if it is not the problem's
  int rank = kLastRank;                     // of its plan as a candidate
  double work = 0;                          // about how many seconds it takes (InitialPlans::work)
};
std::string name_of(const SearchCall& call);  // "zero?stage=3"; "exact of comm"

// A bound that holds for plans of one kind.
struct StepBound {
  bool (*bounds)(const Plan&) = nullptr;
  int64_t ns = 0;
};

struct AutoRun {
  const Problem& problem;
  const Budget& budget;
  MemoryWatch& memory;
  const Watch watch;  // the budget's, and the memory's
  Rng& rng;
  Candidates candidates;
  std::vector<SearchCall> initial = {};     // for initial plans, in the order in which they are called
  size_t called = 0;                        // how many of these
  std::optional<SearchResult> joint = {};   // of the joint problem
  std::vector<StepBound> step_bounds = {};  // of searches that had a share of the time
  std::optional<size_t> best = {};          // of Candidates::evaluated
  std::optional<Error> refusal = {};        // the last that a search gave
  SearchResult result = {};
  int64_t cost = 0;    // of its plan
  bool ended = false;  // no further stage runs
};

// One line of the table in auto.cc.
struct AutoStage {
  bool (*applies)(const AutoRun&);
  void (*run)(AutoRun&);
};

// The first search of the list that makes this offer; null: none.
const SearchEntry* first_with(bool (*offer)(const AutoOffer&));

// For who waits: "auto: soap, ops on different devices".
void tell_progress(const AutoRun& run, const std::string& what);
// The same, and a note of the result.
void tell_and_note(AutoRun& run, const std::string& what);
Error too_large(const AutoRun& run);  // why the memory's watch ended a search

// The result of `part`. None, and a refusal, if it throws or takes too much memory.
template <typename Part>
auto within_memory(AutoRun& run, const Part& part) -> std::optional<decltype(part())> {
  const OutOfMemoryScope out_of_memory_scope;
  run.memory.begin();
  try {
    return part();
  } catch (const std::bad_alloc&) {
    run.refusal = Error(ExitCode::kInfeasible, "the machine has too little memory for it");
  } catch (const Error& e) {
    if (e.code() == ExitCode::kBug) throw;
    run.refusal = run.memory.over() && is_end(e) ? too_large(run) : e;
  }
  return std::nullopt;
}

// When a search that is called ends, and when the evaluation of its plan does.
struct CallWatches {
  Watch search, evaluation;
  double share = 1;  // Budget::share
};
// Calls a search, and adds its plan to the candidates. The result is empty if it does not apply to the problem.
SearchResult call_search(AutoRun& run, const SearchCall& call, const CallWatches& watches);

// The plan of a rule; none: it does not apply. Throws if the watch ends.
std::optional<Plan> rule_plan(const AutoRun& run, const SearchCall& call, const Watch& watch);

}  // namespace partita
