// How much each device holds over the time of a schedule (PlacedResult, problem.h).
//
// Example: a (10 bytes, read by b and c) and b on gpu0, c on gpu1. gpu0 holds a's 10 bytes from its start until b has
// ended and the transfer to gpu1 is over; gpu1 holds them from the start of the transfer until c has ended.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/device_placement/problem.h"

namespace partita {

// For many schedules of one problem.
class PlacedMemory {
 public:
  explicit PlacedMemory(const PlacementProblem& problem);

  // Bytes, by device: what it holds at its fullest.
  std::vector<int64_t> peaks(const PlacedSchedule& schedule);
  // By how many bytes devices are over their memory, added up: what frees one of two that are full counts. 0: the
  // schedule fits.
  int64_t over_bytes(const PlacedSchedule& schedule);

 private:
  // A device holds so much more from a time on, or less.
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
  std::vector<int64_t> stays_, comes_;        // by device: bytes all through the step, and of all that comes
  std::vector<std::vector<Change>> changes_;  // by device
};

}  // namespace partita
