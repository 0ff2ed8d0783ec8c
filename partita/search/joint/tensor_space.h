// Lists the kept layouts of each tensor of a joint problem: the values of its variable.
//
// Worked example: a tensor of two axes on a mesh of one axis. Its producer makes S(0), and three readers may each need
// S(0) or B. Its kept layouts are S(0) and B. Two of the readers or more may share a copy, so its values are these:
// kept S(0); kept B; kept S(0), also brought to B; kept B, also brought to S(0). With two readers there are only the
// first two in bytes. A layout that both need can be the kept one, and no detour is shorter.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "partita/search/joint/op_space.h"

namespace partita {

// One entry a value of the tensor's variable. A conversion to one layout is made once for all its readers. So a value
// lists the layouts, besides the kept one, into which the tensor is brought for several readers together. If those sets
// are too many, each such layout has a variable of its own instead (Resharded).
struct TensorSpace {
  struct Value {
    int kept_layout = 0;    // in layouts
    std::vector<int> also;  // in layouts; ascending
  };
  // Whether the tensor is brought into a layout for readers of the backward pass, and for others. For both it is
  // brought once, and its copy lies on the last device in between, or once for each.
  struct ReshardChoice {
    bool others = false, backward = false, once = false;
    int64_t elements = 0;  // once: the copy's elements there beyond the kept layout; kept layouts that contradict it
                           // are forbidden
  };
  struct Resharded {
    int layout = 0;                      // in layouts
    std::vector<ReshardChoice> choices;  // one a value of its variable; the first: not at all
  };
  std::vector<Layout> layouts;  // kept layouts, and those that readers need
  std::vector<Value> values;
  std::vector<Resharded> resharded;  // the layouts with variables of their own; ascending
};

// A tensor without a variable, from each value of the op that makes it to each of the one that reads it. In bytes no
// way is cheaper than the straight one. In time the tensor may be kept in a layout on the way. Given P(sum) and a
// reader that needs B, it may be S(0) in between.
struct StraightSpace {
  std::vector<Layout> layouts;
  std::vector<int> kept_layouts;  // row-major; in layouts, -1: kept as it was made
};

// Tells whether a position finds the wanted part of a tensor inside the part it holds.
bool is_view(const Layout& held, const Layout& wanted, int position);
// Returns the elements that a copy takes on a position beside the tensor's kept layout. A result need not stay in its
// kept layout if all readers take copies.
int64_t elements_beside(const Layout& kept_layout, const Layout& copy, int position, bool made);
// Tells whether a tensor of any producer can be kept in it. It has a name then, and splits no axis into more shards
// than it has values.
bool can_be_kept(const Layout& layout);

}  // namespace partita
