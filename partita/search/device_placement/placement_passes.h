// Passes over a step that make its schedule shorter: it is coarsened along a placement, and schedules are improved from
// the coarsest level to the step itself (improve.h). As in the partitioning of graphs, passes are made again and again
// (Walshaw 2004): along the best placement, with other merges each time, or afresh along a rule's.
//
// The first pass goes along the best placement down to about 50 vertices. A further one along the best keeps to the
// levels near the step, where only what the best schedule has at about the same time is merged, so that what a level's
// schedule takes is near to it. Where that brings little, one is begun afresh, with half of the changes; it is given up
// above the step itself where it is far behind. Where the best schedule fills a device's memory it has less memory than
// there is: what is found there may be a shorter plan, since the planner's registers need more than a schedule.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "partita/base/rng.h"
#include "partita/base/watch.h"
#include "partita/device_placement/branch.h"
#include "partita/search/device_placement/placement_best.h"

namespace partita {

struct PassOptions {
  // A placement each, the best first, from which passes are begun afresh; at least one.
  std::vector<PlacedSchedule> starts;
  int64_t enough_ns = 0;         // a schedule that is no longer will do
  std::optional<int64_t> steps;  // changes in all
  // Further passes; nothing: until the time or the changes are used up, or the schedule will do. Two in a row that
  // bring nothing end them if they are so many at most.
  std::optional<int> further;
  bool goes_on = false;    // the first pass was made already
  size_t first_start = 0;  // of `starts`, in turn, for the first pass afresh
  std::function<void(const std::string&)> tell = nullptr;
};

// What branch and bound says of the coarsest level of the first pass.
struct Coarsest {
  size_t vertices = 0;
  int64_t start_ns = 0;
  BranchResult result;
};

struct PassReport {
  int passes = 0, shorter = 0;  // of them further ones that made the best better
  int64_t first_ns = 0;         // the schedule behind the first
  std::optional<Coarsest> coarsest;
  std::vector<PlacedSchedule> found;  // the best after each level of the first pass, and of further ones theirs
};

// Of a level, or a step, of so many operations in a pass, without a limit.
int64_t most_changes(size_t ops);
// How many further passes take about as long as the first, of so many operations.
int further_passes(size_t ops);

// `best` has a schedule of the problem. The watch's end ends it with the best so far.
PassReport improve_in_passes(const PlacementProblem& problem, const PassOptions& options, Rng& rng, const Watch& watch,
                             BestSchedule& best);

// Whether a device holds nearly all that it can.
bool fills_memory(const PlacementProblem& problem, const PlacedSchedule& schedule);

}  // namespace partita
