// Runs a PhysicalGraph on tagged memory, one event at a time: every element of a device's memory carries which use of
// which register, of which step, was written there last. The order of events is drawn from a seed, with random
// durations and delays of messages, several steps overlapping. Shares no code with the runtime.
#pragma once
#include <string>

#include "partita/base/rng.h"
#include "partita/physical/physical.h"

namespace partita::testing {

enum class Outcome { kDone, kHang, kCorrupt };

struct TaggedRun {
  Outcome outcome = Outcome::kDone;
  std::string what;  // which task waits, or which read saw foreign elements
};

struct TaggedOptions {
  int steps = 3;
  bool in_order = false;          // dynamic queues take the ready task that is lowest in `order`, else any ready one
  bool release_at_start = false;  // wrong on purpose: acknowledges when a task begins (section 7)
};

TaggedRun run_tagged(const PhysicalGraph& graph, Rng& rng, const TaggedOptions& options = {});

}  // namespace partita::testing
