// Adds up the costs of layer blocks over the stages, micro-batches and replicas of a configuration.
#include "partita/estimator/estimator.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "partita/base/error.h"
#include "partita/estimator/block_costs.h"
#include "partita/estimator/schedule_time.h"
#include "partita/estimator/small_model.h"
#include "partita/estimator/state_costs.h"
#include "partita/graph/batch.h"
#include "partita/graph/places.h"
#include "partita/physical/may_factor.h"
#include "partita/plan/rules.h"
#include "partita/search/pipelines/pipeline.h"
#include "partita/search/pipelines/stages.h"

namespace partita {

namespace {

// A block's collectives of weights and gradients, in time.
struct BlockTraffic {
  int64_t gradients_ns = 0, weights_ns = 0, updated_ns = 0, forward_gathers_ns = 0, backward_gathers_ns = 0;
};

struct StateCosts {
  std::vector<BlockStates> blocks;
  std::vector<BlockTraffic> traffic;
};

}  // namespace

struct Estimator::Memory {
  SmallModel model;
  const Cluster& cluster;
  int64_t batch, bucket_bytes;
  bool keeps_gradients;                                         // until all are there
  std::map<int, std::unique_ptr<const Cluster>> first_devices;  // by count
  std::map<std::tuple<int, int, bool, int, std::string, int>, std::vector<BlockCosts>> costs;
  std::map<std::tuple<int, int, bool, int, int, bool, bool>, StateCosts> states;
  std::map<std::pair<std::vector<int>, int>, std::vector<int>> cuts;  // by layers and stages

  const Cluster& first(int devices) {
    std::unique_ptr<const Cluster>& known = first_devices[devices];
    if (!known) known = std::make_unique<const Cluster>(rank_of(cluster, cluster.compute_count / devices));
    return *known;
  }

  // Costs of the blocks on one replica.
  const std::vector<BlockCosts>& block_costs_of(const Configuration& c) {
    const auto count = static_cast<int>(batch / (c.micro_batch_size * c.expert));
    const auto [at, fresh] = costs.try_emplace({c.tensor, c.expert, c.sequence, count, c.recompute, 0});
    if (!fresh) return at->second;
    const SmallModel::Step& step = model.step(c.recompute, count);
    GroupsOf groups = c.groups();
    groups.zero = 0;
    const Cluster& replica = first(c.devices_of_replica());
    const Plan plan = groups_plan("megatron", step.graph, replica, groups);
    at->second = block_costs(step.graph, plan, replica, step.of_op, model.blocks());
    return at->second;
  }

  // Several micro-batches tell what is there once for all of them, as casts of weights; block_costs() has several too.
  int micro_batches_for_states(const Configuration& c) const {
    const int several = std::max(2, c.micro_batches);
    return batch / several >= c.replicas() ? several : 1;
  }
  // The weights' costs on one stage of so many replicas, by a plan for that stage.
  std::vector<BlockStates> planned_states(const Configuration& c, int data) {
    Configuration smaller = c;
    smaller.data = data;
    const SmallModel::Step& step = model.step("none", micro_batches_for_states(smaller));
    const Cluster& stage = first(smaller.devices_of_stage());
    const Plan plan = groups_plan("megatron", step.graph, stage, c.groups());
    return block_states(step.graph, plan, stage, data, step.of_op, model.blocks());
  }

  const StateCosts& state_costs_of(const Configuration& c) {
    constexpr int kPlanned = 4;  // replicas for which plans are made
    const bool several = micro_batches_for_states(c) > 1;
    const auto [at, fresh] =
        states.try_emplace({c.tensor, c.expert, c.sequence, c.data, c.zero, c.gathers_once, several});
    if (!fresh) return at->second;
    StateCosts& out = at->second;
    if (c.data <= kPlanned) {
      out.blocks = planned_states(c, c.data);
    } else {
      Configuration two = c, four = c;
      two.data = 2, four.data = kPlanned;
      const std::vector<BlockStates>& of_two = state_costs_of(two).blocks;
      out.blocks = block_states_of(c.data, of_two, state_costs_of(four).blocks);
    }
    StageCollectives collectives(first(c.devices_of_stage()), c.data);
    for (const BlockStates& block : out.blocks)
      out.traffic.push_back({collectives.ns(block.gradients, bucket_bytes), collectives.ns(block.weights, bucket_bytes),
                             collectives.ns(block.updated, bucket_bytes), collectives.due_ns(block.forward_gathers),
                             collectives.due_ns(block.backward_gathers)});
    return out;
  }

  // By layer block of the whole model, its virtual stage.
  const std::vector<int>& cut_of(const Configuration& c) {
    const int stages = c.pipelining().stages();
    const auto [at, fresh] = cuts.try_emplace({c.layers, stages});
    if (!fresh) return at->second;
    const LayerBlocks& blocks = model.whole_blocks();
    const std::vector<int> layers = c.layers.empty() ? even_layers(blocks.layers, stages) : c.layers;
    if (layers.empty())
      throw DoesNotApply(fmt::format("{} stages, and the model has {} layers", stages, blocks.layers));
    at->second = stages_of_layers(blocks, layers);
    return at->second;
  }
};

namespace {

// One configuration's estimate.
class Sum {
 public:
  Sum(const Configuration& c, const std::vector<int>& stands_for, const std::vector<int>& cut,
      const std::vector<BlockCosts>& costs, const StateCosts& states, bool keeps_gradients, double beside_collectives)
      : c_(c),
        beside_collectives_(beside_collectives),
        frees_gradients_(!keeps_gradients && c.micro_batches == 1),
        pipelining_(c.pipelining()),
        stands_for_(stands_for),
        costs_(costs),
        states_(states),
        blocks_of_(static_cast<size_t>(pipelining_.stages())) {
    for (size_t b = 0; b < cut.size(); ++b) blocks_of_[static_cast<size_t>(cut[b])].push_back(static_cast<int>(b));
  }

  ConfigurationEstimate estimate() const {
    std::vector<StageTimes> times;
    for (size_t s = 0; s < blocks_of_.size(); ++s) times.push_back(stage_times(s));
    const ScheduleTime schedule = schedule_time(pipelining_, times);
    ConfigurationEstimate out;
    out.ranks.resize(static_cast<size_t>(c_.pipeline));
    for (int rank = 0; rank < c_.pipeline; ++rank) {
      RankEstimate& of = out.ranks[static_cast<size_t>(rank)];
      const int64_t end = end_of_rank(rank, schedule, of);
      out.step_ns = std::max(out.step_ns, end);
      add_memory(rank, of);
      out.memory_bytes = std::max(out.memory_bytes, of.memory_bytes);
    }
    return out;
  }

 private:
  template <typename Visit>
  void each_block(size_t stage, const Visit& visit) const {
    for (const int b : blocks_of_[stage]) {
      const auto small = static_cast<size_t>(stands_for_[static_cast<size_t>(b)]);
      visit(costs_[small], states_.blocks[small], states_.traffic[small]);
    }
  }

  // Kernels are slower while collectives run on their device: a collective of this time costs them so much.
  int64_t slowed_ns(int64_t collectives_ns) const {
    return static_cast<int64_t>(static_cast<double>(collectives_ns) * (1 - beside_collectives_));
  }
  // A pass whose weights are gathered meanwhile.
  int64_t with_gathers(int64_t pass_ns, int64_t gathers_ns) const {
    return std::max(pass_ns + slowed_ns(gathers_ns), gathers_ns);
  }

  StageTimes stage_times(size_t stage) const {
    StageTimes out;
    int64_t gathered = 0, reduced = 0;
    each_block(stage, [&](const BlockCosts& block, const BlockStates& state, const BlockTraffic& traffic) {
      const int64_t forward_ns = with_gathers(block.forward_ns, traffic.forward_gathers_ns);
      out.forward_ns += forward_ns;
      out.backward_ns += with_gathers(block.backward_ns, traffic.backward_gathers_ns);
      out.first_backward_ns += with_gathers(block.first_backward_ns, traffic.backward_gathers_ns);
      reduced += traffic.gradients_ns;
      gathered += traffic.weights_ns;
      out.first_forward_ns = std::max(out.first_forward_ns, gathered) + std::llround(state.cast_ns) + forward_ns +
                             slowed_ns(traffic.weights_ns);
    });
    out.last_backward_ns = (c_.micro_batches == 1 ? out.first_backward_ns : out.backward_ns) + slowed_ns(reduced);
    return out;
  }

  // When a rank's step is over.
  int64_t end_of_rank(int rank, const ScheduleTime& schedule, RankEstimate& out) const {
    std::vector<std::pair<int64_t, int64_t>> ready;  // when a block's gradients are there, and how long they take
    int64_t updates = 0, updated = 0, backward_end = 0;
    for (size_t s = static_cast<size_t>(rank); s < blocks_of_.size(); s += static_cast<size_t>(c_.pipeline)) {
      int64_t at = schedule.backward_end_ns[s];
      backward_end = std::max(backward_end, at);
      each_block(s, [&](const BlockCosts& block, const BlockStates& state, const BlockTraffic& traffic) {
        ready.emplace_back(at, traffic.gradients_ns);
        at -= block.backward_ns;
        updates += std::llround(state.update_ns);
        updated += traffic.updated_ns;
        out.compute_ns += c_.micro_batches * (block.forward_ns + block.backward_ns);
        ++out.layer_blocks;
      });
    }
    std::ranges::sort(ready);
    int64_t reduced = 0;
    for (const auto& [at, ns] : ready) reduced = std::max(reduced, at) + ns;
    out.gradients_ns = std::max<int64_t>(0, reduced - backward_end);
    out.update_ns = updates + updated;
    out.bubble_ns = backward_end - out.compute_ns;
    return std::max(reduced, backward_end) + updates + updated;
  }

  void add_memory(int rank, RankEstimate& out) const {
    const std::map<int, int> flying = most_in_flight(rank);
    int64_t kept = 0, most = 0, gradients = 0, largest_gradients = 0;
    for (const auto& [stage, count] : flying) {
      LayerBlockMemory all;
      bool first = true;
      each_block(static_cast<size_t>(stage),
                 [&](const BlockCosts& block, const BlockStates& state, const BlockTraffic&) {
                   // Tied weights are the embedding's, which is on rank 0.
                   out.states_bytes += std::llround(state.once_bytes - (rank == 0 ? state.tied_bytes : 0));
                   gradients += std::llround(state.gradient_bytes);
                   largest_gradients = std::max(largest_gradients, block.memory.gradients);
                   all = first ? block.memory : join_memory(all, block.memory);
                   first = false;
                 });
      const int64_t each = all.brought + all.kept;
      kept += count * each;
      most = std::max(most, all.most - each);
    }
    out.memory_bytes = out.states_bytes + kept + most;
    // Without a forward pass behind the first backward pass, gradients come while activations go.
    const int all_passes = c_.micro_batches * c_.virtual_stages;
    if (in_flight(pipelining_, rank) < all_passes) return;
    const int64_t without = out.states_bytes - gradients;
    if (frees_gradients_) out.states_bytes = without;
    out.memory_bytes = std::max(without + largest_gradients + kept + most, out.states_bytes + most);
  }

  // By virtual stage of the rank: the most micro-batches that are in flight at one time.
  std::map<int, int> most_in_flight(int rank) const {
    Pipelining few = pipelining_;  // no more are in flight later
    few.micro_batches = std::min(few.micro_batches, 2 * few.ranks);
    std::map<int, int> now, most;
    for (const ScheduledPass& pass : passes_of(few, rank)) {
      now[pass.stage] += pass.backward ? -1 : 1;
      most[pass.stage] = std::max(most[pass.stage], now[pass.stage]);
    }
    return most;
  }

  const Configuration& c_;
  const double beside_collectives_;
  const bool frees_gradients_;  // each when its weight is updated
  const Pipelining pipelining_;
  const std::vector<int>& stands_for_;
  const std::vector<BlockCosts>& costs_;
  const StateCosts& states_;
  std::vector<std::vector<int>> blocks_of_;  // by virtual stage: its blocks of the whole model
};

}  // namespace

Estimator::Estimator(const Graph& forward, const Loss& loss, const Optimizer& optimizer, const Cluster& cluster,
                     int64_t bucket_bytes)
    : memory_(new Memory{SmallModel(forward, loss, optimizer, may_factor),
                         cluster,
                         find_batch(forward).value_or(1),
                         bucket_bytes,
                         optimizer.clip_norm > 0 || optimizer.kind.find("keep_gradients=1") != std::string::npos,
                         {},
                         {},
                         {},
                         {}}) {}
Estimator::~Estimator() = default;

int64_t Estimator::batch() const { return memory_->batch; }
int Estimator::experts() const { return memory_->model.experts(); }
int Estimator::layers() const { return memory_->model.whole_blocks().layers; }

ConfigurationEstimate Estimator::estimate(const Configuration& c) {
  const std::vector<BlockCosts>& costs = memory_->block_costs_of(c);
  const StateCosts& states = memory_->state_costs_of(c);
  const std::vector<int>& cut = memory_->cut_of(c);
  return Sum(c, memory_->model.stands_for(), cut, costs, states, memory_->keeps_gradients,
             memory_->cluster.devices[0].kernels.beside_collectives)
      .estimate();
}

}  // namespace partita
