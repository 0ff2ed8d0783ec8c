// Names of operations in groups that a reader can take in at once.
#pragma once
#include <string>
#include <vector>

namespace partita {

struct NameGroup {
  std::string name;          // "decoder", "layers.0 .. layers.3"; beyond `most`: "and 12 others"
  std::vector<int> members;  // ascending
};

// Names are divided at dots and slashes, and before a number at their end ("Conv_12"). A group is of names that begin
// alike. One of several labels is divided further, the one with the most weight beside its largest label first, until
// there are `most` groups (at least 2). Of its parts, those of one label are one group: numbered ones where they follow
// one another, others all. In the order of their first members. `labels` are from 0; `weights` are not negative; both
// by name.
//
// Example: a.0, a.1, a.2, b.x, b.y with labels 0, 0, 1, 1, 1 are "a.0 .. a.1", "a.2" and "b"; were b.y's label 0 and
// b.z's 1, these would be "b.x and 1 more" and "b.y".
std::vector<NameGroup> name_groups(const std::vector<std::string>& names, const std::vector<int>& labels,
                                   const std::vector<double>& weights, size_t most);

}  // namespace partita
