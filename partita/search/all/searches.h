// The list of all searches (partita/search/entry.h says how one is declared).
#pragma once
#include <vector>

#include "partita/search/entry.h"

namespace partita {

// Every search, in the order in which `partita searches` prints them; `auto` takes the first of equals.
const std::vector<SearchEntry>& searches();

}  // namespace partita
