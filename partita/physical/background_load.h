// Counts the load on links that lowered devices share with devices that are not lowered (BackgroundLoad, physical.h).
//
// Example: 16 devices on two nodes with one port each, groups of two devices across the nodes, device 0 lowered. Its
// ring is {0, 8}, and 8 rings pass over the port, so sharers is 8. Its collective takes as long as all 8 do one after
// another.
#pragma once
#include <memory>

#include "partita/physical/draft.h"

namespace partita {

// Returns the background load of one group of a collective step. Null for all groups if every device is lowered.
std::shared_ptr<const BackgroundLoad> ring_elsewhere(Draft& draft, const Step& step, size_t group);

// Returns the background load of a transfer from position `source` of one mesh to position `target` of another. It
// counts the targets, each fetching from as far along, whose transfers have the same narrowest link. Null as above.
std::shared_ptr<const BackgroundLoad> transfer_elsewhere(const Draft& draft, const Mesh& from, const Mesh& to,
                                                         int source, int target);

}  // namespace partita
