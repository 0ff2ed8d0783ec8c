// Measures costs of layer blocks, and keeps them.
#include "partita/estimator/model_costs.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/threads.h"
#include "partita/plan/rules.h"
#include "partita/search/pipelines/pipeline.h"
#include "partita/search/pipelines/stage_cuts.h"
#include "partita/search/pipelines/stages.h"

namespace partita {

namespace {

constexpr int kPlannedReplicas = 4;  // at most; for more, costs are extrapolated

// Fills a value in, or the reason why there is none.
template <typename Known, typename Make>
void fill(Known& known, const Make& make) {
  try {
    known.value = make();
  } catch (const Error& error) {
    if (error.code() == ExitCode::kBug) throw;
    known.why_none = error.what();
  }
}

// Tells whether a plan is made for so many replicas. Costs of other numbers are extrapolated: powers of two, by which
// states divide as by two and four, and large ones.
bool is_planned(int replicas) {
  constexpr int kMostUneven = 64;
  const bool is_power = (replicas & (replicas - 1)) == 0;
  return replicas <= kPlannedReplicas || (!is_power && replicas <= kMostUneven);
}

Configuration with_replicas(Configuration c, int data) {
  c.data = data;
  return c;
}

}  // namespace

ModelCosts::ModelCosts(SmallModel model, const Cluster& cluster, int64_t batch, int64_t bucket_bytes)
    : model_(std::move(model)), cluster_(cluster), cost_(cluster), batch_(batch), bucket_bytes_(bucket_bytes) {}

const Cluster& ModelCosts::first(int devices) {
  std::unique_ptr<const Cluster>& known = first_[devices];
  if (!known) known = std::make_unique<const Cluster>(first_devices(cluster_, devices));
  return *known;
}

ModelCosts::BlockKey ModelCosts::block_key(const Configuration& c) const {
  return {c.tensor,   c.context, c.expert, c.sequence, static_cast<int>(batch_ / (c.micro_batch_size * c.expert)),
          c.recompute};
}

// Several micro-batches tell what is there once for all of them, as casts of weights; those of block_key() are several
// too.
int ModelCosts::micro_batches_for_states(const Configuration& c) const {
  const int several = std::max(2, c.micro_batches);
  return batch_ / several >= c.replicas() ? several : 1;
}

ModelCosts::StateKey ModelCosts::state_key(const Configuration& c) const {
  return {c.tensor, c.context, c.expert, c.sequence, c.data, c.zero, micro_batches_for_states(c) > 1};
}

const SmallModel::Step* ModelCosts::step_or_reason(const std::string& recompute, int micro_batches,
                                                   std::string& why_none) {
  try {
    return &model_.step(recompute, micro_batches);
  } catch (const Error& error) {  // an op that cannot act on so small a part of the batch
    if (error.code() == ExitCode::kBug) throw;
    why_none = error.what();
    return nullptr;
  }
}

// The graphs and clusters are made here, on one thread; the rest of the work may run on another.
std::optional<ModelCosts::Work> ModelCosts::block_work(const Configuration& c) {
  const auto [at, fresh] = blocks_.try_emplace(block_key(c));
  if (!fresh) return std::nullopt;
  const SmallModel::Step* step = step_or_reason(c.recompute, std::get<4>(at->first), at->second.why_none);
  if (!step) return std::nullopt;
  const Cluster& replica = first(c.devices_of_replica());
  GroupsOf groups = c.groups();
  groups.zero = 0;
  return [&known = at->second, &step = *step, &replica, groups, blocks = model_.blocks()] {
    fill(known, [&] {
      const Plan plan = groups_plan("megatron", step.graph, replica, groups);
      return partita::block_costs(step.graph, plan, replica, step.of_op, blocks);
    });
  };
}

std::optional<ModelCosts::Work> ModelCosts::planned_state_work(const Configuration& c) {
  const auto [at, fresh] = planned_.try_emplace(state_key(c));
  if (!fresh) return std::nullopt;
  const SmallModel::Step* step = step_or_reason("none", micro_batches_for_states(c), at->second.why_none);
  if (!step) return std::nullopt;
  const Cluster& stage = first(c.devices_of_stage());
  return [&known = at->second, &step = *step, &stage, c, blocks = model_.blocks()] {
    fill(known, [&] {
      const Plan plan = groups_plan("megatron", step.graph, stage, c.groups());
      return block_states(step.graph, plan, stage, c.data, step.of_op, blocks);
    });
  };
}

// The plans that it needs are known.
std::optional<ModelCosts::Work> ModelCosts::state_work(const Configuration& c) {
  const auto [at, fresh] = states_.try_emplace(state_key(c));
  if (!fresh) return std::nullopt;
  const Cluster& stage = first(c.devices_of_stage());
  const bool few = is_planned(c.data);
  const auto& two = planned_.at(state_key(few ? c : with_replicas(c, 2)));
  const auto& four = planned_.at(state_key(few ? c : with_replicas(c, kPlannedReplicas)));
  return [&known = at->second, &stage, &two, &four, few, replicas = c.data, bucket = bucket_bytes_] {
    fill(known, [&] {
      StateCosts out;
      out.blocks = few ? two.get() : block_states_of(replicas, two.get(), four.get());
      StageCollectives collectives(stage, replicas);
      for (const BlockStates& block : out.blocks)
        out.traffic.push_back({collectives.ns(block.gradients, bucket), collectives.ns(block.each_gradients, bucket),
                               collectives.ns(block.weights, bucket), collectives.ns(block.updated, bucket),
                               collectives.due_ns(block.in_forward), collectives.due_ns(block.in_backward)});
      return out;
    });
  };
}

void ModelCosts::prepare(const std::vector<Configuration>& configurations, const Watch& watch) {
  std::vector<Work> round;
  const auto add = [&](std::optional<Work> work) {
    if (work) round.push_back(*std::move(work));
  };
  for (const Configuration& c : configurations) {
    add(block_work(c));
    if (is_planned(c.data)) add(planned_state_work(c));
    for (const int data : {2, kPlannedReplicas})
      if (!is_planned(c.data)) add(planned_state_work(with_replicas(c, data)));
  }
  run(round, watch);
  if (watch.ended()) return;
  round.clear();
  for (const Configuration& c : configurations) add(state_work(c));
  run(round, watch);
}

void ModelCosts::run(const std::vector<Work>& round, const Watch& watch) {
  parallel_for(kFewThreads, round.size(), [&](size_t i, int) {
    if (!watch.ended()) round[i]();
  });
  // The time ended before these were measured: a later call measures them.
  const auto is_missing = [](const auto& entry) { return !entry.second.value && entry.second.why_none.empty(); };
  std::erase_if(blocks_, is_missing);
  std::erase_if(planned_, is_missing);
  std::erase_if(states_, is_missing);
}

const std::vector<BlockCosts>& ModelCosts::block_costs(const Configuration& c) {
  if (const auto known = blocks_.find(block_key(c)); known != blocks_.end()) return known->second.get();
  prepare({c}, {});
  return blocks_.at(block_key(c)).get();
}

const StateCosts& ModelCosts::state_costs(const Configuration& c) {
  if (const auto known = states_.find(state_key(c)); known != states_.end()) return known->second.get();
  prepare({c}, {});
  return states_.at(state_key(c)).get();
}

const std::vector<ModelCosts::Hop>& ModelCosts::hops(int ranks) {
  const auto [at, fresh] = hops_.try_emplace(ranks);
  if (!fresh) return at->second;
  const RankDevices devices(cluster_, ranks);
  const auto each = static_cast<size_t>(devices.each);
  for (int rank = 0; rank < ranks; ++rank) {
    std::map<LinkId, std::pair<int, Hop>> over;  // by narrowest link
    for (int d = 0; d < devices.each; ++d) {
      const DeviceId from = devices.devices[static_cast<size_t>(rank) * each + static_cast<size_t>(d)],
                     to = devices.devices[static_cast<size_t>((rank + 1) % ranks) * each + static_cast<size_t>(d)];
      auto& [count, hop] = over[cluster_.narrowest(from, to)];
      hop = {from, to, ++count};
    }
    Hop slowest;
    double most_s = -1;
    for (const auto& [link, counted] : over) {
      const double s = counted.first / cluster_.bandwidth(counted.second.from, counted.second.to);
      if (s > most_s) most_s = s, slowest = counted.second;
    }
    at->second.push_back(slowest);
  }
  return at->second;
}

int64_t ModelCosts::send_ns(const Configuration& c, int rank, int64_t bytes) {
  if (c.pipeline == 1 || bytes == 0) return 0;
  const Hop& hop = hops(c.pipeline)[static_cast<size_t>(rank)];
  return cost_.transfer(hop.from, hop.to, cluster_.route(hop.from, hop.to), static_cast<double>(bytes * hop.sharers))
      .whole_ns(1);
}

const std::vector<int>& ModelCosts::cut(const Configuration& c) {
  const int stages = c.pipelining().stages();
  const auto [at, fresh] = cuts_.try_emplace({c.layers, stages});
  if (!fresh) return at->second;
  const LayerBlocks& blocks = model_.whole_blocks();
  const std::vector<int> layers = c.layers.empty() ? even_layers(blocks.layers, stages) : c.layers;
  if (layers.empty()) {
    cuts_.erase(at);
    throw DoesNotApply(fmt::format("{} stages, and the model has {} layers", stages, blocks.layers));
  }
  at->second = stages_of_layers(blocks, layers);
  return at->second;
}

}  // namespace partita
