// Reads the weights' memory, kernels and collectives from a locally lowered model.
#include "partita/estimator/state_costs.h"

#include <algorithm>
#include <set>

#include "partita/base/error.h"
#include "partita/physical/bundle.h"
#include "partita/physical/lower_local.h"
#include "partita/schedule/orders.h"
#include "partita/schedule/representatives.h"
#include "partita/search/pipelines/stage_memory.h"
#include "partita/sharding/collective_links.h"

namespace partita {

namespace {

// A gather of a weight belongs to the pass that reads it. From ZeRO-2 on, gradients are reduced after each micro-batch.
BlockStates::Collectives& collectives_of(const Graph& graph, const Task& task, BlockStates& block) {
  if (std::get<CollectiveWork>(task.work).kind != StepKind::kAllGather)
    return task.rate > 1 ? block.each_gradients : block.gradients;
  const Phase phase = task.turn == Task::Turn::kEager ? Phase::kUpdate : graph.op(task.op).phase;
  if (phase == Phase::kUpdate) return block.updated;
  if (task.rate == 1 && graph.micro_batches() > 1) return block.weights;
  return phase == Phase::kForward ? block.in_forward : block.in_backward;
}

// The group of a ring, of devices that are numbered replica by replica.
CollectiveGroup group_of(StepKind kind, DType dtype, const std::vector<DeviceId>& ring, size_t devices_of_replica) {
  std::set<size_t> places, replicas;
  for (const DeviceId d : ring) {
    places.insert(d.index() % devices_of_replica);
    replicas.insert(d.index() / devices_of_replica);
  }
  return {kind, dtype, {places.begin(), places.end()}, replicas.size() > 1};
}

// The value with so many replicas of what is a + b / replicas.
double extrapolated(double two, double four, int replicas) {
  const double split = 4 * (two - four);
  return std::max(0.0, two - split / 2 + split / replicas);
}

BlockStates::Collectives extrapolated(const BlockStates::Collectives& two, const BlockStates::Collectives& four,
                                      int replicas) {
  BlockStates::Collectives out;
  for (const auto& [group, bytes] : four) {
    const auto of_two = two.find(group);
    const CollectiveBytes& other = of_two == two.end() ? bytes : of_two->second;
    out[group] = {extrapolated(other.sent, bytes.sent, replicas), extrapolated(other.whole, bytes.whole, replicas),
                  bytes.tensors};
  }
  return out;
}

}  // namespace

std::vector<BlockStates> block_states(const Graph& graph, const Plan& plan, const Cluster& cluster, int replicas,
                                      const std::vector<int>& of_op, int blocks) {
  const DeviceId device(static_cast<size_t>(cluster.compute_count) - 1);
  const Resolved resolved = resolve(graph, plan, cluster, mask_with_hosts({device}, cluster));
  const LocallyLowered lowered = lower_local(graph, resolved, cluster);
  const PhysicalGraph& physical = lowered.graph;
  const CostModel cost(cluster);
  std::vector<BlockStates> out(static_cast<size_t>(blocks));
  for (const Task& task : physical.tasks) {
    if (task.device != device || !task.op.valid()) continue;
    const Op& op = graph.op(task.op);
    BlockStates& block = out[static_cast<size_t>(of_op[task.op.index()])];
    const QueueKind queue = physical.queues[task.queue.index()].kind;
    const bool once = task.rate == 1 && graph.micro_batches() > 1;
    if (queue == QueueKind::kParameterCollective) {
      ensure(task.background != nullptr, "the collective of '{}' has no ring", task.name);
      const CollectiveGroup group =
          group_of(std::get<CollectiveWork>(task.work).kind, physical.reg(task.reads[0].reg).dtype,
                   task.background->ring, static_cast<size_t>(cluster.compute_count / replicas));
      CollectiveBytes& bytes = collectives_of(graph, task, block)[group];
      bytes.sent += static_cast<double>(task.bytes);
      bytes.whole += static_cast<double>(whole_bytes(physical, task));
      ++bytes.tensors;
    } else if (queue == QueueKind::kCompute && (op.phase == Phase::kUpdate || once)) {
      (op.phase == Phase::kForward ? block.cast_ns : block.update_ns) +=
          static_cast<double>(cost.task_ns(physical, task));
    }
  }
  const std::vector<LayerBlockMemory> memory = layer_block_memory(graph, plan, of_op, blocks);
  for (size_t b = 0; b < out.size(); ++b) {
    out[b].once_bytes = static_cast<double>(memory[b].once);
    out[b].gradient_bytes = static_cast<double>(memory[b].gradients);
    out[b].tied_bytes = static_cast<double>(memory[b].tied);
  }
  return out;
}

std::vector<BlockStates> block_states_of(int replicas, const std::vector<BlockStates>& two,
                                         const std::vector<BlockStates>& four) {
  std::vector<BlockStates> out(two.size());
  for (size_t b = 0; b < out.size(); ++b) {
    for (double BlockStates::*of : {&BlockStates::once_bytes, &BlockStates::gradient_bytes, &BlockStates::tied_bytes,
                                    &BlockStates::update_ns, &BlockStates::cast_ns})
      out[b].*of = extrapolated(two[b].*of, four[b].*of, replicas);
    for (BlockStates::Collectives BlockStates::*of :
         {&BlockStates::gradients, &BlockStates::each_gradients, &BlockStates::weights, &BlockStates::updated,
          &BlockStates::in_forward, &BlockStates::in_backward})
      out[b].*of = extrapolated(two[b].*of, four[b].*of, replicas);
  }
  return out;
}

std::vector<DeviceId> StageCollectives::devices_of(const CollectiveGroup& group, int first_place) const {
  const int each = stage_.compute_count / replicas_;
  std::vector<DeviceId> devices;
  for (int replica = 0; replica < (group.over_replicas ? replicas_ : 1); ++replica)
    for (const int place : group.places)
      devices.emplace_back(static_cast<size_t>(replica * each + place - group.places[0] + first_place));
  return devices;
}

const StageCollectives::Ring& StageCollectives::ring_of(const CollectiveGroup& group) {
  const auto [at, fresh] = rings_.try_emplace(group);
  if (!fresh) return at->second;
  // The rings of a collective are one ring moved over the places of a replica.
  const int each = stage_.compute_count / replicas_;
  std::set<int> covered;
  std::vector<std::vector<DeviceId>> rings;
  for (int place = 0; place < each; ++place) {
    if (covered.contains(place)) continue;
    for (const int other : group.places) covered.insert(other - group.places[0] + place);
    std::vector<DeviceId> devices = devices_of(group, place);
    if (devices.back().index() < static_cast<size_t>(stage_.compute_count)) rings.push_back(std::move(devices));
  }
  at->second = {rings.back(), ring_sharers(stage_, group.kind, rings).back()};
  return at->second;
}

double StageCollectives::group_ns(const CollectiveGroup& group, const CollectiveBytes& bytes, int64_t bucket) {
  const Ring& ring = ring_of(group);
  const double all = bytes.tensors, count = bucket > 0 ? bytes.whole / static_cast<double>(bucket) : all;
  const double buckets = std::clamp(count, std::min(1.0, all), std::max(1.0, all));
  return buckets * cost_.collective(group.kind, ring.devices).costs.ns(bytes.sent / buckets * ring.sharers);
}

int64_t StageCollectives::ns(const BlockStates::Collectives& collectives, int64_t bucket) {
  double sum = 0;
  for (const auto& [group, bytes] : collectives) sum += group_ns(group, bytes, bucket);
  return static_cast<int64_t>(sum);
}

int64_t StageCollectives::due_ns(const BlockStates::Collectives& collectives) {
  double sum = 0;
  for (const auto& [group, bytes] : collectives)
    sum += group_ns(group, bytes, bytes_worth_hops(stage_, ring_of(group).devices));
  return static_cast<int64_t>(sum);
}

}  // namespace partita
