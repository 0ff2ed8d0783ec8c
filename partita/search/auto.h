// The best that the searches here can do together.
#pragma once
#include <memory>

#include "partita/search/search.h"

namespace partita {

// Begins with the plans of the searches that are quick there (SearchEntry::begins_auto), solves the joint problem
// (`exact`), and refines the best plan that fits on the mesh with an axis for every prime factor, where all that the
// recursions can reach lies too. Never dearer than what it began with. The lower bound is that of `exact`, where the
// plan is in its space.
std::unique_ptr<Searcher> make_auto();

}  // namespace partita
