// Finds the cheapest path of steps from a partial layout. Internal to sharding/.
//
// Example: P(sum) -> [2,1] rows of a 3-row tensor on 2 devices, an end without a name. All-reduce and a slice move 2
// |T|. One fetch of the other's part moves |T|, since each row is wanted once: the path is that fetch.
#pragma once
#include <compare>
#include <cstdint>
#include <limits>
#include <vector>

#include "partita/sharding/single_step.h"

namespace partita::boxing {

inline constexpr int64_t kUnreachable = std::numeric_limits<int64_t>::max();
inline constexpr size_t kAllAxes = 3;  // meshes of at most so many axes have all named layouts tried

// The cost of a path; paths are compared member by member.
struct Cost {
  int64_t elements = kUnreachable;
  int moving = 0, fetches = 0, steps = 0;  // steps that move anything, fetches among them, all steps
  auto operator<=>(const Cost&) const = default;
};
Cost cost_of_step(int64_t elements, bool is_fetch);  // of one step
Cost plus(const Cost& a, const Cost& b);

// Costs one step inside a path. It changes one thing, or is any move that keeps the partial axes, or any fetch that
// leaves nothing partial. Any other pair is unreachable.
Cost step_cost(const NamedLayout& from, const NamedLayout& to, const ElementCounter& counter);
// Costs the last step of a path, straight to the end; nothing if that is reached.
Cost last_step_cost(const NamedLayout& from, const NamedLayout& end, const ElementCounter& counter);

struct Path {
  std::vector<NamedLayout> through;  // both ends included
  Cost cost;
};
// Finds a path on the mesh of `from`, which is partial, then straight to `to`; the first of the cheapest found.
Path cheapest_path(const NamedLayout& from, const NamedLayout& to, const ElementCounter& counter);
// The same; between meshes that share devices, the parts may also travel as they are and be made whole at the end.
Path cheapest_path_between_meshes(const NamedLayout& from, const NamedLayout& to, const ElementCounter& counter);
// cheapest_path() on a mesh of more than kAllAxes axes (guided_path.cc).
Path guided_path(const NamedLayout& from, const NamedLayout& to, const ElementCounter& counter);

// Makes the layout's partial values whole in place; it has no name.
NamedLayout with_whole_values(const NamedLayout& partial);
// The mesh axes, as bits, on which layouts of a path may be partial.
uint64_t partial_axes_between(const Layout& from, const Layout& to);
// Lists S on every axis that can be split.
std::vector<Sbp> all_splits(const Layout& layout);

}  // namespace partita::boxing
