// Computes how long a pipeline's schedule takes, from the times of its stages.
//
// Example: 1F1B on 4 ranks with 16 micro-batches, 1 ms forward and 2 ms backward on each: 57 ms. Interleaved with two
// virtual stages a rank of half the time each: 52.5 ms. With a last stage that takes 1.2 times as long: 66.6 ms.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/plan/schedule.h"

namespace partita {

// Times of one virtual stage (ns).
struct StageTimes {
  int64_t forward_ns = 0, backward_ns = 0;  // of each micro-batch
  int64_t first_backward_ns = 0;            // of the first micro-batch
  int64_t last_backward_ns = 0;             // of the last: gradients are reduced meanwhile
  int64_t first_forward_ns = 0;             // of the first micro-batch: it may wait for weights
  int64_t before_ns = 0;                    // once, before the first pass of its rank: casts and gathers of weights
  int64_t send_ns = 0;                      // of an activation to the next stage, and of its gradient back
};

struct ScheduleTime {
  std::vector<int64_t> backward_end_ns;  // by virtual stage: when its last backward pass is over
  int64_t end_ns = 0;                    // of all
};

// Runs the lists of all ranks (schedule.h). A transfer begins when its pass ends, and occupies nothing else.
ScheduleTime schedule_time(const Pipelining& pipelining, const std::vector<StageTimes>& stages);

}  // namespace partita
