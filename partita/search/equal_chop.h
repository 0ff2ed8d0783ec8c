// Tofu's program applied once, for all devices: EqualChop (Tofu section 7.3).
#pragma once
#include <memory>

#include "partita/search/search.h"

namespace partita {

// Every tensor is chopped along one dimension into as many parts as there are devices, and every op split along one
// index; what is too short for that is whole.
std::unique_ptr<Searcher> make_equal_chop();

}  // namespace partita
