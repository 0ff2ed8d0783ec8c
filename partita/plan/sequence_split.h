// Splits activations of a graph along one axis over a group of devices, for sequence parallelism (sequence_rule.h) and
// context parallelism (context_rule.h). It grows from tensors that are split, over their producers and readers.
//
// Example: x [batch, steps, hidden] is S(1), split along steps. Dropout, the residual addition, the norm and the
// product with a weight keep it so. Attention split along its queries reads q so, and k and v from all devices.
#pragma once
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "partita/plan/axis_options.h"

namespace partita {

class SequenceSplit {
 public:
  // A tensor from which a split grows.
  struct Seed {
    TensorId tensor;
    AxisLayout part;
  };
  struct Options {
    std::function<bool(OpId)> left;  // forward ops that are not split so, and read their operands whole
    // An op may also read more of an operand than its own split has, as attention reads keys.
    bool reads_ahead = false;
    // Looks at the tensors nearest to a seed first, so that attention is split as its seeds say before keys and values
    // are reached from another layer; else at those found last.
    bool nearest_first = false;
  };
  SequenceSplit(const Graph& graph, int degree, Options how);
  SequenceSplit(SequenceSplit&&) = default;

  void grow(const std::vector<Seed>& seeds);
  // Splits a tensor of partial sums along the axis, other than its samples', from which most bytes of activations are
  // split. `whole_weights`: an axis with which weights would be split does not count.
  void grow_from_sum(TensorId seed, bool whole_weights = false);
  // Splits ops that only sum what they read split, as tokens on their way to experts: their results are split along
  // another axis, which no weight has, and from which it grows.
  void grow_from_sums();

  bool is_weight(TensorId t) const { return weight_[t.index()]; }  // a parameter, or made of parameters and constants
  // The split of a forward op; null: none.
  const AxisOption* chosen(OpId op) const { return chosen_[op.index()]; }
  // The split in which an activation of the forward pass is kept; empty: as the rule around it has it.
  const std::optional<AxisLayout>& part(TensorId t) const { return part_[t.index()]; }
  int64_t split_bytes() const;  // of activations
  // Adds the splits of weights that are read so, such as a table of positions.
  void add_weight_parts(std::vector<AxisLayout>& parts) const;
  // Tells whether an op reads an activation from other devices that is kept split: keys and values.
  bool gathers(OpId op, TensorId t) const;

 private:
  bool splits_weights() const;  // in the last grow()
  void undo();                  // what the last grow() has split
  void set(TensorId t, const AxisLayout& part);
  void try_reader(OpId id, TensorId t);
  void try_producer(TensorId t);
  bool reads_as_kept(const Op& op, const AxisOption& option) const;
  bool suits(const Op& op, const AxisOption& option) const;
  void take(OpId id, const AxisOption& option);

  const Graph& graph_;
  Options how_;
  AxisOptions options_;
  std::vector<bool> weight_;   // by tensor
  std::vector<bool> trained_;  // by tensor: depends on a parameter
  std::vector<std::vector<Reader>> read_by_;
  std::vector<const AxisOption*> chosen_;        // by op
  std::vector<std::optional<AxisLayout>> part_;  // by tensor
  // Of the last grow().
  std::vector<OpId> taken_;
  std::vector<TensorId> set_;   // tensors with a part
  std::deque<TensorId> fresh_;  // those whose neighbours are still to be looked at
};

}  // namespace partita
