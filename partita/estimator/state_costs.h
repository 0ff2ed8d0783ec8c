// Computes what the weights of one layer block cost once a step: memory of weights, gradients and optimizer states, and
// the collectives of gradients and weights over replicas. They depend on the degrees and ZeRO's stage, and not on the
// micro-batches. A small model is lowered locally, and not simulated.
//
// With many replicas only plans for two and for four of them are made. What ZeRO splits shrinks with their number, and
// all else stays. Example: a layer has 10 GB with two replicas and 6 GB with four. 2 GB are whole, 16 GB are split, and
// with 64 replicas it has 2.25 GB.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "partita/cost/cost.h"
#include "partita/plan/plan.h"

namespace partita {

// Collectives that may be joined in one bucket: of one kind and dtype, over the same devices.
struct CollectiveGroup {
  StepKind kind = StepKind::kAllReduce;
  DType dtype = DType::kFloat32;
  std::vector<int> places;    // of its members among the devices of a replica
  bool over_replicas = true;  // members have these places in each replica, or in their own alone
  auto operator<=>(const CollectiveGroup&) const = default;
};

// The bytes that each device sends, and the bytes of the whole tensors, by which buckets are filled.
struct CollectiveBytes {
  double sent = 0, whole = 0;
  int tensors = 0;
};

struct BlockStates {
  double once_bytes = 0;      // weights, gradients, states, casts
  double gradient_bytes = 0;  // of it: gradients and their sums
  double tied_bytes = 0;      // of it: a tied weight's, which are not there beside its first reader
  double update_ns = 0;       // kernels of the optimizer
  double cast_ns = 0;         // kernels that cast weights
  using Collectives = std::map<CollectiveGroup, CollectiveBytes>;
  Collectives gradients;                // once a step, after the backward pass of the block
  Collectives weights;                  // once a step, before its forward pass
  Collectives updated;                  // once a step, after the optimizer: weights without a shorter copy
  Collectives each_gradients;           // for each micro-batch, from ZeRO-2 on
  Collectives in_forward, in_backward;  // for each micro-batch: gathers of weights (ZeRO-3)
};

// `plan`: on all devices of `cluster`, which are one stage of so many replicas of a weight. `of_op`: by op its layer
// block.
std::vector<BlockStates> block_states(const Graph& graph, const Plan& plan, const Cluster& cluster, int replicas,
                                      const std::vector<int>& of_op, int blocks);
// The same for `replicas`, from those for two and for four.
std::vector<BlockStates> block_states_of(int replicas, const std::vector<BlockStates>& two,
                                         const std::vector<BlockStates>& four);

// The times of collectives on one stage.
class StageCollectives {
 public:
  // `stage`: the devices of so many replicas.
  StageCollectives(const Cluster& stage, int replicas) : stage_(stage), cost_(stage), replicas_(replicas) {}
  // The time of collectives that are joined in buckets of `bucket` bytes of whole tensors; 0: each by itself.
  int64_t ns(const BlockStates::Collectives& collectives, int64_t bucket);
  // The same of those inside a pass, in buckets that are worth the hops.
  int64_t due_ns(const BlockStates::Collectives& collectives);

 private:
  struct Ring {
    std::vector<DeviceId> devices;
    int sharers = 1;  // rings of the same collective that pass over the same link
  };
  const Ring& ring_of(const CollectiveGroup& group);
  std::vector<DeviceId> devices_of(const CollectiveGroup& group, int first_place) const;
  double group_ns(const CollectiveGroup& group, const CollectiveBytes& bytes, int64_t bucket);

  const Cluster& stage_;
  CostModel cost_;
  int replicas_;
  std::map<CollectiveGroup, Ring> rings_;
};

}  // namespace partita
