// The list of all searches (partita/search/entry.h says how one is declared).
#pragma once
#include <string_view>
#include <vector>

#include "partita/search/entry.h"

namespace partita {

// Every search, in the order in which `partita searches` prints them; `auto` takes the first of equals.
const std::vector<SearchEntry>& searches();
// The search of this name; null: none.
const SearchEntry* find_search(std::string_view name);

}  // namespace partita
