// Keeps the costs of a model's layer blocks by the degrees that they depend on. Each is measured once.
//
// Example: the configurations tp 4 x pp 4 x dp 4 and tp 4 x pp 2 x dp 8 with the same micro-batch share the costs of a
// layer on 4 devices. Those of its weights are of 4 and of 8 replicas.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/watch.h"
#include "partita/estimator/block_costs.h"
#include "partita/estimator/configuration.h"
#include "partita/estimator/small_model.h"
#include "partita/estimator/state_costs.h"

namespace partita {

// The times of a block's collectives of weights and gradients.
struct BlockTraffic {
  int64_t gradients_ns = 0, each_gradients_ns = 0, weights_ns = 0, updated_ns = 0;
  int64_t in_forward_ns = 0, in_backward_ns = 0;
};

struct StateCosts {
  std::vector<BlockStates> blocks;
  std::vector<BlockTraffic> traffic;
};

class ModelCosts {
 public:
  // `batch`: samples of a step. `bucket_bytes`: Plan::bucket_bytes. `cluster` must outlive the costs.
  ModelCosts(SmallModel model, const Cluster& cluster, int64_t batch, int64_t bucket_bytes);

  // Measures on two threads what these configurations need. What a model cannot take is found as an error later.
  void prepare(const std::vector<Configuration>& configurations, const Watch& watch);

  // The costs of each block of the small model on one replica. Does not apply, with the rule's reason, if the model or
  // the cluster cannot take the degrees.
  const std::vector<BlockCosts>& block_costs(const Configuration& c);
  // The costs of the weights of each block on one stage.
  const StateCosts& state_costs(const Configuration& c);
  // By layer block of the whole model, its virtual stage.
  const std::vector<int>& cut(const Configuration& c);

  // The time in which each device of a rank sends so many bytes to the next rank. After the last comes the first.
  int64_t send_ns(const Configuration& c, int rank, int64_t bytes);

  const SmallModel& model() const { return model_; }
  int64_t batch() const { return batch_; }

 private:
  // A value, or the reason why there is none.
  template <typename T>
  struct Known {
    std::optional<T> value;
    std::string why_none;
    const T& get() const {
      if (!value) throw DoesNotApply(why_none);
      return *value;
    }
  };
  using BlockKey =
      std::tuple<int, int, int, bool, int, std::string>;  // tensor, context, expert, sequence, micro-batches, recompute
  using StateKey = std::tuple<int, int, int, bool, int, int, bool>;  // .., sequence, data, zero, several micro-batches
  using Work = std::function<void()>;

  // The way from a rank to the next: the slowest of its devices', and how many share its narrowest link.
  struct Hop {
    DeviceId from, to;
    int sharers = 1;
  };
  const std::vector<Hop>& hops(int ranks);
  BlockKey block_key(const Configuration& c) const;
  StateKey state_key(const Configuration& c) const;
  int micro_batches_for_states(const Configuration& c) const;
  const Cluster& first(int devices);
  // Null, with the reason: the model cannot be divided so.
  const SmallModel::Step* step_or_reason(const std::string& recompute, int micro_batches, std::string& why_none);
  void run(const std::vector<Work>& round, const Watch& watch);
  std::optional<Work> block_work(const Configuration& c);
  std::optional<Work> planned_state_work(const Configuration& c);
  std::optional<Work> state_work(const Configuration& c);

  SmallModel model_;
  const Cluster& cluster_;
  CostModel cost_;
  int64_t batch_, bucket_bytes_;
  std::map<int, std::vector<Hop>> hops_;                 // by the number of ranks
  std::map<int, std::unique_ptr<const Cluster>> first_;  // the first devices, by their number
  std::map<BlockKey, Known<std::vector<BlockCosts>>> blocks_;
  std::map<StateKey, Known<std::vector<BlockStates>>> planned_;  // of plans for few replicas
  std::map<StateKey, Known<StateCosts>> states_;
  std::map<std::pair<std::vector<int>, int>, std::vector<int>> cuts_;  // by layers and stages
};

}  // namespace partita
