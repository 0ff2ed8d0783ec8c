// Compares the plan that a SOAP search found with its initial plans, and takes the best lowered step.
//
// Searches compare plans by the local task graph. There devices take ready tasks, and a step may be longer than in the
// order that a plan is lowered in. So an initial plan that is about as fast there may have the shorter lowered step.
//
// Example: on 4 P100 the best plan of `flexflow` for rnntc takes 41.4 ms by the local task graph and 41.0 ms lowered.
// The expert's takes 43.3 and 34.8 ms.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "partita/search/soap/walk.h"

namespace partita {

struct SoapStart {
  std::string name;              // "the expert's strategy"
  std::vector<int64_t> numbers;  // of the walk's space
};

// Compares by lowered step, names the search, and notes the result. Replaces `found` by the initial plan with the
// shortest lowered step, if that is shorter. Returns whether it did. Initial plans over 1.25 times as long by the local
// task graph are not lowered, and none once the watch has ended.
bool compare_with_starts(const std::vector<SoapStart>& starts, std::string_view search, const Watch& watch,
                         SoapWalk& walk, SoapFound& found, std::vector<std::string>& notes);

}  // namespace partita
