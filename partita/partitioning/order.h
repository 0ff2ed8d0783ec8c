// Orders color classes: makes an acyclic graph over them, in which a device's nodes lie between two ideals of a chain.
//
// A class is before those that read a forward node of it. A class without forward nodes is put in like a forward class:
// after those that read it and before those that it reads, as the authors do. Classes in a circle are one unit.
#pragma once
#include "partita/base/rng.h"
#include "partita/partitioning/units.h"

namespace partita::partitioning {

struct OrderedUnits {
  Units units;
  std::vector<std::vector<int>> before, after;  // direct neighbours of each unit
};

OrderedUnits order_units(const Instance& instance);

// Tells whether contiguous splits whose devices stand in no order are no better than `value` if those in an order are
// not.
//
// Devices can wait for each other in a circle although all are contiguous: for a -> b, c -> d the devices {a, d}, {b,
// c}. A unit that all others are before or after is a bottleneck. A device without it lies before it or after it as a
// whole. None of those after leads to one before or to its own. So the devices of a circle lie in one region between
// two neighbouring bottlenecks. Their units there are contiguous together, and can be on one of them. For the device of
// the bottleneck before takes an ideal of the region, and that of the one after the rest of another. Then the circle is
// gone. The max-load is at most the load of all of the region with all nets that reach it. This holds for classes with
// one forward node each; for others the answer is no.
bool order_is_enough(const OrderedUnits& o, double value);

// Draws a topological order: among possible next units mostly the one made ready last, so that branches stay whole.
std::vector<int> drawn_order(const OrderedUnits& o, Rng& rng);

}  // namespace partita::partitioning
