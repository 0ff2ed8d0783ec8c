// Calls other searches for `auto`, within its time and memory.
#include "partita/search/all/auto_run.h"

#include "partita/base/attempt.h"
#include "partita/base/units.h"
#include "partita/search/all/search_text.h"

namespace partita {

std::string name_of(const SearchCall& call) {
  return text_of(SearchChoice{call.entry, call.options}) + (call.objective ? " of " + text_of(*call.objective) : "");
}

const SearchEntry* first_with(bool (*offer)(const AutoOffer&)) {
  for (const SearchEntry& entry : searches())
    if (offer(entry.offers)) return &entry;
  return nullptr;
}

void tell_progress(const AutoRun& run, const std::string& what) {
  if (run.problem.tell) run.problem.tell("auto: " + what);
}

void tell_and_note(AutoRun& run, const std::string& what) {
  tell_progress(run, what);
  run.result.notes.push_back(what);
}

Error too_large(const AutoRun& run) {
  return {ExitCode::kInfeasible,
          fmt::format("it was ended when this process had more than {}, a third of the memory that there is for it",
                      megabytes(static_cast<double>(run.memory.limit_bytes())))};
}

namespace {

Problem problem_of(const AutoRun& run, const SearchCall& call) {
  Problem its = run.problem;
  its.options = call.options;
  if (call.entry->measure == Objective::kTime) its.progress = nullptr;  // of steps, not of parts one after another
  if (call.objective) {
    its.objective = *call.objective;
    its.prove = false;
    its.progress = nullptr;
  }
  return its;
}

Budget budget_of(const AutoRun& run, const SearchCall& call, const CallWatches& watches) {
  Budget part = run.budget;
  part.stop = watches.search.stop;
  part.deadline = watches.search.deadline;
  part.share = watches.share;
  if (!call.entry->offers.joint.is_offered) part.steps.reset();  // the budget's are the joint problem's
  if (!part.steps && !part.deadline && run.problem.in_time()) part.steps = call.entry->offers.steps_in_time;
  return part;
}

}  // namespace

SearchResult call_search(AutoRun& run, const SearchCall& call, const CallWatches& watches) {
  const SearchEntry& entry = *call.entry;
  const Problem its = problem_of(run, call);
  const Budget part = budget_of(run, call, watches);
  bool applies = true;
  const std::optional<SearchResult> found = within_memory(run, [&] {
    applies = !entry.offers.initial.applies || entry.offers.initial.applies(its, part);
    Rng same = run.rng;  // as if it were the only search
    return applies ? entry.search(its, part, same) : SearchResult();
  });
  if (!applies) return {};
  if (found && !found->plan) run.refusal = Error(ExitCode::kInfeasible, found->reason);
  if (!found || !found->plan) {
    tell_and_note(run, fmt::format("{}: no plan: {}", name_of(call), run.refusal->what()));
    return found.value_or(SearchResult());
  }
  if (run.memory.over()) tell_and_note(run, fmt::format("{}: {}", name_of(call), too_large(run).what()));
  Candidate candidate{name_of(call), *found->plan, call.rank};
  if (entry.rule) candidate.rule_work = call.work;
  if (entry.offers.joint.is_offered) candidate.evaluation.memory_deficit = 0;  // its plans fit
  const auto add = [&] {
    add_candidate(run.candidates, std::move(candidate), watches.evaluation, run.result.notes);
    return true;
  };
  if (!within_memory(run, add))
    tell_and_note(run, fmt::format("{}: not evaluated: {}", name_of(call), run.refusal->what()));
  return *found;
}

std::optional<Plan> rule_plan(const AutoRun& run, const SearchCall& call, const Watch& watch) {
  Problem its = run.problem;
  its.options = call.options;
  Rng same = run.rng;
  Attempt<SearchResult> made =
      attempt([&] { return call.entry->search(its, {.stop = watch.stop, .deadline = watch.deadline}, same); });
  if (made.failure == Failure::kEnded) made.rethrow();
  return made.result ? std::move(made.result->plan) : std::nullopt;
}

}  // namespace partita
