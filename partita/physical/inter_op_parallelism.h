// Recognises plans with inter-op parallelism: a step of one micro-batch whose forward and backward ops are on several
// meshes of one stage. Devices then do not represent each other, and the order does not know which op is first.
//
// Example: of two branches one is on gpu0 and one on gpu1. Data parallelism has all ops on all devices.
#pragma once
#include <algorithm>
#include <vector>

#include "partita/graph/graph.h"
#include "partita/sharding/layout.h"

namespace partita {

// `ops`: by OpId, with a mesh and a stage: a plan's choices, or their resolved form.
template <typename Ops>
bool has_inter_op_parallelism(const Graph& graph, const Ops& ops) {
  if (graph.micro_batches() > 1) return false;
  std::vector<DeviceId> first;
  SharedList<DeviceId> known;  // mostly the next mesh is the same
  for (size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].stage > 0) return false;
    if (graph.ops[i].phase == Phase::kUpdate || ops[i].mesh.devices == known) continue;
    known = ops[i].mesh.devices;
    std::vector<DeviceId> devices(known.begin(), known.end());
    std::sort(devices.begin(), devices.end());
    if (first.empty()) first = std::move(devices);
    else if (devices != first) return true;
  }
  return false;
}

}  // namespace partita
