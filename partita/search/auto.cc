#include "partita/search/auto.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "partita/base/error.h"
#include "partita/plan/check.h"
#include "partita/search/refine.h"

namespace partita {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kJointRounds = 60, kRefineRounds = 20;  // of the solver, where no budget is given
constexpr double kGap = 1e-4;
constexpr size_t kRefinedAxes = 3;  // of the mesh, at most: conversions on more take long to count
constexpr double kBeginShare = 0.25, kJointShare = 0.5;  // of the time that is left

struct Candidate {
  std::string from;
  Plan plan;
  int64_t comm_bytes = 0;
};

class Auto final : public Searcher {
 public:
  SearchResult search(const Problem& problem, const Budget& budget, Rng& rng) const override {
    if (problem.cluster.compute_count == 1) return parse_search("single").entry->make()->search(problem, budget, rng);
    const auto start = Clock::now();
    const auto deadline = [&]() -> std::optional<Clock::time_point> {
      if (!budget.seconds) return std::nullopt;
      return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*budget.seconds));
    }();
    auto left = [&](double share) {  // of the budget
      Budget part = budget;
      if (deadline) part.seconds = share * std::max(0.0, std::chrono::duration<double>(*deadline - Clock::now()).count());
      return part;
    };
    SearchResult result;
    std::vector<Candidate> candidates;
    std::optional<Error> refusal;
    auto consider = [&](const SearchEntry& entry, const std::map<std::string, std::string>& options, const Budget& part) {
      Problem its = problem;
      its.options = options;
      SearchResult found;
      try {
        found = entry.make()->search(its, part, rng);
        if (!found.plan) refusal = Error(ExitCode::kInfeasible, found.reason);
      } catch (const Error& e) {
        if (e.code() == ExitCode::kBug) throw;
        refusal = e;
      }
      if (found.plan) candidates.push_back({entry.name, *found.plan, check(problem.graph, *found.plan, problem.cluster).comm_bytes});
      result.notes.push_back(found.plan ? fmt::format("{}: {} bytes", entry.name, candidates.back().comm_bytes) : fmt::format("{}: no plan: {}", entry.name, refusal->what()));
      return found;
    };
    for (const SearchEntry& entry : searches())
      if (static_cast<int64_t>(problem.graph.ops.size()) <= entry.begins_auto && !budget.stopped()) consider(entry, default_options(entry), left(kBeginShare));
    if (problem.from && keeps(problem.pins, *problem.from)) {
      candidates.push_back({"the plan that it began with", *problem.from, check(problem.graph, *problem.from, problem.cluster).comm_bytes});
      candidates.back().plan.paper_cost.reset();
    }
    SearchResult solved;
    if (!budget.stopped()) {
      Budget joint = left(kJointShare);
      if (!joint.steps && !joint.seconds) joint.steps = kJointRounds;
      const SearchChoice exact = parse_search("exact");
      solved = consider(*exact.entry, exact.options, joint);
      result.counters = solved.counters;
      result.proof = solved.proof;
    }
    if (candidates.empty()) throw *refusal;

    std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) { return a.comm_bytes < b.comm_bytes; });
    size_t best = 0;
    int64_t least_missing = std::numeric_limits<int64_t>::max();
    for (; best < candidates.size(); ++best) {
      const int64_t missing = missing_bytes(problem, candidates[best].plan);
      least_missing = std::min(least_missing, missing);
      if (missing <= 0) break;
    }
    if (best == candidates.size()) {
      result.reason = fmt::format("of {} plans looked at, for the leanest there are {} bytes missing on a device", candidates.size(), least_missing);
      if (!solved.reason.empty()) result.reason += "; exact: " + solved.reason;
      return result;
    }
    std::vector<Plan> others;
    for (size_t i = 0; i < candidates.size(); ++i)
      if (i != best) others.push_back(candidates[i].plan);
    solver::Options solving;
    solving.seed = rng.next();
    solving.stop = budget.stop;
    solving.deadline = deadline;
    solving.max_steps = kRefineRounds;
    solving.gap = kGap;
    solving.certify = false;
    Refinement refined{std::nullopt, candidates[best].comm_bytes, 0};
    if (const auto fine = partita::refined(candidates[best].plan, problem.cluster); fine && fine->mesh.extents.size() <= kRefinedAxes)
      refined = refine(problem, candidates[best].plan, others, solving);
    result.notes.push_back(fmt::format("{} refined in {} neighbourhoods: {} bytes", candidates[best].from, refined.neighbourhoods, refined.comm_bytes));
    result.plan = refined.plan ? std::move(*refined.plan) : candidates[best].plan;
    if (solved.lower_bound_comm_bytes && *solved.lower_bound_comm_bytes <= refined.comm_bytes) result.lower_bound_comm_bytes = solved.lower_bound_comm_bytes;
    else result.notes.push_back("no lower bound: the plan lies outside of the space that exact's holds for");
    return result;
  }
};

}  // namespace

std::unique_ptr<Searcher> make_auto() { return std::make_unique<Auto>(); }

}  // namespace partita
