// Merges for which a schedule has room, so that the longest path of a graph stays within a limit however many are made.
//
// Vertices stand as if each had a device of its own and transfers took no time: in the middle between the earliest and
// the latest start that the longest path allows, all drawn out to the limit. Two are merged if both can run one after
// the other between all that they need and all that needs them, where these stand; there they stand from then on. So
// what is merged has a schedule, and no cycle.
//
// Example: a, and b and c, which need it, all of 2 ns. With 4 ns nothing has room. With 6 ns b and c stand at 3: a and
// b would take 0 to 4; b and c take 2 to 6. With 8 ns b and c stand at 4, and a and b take 0 to 4.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/device_placement/batch.h"

namespace partita {

// The longest path (ns).
int64_t longest_path(const MergeGraph& graph, const std::vector<int64_t>& ns);

class Slack {
 public:
  // A limit below the longest path is this path.
  Slack(const MergeGraph& graph, const std::vector<int64_t>& ns, int64_t limit_ns);

  // Whether there is room to merge two vertices, neither of which is merged. If so they are.
  bool take(int u, int v);
  // Where it stands (ns).
  int64_t start(int v) const { return start_[static_cast<size_t>(v)]; }

 private:
  bool narrow(int v, int other, int64_t& from, int64_t& until);

  const MergeGraph& graph_;
  const std::vector<int64_t>& ns_;
  Predecessors before_;
  int64_t limit_;
  std::vector<int64_t> start_, end_;  // of what the vertex is merged to
  int64_t looks_;                     // at neighbours that are left: vertices with thousands would take long
};

}  // namespace partita
