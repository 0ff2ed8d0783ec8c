#include "partita/search/allrow_greedy.h"

#include "partita/search/greedy.h"
#include "partita/search/tofu.h"

namespace partita {

namespace {

class AllRowGreedy final : public Searcher {
 public:
  SearchResult search(const Problem& problem, const Budget& budget, Rng&) const override {
    CutSpace space = tofu_space("allrow-greedy");
    space.unwanted = true;
    return one_step_greedily(problem, budget, space, [](const Cuts& cuts, Settling& settling) {
      const int tensors = static_cast<int>(cuts.graph().tensors.size()),
                ops = static_cast<int>(cuts.graph().ops.size());
      for (int t = 0; t < tensors; ++t) settling.settle(t, 0);  // the first dimension comes first
      for (int i = 0; i < ops; ++i) settling.settle_best(tensors + i);
    });
  }
};

}  // namespace

std::unique_ptr<Searcher> make_allrow_greedy() { return std::make_unique<AllRowGreedy>(); }

}  // namespace partita
