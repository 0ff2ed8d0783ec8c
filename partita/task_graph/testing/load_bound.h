// Computes the bound of a proposal by the loads of its queues, apart from Replay, for its tests.
#pragma once
#include <algorithm>
#include <vector>

#include "partita/task_graph/replay.h"

namespace partita::testing {

// Returns the largest load of a queue (ns) if the slots get these fragments: no makespan is shorter.
inline int64_t largest_load_ns(const Replay& replay, const Replay::Exchanges& exchanges) {
  std::vector<int64_t> loads = replay.load_ns();
  for (const auto& [slot, fragment] : exchanges) {
    for (const auto& [queue, ns] : fragment->load_ns) loads[static_cast<size_t>(queue)] += ns;
    for (const auto& [queue, ns] : replay.graph().fragments[static_cast<size_t>(slot)]->load_ns)
      loads[static_cast<size_t>(queue)] -= ns;
  }
  return loads.empty() ? 0 : *std::max_element(loads.begin(), loads.end());
}

}  // namespace partita::testing
