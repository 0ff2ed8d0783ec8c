// Tests Tofu section 6: each of 8 devices needs about an eighth of the memory. An update stands as soon as its gradient
// is whole, and transfers stand just before their readers.
#include <gtest/gtest.h>

#include "partita/base/error.h"
#include "partita/models/testing/training.h"
#include "partita/physical/passes.h"
#include "partita/pipeline/pipeline.h"
#include "partita/plan/resolve.h"
#include "partita/plan/rules.h"
#include "partita/schedule/lower.h"

namespace partita {
namespace {

int64_t largest(const PhysicalGraph& graph) {
  return *std::max_element(graph.peak_bytes.begin(), graph.peak_bytes.begin() + graph.compute_count);
}

// On one device, and the bytes of the forward results.
struct SerialMemory {
  int64_t peak_bytes = 0, activation_bytes = 0;
};
SerialMemory serial_memory(const std::string& name) {
  const Graph graph = training(name, {});
  const Cluster one = load_cluster("local:1");
  SerialMemory out{largest(lower(graph, single_plan(graph, one), one)), 0};
  for (const Op& op : graph.ops)
    if (op.phase == Phase::kForward)
      for (TensorId result : op.results) out.activation_bytes += graph.tensor(result).bytes();
  return out;
}

// The most bytes that one position holds for one conversion: its result, and the pieces that it takes from others.
int64_t largest_conversion_buffers(const Planned& planned) {
  int64_t most = 0;
  for (const ResolvedConversion& c : resolve(planned.training, planned.plan, planned.cluster).conversions)
    for (const Step& step : c.conversion.steps)
      for (int p = 0; p < step.to.mesh.positions(); ++p) {
        int64_t elements = step.to.elements(p);
        for (const Piece& piece : step.pieces)
          if (piece.target == p && step.from.mesh.devices[piece.source] != step.to.mesh.devices[p])
            elements += volume(piece.box);
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
  for (int d = 0; d < planned.cluster.compute_count; ++d)
    EXPECT_LE(planned.physical.peak_bytes[d], allowed) << "device " << d;
  LowerOptions without;
  without.control_edges = false;
  int64_t loose = largest(lower(planned.training, planned.plan, planned.cluster, without));
  EXPECT_GT(loose, largest(planned.physical));
  std::printf("serial %.1f MB; of 8 devices at most %.1f MB, allowed %.1f MB; without control edges %.1f MB\n",
              static_cast<double>(serial) / 1e6, static_cast<double>(largest(planned.physical)) / 1e6,
              static_cast<double>(allowed) / 1e6, static_cast<double>(loose) / 1e6);
}

// Tofu section 7.2: contributions of time steps to a weight's gradient are added in place.
TEST(PlannedMemory, UnrollingFurtherTakesActivationsOnly) {
  for (const char* cell : {"lstm", "gru"}) {
    SCOPED_TRACE(cell);
    auto memory = [&](int steps) {
      return serial_memory(
          fmt::format("zoo:rnnlm?batch=2,layers=2,hidden=128,vocabulary=40,cell={},steps={}", cell, steps));
    };
    const SerialMemory few = memory(4), many = memory(16);
    const int64_t activations = many.activation_bytes - few.activation_bytes,
                  weights = 12 * int64_t{3 * 128 * 128 * 4};  // of one matrix, at least
    ASSERT_LT(activations, weights / 4) << "the weights outweigh the activations";
    EXPECT_LE(many.peak_bytes - few.peak_bytes, activations);
    std::printf("%s: 4 steps %.2f MB, 16 steps %.2f MB; activations %.2f and %.2f MB\n", cell,
                static_cast<double>(few.peak_bytes) / 1e6, static_cast<double>(many.peak_bytes) / 1e6,
                static_cast<double>(few.activation_bytes) / 1e6, static_cast<double>(many.activation_bytes) / 1e6);
  }
}

}  // namespace
}  // namespace partita
