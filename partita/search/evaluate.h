// Evaluates plans for a search, by the problem's objective.
//
// Example: a data parallel plan on two devices has 64 bytes of gradients. For Objective::kComm its cost is the
// 2(p-1) |T| = 128 bytes of the all-reduce, and cost_text() says "128 B". For kTime it is the ns of a simulated step.
#pragma once
#include <cstdint>
#include <string>

#include "partita/base/error.h"
#include "partita/schedule/plan_evaluation.h"
#include "partita/search/search.h"

namespace partita {

// comm: the bytes alone (evaluate_bytes()). time: the step, with its memory (evaluate_step()). Throws if the watch
// ends.
PlanEvaluation evaluate(const Problem& problem, const Plan& plan, const Watch& watch = {});
// evaluate_step(), for any objective.
PlanEvaluation evaluate_in_time(const Problem& problem, const Plan& plan, const Watch& watch = {});
// The deficit of evaluate_memory(), in bytes; at most 0: the plan fits.
int64_t memory_deficit(const Problem& problem, const Plan& plan, const Watch& watch = {});

// Tells whether every device could hold all tensors whole, for every reader and from every device, many times over. The
// memory planner takes a second for thousands of operations.
bool holds_any_plan(const Problem& problem);

// The cost of evaluate(): bytes, or the ns of the step.
int64_t cost_of(const Problem& problem, const Plan& plan, const Watch& watch = {});

// Tells whether the error says that a budget has ended, or of an interrupt.
bool is_end(const Error& error);
// "123 B", "4.5 MB"; "1.23 us".
std::string cost_text(const Problem& problem, int64_t cost);

}  // namespace partita
