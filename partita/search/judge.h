// What a plan costs by a problem's objective: what searches compare plans of other searches by.
//
// Worked example: a data parallel plan on two devices has 64 bytes of gradients. For Objective::kComm its cost is the
// 2(p-1) |T| = 128 bytes of the all-reduce, and cost_text() says "128 B". For kTime it is the ns of a simulated step.
#pragma once
#include <cstdint>
#include <string>

#include "partita/base/error.h"
#include "partita/search/search.h"

namespace partita {

// comm: the bytes that the checker counts. time: the ns of the step that the simulator predicts for the lowered plan.
// Throws where the watch ends.
int64_t cost_of(const Problem& problem, const Plan& plan, const Watch& watch = {});
// The same, with the memory that the plan lacks where it was lowered for the cost (missing_bytes(),
// partita/search/refine.h).
struct Judgement {
  int64_t cost = 0;
  std::optional<int64_t> missing_bytes;
};
Judgement judge(const Problem& problem, const Plan& plan, const Watch& watch);
// By time, whatever the problem's objective is.
Judgement judge_in_time(const Problem& problem, const Plan& plan, const Watch& watch);
// Its budget has ended, or it was interrupted.
bool is_end(const Error& error);
// "123 B", "4.5 MB"; "1.23 us".
std::string cost_text(const Problem& problem, int64_t cost);

}  // namespace partita
