// `auto`: the best that the searches here can do together.
//
// It solves the joint problem (`exact`), asks the searches that are quick on the problem (SearchEntry::begins_auto),
// and refines the best plan that fits. The refined mesh has an axis for every prime factor, so all that the recursions
// can reach lies on it too. The result is never dearer than what it began with. The lower bound is that of `exact`,
// where the plan is in its space.
#include <algorithm>
#include <limits>
#include <numeric>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/cost/alone.h"
#include "partita/search/judge.h"
#include "partita/search/refine.h"
#include "partita/search/search_text.h"

namespace partita {

namespace {

constexpr int64_t kRefineRounds = 20;  // of the solver, for a neighbourhood
constexpr double kGap = 1e-4;
// Of the time that is left. The joint problem has nearly all until it is settled, since `auto` is to be no dearer than
// `exact` within the same limit; what is settled sooner leaves the rest to the others.
constexpr double kJointShare = 0.9, kBeginShare = 0.4;
constexpr int64_t kEntries = 100'000'000;   // of the neighbourhoods' tables, where no time is given
constexpr double kTold = 1, kCommWork = 1;  // seconds

struct Candidate {
  std::string from;
  Plan plan;
  int rank = 0;  // of equals the lower one is taken
  int64_t cost = 0;
  std::optional<int64_t> missing_bytes;  // by how much a device is over its memory; none: not asked yet
};

// A search that is asked for a plan to begin with, as if it were asked alone.
struct Ask {
  const SearchEntry* entry = nullptr;
  std::map<std::string, std::string> options;
  std::optional<Objective> objective;  // where it is another than the problem's
  int rank = 0;
  double work = 0;  // about how long it takes (SearchEntry::begins_auto)
};

class Run {
 public:
  Run(const Problem& problem, const Budget& budget, Rng& rng)
      : problem_(problem), budget_(budget), watch_(budget.watch()), rng_(rng), holds_any_(holds_any_plan(problem)) {}

  SearchResult search() {
    if (problem_.from && keeps(problem_.pins, *problem_.from)) {
      Plan plan = *problem_.from;
      plan.paper_cost.reset();  // another search's
      add({"the plan that it began with", std::move(plan)}, watch_);
    }
    insure();
    const SearchResult joint = solve_jointly();
    begin();
    if (const auto best = best_that_fits()) finish(*best, joint);
    else nothing_fits(joint);
    return std::move(result_);
  }

 private:
  // A plan that takes no time, for when it ends before there is any other.
  void insure() {
    const SearchChoice rule = parse_search("data-parallel");
    Budget part = budget_;
    part.deadline = watch_.deadline;
    try {
      unjudged_.push_back({"data-parallel", *rule.entry->search(problem_, part, rng_).plan});
    } catch (const Error& e) {
      if (e.code() == ExitCode::kBug) throw;
    }
  }

  SearchResult solve_jointly() {
    const SearchChoice exact = parse_search("exact");
    Ask ask{exact.entry, exact.options, std::nullopt, kLast, 0};
    tell("exact, the joint problem");
    SearchResult solved = consider(ask, watch_, kJointShare);
    result_.notes.insert(result_.notes.end(), solved.notes.begin(), solved.notes.end());
    result_.counters = solved.counters;
    result_.proof = solved.proof;
    return solved;
  }

  // Those first that take least.
  void begin() {
    std::vector<Ask> asks;
    const Watch watch = watch_.share(kBeginShare);
    int rank = 0;
    for (const SearchEntry& entry : searches()) {
      if (!entry.begins_auto.work) continue;
      for (const auto& options : options_for_auto(entry, problem_.cluster)) {
        Problem its = problem_;
        its.options = options;
        asks.push_back({&entry, options, std::nullopt, ++rank, entry.begins_auto.work(its)});
      }
    }
    // In time, where nothing overlaps in the network, the plan of fewest bytes may be faster.
    if (const SearchChoice exact = parse_search("exact"); problem_.in_time())
      asks.push_back({exact.entry, exact.options, Objective::kComm, ++rank, kCommWork});
    std::stable_sort(asks.begin(), asks.end(), [](const Ask& a, const Ask& b) { return a.work < b.work; });
    tell(fmt::format("{} plans of rules and published searches", asks.size()));
    for (const Ask& ask : asks) {
      if (watch.ended()) {
        result_.notes.push_back(fmt::format("{} and those after it were not asked: {}", name_of(ask),
                                            watch.stopped() ? "interrupted" : "their share of the time had passed"));
        break;
      }
      if (ask.work > kTold) tell(name_of(ask));
      consider(ask, watch);
    }
  }

  static std::string name_of(const Ask& ask) {
    return text_of({ask.entry, ask.options}) + (ask.objective ? " of " + text_of(*ask.objective) : "");
  }

  SearchResult consider(const Ask& ask, const Watch& watch, double share = 1) {
    Problem its = problem_;
    its.options = ask.options;
    if (ask.objective) {
      its.objective = *ask.objective;
      its.prove = false;
      its.progress = nullptr;
    }
    Budget part = budget_;
    part.deadline = watch.deadline;
    part.share = share;
    const bool is_exact = ask.entry->proves;
    if (!is_exact) part.steps.reset();  // theirs are others than the joint problem's
    Rng same = rng_;                    // as if it were asked alone
    SearchResult found;
    try {
      if (ask.entry->begins_auto.quick && !ask.entry->begins_auto.quick(its, part)) return found;
      found = ask.entry->search(its, part, same);
      if (!found.plan) refusal_ = Error(ExitCode::kInfeasible, found.reason);
    } catch (const Error& e) {
      if (e.code() == ExitCode::kBug) throw;
      refusal_ = e;
    }
    if (!found.plan) {
      result_.notes.push_back(fmt::format("{}: no plan: {}", name_of(ask), refusal_->what()));
      return found;
    }
    Candidate candidate{name_of(ask), *found.plan, ask.rank};
    if (is_exact) candidate.missing_bytes = 0;  // it looks
    add(std::move(candidate), watch);
    return found;
  }

  // Whether it fits is asked where it is better than what does.
  void add(Candidate candidate, const Watch& watch) {
    try {
      const Judgement judged = judge(problem_, candidate.plan, watch);
      candidate.cost = judged.cost;
      if (judged.missing_bytes) candidate.missing_bytes = judged.missing_bytes;
    } catch (const Error& e) {
      if (!is_end(e)) throw;
      result_.notes.push_back(fmt::format("{}: not judged: {}", candidate.from, e.what()));
      const auto at = candidate.rank == kLast ? unjudged_.end() : unjudged_.begin();
      unjudged_.insert(at, std::move(candidate));
      return;
    }
    result_.notes.push_back(fmt::format("{}: {}", candidate.from, cost_text(problem_, candidate.cost)));
    candidates_.push_back(std::move(candidate));
    const size_t last = candidates_.size() - 1;
    if (best_ && !is_better(candidates_[last], candidates_[*best_])) return;
    try {
      if (fits(candidates_[last], watch)) best_ = last;
    } catch (const Error& e) {
      if (!is_end(e)) throw;
    }
  }

  static bool is_better(const Candidate& a, const Candidate& b) {
    return std::pair(a.cost, a.rank) < std::pair(b.cost, b.rank);
  }

  bool fits(Candidate& candidate, const Watch& watch) {
    if (!candidate.missing_bytes)
      candidate.missing_bytes = holds_any_ ? 0 : missing_bytes(problem_, candidate.plan, watch);
    return *candidate.missing_bytes <= 0;
  }

  std::vector<size_t> by_cost() const {
    std::vector<size_t> order(candidates_.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return is_better(candidates_[a], candidates_[b]); });
    return order;
  }

  // What a plan costs, without a simulation.
  int64_t estimate(const Plan& plan) const {
    return problem_.in_time() ? serial_ns(problem_.graph, plan, problem_.cluster) : cost_of(problem_, plan);
  }

  // The plan of the joint problem came too late to be judged, and the estimates are for it.
  bool prefers_unjudged(const Candidate& joint) const {
    return !best_ || estimate(joint.plan) < estimate(candidates_[*best_].plan);
  }

  // Where the time ended before the joint problem's plan was judged, an estimate says whether it is the best; where
  // none was judged, one is taken as it is, and where none was found to fit, one more is asked.
  std::optional<size_t> best_that_fits() {
    if (!unjudged_.empty() &&
        (candidates_.empty() || (unjudged_.back().rank == kLast && prefers_unjudged(unjudged_.back())))) {
      Candidate taken = std::move(unjudged_.back());
      taken.cost = estimate(taken.plan);
      candidates_.push_back(std::move(taken));
      if (fits(candidates_.back(), {})) return candidates_.size() - 1;
    }
    if (best_) return best_;
    for (size_t i : by_cost()) {
      if (candidates_[i].missing_bytes) continue;
      if (fits(candidates_[i], {})) return i;
      if (watch_.ended()) break;
    }
    return std::nullopt;
  }

  void nothing_fits(const SearchResult& joint) {
    if (candidates_.empty() && !budget_.stopped()) throw *refusal_;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const Candidate& c : candidates_) least = std::min(least, c.missing_bytes.value_or(least));
    if (watch_.stopped()) throw Error(ExitCode::kInterrupted, "auto: interrupted before any plan was found that fits");
    if (watch_.ended())
      throw Error(ExitCode::kTimeLimit,
                  fmt::format("auto: the time limit passed before any plan was found that fits; {} were looked at",
                              candidates_.size()));
    result_.reason = fmt::format("of {} plans looked at, the leanest needs more bytes than a device has ({} missing)",
                                 candidates_.size(), megabytes(static_cast<double>(least)));
    if (!joint.reason.empty()) result_.reason += "; exact: " + joint.reason;
  }

  // The first candidate from `best` on that fits and can be refined: in time the best may leave devices idle. Else
  // `best`.
  size_t to_refine(size_t best) {
    const std::vector<size_t> order = by_cost();
    for (auto i = std::find(order.begin(), order.end(), best); i != order.end(); ++i)
      if (refined(candidates_[*i].plan, problem_.cluster) && fits(candidates_[*i], watch_)) return *i;
    return best;
  }

  // Refines a candidate that fits, which is the best one if that can be refined.
  Refinement refine_best(size_t best) try {
    const size_t begun = to_refine(best);
    const Candidate& first = candidates_[begun];
    if (!refined(first.plan, problem_.cluster)) return {std::nullopt, first.cost, 0};
    std::vector<Plan> others;
    for (size_t i : by_cost())
      if (i != begun) others.push_back(candidates_[i].plan);
    solver::Options solving;
    solving.seed = rng_.next();
    solving.stop = watch_.stop;
    solving.deadline = watch_.deadline;
    solving.max_steps = kRefineRounds;
    solving.gap = kGap;
    solving.certify = false;
    tell(fmt::format("refines the plan of {}: {}", first.from, cost_text(problem_, first.cost)));
    auto told = Watch::Clock::now();
    const Refinement refinement = refine(
        problem_, first.plan, first.cost, others, solving,
        [&](const Refinement& now) {
          if (Watch::Clock::now() - told < std::chrono::seconds(1)) return;
          told = Watch::Clock::now();
          tell(fmt::format("neighbourhood {}: {}", now.neighbourhoods, cost_text(problem_, now.cost)));
        },
        watch_.deadline ? std::numeric_limits<int64_t>::max() : kEntries);
    result_.notes.push_back(fmt::format("{} refined in {} neighbourhoods: {}", first.from, refinement.neighbourhoods,
                                        cost_text(problem_, refinement.cost)));
    return refinement;
  } catch (const Error& e) {
    if (!is_end(e)) throw;
    return {std::nullopt, candidates_[best].cost, 0};
  }

  void finish(size_t best, const SearchResult& joint) {
    Refinement refinement = refine_best(best);
    if (!refinement.plan || refinement.cost > candidates_[best].cost)
      refinement = {candidates_[best].plan, candidates_[best].cost, 0};
    result_.plan = std::move(refinement.plan);
    const auto& bound = problem_.in_time() ? joint.lower_bound_serial_ns : joint.lower_bound_comm_bytes;
    if (!bound) return;
    const int64_t bounded =
        problem_.in_time() ? serial_ns(problem_.graph, *result_.plan, problem_.cluster) : refinement.cost;
    if (*bound <= bounded)
      (problem_.in_time() ? result_.lower_bound_serial_ns : result_.lower_bound_comm_bytes) = bound;
    else result_.notes.push_back("no lower bound: the plan lies outside of the space that exact's holds for");
  }

  void tell(const std::string& what) const {
    if (problem_.tell) problem_.tell("auto: " + what);
  }

  static constexpr int kLast = std::numeric_limits<int>::max();
  const Problem& problem_;
  const Budget& budget_;
  const Watch watch_;
  Rng& rng_;
  const bool holds_any_;
  SearchResult result_;
  std::vector<Candidate> candidates_;
  std::vector<Candidate> unjudged_;  // the joint problem's last
  std::optional<size_t> best_;       // of the candidates that are known to fit
  std::optional<Error> refusal_;     // the last
};

SearchResult search(const Problem& problem, const Budget& budget, Rng& rng) {
  if (problem.cluster.compute_count == 1) return parse_search("single").entry->search(problem, budget, rng);
  return Run(problem, budget, rng).search();
}

}  // namespace

SearchEntry auto_search() {
  return {.name = "auto",
          .source = "ours",
          .summary =
              "the best of what is quick here and of the joint problem, refined on a mesh with an axis for every "
              "prime factor; with a proved lower bound where it has one",
          .search = search,
          .warm = true,
          .proves = true};
}

}  // namespace partita
