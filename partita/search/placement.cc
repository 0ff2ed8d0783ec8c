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
#include "partita/placement/windows.h"
#include "partita/search/judge.h"
#include "partita/search/placements.h"
#include "partita/search/searches.h"

namespace partita {

namespace {

constexpr int kTries = 4;             // where the planner refuses what footprints allowed
constexpr int kFinest = 30'000;       // operations whose schedules are improved themselves
constexpr size_t kBranched = 64;      // vertices, of which the shortest schedule is looked for by branch and bound
constexpr int64_t kNodes = 50;        // that it takes at most
constexpr double kBranchShare = 0.2;  // of the time that is left
constexpr int64_t kMostChanges = 20'000, kOperations = 60'000'000;  // on a level: changes, and operations they decode

// By how much the device that lacks most is over its memory; 0: all fit.
int64_t over_bytes(const PlacementProblem& p, const std::vector<int>& device) {
  std::vector<int64_t> bytes(p.devices.size(), 0);
  for (size_t o = 0; o < p.ops.size(); ++o) bytes[static_cast<size_t>(device[o])] += p.ops[o].bytes;
  int64_t over = 0;
  for (size_t d = 0; d < bytes.size(); ++d) over = std::max(over, bytes[d] - p.devices[d].memory_bytes);
  return over;
}

// The best schedule of the step so far, and whose it is.
class Best {
 public:
  explicit Best(const PlacementProblem& problem) : p_(problem) {}
  // Of a placement: in the framework's way by the longest way to the end, by lists, and in an order of its own.
  void offer(const std::vector<int>& device, const std::vector<int>& order, const std::string& whose) {
    const std::vector<int> rank = critical_ranks(p_, device);
    take(first_come(p_, device, rank), whose);
    take(list_schedule(p_, device, by_rank(rank), true), whose);
    if (!order.empty()) take(list_schedule(p_, device, order, true), whose);
  }
  void take(const PlacedSchedule& schedule, const std::string& whose) {
    if (schedule_ && schedule_->end <= schedule.end) return;
    if (const int64_t over = over_bytes(p_, schedule.device); over > 0) {
      least_over_ = std::min(least_over_, over);
      return;
    }
    schedule_ = schedule;
    whose_ = whose;
  }
  bool found() const { return schedule_.has_value(); }
  int64_t least_over() const { return least_over_; }  // bytes, of what did not fit
  const PlacedSchedule& schedule() const { return *schedule_; }
  const std::string& whose() const { return whose_; }

 private:
  const PlacementProblem& p_;
  int64_t least_over_ = INT64_MAX;
  std::optional<PlacedSchedule> schedule_;
  std::string whose_;
};

void offer_rules(const Problem& problem, const PlacedGraph& placed, const PlacementProblem& p, Best& best) {
  const int devices = problem.cluster.compute_count;
  for (int d = 0; d < devices; ++d)
    best.offer(placed_as(placed, std::vector<int>(problem.graph.ops.size(), d)), {}, "one device");
  best.offer(placed_as(placed, expert_devices(problem.graph, devices)), {}, "expert-placement");
  std::string why;
  if (const auto device = topological_placement(p, why)) best.offer(*device, {}, "baechi-mtopo");
  if (const auto schedule = earliest_task_first(p, why)) {
    best.offer(schedule->device, {}, "baechi-metf");
    best.take(*schedule, "baechi-metf");
  }
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

// From the coarsest level to the finest, each beginning where the one before ended, or at the projection of the best
// schedule of the step, whichever is shorter there. Of a coarsest level that is small the shortest schedule is looked
// for.
std::optional<Coarsest> improve_levels(const Problem& problem, const PlacementProblem& fine,
                                       const std::vector<Coarse>& levels, const Budget& budget, int64_t enough_ns,
                                       Rng& rng, const Watch& watch, Best& best) {
  std::optional<PlacedSchedule> before;  // of the level before
  std::optional<Coarsest> coarsest;
  for (size_t k = levels.size(); k-- > 0 && !watch.ended();) {
    const Coarse& level = levels[k];
    const PlacementProblem& p = level.problem;
    std::optional<PlacedSchedule> start;
    const auto offer = [&](PlacedSchedule s) {
      if (!start || s.end < start->end) start = std::move(s);
    };
    if (before) {
      std::vector<int> device(p.ops.size());
      for (size_t v = 0; v < p.ops.size(); ++v)
        device[v] = before->device[static_cast<size_t>(levels[k + 1].inside[v])];
      offer(list_schedule(p, device, by_rank(critical_ranks(p, device)), true));
    }
    if (const std::vector<int> device = projected(fine, level, best.schedule().device); over_bytes(p, device) == 0)
      offer(list_schedule(p, device, by_rank(critical_ranks(p, device)), true));
    if (!start) continue;
    if (problem.tell)
      problem.tell(fmt::format("placement: {} vertices from {}, the step takes {}", p.ops.size(), ms(start->end),
                               ms(best.schedule().end)));
    ImproveOptions options{changes_on(p, budget, static_cast<int>(levels.size()) + 1), enough_ns};
    before = improved(p, *start, options, rng, watch);
    if (k + 1 == levels.size() && p.ops.size() <= kBranched && p.devices.size() <= PlacementWindows::kMostDevices) {
      const int64_t nodes = budget.steps ? std::min(kNodes, *budget.steps / 10) : kNodes;
      coarsest = {p.ops.size(), before->end, branch_and_bound(p, *before, {.nodes = nodes}, watch.share(kBranchShare))};
      before = coarsest->result.schedule;
    }
    best.offer(expanded_placement(level, before->device), expanded_order(level, order_of(*before)),
               fmt::format("{} vertices", p.ops.size()));
  }
  return coarsest;
}

struct Tried {
  SearchResult result;
  int64_t missing_bytes = 0;
  bool fits() const { return missing_bytes <= 0; }
};

// Of these schedules, kept or with their placements alone, the plan whose lowered step is the shortest, of those that
// fit if any does.
Tried shortest(const Problem& problem, const PlacedGraph& placed, const std::vector<PlacedSchedule>& schedules,
               const Watch& watch) {
  Problem in_time = problem;
  in_time.objective = Objective::kTime;
  std::optional<Tried> best;
  int64_t least = 0;
  for (const PlacedSchedule& schedule : schedules)
    for (const char* order : {"own", "framework"}) {
      if (best && best->fits() && watch.ended()) break;
      Tried tried{placed_result(problem, placed, schedule, order, "placement")};
      const Judgement judged = judge(in_time, *tried.result.plan, {});
      tried.missing_bytes = std::max<int64_t>(0, judged.missing_bytes.value_or(0));
      const bool better = !best || tried.missing_bytes < best->missing_bytes ||
                          (tried.missing_bytes == best->missing_bytes && judged.cost < least);
      if (!better) continue;
      least = judged.cost;
      best = std::move(tried);
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

// `p`: the step's problem, with devices of this memory or less.
Tried searched(const Problem& problem, const PlacedGraph& placed, const PlacementProblem& p, const Budget& budget,
               Rng& rng, const Watch& watch) {
  Best best(p);
  offer_rules(problem, placed, p, best);
  if (!best.found())
    throw Error(
        ExitCode::kInfeasible,
        fmt::format("placement: no rule's placement of whole operations fits the devices' memory: the nearest has "
                    "{} bytes missing; other searches divide operations, or take --recompute and "
                    "--micro-batches",
                    best.least_over()));
  const PlacementBounds bounds = placement_bounds(p);
  const auto enough_ns = static_cast<int64_t>(static_cast<double>(bounds.ns()) * (1 + budget.gap));
  const std::string rule = best.whose();
  const PlacedSchedule of_rule = best.schedule();
  CoarsenOptions coarsening;
  coarsening.placement = of_rule.device;
  const std::vector<Coarse> levels = coarsen_levels(p, {4000, 1000, 200, 50}, coarsening);
  const auto coarsest = improve_levels(problem, p, levels, budget, enough_ns, rng, watch, best);
  if (p.ops.size() <= kFinest) {
    const ImproveOptions options{changes_on(p, budget, static_cast<int>(levels.size()) + 1), enough_ns};
    best.take(improved(p, best.schedule(), options, rng, watch), "the step itself");
  }
  Tried tried = shortest(problem, placed, {pushed_left(p, best.schedule()), of_rule}, watch);
  std::vector<std::string>& notes = tried.result.notes;
  notes.push_back(fmt::format("the best rule is {} with {}; the best schedule is of {}, {}", rule, ms(of_rule.end),
                              best.whose(), ms(best.schedule().end)));
  if (coarsest) notes.push_back(note_of(*coarsest));
  notes.push_back(
      fmt::format("no placement of whole operations takes less than {} (load {}, longest path {}; with heads and "
                  "tails: path {}, work {}, links {}, cut {})",
                  ms(bounds.ns()), ms(bounds.load_ns), ms(bounds.path_ns), ms(bounds.heads_ns), ms(bounds.work_ns),
                  ms(bounds.links_ns), ms(bounds.cut_ns)));
  return tried;
}

SearchResult search(const Problem& problem, const Budget& budget, Rng& rng) {
  const Watch watch = budget.watch();
  const PlacedGraph placed = placed_graph(problem, CostModel(problem.cluster), watch);
  PlacementProblem p = placed.problem;
  Tried tried = searched(problem, placed, p, budget, rng, watch);
  // Footprints are a part of what operations make; the planner knows what is there when.
  for (int again = 0; !tried.fits() && again < kTries && !watch.ended(); ++again) {
    take_memory(p, tried.missing_bytes);
    if (problem.tell) problem.tell("placement: the plan does not fit; again with less memory");
    try {
      Tried other = searched(problem, placed, p, budget, rng, watch);
      if (other.missing_bytes < tried.missing_bytes) tried = std::move(other);
    } catch (const Error& error) {
      if (error.code() != ExitCode::kInfeasible) throw;
      break;
    }
  }
  expect_fits(problem, tried.result, "placement");
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
          .places = true,
          .measure = Objective::kTime};
}

}  // namespace partita
