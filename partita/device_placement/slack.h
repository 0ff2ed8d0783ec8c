// Allows merges that a relaxed schedule has time for, so that a graph's longest path stays within a limit, for
// coarsening.
//
// Vertices stand as if each had a device of its own and transfers took no time: in the middle between the earliest and
// the latest start that the longest path allows, all drawn out to the limit. Two merge if both can run one after the
// other between their predecessors and their successors as these stand. They stand there from then on. So the merged
// graph has a schedule, and no cycle.
//
// Example: a, and b and c, which need it, all of 2 ns. With 4 ns no two can merge. With 6 ns b and c stand at 3: a and
// b would take 0 to 4; b and c take 2 to 6. With 8 ns b and c stand at 4, and a and b take 0 to 4.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/device_placement/batch.h"

namespace partita {

// Returns the length of the longest path (ns).
int64_t longest_path(const MergeGraph& graph, const std::vector<int64_t>& ns);

class Slack {
 public:
  // A limit below the longest path is raised to it.
  Slack(const MergeGraph& graph, const std::vector<int64_t>& ns, int64_t limit_ns);

  // Merges two unmerged vertices if there is time, and returns whether it did.
  bool try_merge(int u, int v);
  // Returns its start (ns).
  int64_t start(int v) const { return start_[static_cast<size_t>(v)]; }

 private:
  bool narrow(int v, int other, int64_t& from, int64_t& until);

  const MergeGraph& graph_;
  const std::vector<int64_t>& ns_;
  Predecessors before_;
  int64_t limit_;
  std::vector<int64_t> start_, end_;  // of the merged vertex
  int64_t looks_;                     // at neighbours that are left: vertices with thousands would take long
};

}  // namespace partita
