// Divides a step's time into compute, exposed communication, bubble and waiting, for the whole step and for each stage.
//
// Example: a step of 100 us on 2 stages. The busiest device computes for 70 us. It computes nothing for 30 us. An
// all-reduce of its own runs in 10 us of them. In 15 us it has nothing to do while the other stage computes (the
// bubble). In the last 5 us it waits for an input. 70 + 10 + 15 + 5 = 100.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "partita/physical/trace.h"

namespace partita {

// The terms of one device's step time. They add up to the step.
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

// The terms of the device that computes longest, and the figures of each stage.
struct StepBreakdown : TimeParts {
  std::vector<StageFigures> stages;
};

// Breaks down a trace of one step. compute, exposed, bubble and waiting add up to its step time, for each device.
StepBreakdown breakdown_of(const Trace& trace, const PhysicalGraph& graph);
// Extrapolates to `more` micro-batches beyond those of `last`. Each adds, stage by stage, what the last micro-batch of
// `last` added to `one_fewer`. A term of communication, bubble or waiting that shrank with the last micro-batch stays
// as it is. The others then add less, so that the step grows by as much as it did.
StepBreakdown extrapolate_breakdown(StepBreakdown last, const StepBreakdown& one_fewer, int64_t more);

}  // namespace partita
