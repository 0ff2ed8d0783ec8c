// Reads the costs of layer blocks from the simulated timeline of a small model.
#include "partita/estimator/block_costs.h"

#include <algorithm>

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

// By block: the bytes of a micro-batch's activations on a device that cross the place behind it in the forward pass.
std::vector<int64_t> crossing_bytes(const Graph& graph, const Resolved& resolved, const std::vector<int>& of_op,
                                    size_t blocks) {
  std::vector<int64_t> bytes(blocks, 0);
  std::vector<int> last(graph.tensors.size(), -1);  // by tensor: the last block that reads it forward
  for (size_t i = 0; i < graph.ops.size(); ++i)
    for (const TensorId t : graph.ops[i].operands)
      if (graph.ops[i].phase == Phase::kForward) last[t.index()] = std::max(last[t.index()], of_op[i]);
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (!tensor.producer.valid() || graph.op(tensor.producer).phase != Phase::kForward) continue;
    if (graph.micro_batches() > 1 && tensor.scope == MicroBatchScope::kStep) continue;
    for (int b = of_op[tensor.producer.index()]; b < last[t]; ++b)
      bytes[static_cast<size_t>(b)] += resolved.kept_layouts[t].elements(0) * bytes_of(tensor.dtype);
  }
  return bytes;
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
  const std::vector<int64_t> sent = crossing_bytes(graph, resolved, of_op, static_cast<size_t>(blocks));
  std::vector<BlockCosts> out(static_cast<size_t>(blocks));
  const size_t firing = few > 1 ? 1 : 0;
  for (size_t b = 0; b < out.size(); ++b)
    out[b] = {times[b].forward[firing], times[b].backward[firing], times[b].backward[0], sent[b], memory[b]};
  return out;
}

}  // namespace partita
