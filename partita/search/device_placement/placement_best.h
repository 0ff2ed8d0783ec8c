// Keeps the best schedule of a step that a search for placements has found so far.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/device_placement/memory.h"
#include "partita/device_placement/problem.h"

namespace partita {

// The shortest schedule that fits, or the one with the smallest memory deficit; and its origin.
class BestSchedule {
 public:
  explicit BestSchedule(const PlacementProblem& problem) : p_(problem), memory_(problem) {}

  // Offers the schedules of a placement: in the framework's way by the longest way to the end and in its own order, by
  // lists of both, and in a given order (none: empty). Returns the shortest of these justified (justify.h), which is
  // offered too.
  PlacedSchedule offer(const std::vector<int>& device, const std::vector<int>& order, const std::string& whose);
  // Offers a schedule. Returns whether it fits.
  bool take(const PlacedSchedule& schedule, const std::string& whose);
  // Offers the best of another problem with the same operations, which may have less memory.
  void take(const BestSchedule& other);

  bool fits() const { return best_->over == 0; }
  // Tells whether it is better by more than a share of the step, or has a smaller deficit.
  bool better_than(const BestSchedule& other, double by_share) const;
  const PlacedSchedule& schedule() const { return best_->schedule; }
  const std::string& whose() const { return best_->whose; }
  // The start of later stages: it may have a memory deficit if it is shorter.
  const PlacedSchedule& start() const { return start_->schedule; }

 private:
  struct Rated {
    int64_t over;  // bytes
    double cost;   // ns
    PlacedSchedule schedule;
    std::string whose;
  };
  Rated rated(const PlacedSchedule& schedule, const std::string& whose);
  void take(const Rated& rated);

  const PlacementProblem& p_;
  PlacedMemory memory_;
  std::optional<Rated> best_, start_;
};

}  // namespace partita
