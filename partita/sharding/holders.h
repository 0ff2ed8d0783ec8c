// Finds, for a fetch, the positions that hold given boxes. Internal to sharding/.
//
// Example: [S(0), B] of 8 rows on a 2x2 mesh holds two different boxes. Rows [0,4) are at positions 0 and 1, rows [4,8)
// at positions 2 and 3. Boxes begin at 0 and 4 along axis 0, and the longest is 4 there. So rows [5,6) are sought among
// the boxes that begin at 2 to 5.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "partita/sharding/layout.h"

namespace partita::boxing {

// The factoring over which a step's pieces are boxes (Step::radices).
std::vector<Shape> step_radices(const Layout& from, const Layout& to);
// Lists each position's boxes over `radices`, which are from step_radices().
std::vector<std::vector<Box>> boxes_by_position(const Layout& l, const std::vector<Shape>& radices);

// The different boxes of one member of partial values, and the positions that hold each.
struct Holders {
  struct Held {
    Box box;
    std::vector<int> positions;  // ascending
  };
  std::vector<Held> held;
  // Sorts `held` along the axis on which the boxes begin in most places; `longest` there bounds their length.
  size_t axis = 0;
  std::vector<std::pair<int64_t, size_t>> beginnings;  // (lo, place in held), sorted
  int64_t longest = 0;
  std::optional<bool> disjoint;  // once asked for
};
// By member; `have`: boxes_by_position() of the layout.
std::vector<Holders> holders_of(const Layout& l, const std::vector<std::vector<Box>>& have);
// Places in `held`, ascending: those of all boxes that meet the box, and of some that do not.
std::vector<size_t> held_near(const Holders& holders, const Box& box);
// Tells whether no two different boxes meet.
bool are_disjoint(Holders& holders);

}  // namespace partita::boxing
