// Finds the best contiguous split whose devices stand in an order, by a dynamic program over ideals (Tarnawski et al.
// 2020, section 5.1.1). An ideal is a set of units that has, with a unit, all that it reads. Such a split is a chain of
// ideals, each device the difference of two neighbours. Let k' accelerators and l' CPUs fill an ideal J with a max-load
// below the best known. Then one more device that takes I \ J reaches every ideal I that contains J.
//
// Ideals whose rest could not fit on the devices that are left are skipped.
//
// Example: units a -> b, a -> c have the ideals {}, {a}, {a,b}, {a,c}, {a,b,c}; {b,c} is a device in one of their
// chains, {a,b} before {c} in another.
//
// The order is that of order.h.
#pragma once
#include <optional>

#include "partita/base/watch.h"
#include "partita/partitioning/units.h"

namespace partita::partitioning {

struct IdealsResult {
  std::optional<Devices> devices;  // better than `below`, and the best of such splits if `complete`
  bool complete = false;           // all ideals were looked at
  long long ideals = 0;            // 0 if there are more than allowed
  bool enough = false;             // splits without an order are no better (order_is_enough)
};

// Runs the dynamic program. `most`: ideals times numbers of devices.
IdealsResult best_of_ideals(const Instance& instance, double below, const Watch& watch, long long most);

// Returns the best split into intervals of one order of the units: quick, and a start for the above. `seed` draws the
// order.
std::optional<Devices> best_of_order(const Instance& instance, double below, uint64_t seed, const Watch& watch);

}  // namespace partita::partitioning
