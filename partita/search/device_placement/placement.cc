// `placement`: our search for placements and schedules of whole operations, from every rule's placement, through
// coarser problems to the step itself.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/device_placement/baechi.h"
#include "partita/device_placement/coarsen.h"
#include "partita/device_placement/decode.h"
#include "partita/device_placement/favourites.h"
#include "partita/device_placement/improve.h"
#include "partita/device_placement/memory.h"
#include "partita/device_placement/units.h"
#include "partita/search/device_placement/placed_graph.h"
#include "partita/search/device_placement/placed_plan.h"
#include "partita/search/device_placement/placement_best.h"
#include "partita/search/device_placement/placement_passes.h"
#include "partita/search/device_placement/placements.h"
#include "partita/search/entry.h"
#include "partita/search/evaluate.h"

namespace partita {

namespace {

constexpr int kTries = 10;              // with less memory, if the planner's registers need more than the schedule
constexpr size_t kLowered = 12;         // of the schedules that passes found, the last ones
constexpr size_t kFew = 2000;           // operations, up to which all rules' plans are lowered and simulated
constexpr size_t kFavoured = 1000;      // operations, up to which favourite children are looked for: parts of a second
constexpr double kProgramSeconds = 60;  // of their linear program, which none so small takes
constexpr double kWaits = 1.02;         // a lowered step so many times a schedule waits for memory or transfers
constexpr double kFarBehind = 1.25;     // times the best rule's step: passes are not begun from such a rule

struct Rules {
  std::vector<PlacedSchedule> own;     // each rule's schedule, as its own search has it
  std::vector<PlacedSchedule> starts;  // of each placement, the shortest first
};

// Offers m-SCT if the linear program is small and its solver is there.
void offer_favourites(const PlacementProblem& footprints, const Watch& watch, BestSchedule& best, Rules& rules,
                      std::vector<std::string>& notes) {
  if (footprints.ops.size() > kFavoured) return;
  std::string why;
  try {
    const FavouriteChildren favourites = favourite_children(footprints, kProgramSeconds, watch);
    auto schedule = favourites_first(footprints, favourites.child, why);
    if (!schedule) return;
    rules.starts.push_back(best.offer(schedule->device, order_of(*schedule), "baechi-msct"));
    rules.own.push_back(std::move(*schedule));
  } catch (const Error& error) {
    if (!watch.ended()) notes.push_back(fmt::format("baechi-msct is no start: {}", error.what()));
  }
}

// Offers the plan of --from as a start, if it keeps the pins.
void offer_plan(const Problem& problem, const PlacedGraph& placed, BestSchedule& best, Rules& rules,
                std::vector<std::string>& notes) {
  if (!problem.from) return;
  const std::string whose = "the plan that it began with";
  std::string why;
  const std::optional<PlacedPlan> plan = placed_plan(placed, *problem.from, why);
  std::optional<PlacedSchedule> schedule;
  if (plan) {
    schedule = list_schedule(placed.problem, plan->device, plan->order, true);
    why = schedule_error(with_ample_memory(placed.problem), *schedule);
  }
  if (!why.empty()) {
    notes.push_back(fmt::format("{} is no start: {}", whose, why));
    return;
  }
  best.take(*schedule, whose);
  rules.starts.push_back(best.offer(plan->device, plan->order, whose));
  rules.own.push_back(*schedule);
}

Rules offer_rules(const Problem& problem, const PlacedGraph& placed, const Watch& watch, BestSchedule& best,
                  std::vector<std::string>& notes) {
  const PlacementProblem& p = placed.problem;
  const int devices = problem.cluster.compute_count;
  Rules rules;
  offer_plan(problem, placed, best, rules, notes);
  std::optional<PlacedSchedule> of_one;  // device, the shortest
  for (int d = 0; d < devices && !watch.ended(); ++d) {
    rules.starts.push_back(
        best.offer(placed_as(placed, std::vector<int>(problem.graph.ops.size(), d)), {}, "one device"));
    if (!of_one || rules.starts.back().end < of_one->end) of_one = rules.starts.back();
  }
  if (of_one) rules.own.push_back(*of_one);
  const std::vector<int> expert = placed_as(placed, expert_devices(problem.graph, devices));
  rules.starts.push_back(best.offer(expert, {}, "expert-placement"));
  rules.own.push_back(first_come(p, expert, critical_ranks(p, expert)));
  if (watch.ended()) return rules;
  std::string why;
  const PlacementProblem footprints = with_footprints(placed);
  if (const auto device = topological_placement(footprints, why)) {
    rules.starts.push_back(best.offer(*device, {}, "baechi-mtopo"));
    rules.own.push_back(first_come(p, *device, framework_ranks(p)));
  }
  if (auto schedule = earliest_task_first(footprints, why)) {
    rules.starts.push_back(best.offer(schedule->device, order_of(*schedule), "baechi-metf"));
    best.take(*schedule, "baechi-metf");
    rules.own.push_back(std::move(*schedule));
  }
  offer_favourites(footprints, watch, best, rules, notes);
  std::stable_sort(rules.starts.begin(), rules.starts.end(),
                   [](const PlacedSchedule& a, const PlacedSchedule& b) { return a.end < b.end; });
  const auto far = std::find_if(rules.starts.begin(), rules.starts.end(), [&](const PlacedSchedule& s) {
    return static_cast<double>(s.end) > kFarBehind * static_cast<double>(rules.starts[0].end);
  });
  rules.starts.erase(far, rules.starts.end());
  return rules;
}

struct Tried {
  SearchResult result;
  PlanEvaluation evaluation;  // by time
  bool fits() const { return evaluation.fits(); }
  int64_t deficit_bytes() const { return evaluation.deficit_bytes(); }
  int64_t step_ns() const { return evaluation.cost(); }  // if it fits; otherwise a guess
  // Tells whether such a step waits for a cause that the schedule does not have.
  bool waits(int64_t schedule_ns) const {
    return static_cast<double>(step_ns()) > kWaits * static_cast<double>(schedule_ns);
  }
  bool operator<(const Tried& b) const { return is_better(evaluation, b.evaluation); }
};

// Returns the plan of these schedules whose lowered step is the shortest, among those that fit if any does. A schedule
// is tried in its own order (kept) or in others (placements.h).
Tried shortest(const Problem& problem, const PlacedGraph& placed, const std::vector<PlacedSchedule>& schedules,
               const std::vector<std::string>& orders, const Watch& watch) {
  std::optional<Tried> best;
  for (const PlacedSchedule& schedule : schedules)
    for (const std::string& order : orders) {
      if (best && watch.ended()) break;
      Tried tried{placed_result(problem, placed, schedule, order, "placement"), {}};
      tried.evaluation = evaluate_in_time(problem, *tried.result.plan);
      if (!best || tried < *best) best = std::move(tried);
    }
  return std::move(*best);
}

std::string note_of(const Coarsest& coarsest) {
  const BranchResult& r = coarsest.result;
  return fmt::format(
      "the coarse problem of {} vertices: {} by changes, {} by branch and bound of {} nodes, {}, which is "
      "no bound of the step",
      coarsest.vertices, ms(coarsest.start_ns), ms(r.schedule.end), r.nodes + r.order_nodes,
      r.proved() ? "its shortest" : "none below " + ms(r.bound_ns));
}

// The result of passes over a step.
struct Found {
  std::vector<PlacedSchedule> schedules;  // the last first: of the step itself, of coarser problems, of the best start
  std::vector<std::string> notes;
  bool enough = false;  // the bound, or the gap, is reached
};

Found searched(const PlacementProblem& p, const PassOptions& options, const Budget& budget, Rng& rng,
               const Watch& watch, BestSchedule& best) {
  Found found;
  found.schedules = {best.schedule()};
  PassReport passes = improve_in_passes(p, options, rng, watch, best);
  found.schedules.insert(found.schedules.end(), passes.found.begin(), passes.found.end());
  found.notes.push_back(fmt::format("the best schedule is of {}, {}", best.whose(), ms(best.schedule().end)));
  if (passes.passes > 1)
    found.notes.push_back(fmt::format("{} passes, the first to {}; of the further ones {} made it shorter",
                                      passes.passes, ms(passes.first_ns), passes.shorter));
  found.enough = best.fits() && best.schedule().end <= options.enough_ns;
  if (!found.enough) {
    if (budget.gap > 0) found.notes.push_back(fmt::format("the gap of {} was not reached", budget.gap));
    if (options.further && !watch.deadline && !watch.ended())
      found.notes.push_back("--time-limit gives it more passes");
  }
  if (passes.coarsest) found.notes.push_back(note_of(*passes.coarsest));
  best.take(pushed_left(p, best.schedule()), best.whose());
  found.schedules.push_back(best.schedule());
  std::reverse(found.schedules.begin(), found.schedules.end());
  if (found.schedules.size() > kLowered) found.schedules.resize(kLowered);
  return found;
}

// With operations placed whole each parameter is on one device: infeasible if that cannot be.
void require_room_for_parameters(const PlacementProblem& p) {
  int64_t stays = 0, room = 0;
  std::vector<char> holds(p.devices.size(), false);  // bytes that stay
  for (const PlacementUnit& unit : placement_units(p)) {
    if (unit.bytes == 0) continue;
    const PlacedOp& first = p.ops[static_cast<size_t>(unit.ops[0])];
    int64_t most = 0;  // of a device that may hold it
    for (size_t d = 0; d < p.devices.size(); ++d)
      if (first.ns[d] > 0) most = std::max(most, p.devices[d].memory_bytes);
    if (unit.devices.empty())
      throw Error(ExitCode::kInfeasible,
                  fmt::format("placement: '{}' and what stays with it are {} bytes, {} bytes more than a device has; "
                              "other searches divide parameters, such as tofu, megatron and zero",
                              first.name, unit.bytes, unit.bytes - most));
    stays += unit.bytes;
    for (int d : unit.devices) holds[static_cast<size_t>(d)] = true;
  }
  for (size_t d = 0; d < holds.size(); ++d) room += holds[d] ? p.devices[d].memory_bytes : 0;
  if (stays > room)
    throw Error(ExitCode::kInfeasible,
                fmt::format("placement: parameters and states are {} bytes, {} bytes more than all devices have; where "
                            "operations are placed whole each is on one device: give more devices",
                            stays, stays - room));
}

// The planner leaves gaps between registers that the problem has not, for one schedule more than for another. If a step
// waits for memory, or does not fit, other schedules are made, some times. They start from the one so far that is
// nearest to fitting, with as much less memory as its deficit, more each time. They take twice as many moves if nothing
// was found.
Tried planned(const Problem& problem, const PlacedGraph& placed, PlacementProblem p, PlacedSchedule nearest,
              Tried tried, const Budget& budget, Rng& rng, const Watch& watch) {
  constexpr int64_t kLeast = 512, kMost = 64, kPartOfChanges = 6;  // parts of the memory, of the moves
  constexpr int kMostIdle = 3;
  const int64_t most = most_changes(p.ops.size());
  const int64_t changes = (budget.steps ? std::min(most, *budget.steps / kTries) : most) / kPartOfChanges;
  const PlacementProblem whole = p;
  int idle = 0;  // tries in a row without a change
  int64_t aim_ns = nearest.end, less = 0;
  const auto will_do = [&] { return tried.fits() && (!tried.waits(aim_ns) || !fills_memory(whole, nearest)); };
  if (will_do()) return tried;
  int64_t lacks = shortest(problem, placed, {nearest}, {"own"}, watch).deficit_bytes();
  for (int again = 0; again < kTries && idle < kMostIdle && !watch.ended() && !will_do(); ++again) {
    less += std::clamp(lacks, whole.devices[0].memory_bytes / kLeast, whole.devices[0].memory_bytes / kMost);
    for (size_t d = 0; d < p.devices.size(); ++d) p.devices[d].memory_bytes = whole.devices[d].memory_bytes - less;
    if (problem.tell)
      problem.tell(fmt::format("placement: a step of {} takes {} where the planner's registers are; again with {}",
                               ms(aim_ns), tried.fits() ? ms(tried.step_ns()) : "more memory",
                               megabytes(static_cast<double>(p.devices[0].memory_bytes))));
    PlacedSchedule schedule = improve_schedule(p, nearest, {changes << (budget.steps ? 0 : idle), 0}, rng, watch);
    Tried other = shortest(problem, placed, {schedule}, {"own"}, watch);
    idle = schedule.start == nearest.start && schedule.device == nearest.device ? idle + 1 : 0;
    if (other.deficit_bytes() < lacks) {
      lacks = other.deficit_bytes();
      nearest = schedule;
    }
    if (!(other < tried)) continue;
    tried = std::move(other);
    aim_ns = schedule.end;
  }
  return tried;
}

// The plan of --from itself, if it fits and keeps the pins.
std::optional<Tried> plan_begun_with(const Problem& problem) {
  std::optional<Plan> from = initial_plan(problem);
  if (!from) return std::nullopt;
  Tried tried;
  tried.evaluation = evaluate_in_time(problem, *from);
  if (!tried.fits()) return std::nullopt;
  tried.result.plan = std::move(from);
  tried.result.notes.push_back(
      fmt::format("nothing shorter was found than the {} of the plan that it began with", ms(tried.step_ns())));
  return tried;
}

// Leaves time for lowering and simulating plans: for each about as long as the step on one device took, a quarter of
// the time left at most.
Watch before_plans(Watch watch, Watch::Clock::duration lowering, bool is_small) {
  constexpr int kPlans = 8, kPlansOfSmall = 60;
  if (!watch.deadline) return watch;
  const Watch::Clock::duration most = (*watch.deadline - Watch::Clock::now()) / 4;
  *watch.deadline -=
      std::max(Watch::Clock::duration(0), std::min(most, lowering * (is_small ? kPlansOfSmall : kPlans)));
  return watch;
}

// Rounds of passes and plans of their schedules. The first is with all memory. With a limit of time passes go on behind
// it. If plans need more than their schedules, so that none fits or the best waits for memory, a round is made with a
// part of the memory less. Within a limit of time more rounds follow, with more less in turn.
class Rounds {
 public:
  Rounds(const Problem& problem, const PlacedGraph& placed, const Budget& budget, Rng& rng, const Watch& watch,
         Watch::Clock::duration lowering, int64_t bound_ns)
      : problem_(problem),
        placed_(placed),
        budget_(budget),
        rng_(rng),
        watch_(watch),
        lowering_(lowering),
        enough_ns_(static_cast<int64_t>(static_cast<double>(bound_ns) * (1 + budget.gap))),
        best_(placed.problem) {}

  Tried run() {
    std::vector<std::string> notes;
    rules_ = offer_rules(problem_, placed_, until_plans(), best_, notes);
    notes.push_back(fmt::format("the best start is {} with {}", best_.whose(), ms(best_.schedule().end)));
    Tried tried = *round(placed_.problem, best_, false);
    constexpr int64_t kMostLess = 4;  // parts
    for (int64_t less = 0; !budget_.steps && (!enough_ || waits(tried)) && !watch_.ended();) {
      if (!watch_.deadline && (less > 0 || !waits(tried))) break;
      std::optional<Tried> other =
          waits(tried) ? with_less(1 + less++ % kMostLess) : round(placed_.problem, best_, true);
      if (other && *other < tried) tried = std::move(*other);
    }
    if (waits(tried))
      notes.push_back(
          fmt::format("the best schedule takes {}: plans of it and of others as short need more memory than "
                      "there is, or wait for it",
                      ms(best_.schedule().end)));
    tried.result.notes.insert(tried.result.notes.end(), notes.begin(), notes.end());
    return tried;
  }

 private:
  bool is_small() const { return placed_.problem.ops.size() <= kFew; }
  Watch until_plans() const { return before_plans(watch_, lowering_, is_small()); }
  bool waits(const Tried& tried) const {
    return !tried.fits() || (tried.waits(best_.schedule().end) && fills_memory(placed_.problem, best_.schedule()));
  }

  std::optional<Tried> with_less(int64_t parts) {
    constexpr int64_t kPart = 32;
    const PlacementProblem p = with_less_memory(placed_.problem, parts, kPart);
    if (problem_.tell)
      problem_.tell(fmt::format("placement: once more with {}, since plans need more than schedules",
                                megabytes(static_cast<double>(p.devices[0].memory_bytes))));
    BestSchedule best(p);
    best.take(best_);
    for (const PlacedSchedule& start : rules_.starts) best.take(start, "a rule");
    return round(p, best, false);
  }

  // `goes_on`: only further passes; returns none if these bring nothing.
  std::optional<Tried> round(const PlacementProblem& p, BestSchedule& best, bool goes_on) {
    PassOptions options{.starts = rules_.starts,
                        .enough_ns = enough_ns_,
                        .steps = budget_.steps,
                        .goes_on = goes_on,
                        .first_start = starts_++,
                        .tell = problem_.tell};
    if (!budget_.steps) options.further = goes_on ? kGoingOn : further_passes(p.ops.size());
    const PlacedSchedule before = best.schedule();
    Found found = searched(p, options, budget_, rng_, until_plans(), best);
    enough_ |= found.enough;
    if (goes_on && best.schedule().start == before.start && best.schedule().device == before.device)
      return std::nullopt;
    if (problem_.tell) problem_.tell("placement: lowers and simulates the best schedules");
    const PlacedSchedule& first = found.schedules[0];
    Tried tried = shortest(problem_, placed_, {first}, {"own", "framework"}, watch_);
    // If the lowered step is not the schedule's, that of others may be shorter, or fit.
    if ((tried.waits(first.end) || !tried.fits() || is_small()) && !watch_.ended()) {
      const auto orders =
          is_small() ? std::vector<std::string>{"own", "critical", "framework"} : std::vector<std::string>{"own"};
      if (!of_rules_) of_rules_ = shortest(problem_, placed_, rules_.own, orders, watch_);
      if (*of_rules_ < tried) tried = *of_rules_;
      if (!watch_.ended()) {
        Tried other = shortest(problem_, placed_, {found.schedules.begin() + 1, found.schedules.end()}, orders, watch_);
        if (other < tried) tried = std::move(other);
      }
    }
    tried = planned(problem_, placed_, p, first, std::move(tried), budget_, rng_, watch_);
    tried.result.notes.insert(tried.result.notes.end(), found.notes.begin(), found.notes.end());
    return tried;
  }

  static constexpr int kGoingOn = 4;  // passes, at least one of them afresh if they bring little

  const Problem& problem_;
  const PlacedGraph& placed_;
  const Budget& budget_;
  Rng& rng_;
  const Watch& watch_;
  const Watch::Clock::duration lowering_;  // estimate for a plan
  const int64_t enough_ns_;
  BestSchedule best_;
  Rules rules_;
  std::optional<Tried> of_rules_;  // the shortest of their plans, once it was requested
  size_t starts_ = 0;              // rounds so far
  bool enough_ = false;
};

SearchResult placed_by_rounds(const Problem& problem, const Budget& budget, Rng& rng, const Watch& watch) {
  const Watch::Clock::time_point begun = Watch::Clock::now();
  const PlacedGraph placed = placed_graph(problem, CostModel(problem.cluster), watch);
  const Watch::Clock::duration lowering = Watch::Clock::now() - begun;
  require_room_for_parameters(placed.problem);
  const PlacementBounds bounds = bounds_of_plans(placed);
  Tried tried = Rounds(problem, placed, budget, rng, watch, lowering, bounds.ns()).run();
  if (auto given = plan_begun_with(problem); given && *given < tried) tried = std::move(*given);
  if (!tried.fits())
    throw Error(ExitCode::kInfeasible,
                fmt::format("placement: no placement of whole operations was found that fits the devices' memory: the "
                            "nearest has {} bytes missing; other searches divide operations, or take --micro-batches",
                            tried.deficit_bytes()));
  add_bound(bounds, problem.cluster, tried.result);
  return std::move(tried.result);
}

// Bad input if the plan of --from is not one of whole operations. If time ends before anything is found, it is kept.
SearchResult search(const Problem& problem, const Budget& budget, Rng& rng) {
  if (problem.from && !runs_ops_whole(*problem.from))
    fail(
        "--from: placement begins with plans of whole operations, each on one device; this one, by '{}', has others; "
        "`--search exact` can begin with it",
        problem.from->search);
  try {
    return placed_by_rounds(problem, budget, rng, budget.watch());
  } catch (const Error& error) {
    std::optional<Tried> given;
    if (is_end(error)) given = plan_begun_with(problem);
    if (!given) throw;
    given->result.notes.push_back(error.what());
    return std::move(given->result);
  }
}

}  // namespace

SearchEntry placement_search() {
  return {.name = "placement",
          .source = "ours",
          .summary =
              "whole operations: placements and schedules of all rules, improved on coarser and coarser graphs "
              "and on the step itself",
          .search = search,
          .offers = {.takes_over = [](const Problem& problem) { return has_device_types(problem.graph); },
                     .share = {.of_time = 0.2, .applies = can_be_placed, .bounds = places_whole_ops},
                     .about = "whole ops on devices",
                     .steps_in_time = 4000},
          .sharing = one_replica,
          .warm = true,
          .whole_batch = true,
          .places = true,
          .measure = Objective::kTime};
}

}  // namespace partita
