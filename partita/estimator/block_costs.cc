// Reads the costs of layer blocks from the simulated timeline of a small model.
#include "partita/estimator/block_costs.h"

#include <algorithm>
#include <limits>

#include "partita/base/error.h"
#include "partita/graph/micro_batches.h"
#include "partita/schedule/orders.h"
#include "partita/schedule/representatives.h"
#include "partita/sim/simulate.h"

namespace partita {

namespace {

constexpr int kSimulated = 3;  // micro-batches: one that adds to gradients, with one before and one behind it

// The time of each layer block on one device: its kernels, and the gaps on the device's compute queue before them,
// which communication leaves. Kernels that run once a step count nowhere.
struct BlockTimes {
  std::vector<int64_t> forward, backward;  // by micro-batch
};

std::vector<BlockTimes> block_times(const Graph& graph, const PhysicalGraph& physical, const Trace& trace,
                                    DeviceId device, const std::vector<int>& of_op, size_t blocks) {
  const auto firings = static_cast<size_t>(graph.micro_batches());
  std::vector<BlockTimes> out(blocks, {std::vector<int64_t>(firings, 0), std::vector<int64_t>(firings, 0)});
  int64_t end = 0;
  for (const Event& event : trace.events) {  // by start
    const Task& task = physical.task(event.task);
    if (physical.queues[task.queue.index()].kind != QueueKind::kCompute || task.device != device || !task.op.valid())
      continue;
    const Op& op = graph.op(task.op);
    const int64_t ns = event.end_ns - std::min(event.start_ns, end);
    end = event.end_ns;
    if (op.phase == Phase::kUpdate || (task.rate == 1 && firings > 1)) continue;
    BlockTimes& block = out[static_cast<size_t>(of_op[task.op.index()])];
    (op.phase == Phase::kForward ? block.forward : block.backward)[static_cast<size_t>(event.firing)] += ns;
  }
  return out;
}

}  // namespace

std::vector<BlockCosts> block_costs(const Graph& whole_step, const Plan& plan, const Cluster& cluster,
                                    const std::vector<int>& of_op, int blocks) {
  const int few = std::min(kSimulated, whole_step.micro_batches());
  const Graph graph = few < whole_step.micro_batches() ? with_fewer_micro_batches(whole_step, few) : whole_step;
  const DeviceId device(static_cast<size_t>(cluster.compute_count) - 1);
  Resolved resolved = resolve(graph, plan, cluster, mask_with_hosts({device}, cluster));
  resolved.bucket_bytes = 0;
  Orders orders(graph, resolved, cluster);
  const PhysicalGraph& physical = orders.with_edges(orders.size() - 1);
  const Trace trace = simulate(physical, CostModel(cluster));
  const std::vector<BlockTimes> times = block_times(graph, physical, trace, device, of_op, static_cast<size_t>(blocks));
  const std::vector<LayerBlockMemory> memory = layer_block_memory(graph, plan, of_op, blocks);
  std::vector<BlockCosts> out(static_cast<size_t>(blocks));
  const size_t firing = few > 1 ? 1 : 0;
  for (size_t b = 0; b < out.size(); ++b)
    out[b] = {times[b].forward[firing], times[b].backward[firing], times[b].backward[0], memory[b]};
  return out;
}

}  // namespace partita
