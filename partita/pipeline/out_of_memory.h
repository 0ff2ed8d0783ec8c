// Applies the out-of-memory policy, for the pipeline, if a plan does not fit. It exchanges gradients without buckets,
// then divides the batch into more micro-batches. remedies.h finds other changes that would fit.
//
// Example: a batch of 48 on 2 replicas of 2 stages. 8, 12 and 24 micro-batches are tried, then 6, 4, 3, 2 and 1; the
// step of 12 is the shortest that fits.
#pragma once
#include <functional>
#include <optional>

#include "partita/base/attempt.h"
#include "partita/pipeline/micro_batches.h"
#include "partita/pipeline/planned.h"
#include "partita/schedule/choose_order.h"

namespace partita {

// Whether the plan's buckets of gradients are left out if it does not fit with them: nobody asked for them.
enum class Buckets { kStay, kMayBeLeftOut };
// Chooses the order of a resolved plan. If buckets are left out, `planned` has none, and a note says so.
ChosenOrder choose_order_within_memory(Planned& planned, const Representatives& from, Buckets buckets,
                                       const ChooseOrderOptions& choosing);

// Plans the step in a number of micro-batches.
using PlanCount = std::function<Attempt<Planned>(int)>;

// Returns the plan of the shortest predicted step among the counts that fit; its first note lists those compared. It
// begins with the first of `choice` that fits. More micro-batches are tried if a count does not fit, and fewer if the
// model cannot be divided into that many (bad input). If a rule makes the plans, more, then fewer micro-batches are
// compared with it. All of them are if that is little work, else those on either side as long as steps become shorter.
// Other failures are thrown.
Planned plan_in_micro_batches(const Request& request, const MicroBatchChoice& choice, const PlanCount& plan,
                              const Watch& watch);

// Returns the place in `counts` to try after the i-th, whose plan took `took_s` and does not fit: the next one. If the
// time that is left may not be enough for all others, it is the last, which needs least memory.
size_t next_to_try(const MicroBatchChoice& choice, size_t i, double took_s, std::optional<double> left_s);

}  // namespace partita
