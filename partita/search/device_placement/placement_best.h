// The best schedule of a step that a search for placements has found so far.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/device_placement/memory.h"
#include "partita/device_placement/problem.h"

namespace partita {

// The shortest that fits, or the one that lacks the least memory; and whose it is.
class BestSchedule {
 public:
  explicit BestSchedule(const PlacementProblem& problem) : p_(problem), memory_(problem) {}

  // Of a placement: in the framework's way by the longest way to the end and in its own order, by lists of both, and in
  // an order that is given (none: empty); and the shortest of these justified (justify.h), which comes back.
  PlacedSchedule offer(const std::vector<int>& device, const std::vector<int>& order, const std::string& whose);
  // Whether it fits.
  bool take(const PlacedSchedule& schedule, const std::string& whose);
  // Of another problem with the same operations, which may have less memory.
  void take(const BestSchedule& other);

  bool fits() const { return best_->over == 0; }
  // Whether it is the better one by more than a share of the step, or lacks less memory.
  bool better_than(const BestSchedule& other, double by_share) const;
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
  Rated rated(const PlacedSchedule& schedule, const std::string& whose);
  void take(const Rated& rated);

  const PlacementProblem& p_;
  PlacedMemory memory_;
  std::optional<Rated> best_, start_;
};

}  // namespace partita
