// Checks the keys of --json's output, for tests of commands.
#pragma once
#include <set>
#include <string>

#include "program.h"

namespace partita {

void expect_keys(const Json& json, const std::set<std::string>& needed, const std::set<std::string>& optional = {});

// The keys of a plan's figures.
extern const std::set<std::string> kPlanKeys;
// Keys of plans whose search has a cost of its own, or counts.
extern const std::set<std::string> kMorePlanKeys;

}  // namespace partita
