// What a step's time is made of, and what each stage of a pipeline does with it.
//
// Example: a step of 100 us on 2 stages. The busiest device computes for 70 us. Of the 30 us in which it does not, an
// all-reduce of its own runs in 10 us; in 15 us it has nothing to do while the other stage computes (the bubble); in
// the last 5 us it waits for an input. 70 + 10 + 15 + 5 = 100.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "partita/physical/trace.h"

namespace partita {

// What one device does in a step.
struct TimeParts {
  DeviceId device;
  int64_t compute_ns = 0;                     // its compute queue is busy
  std::map<std::string, int64_t> exposed_ns;  // it computes nothing, and this kind of communication of its own runs
  int64_t bubble_ns = 0;                      // neither, and another stage computes
  int64_t waiting_ns = 0;                     // neither, and no other stage does

  int64_t step_ns() const;  // the sum
};

struct StageFigures {
  std::vector<DeviceId> devices;
  int64_t peak_memory_bytes = 0;  // of the device that needs most
  int in_flight = 0;              // most micro-batches begun forward and not done backward at one time
  TimeParts time;                 // of the device that computes longest
};

// Of the device that computes longest, and of each stage.
struct StepBreakdown : TimeParts {
  std::vector<StageFigures> stages;
};

// Of a trace of one step. compute, exposed, bubble and waiting add up to its step time, for each device.
StepBreakdown breakdown_of(const Trace& trace, const PhysicalGraph& graph);
// Of `more` micro-batches beyond those of `parts`, each of which adds what the last of them added to `one_fewer`, stage
// by stage. Of communication, bubble and waiting, one that was less than with one fewer stays as it is, and the others
// add less, so that the step is as much longer as it was.
StepBreakdown extended(StepBreakdown parts, const StepBreakdown& one_fewer, int64_t more);

}  // namespace partita
