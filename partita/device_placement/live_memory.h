// Tracks how much memory each device holds while a schedule is made event by event (PlacedResult, problem.h).
#pragma once
#include <cstdint>
#include <vector>

#include "partita/device_placement/problem.h"

namespace partita {

class LiveMemory {
 public:
  // `device`: by operation, for all to come.
  LiveMemory(const PlacementProblem& problem, const std::vector<int>& device);

  void start(int op);
  void end(int op);
  void send(int value, int to);
  void arrived(int value, int to);

  int64_t bytes(int device) const { return held_[static_cast<size_t>(device)]; }
  // Returns by how many bytes its device holds more after it has run than before it starts.
  int64_t more_bytes(int op) const;

 private:
  // A result on its producer's device, or a value elsewhere: bytes there, and uses that are not over.
  struct Item {
    int device = 0;
    int64_t bytes = 0;
    int uses = 0;
  };
  size_t copy_of(int value, int device) const;
  int item_read(int op, int value) const;
  void use(int item);

  const PlacementProblem& p_;
  const std::vector<int>& device_;
  std::vector<Item> items_;                // results, then values that cross
  std::vector<int> copy_;                  // by value and device: item; -1: none
  std::vector<std::vector<int>> results_;  // by operation
  std::vector<int64_t> held_;              // by device
};

}  // namespace partita
