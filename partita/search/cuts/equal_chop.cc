// `equal-chop`: applies Tofu's program once, for all devices, as Tofu's comparison does (section 7.3).
//
// Every tensor is chopped along one dimension into as many shards as there are devices, and every op is split along one
// index. Tensors and ops that are too short for that are whole.
#include "partita/search/cuts/tofu.h"
#include "partita/search/entry.h"

namespace partita {

namespace {

SearchResult search(const Problem& problem, const Budget& budget, Rng&) {
  return run_tofu(problem, budget, {tofu_space("equal-chop"), one_step(problem.cluster)});
}

}  // namespace

SearchEntry equal_chop_search() {
  return {.name = "equal-chop",
          .source = "Tofu section 7.3",
          .summary = "Tofu's program in one step: every tensor is split along one dimension only",
          .search = search,
          .offers = {.initial = {.work = cuts_work}}};
}

}  // namespace partita
