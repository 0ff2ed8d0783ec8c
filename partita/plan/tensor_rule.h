// Finds tensor parallelism of transformers in a graph (Megatron-LM: Shoeybi et al., arXiv:1909.08053, section 3).
//
// The rule goes by the graph, not by names. A weight product that is split along its units ("column") leaves a split
// result. Its readers take that split, and their other operands must come split as well. This ends in weight products
// that contract the split index ("row"); one all-reduce adds up their partial sums. A region of the graph that is
// closed in this way is split over the tensor group. Examples are q, k, v, the heads and the output projection. Others
// are the two products of the feed-forward layer with all between them, and the products of an expert. The whole group
// computes everything else, or each device a shard of the sequence (sequence_rule.h). A loss over split classes ends a
// split too: it exchanges a number or two for each token. Embedding tables with more rows than columns are split along
// the vocabulary.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/plan/axis_options.h"

namespace partita {

class TensorRule {
 public:
  TensorRule(const Graph& graph, int degree);

  // The split of a forward op; null: none.
  const AxisOption* chosen(OpId op) const { return chosen_[op.index()]; }
  // Returns the bytes of the weights that are split.
  int64_t split_bytes() const;
  // An op without weights whose shards are so uneven that the largest is more than a tenth above an even share, as few
  // heads are. It has its index and the extent. Tables and products with weights may be uneven.
  struct Uneven {
    std::string op, index;
    int64_t extent = 0;
  };
  std::optional<Uneven> uneven() const;
  std::vector<AxisLayout> weight_parts() const;  // by tensor: the splits of parameters

 private:
  bool take(OpId id, const AxisOption& option);
  void take_weight(TensorId t, const AxisLayout& part);
  bool split(TensorId t, const AxisLayout& part);
  const AxisOption* find(OpId id, const std::vector<TensorId>& tensors, TensorId tensor, const AxisLayout& part,
                         std::vector<AxisLayout> AxisOption::*parts);
  bool activations_whole(const Op& op, const AxisOption& option) const;
  void try_column(OpId id);
  void try_embedding(OpId id);

  const Graph& graph_;
  AxisOptions options_;
  std::vector<bool> weight_;   // by tensor: a parameter, or made only of parameters
  std::vector<bool> trained_;  // by tensor: depends on a parameter
  std::vector<std::vector<Reader>> read_by_;
  std::vector<const AxisOption*> chosen_;         // by op
  std::vector<std::optional<AxisLayout>> split_;  // by tensor
  // The current try.
  bool ends_ = false;
  std::vector<OpId> taken_;
  std::vector<TensorId> split_tensors_;
};

}  // namespace partita
