// What the runtime itself takes, measured by running small graphs on it: the overhead of a task and of a message,
// collectives, transfers and local copies; and what the training loop takes to load inputs and to take outputs.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "partita/measure/timing.h"
#include "partita/profile/profile.h"

namespace partita {

struct Overheads {
  double task_us = 0;     // of a kernel that does nothing
  double message_us = 0;  // more, where the one before it ran on another queue
};
Overheads measure_overheads();

// Runs of a collective: from the last kernel that made what is sent to the start of those that wait for it, less two
// messages; and what its quickest participant took.
struct CollectiveSpans {
  std::vector<double> net_us, own_us;
};
// By the means of their middle halves. On a busy machine messages may take less now than when they were measured, and
// nothing be left of a span: a collective takes no less than its quickest participant.
Measured time_of(const CollectiveSpans& spans);

// One thing to measure, and where it goes.
struct Probe {
  CurveId id;
  double bytes = 0;  // as a task counts them
  std::function<Measured()> measure;
};
// Of all-reduce, all-gather, reduce-scatter and all-to-all among 2 to `devices` devices, transfers, copies, loads and
// outputs; bytes from a kilobyte to 64 MB, four times as many from one to the next.
std::vector<Probe> probes(int devices, double message_us, const TimingOptions& options);

}  // namespace partita
