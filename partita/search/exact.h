// The joint search: all mesh axes at once, solved as one cost network (partita/solver), with a proved lower bound.
#pragma once
#include <memory>

#include "partita/search/search.h"

namespace partita {

// The least bytes that any plan of the space moves: every op takes one of its strategies on all mesh axes at once
// (OpSpace), every tensor is kept where that costs least, and what several readers want is brought there once. Anytime:
// stopped by the budget it returns the best plan so far; a step is one round of the solver. The bound holds for all
// plans of the space.
std::unique_ptr<Searcher> make_exact();

}  // namespace partita
