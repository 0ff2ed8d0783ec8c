// Tells exchanges between all pairs from reductions and gathers.
#include "partita/sharding/collective_links.h"

#include <utility>

#include "partita/cluster/direct.h"

namespace partita {

GroupLinks collective_links(const Cluster& cluster, StepKind kind, std::vector<DeviceId> devices) {
  return kind == StepKind::kAllToAll ? pair_links(cluster, std::move(devices))
                                     : reduction_links(cluster, std::move(devices));
}

}  // namespace partita
