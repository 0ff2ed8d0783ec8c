// Notes the devices that a search leaves idle.
#pragma once
#include <set>
#include <string>
#include <string_view>

#include "partita/search/search.h"

namespace partita {

// Adds the note "expert-placement: one layer only, so 1 of 2 devices runs nothing (gpu1); ..", with searches that use
// these devices. Adds nothing if no device is idle. `used`: the compute devices that run an op; `why`: "one layer
// only".
void note_idle(const Cluster& cluster, const std::set<int>& used, std::string_view search, const std::string& why,
               SearchResult& result);
// "one layer only", "2 layers only"
std::string only(size_t count, const char* one, const char* many);

}  // namespace partita
