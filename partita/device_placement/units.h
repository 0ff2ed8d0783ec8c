// Finds the units of a placement (a group, or an operation of none), and devices that searches need not try twice.
//
// Example: gpu0 and gpu1 are equal, with equal routes to each other and to the host. Every schedule has a mirror image
// that ends at the same time, so the largest unit need be tried on gpu0 alone. With three equal devices the next unit
// need be tried on the first two.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/device_placement/problem.h"

namespace partita {

struct PlacementUnit {
  std::vector<int> ops;
  std::vector<int> devices;  // devices that all of them can run on and fit, ascending
  int64_t bytes = 0;
};

// Returns the units by first operation. A unit may have no device.
std::vector<PlacementUnit> placement_units(const PlacementProblem& problem);
// Returns each operation's unit.
std::vector<int> unit_of_op(const PlacementProblem& problem, const std::vector<PlacementUnit>& units);

// Returns sets of two or more devices, any two of which can be exchanged: with equal times, memory and routes, and
// routes that share a queue before share one after.
std::vector<std::vector<int>> equal_devices(const PlacementProblem& problem);

// Takes from the units the devices that need not be tried: among equal devices the k-th unit, by length of its
// operations, keeps the first k.
void break_device_symmetry(const PlacementProblem& problem, std::vector<PlacementUnit>& units);
// Returns the schedule with equal devices exchanged, so that it is among those that break_device_symmetry() leaves.
PlacedSchedule canonical_schedule(const PlacementProblem& problem, const PlacedSchedule& schedule);

}  // namespace partita
