// The tiling heuristic of Spartan (Huang et al., USENIX ATC 2015), as Tofu's section 7.3 compares with it.
#pragma once
#include <memory>

#include "partita/search/search.h"

namespace partita {

// The largest tensor takes the dimension to be split along, into as many parts as there are devices, that lets the ops
// around it cost least given what is chosen already; these ops take their strategies then; the second largest follows,
// and so on.
std::unique_ptr<Searcher> make_spartan();

}  // namespace partita
