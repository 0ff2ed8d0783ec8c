// `spartan`: the tiling heuristic of Spartan (Huang et al., USENIX ATC 2015), as in Tofu's comparison (section 7.3).
//
// The largest tensor is split into as many shards as there are devices. It takes the dimension that lets the ops around
// it cost least beside the choices so far. These ops take their strategies next. The second largest tensor follows, and
// so on.
#include <algorithm>
#include <numeric>

#include "partita/search/cuts/greedy.h"
#include "partita/search/cuts/tofu.h"
#include "partita/search/entry.h"

namespace partita {

namespace {

SearchResult search(const Problem& problem, const Budget& budget, Rng&) {
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

}  // namespace

SearchEntry spartan_search() {
  return {.name = "spartan",
          .source = "Tofu section 7.3",
          .summary = "largest tensor first, along its best dimension, then the ops around it",
          .search = search,
          .offers = {.initial = {.work = cuts_work}}};
}

}  // namespace partita
