// Finds expert parallelism in a graph (GShard: Lepikhin et al., arXiv:2006.16668, section 3.3): each device of a group
// has some of the experts.
//
// The products of experts are weight products with an index that weight, activation and result share. It is e of y[g,
// e, c, n] = sum(k) x[g, e, c, k] * w[e, n, k]. They, and the ops between them, are split along it. All other ops are
// split along samples over the group too. Tokens on their way to the experts go from S(g) to S(e), which is an
// all-to-all, and back.
#pragma once
#include <optional>
#include <vector>

#include "partita/plan/axis_options.h"

namespace partita {

class ExpertRule {
 public:
  ExpertRule(const Graph& graph, int degree);

  const AxisOption* chosen(OpId op) const { return chosen_[op.index()]; }  // of a forward op; null: not by experts
  const std::optional<AxisLayout>& part(TensorId t) const { return part_[t.index()]; }  // of a weight, or a cast of one
  int64_t experts() const { return experts_; }  // of the first product; 0: there are none

 private:
  void take_weight(TensorId t, const AxisLayout& part);
  void follow(TensorId t, const AxisLayout& part);

  const Graph& graph_;
  AxisOptions options_;
  std::vector<bool> weight_;
  std::vector<std::vector<Reader>> read_by_;
  std::vector<const AxisOption*> chosen_;        // by op
  std::vector<std::optional<AxisLayout>> part_;  // by tensor
  int64_t experts_ = 0;
};

// Returns the number of experts of the model's products; 0: it has none.
int64_t experts_of(const Graph& graph);

}  // namespace partita
