// Computes the isolated time of one step of a conversion. The formulas are in cost.h, as the simulator's are, and so
// are the rules by which the jobs of one step run at the same time.
//
// Example: an all-reduce of 4 devices in two groups {0, 1} and {2, 3} has two jobs, one ring each. If no link is the
// narrowest of both they run at once, and the step takes as long as the longer one; else their times add up.
#pragma once
#include <vector>

#include "partita/cost/cost.h"
#include "partita/sharding/step.h"

namespace partita {

// A job of a step: how long it keeps links or a device busy, for elements of so many bytes.
struct Job {
  std::vector<int> occupies;  // ascending
  AlgorithmCosts costs;
};

// One step of a conversion, as lowering makes its tasks.
//   A fetch: a link's transfers run one after another, as do a device's copies; all links and devices run together.
//   Then come the combines, which are bound by memory: the device that takes longest counts. Collectives: those that
//   take a link in common wait for each other.
class StepTime {
 public:
  StepTime(const Step& step, const CostModel& cost);  // the step's bytes are of one-byte elements
  double ns(double element_bytes) const;
  // The time as one Duration, for elements and tensors of every size; null if it is none.
  const Duration* straight() const { return straight_ ? &line_ : nullptr; }

 private:
  void add_pieces(const Step& step, const CostModel& cost);
  void add_collectives(const Step& step, const CostModel& cost);

  std::vector<Job> jobs_, after_;  // those of `after_` begin when all the others have ended
  bool straight_ = false;
  Duration line_;
};

}  // namespace partita
