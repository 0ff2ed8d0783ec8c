// Makes a fork for tests: the examples of problem.h and memory.h.
#pragma once
#include "partita/device_placement/problem.h"

namespace partita {

// a, and b and c, which read its one value, on either of two devices of 100 bytes. The one route is from gpu0 to gpu1.
// The caller sets the operations' times.
inline PlacementProblem fork_problem(int64_t value_bytes, const Route& route) {
  PlacementProblem p;
  p.devices = {{"gpu0", 100}, {"gpu1", 100}};
  p.queues = 1;
  p.routes = {{{}, route}, {{}, {}}};
  p.values = {{value_bytes, 0, {1, 2}}};
  return p;
}

}  // namespace partita
