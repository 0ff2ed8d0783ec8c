// Measures the runtime's own times by running small graphs on it. These are the overhead of a task and of a message,
// collectives, transfers and local copies. So are the times to load inputs and to take outputs.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "partita/measure/timing.h"
#include "partita/profile/profile.h"

namespace partita {

struct Overheads {
  double task_us = 0;     // of a kernel that does nothing
  double message_us = 0;  // more, if the one before it ran on another queue
};
Overheads measure_overheads();

// Runs of a collective: from the last kernel that made an operand to the start of those that wait for the result, less
// two messages; and the time of its quickest participant.
struct CollectiveSpans {
  std::vector<double> net_us, own_us;
};
// Returns the time, by the means of their middle halves. On a busy machine messages may take less now than when they
// were measured, and nothing be left of a span. So a collective takes no less than its quickest participant.
Measured time_of(const CollectiveSpans& spans);

// One measurement to make, and its target.
struct Probe {
  CurveId id;
  double bytes = 0;  // as a task counts them
  std::function<Measured()> measure;
};
// Returns probes of all-reduce, all-gather, reduce-scatter and all-to-all among 2 to `devices` devices, and of
// transfers, copies, loads and outputs. Bytes go from a kilobyte to 64 MB, four times as many from one to the next.
std::vector<Probe> runtime_probes(int devices, double message_us, const TimingOptions& options);

}  // namespace partita
