// Makes the tasks of each op, and of each tensor's conversions, from the choices on them alone. This is the local part
// of lowering; the global passes (passes.h) follow.
//
// Example: y = relu(h) on 2 devices, h made partial and read split. The conversion of h is the collective
// "h>relu.0.reduce-scatter@gpu0" and @gpu1, which write the registers "h>relu.0@gpu0" and @gpu1. The op is the kernels
// "relu@gpu0" and "relu@gpu1", which read these and write "y@gpu0" and "y@gpu1".
#pragma once
#include "partita/base/watch.h"
#include "partita/physical/spread_micro_batches.h"
#include "partita/plan/resolve.h"

namespace partita {

// Makes all tasks and registers, without order, counts, offsets and edges. spread_micro_batches.h says what else is
// left.
LocallyLowered lower_local(const Graph& graph, const Resolved& resolved, const Cluster& cluster,
                           const Watch& watch = {});

// The layouts in which a step's inputs are loaded and its outputs given, over the kept layout's factoring. An input is
// whole on every host that feeds a device of the kept layout's mesh. An output is whole on the host of that mesh's
// first device.
Layout layout_on_hosts(const Layout& kept_layout, const Cluster& cluster);
Layout layout_on_first_host(const Layout& kept_layout, const Cluster& cluster);

}  // namespace partita
