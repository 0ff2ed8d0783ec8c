// Coarsens, improves and expands schedules, pass by pass.
#include "partita/search/device_placement/placement_passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "partita/device_placement/coarsen.h"
#include "partita/device_placement/decode.h"
#include "partita/device_placement/improve.h"
#include "partita/device_placement/justify.h"
#include "partita/device_placement/windows.h"
#include "partita/search/device_placement/placements.h"

namespace partita {

namespace {

constexpr int kTargets[] = {4000, 1000, 200, 50};  // vertices of the levels
constexpr int kNear = 8;                           // levels of a pass along the best: at least such a part of the step
constexpr int kFinest = 30'000;                    // operations whose schedules are improved themselves
constexpr size_t kBranched = 64;      // vertices, up to which branch and bound looks for the shortest schedule
constexpr int64_t kNodes = 50;        // that it takes at most
constexpr double kBranchShare = 0.2;  // of the time that is left
constexpr int64_t kMostChanges = 20'000, kOperations = 60'000'000;  // on a level: moves, and operations they decode
constexpr int64_t kFewChanges = 100;                                // left: no further pass
// Shares of the moves of the first pass: along the best on levels and on the step, and afresh.
constexpr double kAlongLevels = 0.1, kAlongStep = 0.5, kAfresh = 0.5;
constexpr int kPerWindow = 16;                       // operations, in the mean, of a window of the best schedule
constexpr double kLittle = 0.001;                    // of the step: the least gain of a pass
constexpr double kBehind = 0.01, kFarBehind = 0.05;  // of the step: how far one afresh may be behind; with less memory
constexpr int64_t kLess[] = {16, 8};                 // passes afresh have such a part of the memory less

// Puts a vertex where most of its time is in the step's placement; groups are whole vertices' or go as their first.
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

// Orders vertices topologically: among ready ones, the one whose operations start first in the mean goes first.
std::vector<int> projected_order(const Coarse& coarse, const PlacedSchedule& schedule) {
  const PlacementProblem& p = coarse.problem;
  std::vector<double> mean(p.ops.size(), 0), count(p.ops.size(), 0);
  for (int v : coarse.vertex) ++count[static_cast<size_t>(v)];
  for (size_t o = 0; o < schedule.start.size(); ++o) {
    const auto v = static_cast<size_t>(coarse.vertex[o]);
    mean[v] += static_cast<double>(schedule.start[o]) / count[v];
  }
  const std::vector<std::vector<int>> made = made_by(p);
  std::vector<size_t> missing;
  std::set<std::pair<double, int>> ready;
  for (size_t v = 0; v < p.ops.size(); ++v) {
    missing.push_back(p.ops[v].reads.size());
    if (missing[v] == 0) ready.insert({mean[v], static_cast<int>(v)});
  }
  std::vector<int> order;
  while (!ready.empty()) {
    order.push_back(ready.begin()->second);
    ready.erase(ready.begin());
    for (int value : made[static_cast<size_t>(order.back())])
      for (int r : p.values[static_cast<size_t>(value)].readers)
        if (--missing[static_cast<size_t>(r)] == 0) ready.insert({mean[static_cast<size_t>(r)], r});
  }
  return order;
}

// Vertices hold their inputs and results all the while, operations do not. So devices get as much more memory as the
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

class Passes {
 public:
  Passes(const PassOptions& options, Rng& rng, const Watch& watch)
      : options_(options), rng_(rng), watch_(watch), left_(options.steps), afresh_(options.first_start) {}

  PassReport run(const PlacementProblem& p, BestSchedule& best) {
    report_.first_ns = best.schedule().end;
    if (!options_.goes_on) first(p, best);
    bool afresh = fills_memory(p, best.schedule()) || !best.fits();
    int without = 0;  // passes in a row without a gain
    for (int k = 0; goes_on(k, without, best); ++k) {
      const BestSchedule before = best;
      ++report_.passes;
      if (afresh) from_a_start(p, best);
      else along_best(p, best);
      const bool shorter = best.better_than(before, 0);
      report_.shorter += shorter;
      without = shorter ? 0 : without + 1;
      afresh = !afresh && !best.better_than(before, kLittle);
    }
    return std::move(report_);
  }

 private:
  bool goes_on(int further, int without, const BestSchedule& best) const {
    if (watch_.ended() || (left_ && *left_ < kFewChanges)) return false;
    if (best.fits() && best.schedule().end <= options_.enough_ns) return false;
    return !options_.further || (further < *options_.further && without < 2);
  }

  void first(const PlacementProblem& p, BestSchedule& best) {
    improve_levels(p, levels_along(p, best.start(), Kind::kFirst), 1, best);
    improve_step(p, 1, best);
    report_.first_ns = best.schedule().end;
  }
  void along_best(const PlacementProblem& p, BestSchedule& best) {
    improve_levels(p, levels_along(p, best.start(), Kind::kBest), kAlongLevels, best);
    improve_step(p, kAlongStep, best);
    report_.found.push_back(best.schedule());
  }
  void from_a_start(const PlacementProblem& whole, BestSchedule& best) {
    const bool full = fills_memory(whole, best.schedule()) || !best.fits();
    const PlacementProblem p = full ? with_less_memory(whole, 1, kLess[afresh_ % std::size(kLess)]) : whole;
    BestSchedule now(p);
    now.offer(options_.starts[afresh_ % options_.starts.size()].device, {}, "a start");
    ++afresh_;
    improve_levels(p, levels_along(p, now.start(), Kind::kAfresh), kAfresh, now);
    const double most = (1 + (full ? kFarBehind : kBehind)) * static_cast<double>(best.schedule().end);
    if (static_cast<double>(now.start().end) > most) return;
    improve_step(p, kAfresh, now);
    best.take(now);
    report_.found.push_back(now.schedule());
  }

  enum class Kind { kFirst, kBest, kAfresh };

  std::vector<Coarse> levels_along(const PlacementProblem& p, const PlacedSchedule& schedule, Kind kind) {
    CoarsenOptions coarsening;
    coarsening.placement = schedule.device;
    if (kind != Kind::kFirst) coarsening.seed = rng_.next();
    if (kind == Kind::kBest) coarsening.window = windows(p, schedule);
    const int least = kind == Kind::kBest ? static_cast<int>(p.ops.size()) / kNear : 0;
    std::vector<int> targets;
    for (int target : kTargets)
      if (target >= least) targets.push_back(target);
    return coarsen_levels(p, targets, coarsening);
  }
  // By operation: the part of the schedule in which it starts. The parts are equally long, and the first begins at
  // random.
  std::vector<int> windows(const PlacementProblem& p, const PlacedSchedule& schedule) {
    const int64_t count = 1 + static_cast<int64_t>(p.ops.size()) / kPerWindow, length = 1 + schedule.end / count;
    const int64_t before = rng_.between(0, length - 1);
    std::vector<int> window;
    for (int64_t start : schedule.start) window.push_back(static_cast<int>((start + before) / length));
    return window;
  }

  // The moves of this stage, the first of so many that are still to come.
  int64_t changes_on(const PlacementProblem& p, double share, int64_t stages) {
    auto changes = static_cast<int64_t>(share * static_cast<double>(most_changes(p.ops.size())));
    if (!left_) return changes;
    changes = std::min(changes, *left_ / stages);
    *left_ -= changes;
    return changes;
  }
  void tell(const PlacementProblem& p, int64_t from_ns, const BestSchedule& best) const {
    if (options_.tell)
      options_.tell(fmt::format("placement, pass {}: {} vertices from {}, the step takes {}{}", report_.passes,
                                p.ops.size(), ms(from_ns), ms(best.schedule().end),
                                best.fits() ? "" : " and does not fit"));
  }

  // Improves from the coarsest level to the finest. Each level begins at the end of the one before, or at the
  // projection of the best schedule of the step, whichever is better there. If the coarsest level is small, the first
  // pass looks for its shortest schedule.
  void improve_levels(const PlacementProblem& fine, const std::vector<Coarse>& levels, double share,
                      BestSchedule& best) {
    std::optional<PlacedSchedule> before;  // of the level before
    for (size_t k = levels.size(); k-- > 0 && !watch_.ended();) {
      const Coarse& level = levels[k];
      const std::vector<int> device = projected(fine, level, best.start().device);
      const PlacedSchedule projection = by_tails(level.problem, device);
      const PlacementProblem p = with_room(level, fine, projection, best.start());
      BestSchedule here(p);
      here.take(projection, "");
      here.take(list_schedule(p, device, projected_order(level, best.start()), true), "");
      if (before) here.take(by_tails(p, of_inside(levels[k + 1], before->device)), "");
      tell(p, here.start().end, best);
      const int64_t changes = changes_on(p, share, static_cast<int64_t>(k) + 2);
      here.take(improve_schedule(p, here.start(), {changes, options_.enough_ns}, rng_, watch_), "");
      if (k + 1 == levels.size() && report_.passes == 1) branch(p, here);
      before = here.schedule();
      best.offer(expanded_placement(level, before->device), expanded_order(level, order_of(*before)),
                 fmt::format("{} vertices", p.ops.size()));
      if (report_.passes == 1) report_.found.push_back(best.schedule());
    }
  }
  // By vertex of the finer level: the device of the coarser one around it.
  static std::vector<int> of_inside(const Coarse& coarser, const std::vector<int>& device) {
    std::vector<int> of;
    for (int v : coarser.inside) of.push_back(device[static_cast<size_t>(v)]);
    return of;
  }
  void branch(const PlacementProblem& p, BestSchedule& here) {
    if (p.ops.size() > kBranched || p.devices.size() > PlacementWindows::kMostDevices) return;
    const int64_t nodes = options_.steps ? std::min(kNodes, *options_.steps / 10) : kNodes;
    report_.coarsest = {p.ops.size(), here.schedule().end,
                        branch_and_bound(p, here.schedule(), {.nodes = nodes}, watch_.share(kBranchShare))};
    here.take(report_.coarsest->result.schedule, "");
  }
  void improve_step(const PlacementProblem& p, double share, BestSchedule& best) {
    if (p.ops.size() > kFinest || watch_.ended()) return;
    tell(p, best.start().end, best);
    best.take(improve_schedule(p, best.start(), {changes_on(p, share, 1), options_.enough_ns}, rng_, watch_),
              "the step itself");
    best.take(justify_schedule(p, best.schedule()), best.whose());
  }

  const PassOptions& options_;
  Rng& rng_;
  const Watch& watch_;
  std::optional<int64_t> left_;  // moves
  size_t afresh_;                // the next start
  PassReport report_ = {.passes = 1};
};

}  // namespace

int64_t most_changes(size_t ops) {
  return std::min(kMostChanges, kOperations / static_cast<int64_t>(std::max<size_t>(1, ops)));
}

int further_passes(size_t ops) {
  constexpr size_t kOfAll = 30'000, kMost = 3;  // operations of all further passes; passes
  return static_cast<int>(std::clamp<size_t>(kOfAll / std::max<size_t>(1, ops), 1, kMost));
}

bool fills_memory(const PlacementProblem& p, const PlacedSchedule& schedule) {
  constexpr double kNearly = 0.9;
  const std::vector<int64_t> peaks = PlacedMemory(p).peaks(schedule);
  for (size_t d = 0; d < peaks.size(); ++d)
    if (static_cast<double>(peaks[d]) > kNearly * static_cast<double>(p.devices[d].memory_bytes)) return true;
  return false;
}

PassReport improve_in_passes(const PlacementProblem& problem, const PassOptions& options, Rng& rng, const Watch& watch,
                             BestSchedule& best) {
  return Passes(options, rng, watch).run(problem, best);
}

}  // namespace partita
