// `icml18`: the layer-wise dynamic program of Jia, Lin, Qi, Aiken (Exploring Hidden Dimensions in Parallelizing
// Convolutional Neural Networks, ICML 2018), as in Tofu's comparison (section 7.3): on Tofu's operators and coarsened
// graph.
//
// A tensor may be split along several dimensions, all chosen in one step over all devices, alike for a tensor and its
// gradient. An op is never split along an index that it reduces into its results (no output reduction). If no strategy
// is left, it is replicated.
#include <algorithm>

#include "partita/base/prime_factors.h"
#include "partita/search/cuts/tofu.h"
#include "partita/search/entry.h"

namespace partita {

namespace {

// Tells whether a strategy leaves partial results, which the workers would have to aggregate.
bool reduces_output(const tdl::Bound& bound, const tdl::AxisStrategy& s) {
  const auto derived = tdl::derive(bound, {2}, {s});
  return derived && std::any_of(bound.results.begin(), bound.results.end(),
                                [&](int t) { return derived->final_kinds[0][t].has_value(); });
}

SearchResult search(const Problem& problem, const Budget& budget, Rng&) {
  std::map<std::pair<const tdl::Bound*, tdl::AxisStrategy>, bool> known;
  CutSpace space = tofu_space("icml18");
  space.offers = [&, any = space.offers](OpId id, const tdl::AxisStrategy& s) {
    if (!any(id, s)) return false;
    const tdl::Bound& bound = *problem.graph.op(id).bound;
    auto [found, fresh] = known.try_emplace({&bound, s});
    if (fresh) found->second = reduces_output(bound, s);
    return !found->second;
  };
  TofuProgram program{space, prime_factors(problem.cluster.compute_count)};
  program.axes_together = true;
  program.rules.gradients = true;
  return run_tofu(problem, budget, program);
}

}  // namespace

SearchEntry icml18_search() {
  return {.name = "icml18",
          .source = "Jia et al. 2018",
          .summary =
              "dynamic program over layers in one step, along several dimensions, without output reduction, as "
              "Tofu section 7.3 compares",
          .search = search,
          .offers = {.initial = {.work = cuts_work}}};
}

}  // namespace partita
