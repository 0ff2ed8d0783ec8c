// The out-of-memory policy: what the pipeline tries by itself if a plan does not fit. Gradients are exchanged without
// buckets, then the batch is worked on in more micro-batches. What else would fit, remedies.h tells.
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
// The order that counts of a plan that is resolved. If buckets are left out, `planned` has none, and a note says so.
ChosenOrder choose_order_within_memory(Planned& planned, const Representatives& from, Buckets buckets,
                                       const ChooseOrderOptions& choosing);

// Plans the step in so many micro-batches.
using PlanCount = std::function<Attempt<Planned>(int)>;

// The plan of the shortest predicted step among the counts that fit, and what was compared as its first note. The first
// of `choice` that fits comes first: more micro-batches are tried if so many do not fit, and fewer if the model cannot
// be worked on in so many (bad input). If a rule makes the plans, more, then fewer micro-batches are compared with it:
// all of them if that is little work, else on either side as long as steps become shorter. Other failures are thrown.
Planned plan_in_micro_batches(const Request& request, const MicroBatchChoice& choice, const PlanCount& plan,
                              const Watch& watch);

// Which of `counts` comes after the i-th, whose plan took so long and does not fit: the next one. If the time that is
// left may not be enough for all others, it is the last, which needs least memory.
size_t next_to_try(const MicroBatchChoice& choice, size_t i, double took_s, std::optional<double> left_s);

}  // namespace partita
