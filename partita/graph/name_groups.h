// Groups names of operations, so that a reader can take them in at once.
#pragma once
#include <string>
#include <vector>

namespace partita {

struct OpNameGroup {
  std::string name;          // "decoder", "layers.0 .. layers.3"; beyond `most`: "and 12 others"
  std::vector<int> members;  // ascending
};

// Divides names at dots and slashes, and before a number at their end ("Conv_12"). A group holds names that begin
// alike. Groups of several labels are divided further, until there are `most` groups (at least 2). The group with the
// most weight beside its largest label comes first. Parts of one label are one group: numbered ones if they follow one
// another, others all. Groups are in the order of their first members. `labels` are from 0; `weights` are not negative;
// both are by name.
//
// Example: a.0, a.1, a.2, b.x, b.y with labels 0, 0, 1, 1, 1 are "a.0 .. a.1", "a.2" and "b". If b.y's label were 0 and
// b.z's 1, these would be "b.x and 1 more" and "b.y".
std::vector<OpNameGroup> group_op_names(const std::vector<std::string>& names, const std::vector<int>& labels,
                                        const std::vector<double>& weights, size_t most);

}  // namespace partita
