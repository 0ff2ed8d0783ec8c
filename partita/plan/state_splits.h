// Splits states by ZeRO (Rajbhandari et al., SC 2020, section 5): data parallelism that keeps no state twice. Stage 1
// splits the optimizer's states, stage 2 the gradients as well, stage 3 the parameters too. The update of a parameter
// runs on each device's shard of it.
//
// Example, stage 1 on a mesh [data 4, tensor 2]: w [64x48] is S(0) over tensor. Its states are S(1) over data, since
// axis 0 is taken: [S(1), S(0)], 12 of 48 columns on each device. The gradient, [P(sum), S(0)], is reduce-scattered
// into that, and w' all-gathered into [B, S(0)].
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "partita/plan/rule_planner.h"

namespace partita {

// The split of one parameter's states, and the mesh axes over which it goes.
struct StateSplit {
  tdl::AxisStrategy strategy;  // of the update, on each of the axes
  Layout layout;               // over all of these axes as one, as the update reads it
  Sbp sbp;                     // its name
  std::vector<int> mesh_axes;
};

class StateSplits {
 public:
  // `axes_of`: the mesh axes over which samples are split and this weight is not. `is_taken`: whether another mesh axis
  // splits this axis of it. Its states are then split along another one.
  using AxesOf = std::function<std::vector<int>(TensorId)>;
  using IsTaken = std::function<bool(TensorId, int axis)>;
  StateSplits(const Graph& graph, const Mesh& mesh, int stage, const AxesOf& axes_of, const IsTaken& is_taken);

  bool none() const { return stage_ == 0; }
  // Tells the planner the parameters that are kept split. In stage 3 these are all. Otherwise they are master copies,
  // which the forward pass casts to a shorter type and reads nowhere else (mixed precision, section 5.1). Each device
  // casts its shard, and the shorter type is gathered.
  void keep_parameters(RulePlanner& planner) const;
  // The split of an op over this mesh axis if ZeRO determines it; empty: as the rule around it has it.
  std::vector<tdl::AxisStrategy> strategies(OpId id, int mesh_axis) const;
  // Asked for an op without samples: of weights only, or sums of gradients.
  bool takes_cheapest(const Op& op) const { return stage_ > 0 && op.phase != Phase::kUpdate; }
  // After an op was chosen: keeps gradients split from stage 2 on, and a short copy of a master whole below stage 3.
  void keep_results(RulePlanner& planner, OpId id) const;
  // Stage 3: weights that are kept split, and so gathered for forward and for backward ops alike, or for each
  // micro-batch.
  std::set<TensorId> gathered_again(const RulePlanner& planner) const;

 private:
  bool is_shortened(OpId id) const;
  bool is_master(TensorId t) const;
  const StateSplit* of(TensorId t) const {
    return split_[t.index()] >= 0 ? &splits_[static_cast<size_t>(split_[t.index()])] : nullptr;
  }
  const StateSplit* split_read_by(OpId id, tdl::AxisStrategy& strategy) const;

  const Graph& graph_;
  int stage_;
  AxesOf axes_of_;
  std::vector<std::vector<Reader>> read_by_;
  std::vector<StateSplit> splits_;
  std::vector<int> split_;   // by tensor, parameters and their gradients: position in splits_; -1: none
  std::vector<int> update_;  // by op, updates: the same
  std::vector<TensorId> parameters_;
};

}  // namespace partita
