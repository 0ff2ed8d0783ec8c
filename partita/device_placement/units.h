// What is placed as one (a group, or an operation of none), and which devices can be told apart.
//
// Example: gpu0 and gpu1 are equal, with equal ways to each other and to the host. Every schedule has a mirror image
// that ends at the same time, so the largest unit need be tried on gpu0 alone. Of three equal devices the next unit
// need be tried on the first two.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/device_placement/problem.h"

namespace partita {

struct PlacementUnit {
  std::vector<int> ops;
  std::vector<int> devices;  // where all of them can run and fit, ascending
  int64_t bytes = 0;
};

// By first operation. A unit may have no device.
std::vector<PlacementUnit> placement_units(const PlacementProblem& problem);
// By operation.
std::vector<int> unit_of_op(const PlacementProblem& problem, const std::vector<PlacementUnit>& units);

// Sets of two or more devices, any two of which can be exchanged: with equal times, memory and ways, where what shares
// a queue before shares one after.
std::vector<std::vector<int>> equal_devices(const PlacementProblem& problem);

// Takes from the units the devices that need not be tried: of equal devices the k-th unit, by length of its operations,
// keeps the first k.
void narrow(const PlacementProblem& problem, std::vector<PlacementUnit>& units);
// The same schedule with equal devices exchanged, so that it is among what narrow() leaves.
PlacedSchedule narrowed(const PlacementProblem& problem, const PlacedSchedule& schedule);

}  // namespace partita
