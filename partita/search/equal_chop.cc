#include "partita/search/equal_chop.h"

#include "partita/search/tofu.h"

namespace partita {

namespace {

class EqualChop final : public Searcher {
 public:
  SearchResult search(const Problem& problem, const Budget& budget, Rng&) const override {
    return run_tofu(problem, budget, {tofu_space("equal-chop"), one_step(problem.cluster)});
  }
};

}  // namespace

std::unique_ptr<Searcher> make_equal_chop() { return std::make_unique<EqualChop>(); }

}  // namespace partita
