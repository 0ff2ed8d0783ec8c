// Internal to task_graph/: turns edges of fragments into lists by party. Fragments with equal edges share them: most
// differ from another's only in bytes or devices.
//
// Example: of the edges {1, 0} -> {0, 0} and {0, 0} -> {2, 0}, `after` has {0, 0} for party 1, {2, 0} for party 0 and
// nothing for party 2; `before` has {1, 0} for party 0 and {0, 0} for party 2.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "partita/task_graph/task_graph.h"

namespace partita {

class EdgeLists {
 public:
  using Edges = std::vector<std::pair<TaskOf, TaskOf>>;  // from the task that ends first
  struct Lists {
    PartyLists after, before;  // as Fragment has them
  };
  // Returns the lists of `edges`, in any order, perhaps with duplicates. `sizes`: tasks by party.
  const Lists& of(const Edges& edges, const std::vector<int>& sizes);

 private:
  std::unordered_map<uint64_t, std::vector<Lists>> known_;  // by hash
  size_t edges_ = 0;                                        // in them
  std::vector<int> offsets_, begins_;
  Edges sorted_, back_;
};

}  // namespace partita
