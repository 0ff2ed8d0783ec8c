// Makes the pieces of one fetch, each from the holder with the fastest route. Internal to sharding/.
//
// Example: positions 0 and 1 hold rows [0,2) and [2,4); position 0 wants rows [0,3). Piece 0 -> 0 of rows [0,2) is on
// its own device; piece 1 -> 0 of row 2 moves.
#pragma once
#include <vector>

#include "partita/cluster/cluster.h"
#include "partita/sharding/holders.h"
#include "partita/sharding/step.h"

namespace partita::boxing {

struct Fetch {
  const Layout& from;
  const Layout& to;
  const Cluster& cluster;
  std::vector<Shape> radices;                // of all boxes here
  std::vector<std::vector<Box>> have, want;  // by position
  std::vector<Holders> holders;              // of `from`, by member
  std::vector<int> local;                    // by target: the position of `from` on the same device, or -1
  std::vector<char> wanted;                  // by target
  std::vector<Piece> pieces;                 // of the listed targets, ordered by target
  int64_t moved = 0;                         // elements that these move between devices
};

Fetch make_fetch(const Layout& from, const Layout& to, const Cluster& cluster, const DeviceMask& device_mask = nullptr);

// Takes `box` of one member for the target: from its own device what that holds, the rest from others.
void take_box(Fetch& fetch, int member, int target, const Box& box);
// Takes all pieces of targets whose values are partial (fetch_partial.cc).
void take_into_partials(Fetch& fetch);
// Returns the parts of `fragments` outside `box`; appends the parts inside to `inside`.
std::vector<Box> split_by_box(const std::vector<Box>& fragments, const Box& box, std::vector<Box>& inside);

}  // namespace partita::boxing
