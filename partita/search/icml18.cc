#include "partita/search/icml18.h"

#include <algorithm>

#include "partita/search/tofu.h"

namespace partita {

namespace {

// Whether a strategy leaves partial results, which the workers would have to aggregate.
bool reduces_output(const tdl::Bound& bound, const tdl::AxisStrategy& s) {
  const auto derived = tdl::derive(bound, {2}, {s});
  return derived && std::any_of(bound.results.begin(), bound.results.end(),
                                [&](int t) { return derived->final_kinds[0][t].has_value(); });
}

class Icml18 final : public Searcher {
 public:
  SearchResult search(const Problem& problem, const Budget& budget, Rng&) const override {
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
};

}  // namespace

std::unique_ptr<Searcher> make_icml18() { return std::make_unique<Icml18>(); }

}  // namespace partita
