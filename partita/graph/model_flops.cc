// Counts the multiply-adds of a model's products.
#include "partita/graph/model_flops.h"

#include <map>

#include "partita/graph/places.h"
#include "partita/tdl/products.h"

namespace partita {

double product_flops(const tdl::Bound& bound) {
  double flops = 0;
  for (const tdl::MatrixProduct& product : tdl::matrix_products(bound, 0, static_cast<int>(bound.stages.size()))) {
    double points = 1;
    for (const std::vector<int>* indices : {&product.batch, &product.m, &product.n, &product.k})
      for (const int i : *indices) points *= static_cast<double>(bound.indices[static_cast<size_t>(i)].extent);
    flops += 2 * points;
  }
  return flops;
}

double model_flops(const Graph& step) {
  const Graph& whole = step.whole_graph();
  const std::vector<double> used = used_shares(whole);
  std::map<const tdl::Bound*, double> known;  // equal ops share one
  double forward = 0;
  bool is_trained = false;
  for (const Op& op : whole.ops) {
    is_trained |= op.phase == Phase::kBackward;
    if (op.phase != Phase::kForward) continue;
    const auto [found, fresh] = known.try_emplace(op.bound.get(), 0);
    if (fresh) found->second = product_flops(*op.bound);
    forward += found->second * used[op.results[0].index()];
  }
  return (is_trained ? 3 : 1) * forward;
}

}  // namespace partita
