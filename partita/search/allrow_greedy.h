// AllRow-Greedy (Tofu section 7.3): every tensor by rows.
#pragma once
#include <memory>

#include "partita/search/search.h"

namespace partita {

// Every tensor is split along its first dimension into as many parts as there are devices (along the first that is long
// enough; whole if none is), and every op takes the strategy that is then best for it.
std::unique_ptr<Searcher> make_allrow_greedy();

}  // namespace partita
