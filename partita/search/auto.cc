#include "partita/search/auto.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "partita/base/error.h"
#include "partita/cost/alone.h"
#include "partita/search/judge.h"
#include "partita/search/refine.h"

namespace partita {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kRefineRounds = 20;  // of the solver, for a neighbourhood
constexpr double kGap = 1e-4;
constexpr double kBeginShare = 0.25, kJointShare = 0.5;  // of the time that is left

struct Candidate {
  std::string from;
  Plan plan;
  int64_t cost = 0;
};

class Run {
 public:
  Run(const Problem& problem, const Budget& budget, Rng& rng) : problem_(problem), budget_(budget), rng_(rng) {
    if (budget.seconds) deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*budget.seconds));
  }

  SearchResult search() {
    begin();
    const SearchResult joint = solve_jointly();
    if (candidates_.empty() && budget_.stopped()) throw Error(ExitCode::kInterrupted, "auto: interrupted before any plan was found");
    if (candidates_.empty()) throw *refusal_;
    std::stable_sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) { return a.cost < b.cost; });
    int64_t least_missing = std::numeric_limits<int64_t>::max();
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const int64_t missing = missing_bytes(problem_, candidates_[i].plan);
      if (missing <= 0) {
        finish(i, joint);
        return std::move(result_);
      }
      least_missing = std::min(least_missing, missing);
    }
    result_.reason = fmt::format("of {} plans looked at, the leanest needs more bytes than a device has ({} missing)", candidates_.size(), least_missing);
    if (!joint.reason.empty()) result_.reason += "; exact: " + joint.reason;
    return std::move(result_);
  }

 private:
  void begin() {
    if (problem_.from && keeps(problem_.pins, *problem_.from)) {
      add("the plan that it began with", *problem_.from);
      candidates_.back().plan.paper_cost.reset();  // another search's
    }
    for (const SearchEntry& entry : searches()) {
      if (!entry.begins_auto.quick || budget_.stopped() || !entry.begins_auto.quick(problem_)) continue;
      for (const auto& options : options_for_auto(entry, problem_.cluster)) {
        Budget part = left(kBeginShare);
        part.steps.reset();  // theirs are others than the joint problem's
        consider(entry, options, part);
      }
    }
  }

  SearchResult solve_jointly() {
    if (budget_.stopped()) return {};
    const SearchChoice exact = parse_search("exact");
    // In time, where nothing overlaps in the network, the plan of fewest bytes may be faster.
    if (problem_.in_time()) consider(*exact.entry, exact.options, left(kBeginShare), "comm");
    SearchResult solved = consider(*exact.entry, exact.options, left(kJointShare));
    result_.notes.insert(result_.notes.end(), solved.notes.begin(), solved.notes.end());
    result_.counters = solved.counters;
    result_.proof = solved.proof;
    return solved;
  }

  SearchResult consider(const SearchEntry& entry, const std::map<std::string, std::string>& options, const Budget& part, const std::string& objective = "") {
    Problem its = problem_;
    its.options = options;
    if (!objective.empty()) {  // another than the problem's
      its.objective = objective;
      its.prove = false;
      its.progress = nullptr;
    }
    const std::string name = text_of({&entry, options}) + (objective.empty() ? "" : " of " + objective);
    Rng same = rng_;  // as if it were asked alone
    SearchResult found;
    try {
      found = entry.make()->search(its, part, same);
      if (!found.plan) refusal_ = Error(ExitCode::kInfeasible, found.reason);
    } catch (const Error& e) {
      if (e.code() == ExitCode::kBug) throw;
      refusal_ = e;
    }
    if (found.plan) add(name, *found.plan);
    else result_.notes.push_back(fmt::format("{}: no plan: {}", name, refusal_->what()));
    return found;
  }

  void add(const std::string& from, const Plan& plan) {
    candidates_.push_back({from, plan, cost_of(problem_, plan)});
    result_.notes.push_back(fmt::format("{}: {}", from, cost_text(problem_, candidates_.back().cost)));
  }

  // The first candidate from `best` on that fits and can be refined: in time the best may leave devices idle. Else `best`.
  size_t to_refine(size_t best) const {
    for (size_t i = best; i < candidates_.size(); ++i)
      if (refined(candidates_[i].plan, problem_.cluster) && (i == best || missing_bytes(problem_, candidates_[i].plan) <= 0)) return i;
    return best;
  }

  // Refines the best, a candidate that fits.
  void finish(size_t best, const SearchResult& joint) {
    const size_t begun = to_refine(best);
    const Plan& plan = candidates_[begun].plan;
    Refinement refinement{std::nullopt, candidates_[begun].cost, 0};
    if (refined(plan, problem_.cluster)) {
      std::vector<Plan> others;
      for (size_t i = 0; i < candidates_.size(); ++i)
        if (i != begun) others.push_back(candidates_[i].plan);
      solver::Options solving;
      solving.seed = rng_.next();
      solving.stop = budget_.stop;
      solving.deadline = deadline_;
      solving.max_steps = kRefineRounds;
      solving.gap = kGap;
      solving.certify = false;
      refinement = refine(problem_, plan, others, solving);
    }
    result_.notes.push_back(fmt::format("{} refined in {} neighbourhoods: {}", candidates_[begun].from, refinement.neighbourhoods, cost_text(problem_, refinement.cost)));
    if (!refinement.plan || refinement.cost > candidates_[best].cost) refinement = {candidates_[best].plan, candidates_[best].cost, 0};
    result_.plan = std::move(refinement.plan);
    const auto& bound = problem_.in_time() ? joint.lower_bound_serial_ns : joint.lower_bound_comm_bytes;
    if (!bound) return;
    const int64_t bounded = problem_.in_time() ? serial_ns(problem_.graph, *result_.plan, problem_.cluster) : refinement.cost;
    if (*bound <= bounded) (problem_.in_time() ? result_.lower_bound_serial_ns : result_.lower_bound_comm_bytes) = bound;
    else result_.notes.push_back("no lower bound: the plan lies outside of the space that exact's holds for");
  }

  Budget left(double share) const {
    Budget part = budget_;
    if (deadline_) part.seconds = share * std::max(0.0, std::chrono::duration<double>(*deadline_ - Clock::now()).count());
    return part;
  }

  const Problem& problem_;
  const Budget& budget_;
  Rng& rng_;
  std::optional<Clock::time_point> deadline_;
  SearchResult result_;
  std::vector<Candidate> candidates_;
  std::optional<Error> refusal_;  // the last
};

class Auto final : public Searcher {
 public:
  SearchResult search(const Problem& problem, const Budget& budget, Rng& rng) const override {
    if (problem.cluster.compute_count == 1) return parse_search("single").entry->make()->search(problem, budget, rng);
    return Run(problem, budget, rng).search();
  }
};

}  // namespace

std::unique_ptr<Searcher> make_auto() { return std::make_unique<Auto>(); }

}  // namespace partita
