// Runs a PhysicalGraph with N devices in one process, one thread per hardware queue: the engine `threads`.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "partita/physical/trace.h"
#include "partita/runtime/execute.h"

namespace partita {

struct RunOptions {
  int64_t steps = 1;
  bool trace = false;  // record events and memory
};

struct RunReport {
  Trace trace;                      // events only on request; times from the start of the run
  std::vector<int64_t> peak_bytes;  // per device: registers between first write and last release, and kernels' own
  std::optional<Outside> outside;   // the results are worthless then
};

// Runs whole steps to their end. An exception of a kernel or hook stops every thread and is thrown here.
RunReport run_threads(const Firings& firings, const Hooks& hooks, const RunOptions& options);
// The same, preparing the firings for one run.
RunReport run_threads(const PhysicalGraph& graph, const Memory& memory, const Hooks& hooks, const RunOptions& options);

}  // namespace partita
