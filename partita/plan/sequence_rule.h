// Finds sequence parallelism in a graph (Korthikanti et al., arXiv:2205.05198, section 4.2.2). Activations that tensor
// parallelism leaves whole on every device of a group are split along another axis.
//
// Example: x [batch, steps, hidden] is the result of a row product, partial over the group. Reduce-scatter makes it
// S(1), split along steps. Dropout, the residual addition and the norm behind it keep it so. The next column product
// reads it whole, by an all-gather. Both together move as much as the all-reduce in their place.
//
// The axis is found, not named. It is one of the axes of x, except its samples'. Along it, most bytes of activations
// are split while no op on the way exchanges anything. A norm over `hidden` ends a split along hidden.
#pragma once
#include <optional>
#include <vector>

#include "partita/plan/axis_options.h"
#include "partita/plan/tensor_rule.h"

namespace partita {

class SequenceRule {
 public:
  SequenceRule(const Graph& graph, const TensorRule& tensor, int degree);

  // The split of a forward op that tensor parallelism leaves whole; null: none.
  const AxisOption* chosen(OpId op) const { return chosen_[op.index()]; }
  // The split in which an activation of the forward pass is kept; empty: as tensor parallelism has it.
  const std::optional<Part>& part(TensorId t) const { return part_[t.index()]; }
  int64_t split_bytes() const;  // of activations
  // Adds the splits of weights that are read so, such as a table of positions.
  void add_weight_parts(std::vector<Part>& parts) const;

 private:
  void grow(TensorId seed, const Part& part);
  void set(TensorId t, const Part& part);
  void try_reader(OpId id, TensorId t);
  void try_producer(TensorId t);
  bool suits(const Op& op, const AxisOption& option) const;
  void take(OpId id, const AxisOption& option);

  const Graph& graph_;
  const TensorRule& tensor_;
  AxisOptions options_;
  std::vector<bool> weight_;   // by tensor: a parameter, or made of parameters and constants
  std::vector<bool> trained_;  // by tensor: depends on a parameter
  std::vector<std::vector<Reader>> read_by_;
  std::vector<const AxisOption*> chosen_;  // by op
  std::vector<std::optional<Part>> part_;  // by tensor
  // For the axis that is tried.
  std::vector<OpId> taken_;
  std::vector<TensorId> set_, fresh_;  // tensors with a part; those whose neighbours are still to be looked at
};

}  // namespace partita
