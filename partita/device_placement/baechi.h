// Placements by the rules of Baechi (Jeon et al. 2020, section 3): devices are filled, or operations go where they can
// start first, as long as memory lasts. Operations that stay together are taken as one: where the first of them goes,
// all their bytes are kept.
//
// Example: four operations of 10 bytes in a chain, two devices. m-TOPO fills each to 20 bytes: the first two are on
// gpu0. m-ETF leaves all on gpu0, if that holds 40 bytes: elsewhere each would wait for a transfer.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/device_placement/problem.h"

namespace partita {

// m-TOPO: devices are filled one after another in the framework's order, each to its share of all bytes (and to the
// largest operation or group more). Nothing: what an operation needs is left on no device; `why` says which.
std::optional<std::vector<int>> topological_placement(const PlacementProblem& problem, std::string& why);

// m-ETF: of all operations that are ready and devices that have room, the pair that can start first is taken next; of
// equals what has the longest way to the end. What it reads is sent behind all that the links have; without
// `congestion` it believes that transfers of a link are at the same time, and its schedule is in the order that this
// leads to.
std::optional<PlacedSchedule> earliest_task_first(const PlacementProblem& problem, std::string& why,
                                                  bool congestion = true);

// m-SCT: the same with favourite children (favourites.h), by operation; -1: none. A device that has run an operation is
// kept for its favourite child until the child could have what the operation made on any other device too. Until then
// the device runs only the child, as soon as what its other parents make is there, and what is urgent: what could begin
// at that time on any device. Of what can start first at the same time a device takes the child that it is kept for.
std::optional<PlacedSchedule> favourites_first(const PlacementProblem& problem, const std::vector<int>& favourite,
                                               std::string& why);

}  // namespace partita
