// `allrow-greedy`: splits every tensor by rows, as Tofu's comparison does (section 7.3).
//
// Every tensor is split along its first dimension into as many shards as there are devices. If that is too short, the
// first dimension that is long enough is split; if none is, the tensor is whole. Every op then takes its best strategy.
#include "partita/search/cuts/greedy.h"
#include "partita/search/cuts/tofu.h"
#include "partita/search/entry.h"

namespace partita {

namespace {

SearchResult search(const Problem& problem, const Budget& budget, Rng&) {
  CutSpace space = tofu_space("allrow-greedy");
  space.unwanted = true;
  return one_step_greedily(problem, budget, space, [](const Cuts& cuts, Settling& settling) {
    const int tensors = static_cast<int>(cuts.graph().tensors.size()), ops = static_cast<int>(cuts.graph().ops.size());
    for (int t = 0; t < tensors; ++t) settling.settle(t, 0);  // the first dimension comes first
    for (int i = 0; i < ops; ++i) settling.settle_best(tensors + i);
  });
}

}  // namespace

SearchEntry allrow_greedy_search() {
  return {.name = "allrow-greedy",
          .source = "Tofu section 7.3",
          .summary = "every tensor is split along its first dimension, then every op as is best for it",
          .search = search,
          .offers = {.initial = {.work = cuts_work}}};
}

}  // namespace partita
