// Runs a PhysicalGraph on tagged memory (tagged_memory.h), one event at a time, for tests. The order of events is drawn
// from a seed, with random durations and delays of messages, and several steps overlap. It shares no code with the
// runtime.
#pragma once
#include <string>

#include "partita/base/rng.h"
#include "partita/physical/physical.h"

namespace partita::testing {

enum class Outcome { kDone, kHang, kCorrupt };

struct TaggedRun {
  Outcome outcome = Outcome::kDone;
  std::string what;  // the task that waits, or the read that saw foreign elements
};

struct TaggedOptions {
  int steps = 3;
  bool in_order = false;          // dynamic queues take the ready task that is lowest in `order`, else any ready one
  bool release_at_start = false;  // wrong on purpose: acknowledges when a task begins (section 7)
};

TaggedRun run_tagged(const PhysicalGraph& graph, Rng& rng, const TaggedOptions& options = {});

}  // namespace partita::testing
