// Shortens a step's schedule in passes, for the search `placement`. A pass coarsens the step along a placement, and
// improves schedules from the coarsest level to the step itself (improve.h). As in the partitioning of graphs, passes
// are repeated (Walshaw 2004): along the best placement, with other merges each time, or afresh along a rule's.
//
// The first pass goes along the best placement down to about 50 vertices. A further one along the best keeps to the
// levels near the step. There only operations at about the same time in the best schedule are merged, so that a level's
// schedule takes about as long. If that brings little, one is begun afresh, with half of the moves. It is given up
// above the step itself if it is far behind. If the best schedule fills a device's memory, it has less memory than
// there is: schedules found there may make a shorter plan, since the planner's registers need more than a schedule.
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
  // Placements, the best first, from which passes are begun afresh; at least one.
  std::vector<PlacedSchedule> starts;
  int64_t enough_ns = 0;         // a schedule that is no longer is enough
  std::optional<int64_t> steps;  // moves in all
  // The number of further passes. Nothing: until the time or the moves are used up, or the schedule is enough. Two in a
  // row without a gain end them if they are so many at most.
  std::optional<int> further;
  bool goes_on = false;    // the first pass is already done
  size_t first_start = 0;  // of `starts`, in turn, for the first pass afresh
  std::function<void(const std::string&)> tell = nullptr;
};

// The result of branch and bound on the coarsest level of the first pass.
struct Coarsest {
  size_t vertices = 0;
  int64_t start_ns = 0;
  BranchResult result;
};

struct PassReport {
  int passes = 0, shorter = 0;  // shorter: further ones that improved the best
  int64_t first_ns = 0;         // the schedule behind the first
  std::optional<Coarsest> coarsest;
  std::vector<PlacedSchedule> found;  // the best after each level of the first pass, and of further ones theirs
};

// Returns the most moves of a level, or a step, of so many operations in a pass, without a limit.
int64_t most_changes(size_t ops);
// Returns the number of further passes that take about as long as the first, for so many operations.
int further_passes(size_t ops);

// Improves `best`, which has a schedule of the problem. Returns with the best so far when the watch ends.
PassReport improve_in_passes(const PlacementProblem& problem, const PassOptions& options, Rng& rng, const Watch& watch,
                             BestSchedule& best);

// Tells whether a device holds nearly as much as it can.
bool fills_memory(const PlacementProblem& problem, const PlacedSchedule& schedule);

}  // namespace partita
