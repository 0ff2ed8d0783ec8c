// Where each tensor of a joint problem may be: the values of its variable.
//
// Worked example: a tensor of two axes on a mesh of one axis. Its producer makes S(0), and three readers may each want
// S(0) or B. Its homes are S(0) and B. Two of the readers or more may share what is brought to them, so its values are:
// home S(0); home B; home S(0), also brought to B; home B, also brought to S(0). With two readers there are only the
// first two in bytes: what both want can be the home, and no detour is shorter.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "partita/search/joint/op_space.h"

namespace partita {

// One entry a value of the tensor's variable. A conversion to one layout is made once for all its readers. So a value
// says into which layouts, besides its home, the tensor is brought for several readers together. Where those sets are
// too many, each such layout has a variable of its own instead (Brought).
struct TensorSpace {
  struct Value {
    int home = 0;           // in layouts
    std::vector<int> also;  // in layouts; ascending
  };
  // Whether the tensor is brought into a layout for readers of the backward pass, and for others. For both it is
  // brought once, and its copy lies on the last device in between, or once for each.
  struct Way {
    bool others = false, backward = false, once = false;
    int64_t elements = 0;  // once: what the copy takes there beyond the home; homes that say otherwise are forbidden
  };
  struct Brought {
    int layout = 0;         // in layouts
    std::vector<Way> ways;  // one a value of its variable; the first: not at all
  };
  std::vector<Layout> layouts;  // homes, and what readers want
  std::vector<Value> values;
  std::vector<Brought> brought;  // the layouts with variables of their own; ascending
};

// A tensor without a variable, from each value of the op that makes it to each of the one that reads it. In bytes no
// way is cheaper than the straight one. In time the tensor may be kept in a layout on the way: given P(sum) and a
// reader that wants B, it may be S(0) in between.
struct StraightSpace {
  std::vector<Layout> layouts;
  std::vector<int> homes;  // row-major; in layouts, -1: kept as it was made
};

// Whether a position finds what it wants of a tensor inside what it holds.
bool is_view(const Layout& held, const Layout& wanted, int position);
// The elements that a copy takes on a position beside the tensor's home. The home of what an op made need not stay
// there where all readers take copies.
int64_t elements_beside(const Layout& home, const Layout& copy, int position, bool made);
// Whoever makes a tensor, it can be kept there: in a layout with a name, and none that splits an axis into more parts
// than it has values.
bool can_be_kept(const Layout& layout);

}  // namespace partita
