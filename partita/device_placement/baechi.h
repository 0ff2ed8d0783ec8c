// Places operations by the rules of Baechi (Jeon et al. 2020, section 3), for searches that need a quick start. Devices
// are filled, or operations go where they can start first, as long as memory lasts. A group is placed as one: the
// device of its first operation keeps all its bytes.
//
// Example: four operations of 10 bytes in a chain, two devices. m-TOPO fills each to 20 bytes: the first two are on
// gpu0. m-ETF leaves all on gpu0, if that holds 40 bytes: elsewhere each would wait for a transfer.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/device_placement/problem.h"

namespace partita {

// m-TOPO: fills devices one after another in the framework's order. Each gets its share of all bytes, and the largest
// operation or group more. Returns nothing if no device has the memory that an operation needs; `why` names it.
std::optional<std::vector<int>> topological_placement(const PlacementProblem& problem, std::string& why);

// m-ETF: takes next the pair of a ready operation and a device with memory that can start first. Among equal starts,
// the operation with the longest way to the end goes first. Its inputs are sent behind all that the links have. Without
// `congestion` it assumes that a link's transfers overlap, and its schedule keeps the order that this leads to.
std::optional<PlacedSchedule> earliest_task_first(const PlacementProblem& problem, std::string& why,
                                                  bool congestion = true);

// m-SCT: m-ETF with favourite children (favourites.h), by operation; -1: none. A device that has run an operation is
// kept for its favourite child until the child could have the result on any other device too. Until then the device
// runs only the child, as soon as its other inputs are there, and urgent operations: those that could begin at that
// time on any device. Among equal starts a device takes the child that it is kept for.
std::optional<PlacedSchedule> favourites_first(const PlacementProblem& problem, const std::vector<int>& favourite,
                                               std::string& why);

}  // namespace partita
