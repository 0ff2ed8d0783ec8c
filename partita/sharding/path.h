// Internal to sharding/: the cheapest path of steps from a partial layout.
//
// Example: P(sum) -> [2,1] rows of a 3-row tensor on 2 devices, an end without a name. All-reduce and a slice move 2
// |T|; one fetch of the other's part moves |T|, since each row is wanted once: the path is that fetch.
#pragma once
#include <compare>
#include <cstdint>
#include <limits>
#include <vector>

#include "partita/sharding/single_step.h"

namespace partita::boxing {

inline constexpr int64_t kUnreachable = std::numeric_limits<int64_t>::max();
inline constexpr size_t kAllAxes = 3;  // meshes of at most so many axes have all their named layouts looked at

// What a path costs; paths are compared member by member.
struct Cost {
  int64_t elements = kUnreachable;
  int moving = 0, fetches = 0, steps = 0;  // steps that move anything, fetches among them, all steps
  auto operator<=>(const Cost&) const = default;
};
Cost cost_of(int64_t elements, bool is_fetch);  // of one step
Cost plus(const Cost& a, const Cost& b);

// One step inside a path. A path is made of steps that change one thing, any move that keeps what is partial, and
// any fetch that leaves nothing partial; what is none of these is unreachable.
Cost edge(const Named& from, const Named& to, const Counter& counter);
// The last step of a path: the straight way to the end, nothing where that is reached.
Cost last_edge(const Named& from, const Named& end, const Counter& counter);

struct Path {
  std::vector<Named> through;  // both ends included
  Cost cost;
};
// `from` is partial. On the mesh of `from`, then straight to `to`; the first of the cheapest that is found.
Path cheapest_path(const Named& from, const Named& to, const Counter& counter);
// The same; between meshes that share devices the parts may also travel as they are, and be made whole at the end.
Path cheapest_path_between_meshes(const Named& from, const Named& to, const Counter& counter);
// cheapest_path() on a mesh of more than kAllAxes axes (guided_path.cc).
Path guided_path(const Named& from, const Named& to, const Counter& counter);

// The layout with its partial values made whole where they are: without a name.
Named made_whole(const Named& partial);
// The mesh axes, as bits, on which layouts of a path may be partial.
uint64_t partial_axes_between(const Layout& from, const Layout& to);
// S on every axis that can be split.
std::vector<Sbp> splits_of(const Layout& layout);

}  // namespace partita::boxing
