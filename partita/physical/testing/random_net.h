// Draws random training nets with random plans, as PhysicalGraphs, to test the passes, admission and the runtime. They
// have micro-batches under every schedule, tied parameters, ZeRO 1 and 3, recompute, offload and clipping. Parameters
// are gathered again for each micro-batch, meshes are uneven, and there are fetches and collectives, some of them in
// buckets. This is more than lowering can make.
#pragma once
#include <optional>
#include <string>

#include "partita/base/rng.h"
#include "partita/physical/passes.h"

namespace partita::testing {

// Options that are set are fixed; the rest is drawn.
struct NetOptions {
  std::optional<int> micro_batches, stages, devices_per_stage, layers;  // stages: groups of devices, the ranks S
  std::optional<int> zero;                                              // 0, 1 or 3
  std::optional<Schedule> schedule;
  std::optional<int> virtual_stages;  // under kInterleaved, else 1
  std::optional<bool> tied, clip, momentum, recompute, offload, cast, gather_again, ragged, mixed_updates, scratch;
  std::optional<double> fetches;  // how many of the conversions that could be collectives are fetches
};

struct RandomNet {
  PhysicalGraph graph;  // as lower_local leaves one: no order, counts, offsets, edges
  Schedule schedule = Schedule::kDefault;
  int virtual_stages = 1;
  std::string features;  // for messages
};

// Devices are numbered 0 ..; the last one is the host. Every register is of float32 over two axes.
RandomNet random_net(Rng& rng, const NetOptions& options = {});

}  // namespace partita::testing
