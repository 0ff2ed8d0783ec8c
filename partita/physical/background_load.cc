// Counts the rings and transfers that share the links of lowered devices.
#include "partita/physical/background_load.h"

#include <algorithm>
#include <map>

#include "partita/sharding/collective_links.h"

namespace partita {

namespace {

KnownRings count_rings(const Cluster& cluster, const Step& step) {
  KnownRings known{step.kind == StepKind::kAllToAll, step.to.mesh.devices, step.groups, {}};
  std::vector<std::vector<DeviceId>> rings;
  for (const std::vector<int>& group : step.groups) {
    rings.emplace_back();
    for (const int p : group) rings.back().push_back(step.to.mesh.devices[p]);
  }
  const std::vector<int> sharers = ring_sharers(cluster, step.kind, rings);
  for (size_t g = 0; g < rings.size(); ++g)
    known.background.push_back(std::make_shared<const BackgroundLoad>(BackgroundLoad{std::move(rings[g]), sharers[g]}));
  return known;
}

}  // namespace

std::shared_ptr<const BackgroundLoad> ring_elsewhere(Draft& draft, const Step& step, size_t group) {
  if (!draft.device_mask) return nullptr;
  for (const KnownRings& known : draft.rings)
    if (known.exchange == (step.kind == StepKind::kAllToAll) && known.devices == step.to.mesh.devices &&
        known.groups == step.groups)
      return known.background[group];
  return draft.rings.emplace_back(count_rings(draft.cluster, step)).background[group];
}

std::shared_ptr<const BackgroundLoad> transfer_elsewhere(const Draft& draft, const Mesh& from, const Mesh& to,
                                                         int source, int target) {
  if (!draft.device_mask) return nullptr;
  const LinkId link = draft.cluster.narrowest(from.devices[source], to.devices[target]);
  BackgroundLoad found;
  const int sources = from.positions(), targets = to.positions();
  for (int t = 0; t < targets && link.valid(); ++t) {
    if (t == target) continue;
    const int along = (t - target) * std::max(1, sources / targets),
              s = ((source + along) % sources + sources) % sources;
    found.sharers += draft.cluster.narrowest(from.devices[s], to.devices[t]) == link;
  }
  return std::make_shared<const BackgroundLoad>(std::move(found));
}

}  // namespace partita
