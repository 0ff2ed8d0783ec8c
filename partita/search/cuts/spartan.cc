// The tiling heuristic of Spartan (Huang et al., USENIX ATC 2015), as Tofu's section 7.3 compares with it.
//
// The largest tensor takes the dimension to be split along, into as many parts as there are devices, that lets the ops
// around it cost least beside what is chosen already. These ops take their strategies next. The second largest tensor
// follows, and so on.
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
          .begins_auto = {.work = cuts_work}};
}

}  // namespace partita
