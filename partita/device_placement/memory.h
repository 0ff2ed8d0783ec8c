// Computes how much memory each device holds over a schedule's time (PlacedResult, problem.h).
//
// Example: a (10 bytes, read by b and c) and b on gpu0, c on gpu1. gpu0 holds a's 10 bytes from its start until b has
// ended and the transfer to gpu1 is over; gpu1 holds them from the start of the transfer until c has ended.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/device_placement/problem.h"

namespace partita {

// Keeps its buffers, for many schedules of one problem.
class PlacedMemory {
 public:
  explicit PlacedMemory(const PlacementProblem& problem);

  // Returns each device's peak (bytes).
  std::vector<int64_t> peaks(const PlacedSchedule& schedule);
  // Returns by how many bytes devices exceed their memory, added up: freeing one of two full devices counts. 0: it
  // fits.
  int64_t over_bytes(const PlacedSchedule& schedule);

 private:
  // A device holds `bytes` more from a time on, or less.
  struct Change {
    int64_t time, bytes;
  };
  void find_changes(const PlacedSchedule& schedule);
  void hold(int device, int64_t from, int64_t until, int64_t bytes);
  int64_t peak(size_t device);

  const PlacementProblem& p_;
  bool always_fits_ = false;                  // all at once, on each device
  std::vector<int64_t> end_;                  // by operation
  std::vector<int64_t> until_;                // by result
  std::vector<int64_t> stays_, comes_;        // by device: bytes all through the step, and of all copies that come
  std::vector<std::vector<Change>> changes_;  // by device
};

}  // namespace partita
