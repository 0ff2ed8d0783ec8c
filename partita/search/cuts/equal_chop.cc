// EqualChop (Tofu section 7.3): Tofu's program applied once, for all devices.
//
// Every tensor is chopped along one dimension into as many parts as there are devices, and every op is split along one
// index. What is too short for that is whole.
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
          .begins_auto = {.work = cuts_work}};
}

}  // namespace partita
