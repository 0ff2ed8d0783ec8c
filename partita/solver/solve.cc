#include <algorithm>
#include <cmath>
#include <utility>

#include "partita/base/enum_words.h"
#include "partita/base/error.h"
#include "partita/solver/eliminate.h"
#include "partita/solver/fold.h"
#include "partita/solver/lift.h"
#include "partita/solver/merge.h"
#include "partita/solver/parts.h"
#include "partita/solver/rounds.h"
#include "partita/solver/steps.h"

namespace partita::solver {

namespace {

using Clock = std::chrono::steady_clock;

// Where repeated parts choose alike (fold.h): a solution, and messages. Folded ever less, each time from the last ones,
// as long as that pays. Nothing where little is repeated.
struct Start {
  std::optional<Assignment> solution;
  Wide cost = 0;
  std::unique_ptr<LiftedDual> dual;  // of the last folding
  std::vector<int> alike;            // by variable, its class in the first folding
  std::vector<int> parts;            // by variable, where it is worth while to cut a large one apart
  bool very_large = false;           // so that a pass over the whole takes too long, and little of it could be left out
};

// The optimum and its proof, where elimination takes no longer than what else would come first, and the limit takes
// nothing from what it finds. A solution that costs as much stays.
std::optional<Result> eliminated_at_once(const Network& network, const Start& best, const Options& options) {
  const int64_t bytes = std::min(options.elimination_bytes, options.at_once * static_cast<int64_t>(sizeof(int64_t)));
  if (static_cast<double>(sizeof(int64_t)) * entries_of(network) > static_cast<double>(bytes)) return std::nullopt;
  const auto plan = plan_elimination(network, bytes);
  if (!plan || plan->work > options.at_once) return std::nullopt;
  const auto least = eliminate(network, *plan, [&] { return options.stop && *options.stop; });
  if (!least) return std::nullopt;
  Result r;
  r.status = Status::kInfeasible;
  if (least->solution) {
    r.status = Status::kOptimal;
    r.bound = r.certificate.bound = r.cost = least->cost;
    r.solution = best.solution && best.cost == least->cost ? best.solution : least->solution;
    if (!evaluate(network, *r.solution).feasible) return std::nullopt;
  }
  Certificate::Leaf leaf;
  leaf.order = plan->order;
  r.certificate.leaves = {std::move(leaf)};
  r.counters = {{"eliminated", 1}, {"width", plan->width}};
  if (options.tell)
    options.tell(fmt::format("eliminated: width {}, largest table {} entries, and nothing else was to be done",
                             plan->width, plan->largest_table));
  return r;
}

Result solve_unmerged(const Network& network, const Options& options);

// The network's solution by way of the merged one, and a bound that no certificate proves. Nothing where little is
// merged.
std::optional<Result> solve_merged(const Network& network, const Start& best, const Options& options) {
  constexpr double kMuch = 0.25;                              // of the variables
  constexpr double kShareOfTime = 0.3, kShareOfSteps = 0.25;  // where a certificate of the network itself is to follow
  constexpr int64_t kSteps = 100;                             // then, where there is no limit
  constexpr double kNear = 0.01;  // then, of its bound: a solution to begin with, where messages are slow to converge
  if (options.messages) return std::nullopt;
  const Merging merging(network);
  if (merging.infeasible() || merging.merged() < kMuch * network.variables()) return std::nullopt;
  const Network merged = merging.network();
  if (options.tell)
    options.tell(fmt::format("merged: {} variables that others decide, {:.0f} table entries to {:.0f}",
                             merging.merged(), entries_of(network), entries_of(merged)));
  Options inside = options;
  inside.certify = false;
  inside.start.reset();
  if (best.solution) inside.start = merging.lowered(*best.solution);
  inside.proving = nullptr;
  if (options.certify) {
    inside.gap = std::max(options.gap, kNear);
    inside.deadline = share_of_time(options, kShareOfTime);
    const double steps = kShareOfSteps * static_cast<double>(options.max_steps.value_or(0));
    if (options.max_steps) inside.max_steps = std::max<int64_t>(1, static_cast<int64_t>(steps));
    else if (!options.deadline) inside.max_steps = kSteps;
  }
  auto at_once = eliminated_at_once(merged, {}, inside);
  Result r = at_once ? std::move(*at_once) : solve_unmerged(merged, inside);
  r.certificate = {};
  r.counters["merged"] = merging.merged();
  if (!r.solution) return r;
  r.solution = merging.lifted(*r.solution);
  const Evaluation e = evaluate(network, *r.solution);
  ensure(e.feasible && e.cost == r.cost, "a solution of {} becomes one of {} in the network that was merged",
         to_string(r.cost), to_string(e.cost));
  return r;
}

// The folded network with so many values only of each variable, those that the dual finds likeliest, and those of the
// start. It need not have a solution.
Result solve_likeliest(const LiftedDual& dual, size_t values, const Options& options) {
  const Subset likeliest = left_of(dual.folded().once, dual.model(), dual.likeliest(values), options.start);
  Options inside = options;
  if (options.start) inside.start = likeliest.lowered(*options.start);
  if (options.messages) inside.messages = std::make_shared<Certificate::Leaf>(likeliest.lowered(*options.messages));
  Result r = solve_reduced(dual.folded().with_times(likeliest.network()), inside, For::kFolded);
  if (r.solution) r.solution = likeliest.whole(*r.solution);
  return r;
}

// Of what is solved for a start: few rounds, little of the time, and words about nothing.
Options for_a_start(const Options& options) {
  constexpr int64_t kSteps = 10, kOfSteps = 4;  // at most; of all that there are, the quarter
  constexpr double kShareOfTime = 0.1;
  Options inside = options;
  inside.max_steps = options.max_steps ? std::clamp<int64_t>(*options.max_steps / kOfSteps, 1, kSteps) : kSteps;
  inside.certify = false;
  inside.patience = static_cast<int>(kSteps);  // it is solutions that this is for
  inside.tell = nullptr;
  inside.deadline = share_of_time(options, kShareOfTime);
  if (options.progress)
    inside.progress = [&options, told = Clock::now()](Progress p) mutable {
      if (Clock::now() - told < std::chrono::seconds(1)) return;
      told = Clock::now();
      p.bound.reset();
      options.progress(p);
    };
  return inside;
}

// Table entries a sweep.
double very_large(const Options& options) {
  constexpr double kTimes = 1000;
  return kTimes * static_cast<double>(std::max<int64_t>(1, options.large));
}

bool is_very_large(const Network& network, const Options& options) { return entries_of(network) > very_large(options); }

constexpr double kLikely = 0.1;  // of a folded dual's table entries, those of values that passes go over
constexpr size_t kValues = 32;   // of a variable, for a solution; fewer for one that parts make better

Start solve_folded(const Network& network, const Options& options, PairTables& tables,
                   std::map<std::string, double>& counters) {
  constexpr int kLeastFolded = 3;                 // as many variables
  constexpr int kFirstPasses = 32, kPasses = 12;  // each next dual begins with the messages of the one before
  constexpr int kDeep = 6;                        // for the messages alone
  constexpr int kDeepOfLarge = 5, kOverAll = 4, kNarrowed = 160,
                kValuesOfLarge = 8;  // one folding, most passes over likely values
  constexpr int kDeepOfVeryLarge = 2, kPassesOfVeryLarge = 150;
  constexpr double kMuch = 0.2;               // of the table entries
  constexpr double kShareOfVeryLarge = 0.25;  // of the time
  Options inside = for_a_start(options);
  Folding folding(network);
  const bool is_large = is_very_large(network, options);
  const bool priced = !options.certify || is_large;  // a dual over the whole finds its own prices, at all times
  std::unique_ptr<LiftedDual> dual;                  // of the latest
  Start best;
  auto ended = [&] {  // of a very large one the first solution is worth all of the time
    const std::optional<Clock::time_point>& deadline = is_large && !best.solution ? options.deadline : inside.deadline;
    return (options.stop && *options.stop) || (deadline && Clock::now() > *deadline);
  };
  auto known = [&] { return best.solution ? std::optional<Wide>(best.cost) : std::nullopt; };
  // Narrowing leaves too much of it to go on with, or proves nothing to a judge.
  auto is_too_large = [&] {
    return dual && best.solution && dual->sweep_of_whole() > very_large(options) &&
           (options.certify || dual->left_of_whole(best.cost) > kMuch);
  };
  bool better = true, finer = true;
  auto is_small = [&](const Folding& f) { return kLeastFolded * f.classes() <= network.variables(); };
  folding.refine();
  best.alike = folding.class_of();
  bool narrows = false;
  for (int depth = 1; finer && (better || depth <= kDeep) && is_small(folding); ++depth, finer = folding.refine()) {
    for (Folding next = folding; narrows && depth < kDeepOfLarge && next.refine() && is_small(next); ++depth)
      folding = next;
    auto next = std::make_unique<LiftedDual>(folding.folded(), tables, priced);
    if (dual) next->begin(*dual);
    dual = std::move(next);
    if (depth == 1 && !is_large && dual->sweep_of_whole() >= static_cast<double>(options.large))
      best.parts = parts_of(network, best.alike, kMostAcross, kLargestPart);
    if (depth == 1 && !best.parts.empty() && !dual->model().limited && dual->model().sweep >= options.large) {
      Folding next = folding;
      narrows = next.refine() && is_small(next);
      if (narrows) continue;
    }
    if (narrows) dual->run(kOverAll, known(), ended);
    narrows = narrows && dual->run_narrowed(kLikely, kNarrowed, best.solution, ended);
    if (!narrows) dual->run(best.solution ? kPasses : kFirstPasses, known(), ended);
    if (ended()) break;
    if (!better) continue;
    if (is_large && !best.solution) inside.deadline = share_of_time(options, kShareOfVeryLarge);
    inside.messages = std::make_shared<Certificate::Leaf>(dual->of_folded());
    inside.start.reset();
    if (best.solution) inside.start = dual->folded().of_folded(*best.solution);
    else if (options.start) inside.start = dual->folded().of_folded(*options.start);
    Result r = dual->model().sweep >= options.large ? solve_likeliest(*dual, narrows ? kValuesOfLarge : kValues, inside)
                                                    : Result();
    if (!r.solution) r = solve_reduced(dual->folded().network(), inside, For::kFolded);
    ++counters["folded"];
    better = r.solution && (!best.solution || r.cost < best.cost);
    if (better) {
      best.cost = r.cost;
      best.solution = dual->folded().of_whole(*r.solution);
      counters["folded_variables"] = folding.classes();
      if (options.tell)
        options.tell(fmt::format("folded {} edges deep: {} variables for {}, cost {}", depth, folding.classes(),
                                 network.variables(), to_string(best.cost)));
    }
    if (ended() || narrows || (depth >= kDeepOfVeryLarge && is_too_large())) break;
  }
  best.very_large = is_too_large();
  if (dual && !narrows &&
      dual->model().sweep >= options.large) {  // passes here cost little beside those over the whole
    constexpr double kOfWhole = 4, kShareOfTime = 0.3;
    inside.deadline = share_of_time(options, kShareOfTime);
    dual->run(best.very_large
                  ? kPassesOfVeryLarge
                  : static_cast<int>(kOfWhole * dual->sweep_of_whole() / static_cast<double>(dual->model().sweep)),
              known(), ended);
  }
  best.dual = std::move(dual);
  return best;
}

// The best solution where repeated parts choose alike; where there is a deadline, one that is near the bound will do.
void solve_alike(Start& folded, const std::optional<Wide>& bound, const Options& options) {
  constexpr double kNear = 1e-4, kShareOfTime = 0.9;
  auto is_near = [&](Wide cost) { return options.deadline && bound && is_within(kNear, cost, *bound); };
  if (is_near(folded.cost)) return;
  const Folding::Folded& alike = folded.dual->folded();
  std::atomic<bool> enough = false;
  Options inside = options;
  inside.certify = false;
  inside.tell = nullptr;
  if (options.deadline && bound) inside.stop = &enough;
  inside.progress = [&](Progress p) {
    if (options.stop && *options.stop) enough = true;
    if (p.cost && is_near(*p.cost)) enough = true;
    p.bound = bound;
    if (options.progress) options.progress(p);
  };
  inside.start = alike.of_folded(*folded.solution);
  inside.messages = std::make_shared<Certificate::Leaf>(folded.dual->of_folded());
  inside.deadline = share_of_time(options, kShareOfTime);
  const Result r = solve_reduced(alike.network(), inside, For::kFolded);
  if (!r.solution || r.cost >= folded.cost) return;
  folded.cost = r.cost;
  folded.solution = alike.of_whole(*r.solution);
  if (options.tell) options.tell(fmt::format("alike, {}: cost {}", name_of(r.status), to_string(folded.cost)));
}

// What is left of a network where everything that costs as much as a solution is left out; empty if that is little. And
// messages to it, or to all.
struct Narrowed {
  std::optional<Subset> rest;
  Certificate::Leaf messages;
  std::optional<Wide> bound;  // of all, by computation
};

// Begins with the messages of a folded network. Looks for a better solution where little can be left out.
Narrowed narrowed(const Network& network, const LiftedDual& folded, PairTables& tables, Start& best,
                  const Options& options) {
  constexpr int kWindows = 8, kPasses = 4;
  constexpr double kVeryLittle = 0.1, kShareOfTime = 0.3;
  auto stop = [&] { return options.stop && *options.stop; };
  if (folded.sweep_of_whole() < static_cast<double>(options.large) || options.certify || !best.solution || stop())
    return {std::nullopt, folded.of_whole(network), std::nullopt};
  LiftedDual dual(Folding::Folded::not_at_all(network), tables);
  const Model& m = dual.model();
  dual.begin(folded);
  std::vector<double> least;
  Alive alive;
  const Rounding rounding(m);
  auto left = [&] {
    alive = at_most(static_cast<double>(best.cost) + 1 + rounding.at(dual.prices()), least);
    return static_cast<double>(sweep_of(m, alive)) / static_cast<double>(m.sweep);
  };
  const std::optional<Clock::time_point> deadline = share_of_time(options, kShareOfTime);
  double share = 1, bound = -kInfinity;
  for (int i = 0; i < kWindows && share > kVeryLittle && !(i > 0 && (stop() || (deadline && Clock::now() > *deadline)));
       ++i) {
    if (i > 0) dual.run(kPasses - 2, best.cost, stop);
    least = dual.least_costs();
    bound = std::max(bound, bound_of(m, least) - rounding.at(dual.prices()));
    share = left();
  }
  std::optional<Wide> proved;
  if (std::isfinite(bound)) proved = std::min(best.cost, static_cast<Wide>(std::ceil(bound)));
  if (share > kLittle && !stop()) {
    Options inside = for_a_start(options);
    inside.start = best.solution;
    inside.messages = std::make_shared<Certificate::Leaf>(dual.of_folded());
    const Result r = solve_likeliest(dual, kValues, inside);
    if (r.solution && r.cost < best.cost) {
      best.solution = r.solution;
      best.cost = r.cost;
      share = left();
      if (options.tell) options.tell(fmt::format("of the likeliest values, cost {}", to_string(best.cost)));
    }
  }
  Narrowed out{little_of(network, m, alive, *best.solution, options), dual.of_folded(), proved};
  if (out.rest) out.messages = out.rest->lowered(out.messages);
  return out;
}

Result solve_unmerged(const Network& network, const Options& options) {
  const Clock::time_point began = Clock::now();
  std::map<std::string, double> counters;
  PairTables tables;
  Start best;
  auto consider = [&](const std::optional<Assignment>& x) {
    if (!x) return;
    const Evaluation e = evaluate(network, *x);  // throws if it is none of this network
    if (e.feasible && (!best.solution || e.cost < best.cost)) best.solution = x, best.cost = e.cost;
  };
  consider(options.start);
  Start folded = solve_folded(network, options, tables, counters);
  consider(folded.solution);
  Options inside = options;
  std::optional<Subset> rest;
  std::optional<Wide> bound;  // by computation
  Certificate apart;          // of parts
  bool apart_once = false;
  auto cut_apart = [&](const std::vector<int>& part_of) {
    if (part_of.empty()) return;
    constexpr double kShareOfTime = 0.75;
    constexpr int64_t kOfSteps = 4;
    Options of_parts = options;
    of_parts.deadline = share_of_time(options, kShareOfTime);
    if (options.max_steps) of_parts.max_steps = std::max<int64_t>(1, *options.max_steps / kOfSteps);
    SolvedApart parts = solve_apart(network, folded.alike, part_of, *folded.dual, *best.solution, of_parts, tables);
    counters["different_parts"] += static_cast<double>(parts.different);
    if (parts.bound && (!apart.bound || *parts.bound > *apart.bound)) apart = std::move(parts.certificate);
    bound = std::max(bound, parts.bound);
    apart_once |= parts.bound.has_value();
    consider(parts.together);
  };
  auto is_near = [&](double gap) { return best.solution && bound && is_within(gap, best.cost, *bound); };
  auto ended = [&](Clock::duration in = {}) {
    return (options.stop && *options.stop) || (options.deadline && Clock::now() + in > *options.deadline);
  };
  auto as_it_is = [&] {
    Result r;
    r.solution = best.solution;
    r.cost = best.cost;
    r.status = Status::kFeasible;
    return r;
  };
  auto finished = [&](Result r) {
    if (bound && r.solution) {
      r.bound = std::min(r.cost, std::max(*bound, r.bound.value_or(*bound)));
      r.status = *r.bound == r.cost ? Status::kOptimal : Status::kFeasible;
    }
    if (apart.bound && (r.certificate.empty() || (r.certificate.bound && *r.certificate.bound < *apart.bound)))
      r.certificate = std::move(apart);
    for (const auto& [count, number] : counters) r.counters[count] += number;
    return r;
  };
  if (folded.dual && best.solution && !is_very_large(network, options)) {
    constexpr double kShareOfTime = 0.5, kEnough = 1e-4, kHopeful = 1e-2;
    constexpr int kTimes = 3, kNarrowed = 100, kOverAll = 12;  // the dual's messages are better each time
    for (int time = 0; time < kTimes && !folded.parts.empty(); ++time) {
      const std::optional<Wide> before = bound;
      cut_apart(folded.parts);
      if (is_near(std::max(options.gap, kEnough)) || !is_near(kHopeful) || bound == before || ended() ||
          time + 1 == kTimes)
        break;
      if (!folded.dual->run_narrowed(kLikely, kNarrowed, best.solution, ended))
        folded.dual->run(kOverAll, best.cost, ended);
    }
    if (is_near(options.gap)) return finished(as_it_is());
    if (options.certify) {
      Options of_steps = options;
      of_steps.deadline = share_of_time(options, kShareOfTime);
      if (options.proving) options.proving(*best.solution);
      Result r = solve_in_steps(network, *best.solution, folded.dual->of_whole(network), of_steps, &tables);
      consider(r.solution);
      if (is_closed(r, options.gap)) return finished(std::move(r));
    }
  }
  const Clock::time_point before = folded.very_large ? began : Clock::now();
  if (folded.very_large) {
    cut_apart(parts_of(network, folded.alike));
    solve_alike(folded, bound, options);
    consider(folded.solution);
  }
  Clock::duration taken = Clock::now() - before;
  if (folded.dual && !(folded.very_large && bound)) {
    Narrowed left = narrowed(network, *folded.dual, tables, best, options);
    rest = std::move(left.rest);
    if (left.bound) bound = std::max(bound, left.bound);
    if (rest || !inside.messages) inside.messages = std::make_shared<Certificate::Leaf>(std::move(left.messages));
    taken = Clock::now() - before;
    if (left.bound && !rest && !folded.very_large && !apart_once) cut_apart(parts_of(network, folded.alike));
  }
  if (best.solution) inside.start = best.solution;
  constexpr int kLonger = 4;  // what comes now takes before it brings anything
  const bool ends = is_near(options.gap) ||
                    (best.solution && (bound ? ended(kLonger * taken) : is_very_large(network, options) && ended()));
  if (!ends && !inside.messages && folded.dual)
    inside.messages = std::make_shared<Certificate::Leaf>(folded.dual->of_whole(network));
  folded.dual.reset();
  tables.clear();
  if (ends) return finished(as_it_is());
  if (!rest) return finished(solve_reduced(network, inside));
  ++counters["narrowed"];
  inside.start = rest->lowered(*best.solution);
  Result r = solve_rest(*rest, inside, For::kItself, best.cost);
  ensure(r.solution && r.cost <= best.cost, "what is left of a network has lost a solution of {}",
         to_string(best.cost));
  return finished(std::move(r));
}

}  // namespace

Result solve(const Network& network, const Options& options) {
  validate(network);
  Start best;
  if (options.start) {
    const Evaluation e = evaluate(network, *options.start);  // throws if it is none of this network
    if (e.feasible) best.solution = options.start, best.cost = e.cost;
  }
  if (auto r = eliminated_at_once(network, best, options)) return std::move(*r);
  auto merged = solve_merged(network, best, options);
  if (!merged) return solve_unmerged(network, options);
  if (!options.certify) return std::move(*merged);
  Options inside = options;
  if (merged->solution && (!best.solution || merged->cost < best.cost)) inside.start = merged->solution;
  Result r = solve_unmerged(network, inside);
  if (merged->bound && r.solution && (!r.bound || *merged->bound > *r.bound)) {
    r.bound = std::min(r.cost, *merged->bound);
    r.status = *r.bound == r.cost ? Status::kOptimal : Status::kFeasible;
  }
  r.counters["merged"] = merged->counters["merged"];
  return r;
}

bool is_within(double gap, Wide cost, Wide bound) {
  return static_cast<double>(cost - bound) <= gap * std::abs(static_cast<double>(cost));
}

std::string_view name_of(Status status) {
  constexpr EnumWords<Status::kUnknown> kWords({"optimal", "feasible", "infeasible", "unknown"});
  return kWords.of(status);
}

}  // namespace partita::solver
