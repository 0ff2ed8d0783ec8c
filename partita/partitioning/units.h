// Defines the units that the max-load solvers place: the color classes of an instance, and the costs of their outputs
// if they are parted.
//
// An output costs an accelerator once if some of the classes that make or read it are on it and some are not. So
// outputs are nets over classes, and nets over the same classes are one, of their summed cost: with a and b of one
// class, a -> c costing 1 and c -> b costing 2, the one net {ab, c} costs 3.
#pragma once
#include <vector>

#include "partita/partitioning/cost.h"

namespace partita::partitioning {

struct Unit {
  std::vector<int> nodes;
  double cpu = 0, accelerator = 0, size = 0;
  bool supported = true;
  bool forward = false;  // has forward nodes
  std::vector<int> nets;
};

struct Net {
  double cost = 0;
  std::vector<int> units;  // two or more, sorted
};

struct Units {
  const Instance* instance = nullptr;
  std::vector<Unit> units;
  std::vector<Net> nets;
  std::vector<int> unit_of;  // of each node
};

// Makes the units. `part[v]`: the unit of node v, 0, 1, .. without holes; nodes of one color are in one.
Units units_of(const Instance& instance, const std::vector<int>& part);
// Makes units of color classes. With `contiguous` classes are one if every contiguous split keeps them together: if a
// path of forward nodes between two nodes of one goes through the other.
Units color_units(const Instance& instance, bool contiguous);

Devices devices_of(const Units& units, const std::vector<int>& device_of_unit);
std::vector<int> devices_of_units(const Units& units, const Devices& devices);

// Tells whether the forward nodes on `device` are contiguous.
bool is_contiguous(const Units& units, const std::vector<int>& device_of_unit, int device);

// Returns a lower bound on the max-load of any split: classes divisible, communication for nothing but of a class that
// is alone on its accelerator or on a CPU. Infinite if units that accelerators cannot run find no CPU.
double balance_bound(const Units& units);

}  // namespace partita::partitioning
