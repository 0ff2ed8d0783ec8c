#include "partita/search/spartan.h"

#include <algorithm>
#include <numeric>

#include "partita/search/greedy.h"
#include "partita/search/tofu.h"

namespace partita {

namespace {

class Spartan final : public Searcher {
 public:
  SearchResult search(const Problem& problem, const Budget& budget, Rng&) const override {
    return one_step_greedily(problem, budget, tofu_space("spartan"), [](const Cuts& cuts, Settling& settling) {
      const Graph& graph = cuts.graph();
      std::vector<int> tensors(graph.tensors.size());
      std::iota(tensors.begin(), tensors.end(), 0);
      std::stable_sort(tensors.begin(), tensors.end(),
                       [&](int a, int b) { return graph.tensors[a].bytes() > graph.tensors[b].bytes(); });
      for (int t : tensors) {
        settling.settle_best(t);
        for (int op : settling.around(t)) settling.settle_best(op);
      }
    });
  }
};

}  // namespace

std::unique_ptr<Searcher> make_spartan() { return std::make_unique<Spartan>(); }

}  // namespace partita
