// Color classes in an order: an acyclic graph over them, in which a device's nodes lie between two ideals of a chain.
//
// A class is before those that read a forward node of it. A class without forward nodes is put in like a forward class:
// after those that read it and before those that it reads, as the authors do. Classes in a circle are one unit.
#pragma once
#include "partita/base/rng.h"
#include "partita/placement/partitioning_units.h"

namespace partita::partitioning {

struct Ordered {
  Units units;
  std::vector<std::vector<int>> before, after;  // direct neighbours of each unit
};

Ordered ordered(const Instance& instance);

// A topological order: of what can come next, mostly what was made ready last, so that branches stay whole.
std::vector<int> drawn_order(const Ordered& o, Rng& rng);

}  // namespace partita::partitioning
