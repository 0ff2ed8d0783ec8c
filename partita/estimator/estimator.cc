// Adds up the costs of layer blocks over the stages, micro-batches and replicas of a configuration.
#include "partita/estimator/estimator.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "partita/base/error.h"
#include "partita/estimator/model_costs.h"
#include "partita/estimator/schedule_time.h"
#include "partita/graph/batch.h"
#include "partita/physical/may_factor.h"

namespace partita {

struct Estimator::State {
  ModelCosts costs;
  int64_t tokens;             // of a sample
  double beside_collectives;  // KernelFigures::beside_collectives
};

namespace {

// One configuration's estimate.
class ConfigurationSum {
 public:
  ConfigurationSum(const Configuration& c, ModelCosts& costs, double beside_collectives)
      : c_(c),
        costs_of_(costs),
        beside_collectives_(beside_collectives),
        frees_gradients_(!costs.model().keeps_gradients() && c.micro_batches == 1),
        pipelining_(c.pipelining()),
        stands_for_(costs.model().stands_for()),
        costs_(costs.block_costs(c)),
        states_(costs.state_costs(c)),
        blocks_of_(static_cast<size_t>(pipelining_.stages())) {
    const std::vector<int>& cut = costs.cut(c);
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
      const int64_t end = end_of_rank(rank, times, schedule, of);
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
  // A pass during which collectives of weights and gradients run.
  int64_t with_collectives(int64_t pass_ns, int64_t collectives_ns) const {
    return std::max(pass_ns + slowed_ns(collectives_ns), collectives_ns);
  }

  StageTimes stage_times(size_t stage) const {
    StageTimes out;
    int64_t gathered = 0, reduced = 0, cast = 0, sent = 0;
    each_block(stage, [&](const BlockCosts& block, const BlockStates& state, const BlockTraffic& traffic) {
      const int64_t forward_ns = with_collectives(block.forward_ns, traffic.in_forward_ns);
      out.forward_ns += forward_ns;
      const int64_t slowed = slowed_ns(traffic.each_gradients_ns);  // what the pass leaves goes on in the next
      out.backward_ns += with_collectives(block.backward_ns, traffic.in_backward_ns) + slowed;
      out.first_backward_ns += with_collectives(block.first_backward_ns, traffic.in_backward_ns) + slowed;
      reduced += traffic.gradients_ns;
      gathered += traffic.weights_ns;
      cast += std::llround(state.cast_ns);
      sent = block.sent_bytes;
      out.first_forward_ns = std::max(out.first_forward_ns, gathered) + std::llround(state.cast_ns) + forward_ns +
                             slowed_ns(traffic.weights_ns);
    });
    // Later stages have their weights before their first micro-batch comes, and reduce gradients behind the last.
    out.last_backward_ns = c_.micro_batches == 1 ? out.first_backward_ns : out.backward_ns;
    if (stage > 0) {
      out.before_ns = std::max(gathered, cast);
      out.first_forward_ns = out.forward_ns;
    } else {
      const auto most = static_cast<int64_t>(static_cast<double>(out.last_backward_ns) / beside_collectives_);
      out.last_backward_ns += slowed_ns(std::min(reduced, most));
    }
    out.send_ns = costs_of_.send_ns(c_, static_cast<int>(stage) % c_.pipeline, sent);
    return out;
  }

  // When a rank's step is over.
  int64_t end_of_rank(int rank, const std::vector<StageTimes>& times, const ScheduleTime& schedule,
                      RankEstimate& out) const {
    std::vector<std::pair<int64_t, int64_t>> ready;  // when a block's gradients are there, and how long they take
    int64_t updates = 0, updated = 0, backward_end = 0;
    for (size_t s = static_cast<size_t>(rank); s < blocks_of_.size(); s += static_cast<size_t>(c_.pipeline)) {
      int64_t at = schedule.backward_end_ns[s];
      const double slower = static_cast<double>(times[s].last_backward_ns) /
                            static_cast<double>(std::max<int64_t>(1, times[s].backward_ns));
      backward_end = std::max(backward_end, at);
      each_block(s, [&](const BlockCosts& block, const BlockStates& state, const BlockTraffic& traffic) {
        ready.emplace_back(at, traffic.gradients_ns);
        if (s == 0) at -= std::llround(static_cast<double>(block.backward_ns) * slower);
        updates += std::llround(state.update_ns);
        updated += traffic.updated_ns;
        out.compute_ns += c_.micro_batches * (block.forward_ns + block.backward_ns);
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
    out.gradient_bytes = gradients;
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
  ModelCosts& costs_of_;
  const double beside_collectives_;
  const bool frees_gradients_;  // each when its weight is updated
  const Pipelining pipelining_;
  const std::vector<int>& stands_for_;
  const std::vector<BlockCosts>& costs_;
  const StateCosts& states_;
  std::vector<std::vector<int>> blocks_of_;  // by virtual stage: its blocks of the whole model
};

int64_t batch_of(const Graph& forward) {
  const auto batch = find_batch(forward);
  if (!batch) throw DoesNotApply(fmt::format("model '{}' has no input with samples along axis 0", forward.name));
  return *batch;
}

}  // namespace

Estimator::Estimator(const Graph& forward, const Loss& loss, const Optimizer& optimizer, const Cluster& cluster,
                     int64_t bucket_bytes)
    : state_(new State{{SmallModel(forward, loss, optimizer, may_factor), cluster, batch_of(forward), bucket_bytes},
                       find_tokens_per_sample(forward).value_or(1),
                       cluster.devices[0].kernels.beside_collectives}) {}
Estimator::~Estimator() = default;

int64_t Estimator::batch() const { return state_->costs.batch(); }
int Estimator::experts() const { return state_->costs.model().experts(); }
int64_t Estimator::tokens() const { return state_->tokens; }
int Estimator::layers() const { return state_->costs.model().whole_blocks().layers; }

void Estimator::prepare(const std::vector<Configuration>& configurations, const Watch& watch) {
  state_->costs.prepare(configurations, watch);
}

ConfigurationEstimate Estimator::estimate(const Configuration& c) {
  return ConfigurationSum(c, state_->costs, state_->beside_collectives).estimate();
}

}  // namespace partita
