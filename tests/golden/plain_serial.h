// Sums a plan's isolated costs the slow obvious way, for tests: kernels by the cost of lowered tasks, conversions by
// their steps.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "partita/cost/isolated_costs.h"
#include "partita/plan/plan.h"

namespace partita {

class PlainSerial {
 public:
  PlainSerial(const Graph& graph, const Cluster& cluster) : graph_(graph), cluster_(cluster), cost_(cluster) {}
  double ns(const Plan& plan);  // whose ops are all on one mesh, always the same

 private:
  double kernels_ns(OpId op, const Plan& plan);
  double steps_ns(const std::vector<Step>& steps, int64_t element_bytes) const;

  const Graph& graph_;
  const Cluster& cluster_;
  CostModel cost_;
  std::map<std::pair<OpId, std::vector<tdl::AxisStrategy>>, double> kernels_;
};

}  // namespace partita
