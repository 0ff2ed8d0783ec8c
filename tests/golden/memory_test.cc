// Tofu section 6: each of 8 devices needs about an eighth of the memory, because an update stands as soon as its gradient is
// whole and transfers stand just before their readers.
#include <gtest/gtest.h>

#include "partita/pipeline.h"
#include "partita/plan/resolve.h"
#include "partita/plan/rules.h"

namespace partita {
namespace {

int64_t largest(const PhysicalGraph& graph) {
  return *std::max_element(graph.peak_bytes.begin(), graph.peak_bytes.begin() + graph.compute_count);
}

// What one position holds of one conversion at most: its result, and what it takes from others to make it.
int64_t largest_conversion_buffers(const Planned& planned) {
  int64_t most = 0;
  for (const ResolvedConversion& c : resolve(planned.training, planned.plan, planned.cluster).conversions)
    for (const Step& step : c.conversion.steps)
      for (int p = 0; p < step.to.mesh.positions(); ++p) {
        int64_t elements = step.to.elements(p);
        for (const Piece& piece : step.pieces)
          if (piece.target == p && step.from.mesh.devices[piece.source] != step.to.mesh.devices[p]) elements += volume(piece.box);
        most = std::max(most, elements * bytes_of(planned.training.tensor(c.tensor).dtype));
      }
  return most;
}

TEST(PlannedMemory, EightDevicesNeedAnEighthEach) {
  Request request;
  request.model = "zoo:mlp?layers=4,width=8192,batch=512";
  request.optimizer.momentum = 0.9;
  request.cluster = "local:8";
  Runner runner;
  Planned planned = plan_model(request, runner);
  Cluster one = load_cluster("local:1");
  int64_t serial = largest(lower(planned.training, single_plan(planned.training, one), one));
  int64_t allowed = static_cast<int64_t>(1.10 / 8 * static_cast<double>(serial)) + largest_conversion_buffers(planned);
  for (int d = 0; d < planned.cluster.compute_count; ++d) EXPECT_LE(planned.physical.peak_bytes[d], allowed) << "device " << d;
  LowerOptions without;
  without.control_edges = false;
  int64_t loose = largest(lower(planned.training, planned.plan, planned.cluster, without));
  EXPECT_GT(loose, largest(planned.physical));
  std::printf("serial %.1f MB; of 8 devices at most %.1f MB, allowed %.1f MB; without control edges %.1f MB\n", static_cast<double>(serial) / 1e6,
              static_cast<double>(largest(planned.physical)) / 1e6, static_cast<double>(allowed) / 1e6, static_cast<double>(loose) / 1e6);
}

}  // namespace
}  // namespace partita
