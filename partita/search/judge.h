// What a plan costs by a problem's objective: what searches compare plans of other searches by.
#pragma once
#include <cstdint>
#include <string>

#include "partita/search/search.h"

namespace partita {

// comm: the bytes that the checker counts. time: the ns of the step that the simulator predicts for the lowered plan.
int64_t cost_of(const Problem& problem, const Plan& plan);
// "123 bytes"; "1.234 us".
std::string cost_text(const Problem& problem, int64_t cost);

}  // namespace partita
