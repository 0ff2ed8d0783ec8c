// Our search for placements and schedules of whole operations: from every rule's placement, through coarser problems to
// the step itself.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/placement/baechi.h"
#include "partita/placement/bounds.h"
#include "partita/placement/branch.h"
#include "partita/placement/coarsen.h"
#include "partita/placement/decode.h"
#include "partita/placement/improve.h"
#include "partita/placement/memory.h"
#include "partita/placement/units.h"
#include "partita/placement/windows.h"
#include "partita/search/judge.h"
#include "partita/search/placements.h"
#include "partita/search/searches.h"

namespace partita {

namespace {

constexpr int kTries = 6;             // with less memory, where the planner's registers need more than the schedule
constexpr size_t kFew = 2000;         // operations, of which all rules' plans are lowered and simulated
constexpr int kFinest = 30'000;       // operations whose schedules are improved themselves
constexpr size_t kBranched = 64;      // vertices, of which the shortest schedule is looked for by branch and bound
constexpr int64_t kNodes = 50;        // that it takes at most
constexpr double kBranchShare = 0.2;  // of the time that is left
constexpr int64_t kMostChanges = 20'000, kOperations = 60'000'000;  // on a level: changes, and operations they decode
constexpr double kSearchShare = 0.75;  // of a time limit; plans are lowered and simulated in what is left
constexpr double kWaits = 1.02;        // a lowered step that is so much longer than a schedule waits for something
constexpr double kFreesFrom[] = {1, 0.8, 0.5, 0};  // first_come()

// The best schedule of the step so far: the shortest that fits, or the one that lacks the least memory; and whose it
// is.
class Best {
 public:
  explicit Best(const PlacementProblem& problem) : p_(problem), memory_(problem) {}
  // Of a placement: in the framework's way by the longest way to the end and in its own order, by lists of both, and in
  // an order that is given.
  void offer(const std::vector<int>& device, const std::vector<int>& order, const std::string& whose) {
    for (const std::vector<int>& rank : {critical_ranks(p_, device), framework_ranks(p_)}) {
      take(list_schedule(p_, device, by_rank(rank), true), whose);
      for (double frees_from : kFreesFrom)
        if (take(first_come(p_, device, rank, frees_from), whose)) break;
    }
    if (!order.empty()) take(list_schedule(p_, device, order, true), whose);
  }
  // Whether it fits.
  bool take(const PlacedSchedule& schedule, const std::string& whose) {
    const int64_t over = memory_.over_bytes(schedule);
    const Rated rated{over, static_cast<double>(schedule.end) + lacking_cost(p_, schedule.end, over), schedule, whose};
    if (!start_ || rated.cost < start_->cost) start_ = rated;
    const auto key = [](const Rated& r) { return std::pair(r.over, r.schedule.end); };
    if (!best_ || key(rated) < key(*best_)) best_ = rated;
    return over == 0;
  }
  bool fits() const { return best_->over == 0; }
  const PlacedSchedule& schedule() const { return best_->schedule; }
  const std::string& whose() const { return best_->whose; }
  // That what follows begins with: it may lack memory where it is shorter.
  const PlacedSchedule& start() const { return start_->schedule; }

 private:
  struct Rated {
    int64_t over;  // bytes
    double cost;   // ns
    PlacedSchedule schedule;
    std::string whose;
  };
  const PlacementProblem& p_;
  PlacedMemory memory_;
  std::optional<Rated> best_, start_;
};

// Returns the rules' schedules, each as its own search has it.
std::vector<PlacedSchedule> offer_rules(const Problem& problem, const PlacedGraph& placed, const Watch& watch,
                                        Best& best) {
  const PlacementProblem& p = placed.problem;
  const int devices = problem.cluster.compute_count;
  for (int d = 0; d < devices && !watch.ended(); ++d)
    best.offer(placed_as(placed, std::vector<int>(problem.graph.ops.size(), d)), {}, "one device");
  const std::vector<int> expert = placed_as(placed, expert_devices(problem.graph, devices));
  best.offer(expert, {}, "expert-placement");
  std::vector<PlacedSchedule> rules{first_come(p, expert, critical_ranks(p, expert))};
  if (watch.ended()) return rules;
  std::string why;
  const PlacementProblem footprints = with_footprints(placed);
  if (const auto device = topological_placement(footprints, why)) {
    best.offer(*device, {}, "baechi-mtopo");
    rules.push_back(first_come(p, *device, framework_ranks(p)));
  }
  if (auto schedule = earliest_task_first(footprints, why)) {
    best.offer(schedule->device, {}, "baechi-metf");
    best.take(*schedule, "baechi-metf");
    rules.push_back(std::move(*schedule));
  }
  return rules;
}

// A vertex goes where most of its time is in the step's placement; groups are whole vertices' or go as their first.
std::vector<int> projected(const PlacementProblem& fine, const Coarse& coarse, const std::vector<int>& device) {
  const PlacementProblem& p = coarse.problem;
  const size_t n = p.devices.size();
  std::vector<std::vector<int64_t>> time(p.ops.size(), std::vector<int64_t>(n, 0));
  for (size_t o = 0; o < fine.ops.size(); ++o)
    time[static_cast<size_t>(coarse.vertex[o])][static_cast<size_t>(device[o])] +=
        fine.ops[o].ns[static_cast<size_t>(device[o])];
  std::vector<int> at(p.ops.size()), of_group;
  for (size_t v = 0; v < p.ops.size(); ++v) {
    at[v] = static_cast<int>(std::max_element(time[v].begin(), time[v].end()) - time[v].begin());
    const int group = p.ops[v].group;
    if (group < 0) continue;
    of_group.resize(std::max(of_group.size(), static_cast<size_t>(group) + 1), -1);
    int& d = of_group[static_cast<size_t>(group)];
    if (d < 0) d = at[v];
    at[v] = d;
  }
  return at;
}

int64_t changes_on(const PlacementProblem& p, const Budget& budget, int levels) {
  const int64_t most = std::min(kMostChanges, kOperations / static_cast<int64_t>(std::max<size_t>(1, p.ops.size())));
  return budget.steps ? std::min(most, *budget.steps / levels) : most;
}

// What branch and bound says of the coarsest level.
struct Coarsest {
  size_t vertices = 0;
  int64_t start_ns = 0;
  BranchResult result;
};

// Vertices hold what they read and make all the while, operations do not: so devices have the more memory, the more the
// vertices of a schedule need than its operations.
PlacementProblem with_room(const Coarse& level, const PlacementProblem& fine, const PlacedSchedule& coarse,
                           const PlacedSchedule& best) {
  PlacementProblem p = level.problem;
  const std::vector<int64_t> need = PlacedMemory(p).peaks(coarse), had = PlacedMemory(fine).peaks(best);
  for (size_t d = 0; d < need.size(); ++d)
    if (need[d] > had[d] && had[d] > 0)
      p.devices[d].memory_bytes = static_cast<int64_t>(static_cast<double>(p.devices[d].memory_bytes) *
                                                       static_cast<double>(need[d]) / static_cast<double>(had[d]));
  return p;
}

// From the coarsest level to the finest, each beginning where the one before ended, or at the projection of the best
// schedule of the step, whichever is better there. Of a coarsest level that is small the shortest schedule is looked
// for.
std::optional<Coarsest> improve_levels(const Problem& problem, const PlacementProblem& fine,
                                       const std::vector<Coarse>& levels, const Budget& budget, int64_t enough_ns,
                                       Rng& rng, const Watch& watch, Best& best, std::vector<PlacedSchedule>& found) {
  std::optional<PlacedSchedule> before;  // of the level before
  std::optional<Coarsest> coarsest;
  for (size_t k = levels.size(); k-- > 0 && !watch.ended();) {
    const Coarse& level = levels[k];
    const PlacedSchedule projection = by_tails(level.problem, projected(fine, level, best.start().device));
    const PlacementProblem p = with_room(level, fine, projection, best.start());
    Best here(p);
    here.take(projection, "");
    if (before) {
      std::vector<int> device(p.ops.size());
      for (size_t v = 0; v < p.ops.size(); ++v)
        device[v] = before->device[static_cast<size_t>(levels[k + 1].inside[v])];
      here.take(by_tails(p, device), "");
    }
    if (problem.tell)
      problem.tell(fmt::format("placement: {} vertices from {}, the step takes {}{}", p.ops.size(),
                               ms(here.start().end), ms(best.schedule().end), best.fits() ? "" : " and does not fit"));
    const ImproveOptions options{changes_on(p, budget, static_cast<int>(levels.size()) + 1), enough_ns};
    here.take(improved(p, here.start(), options, rng, watch), "");
    if (k + 1 == levels.size() && p.ops.size() <= kBranched && p.devices.size() <= PlacementWindows::kMostDevices) {
      const int64_t nodes = budget.steps ? std::min(kNodes, *budget.steps / 10) : kNodes;
      coarsest = {p.ops.size(), here.schedule().end,
                  branch_and_bound(p, here.schedule(), {.nodes = nodes}, watch.share(kBranchShare))};
      here.take(coarsest->result.schedule, "");
    }
    before = here.schedule();
    best.offer(expanded_placement(level, before->device), expanded_order(level, order_of(*before)),
               fmt::format("{} vertices", p.ops.size()));
    found.push_back(best.schedule());
  }
  return coarsest;
}

struct Tried {
  SearchResult result;
  int64_t missing_bytes = 0;
  int64_t step_ns = 0;  // where it fits; else a guess
  bool fits() const { return missing_bytes <= 0; }
  // For something that a schedule of such a step does not wait for.
  bool waits(int64_t schedule_ns) const {
    return static_cast<double>(step_ns) > kWaits * static_cast<double>(schedule_ns);
  }
  bool operator<(const Tried& b) const {
    return std::pair(missing_bytes, step_ns) < std::pair(b.missing_bytes, b.step_ns);
  }
};

// Of these schedules, in their own order (kept) or in others (placements.h), the plan whose lowered step is the
// shortest, of those that fit if any does.
Tried shortest(const Problem& problem, const PlacedGraph& placed, const std::vector<PlacedSchedule>& schedules,
               const std::vector<std::string>& orders, const Watch& watch) {
  std::optional<Tried> best;
  for (const PlacedSchedule& schedule : schedules)
    for (const std::string& order : orders) {
      if (best && watch.ended()) break;
      Tried tried{placed_result(problem, placed, schedule, order, "placement")};
      const Judgement judged = judge_in_time(problem, *tried.result.plan, {});
      tried.missing_bytes = std::max<int64_t>(0, judged.missing_bytes.value_or(0));
      tried.step_ns = judged.cost;
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

// The best schedules of the step, the last first: of the step itself, of coarser problems, of the best rule; and then
// of all rules.
std::vector<PlacedSchedule> searched(const Problem& problem, const PlacedGraph& placed, const Budget& budget, Rng& rng,
                                     const Watch& watch, const PlacementBounds& bounds,
                                     std::vector<std::string>& notes) {
  const PlacementProblem& p = placed.problem;
  Best best(p);
  const std::vector<PlacedSchedule> rules = offer_rules(problem, placed, watch, best);
  const auto enough_ns = static_cast<int64_t>(static_cast<double>(bounds.ns()) * (1 + budget.gap));
  const std::string rule = best.whose();
  const PlacedSchedule of_rule = best.schedule();
  std::vector<PlacedSchedule> found{of_rule};
  CoarsenOptions coarsening;
  coarsening.placement = best.start().device;
  const std::vector<Coarse> levels = coarsen_levels(p, {4000, 1000, 200, 50}, coarsening);
  const auto coarsest = improve_levels(problem, p, levels, budget, enough_ns, rng, watch, best, found);
  if (p.ops.size() <= kFinest) {
    const ImproveOptions options{changes_on(p, budget, static_cast<int>(levels.size()) + 1), enough_ns};
    best.take(improved(p, best.start(), options, rng, watch), "the step itself");
  }
  notes.push_back(fmt::format("the best rule is {} with {}; the best schedule is of {}, {}", rule, ms(of_rule.end),
                              best.whose(), ms(best.schedule().end)));
  if (coarsest) notes.push_back(note_of(*coarsest));
  best.take(pushed_left(p, best.schedule()), best.whose());
  found.push_back(best.schedule());
  std::reverse(found.begin(), found.end());
  found.insert(found.end(), rules.begin(), rules.end());
  return found;
}

// Where operations are placed whole each parameter is on one device: infeasible where that cannot be.
void expect_room_for_what_stays(const PlacementProblem& p) {
  int64_t stays = 0, room = 0;
  std::vector<char> holds(p.devices.size(), false);  // something that stays
  for (const PlacementUnit& unit : placement_units(p)) {
    if (unit.bytes == 0) continue;
    const PlacedOp& first = p.ops[static_cast<size_t>(unit.ops[0])];
    int64_t most = 0;  // that a device has on which it may be
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

// Whether a device holds nearly all that it can.
bool is_full(const PlacementProblem& p, const PlacedSchedule& schedule) {
  constexpr double kNearly = 0.9;
  const std::vector<int64_t> peaks = PlacedMemory(p).peaks(schedule);
  for (size_t d = 0; d < peaks.size(); ++d)
    if (static_cast<double>(peaks[d]) > kNearly * static_cast<double>(p.devices[d].memory_bytes)) return true;
  return false;
}

// The planner leaves room between registers that the problem has not, of one schedule more than of another. Where its
// step waits for memory, or does not fit, other schedules are made with less memory, some times.
Tried planned(const Problem& problem, const PlacedGraph& placed, PlacementProblem p, const PlacedSchedule& best,
              Tried tried, const Budget& budget, Rng& rng, const Watch& watch) {
  constexpr int64_t kPartLess = 64, kSchedules = 3, kPartOfChanges = 6;
  int64_t aim_ns = best.end;
  for (int again = 0; again < kTries && !watch.ended(); ++again) {
    if (tried.fits() && (!tried.waits(aim_ns) || !is_full(p, best))) break;
    for (PlacedDevice& d : p.devices) d.memory_bytes -= d.memory_bytes / kPartLess;
    if (problem.tell)
      problem.tell(
          fmt::format("placement: a step of {} takes {} where the planner's registers are; again with {} bytes",
                      ms(aim_ns), tried.fits() ? ms(tried.step_ns) : "more memory", p.devices[0].memory_bytes));
    for (int64_t k = 0; k < kSchedules && !watch.ended(); ++k) {
      const ImproveOptions options{changes_on(p, budget, kTries) / kPartOfChanges, 0};
      const PlacedSchedule schedule = improved(p, best, options, rng, watch);
      Tried other = shortest(problem, placed, {schedule}, {"own"}, watch);
      if (!(other < tried)) continue;
      tried = std::move(other);
      aim_ns = schedule.end;
    }
  }
  return tried;
}

SearchResult search(const Problem& problem, const Budget& budget, Rng& rng) {
  const Watch watch = budget.watch();
  const PlacedGraph placed = placed_graph(problem, CostModel(problem.cluster), watch);
  const PlacementProblem& p = placed.problem;
  expect_room_for_what_stays(p);
  std::vector<std::string> notes;
  // Some time is left for the plans.
  const PlacementBounds bounds = placement_bounds(p);
  const std::vector<PlacedSchedule> found =
      searched(problem, placed, budget, rng, watch.share(kSearchShare), bounds, notes);
  Tried tried = shortest(problem, placed, {found[0]}, {"own", "framework"}, watch);
  // Where the lowered step is not the schedule's, that of others may be shorter, or fit.
  const bool is_small = p.ops.size() <= kFew;
  const std::vector<std::string> orders =
      is_small ? std::vector<std::string>{"own", "critical", "framework"} : std::vector<std::string>{"own"};
  if ((tried.waits(found[0].end) || !tried.fits() || is_small) && !watch.ended()) {
    Tried other = shortest(problem, placed, {found.begin() + 1, found.end()}, orders, watch);
    if (other < tried) tried = std::move(other);
  }
  tried = planned(problem, placed, p, found[0], std::move(tried), budget, rng, watch);
  if (!tried.fits())
    throw Error(ExitCode::kInfeasible,
                fmt::format("placement: no placement of whole operations was found that fits the devices' memory: the "
                            "nearest has {} bytes missing; other searches divide operations, or take --recompute and "
                            "--micro-batches",
                            tried.missing_bytes));
  tried.result.notes.insert(tried.result.notes.end(), notes.begin(), notes.end());
  add_bound(bounds, tried.result);
  return std::move(tried.result);
}

}  // namespace

SearchEntry placement_search() {
  return {.name = "placement",
          .source = "ours",
          .summary =
              "whole operations: placements and schedules of all rules, improved on coarser and coarser graphs "
              "and on the step itself",
          .search = search,
          .sharing = [](const Problem&) { return Sharing{}; },
          .whole_batch = true,
          .places = true,
          .measure = Objective::kTime};
}

}  // namespace partita
