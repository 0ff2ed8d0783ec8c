// Makes a chain for tests: the examples of baechi.h and improve.h.
#pragma once
#include <string>

#include "partita/device_placement/problem.h"

namespace partita {

// Four operations of 2 ns and 10 bytes on either of two devices of so much memory, 5 ns apart.
inline PlacementProblem chain_problem(int64_t memory_bytes) {
  PlacementProblem p;
  p.devices = {{"gpu0", memory_bytes}, {"gpu1", memory_bytes}};
  p.queues = 2;
  p.routes = {{{}, {0, 5, 0, {}}}, {{1, 5, 0, {}}, {}}};
  for (int o = 0; o < 4; ++o) {
    p.ops.push_back({"o" + std::to_string(o), {2, 2}, 10, -1, {}});
    p.values.push_back({1, o, {}});
    if (o == 0) continue;
    p.ops.back().reads = {o - 1};
    p.values[static_cast<size_t>(o) - 1].readers = {o};
  }
  return p;
}

}  // namespace partita
