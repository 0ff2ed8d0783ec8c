// Tells exchanges between all pairs from reductions and gathers.
#include "partita/sharding/collective_links.h"

#include <algorithm>
#include <map>
#include <utility>

#include "partita/cluster/direct.h"

namespace partita {

GroupLinks collective_links(const Cluster& cluster, StepKind kind, std::vector<DeviceId> devices) {
  return kind == StepKind::kAllToAll ? pair_links(cluster, std::move(devices))
                                     : reduction_links(cluster, std::move(devices));
}

std::vector<int> ring_sharers(const Cluster& cluster, StepKind kind, const std::vector<std::vector<DeviceId>>& rings) {
  std::vector<std::vector<LinkId>> links;
  std::map<LinkId, int> over;
  for (const std::vector<DeviceId>& ring : rings) {
    links.push_back(busy_links(cluster, collective_links(cluster, kind, ring)));
    for (const LinkId l : links.back()) ++over[l];
  }
  std::vector<int> sharers(rings.size(), 1);
  for (std::size_t r = 0; r < rings.size(); ++r)
    for (const LinkId l : links[r]) sharers[r] = std::max(sharers[r], over.at(l));
  return sharers;
}

}  // namespace partita
