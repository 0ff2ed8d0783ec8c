// Into how many micro-batches a step's batch is cut, where a request does not say so itself.
//
// Example: a batch of 48 on 2 replicas of 2 stages. 8, 12 and 24 are tried, then 6, 4, 3, 2 and 1; the step of 12 is
// the shortest that fits.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "partita/planned.h"
#include "partita/request.h"

namespace partita {

struct MicroBatchChoice {
  std::vector<int> counts;      // to be tried in this order, until a plan fits
  bool open = false;            // the request leaves it to us
  std::string note;             // where they come from; empty: as asked
  std::vector<int> fewer = {};  // and these, where the step cannot be worked on in any of `counts`
};

// - --micro-batches M: M.
// - --micro-batch-size b: batch / (replicas x b). Bad input where that does not go up; usage error for a search whose
//   options do not say how many replicas there are (SearchEntry::sharing).
// - Neither, and S > 1 stages: the divisors of a replica's batch from 4 S on, the least first; then those
//   below, the largest first. For interleaved stages multiples of S alone. Example, a batch of 48 on 2 replicas of 2
//   stages: 8, 12, 24. Fewer micro-batches leave stages idle for longer, more need less memory.
// - Neither, and one stage: 1.
// `whole`: the training step on the whole batch.
MicroBatchChoice micro_batches_to_try(const Request& request, const Graph& whole, const Cluster& cluster);

// What is said of the i-th of counts and fewer, one behind the other. `refused`: why an earlier one cannot be.
std::string note_of(const MicroBatchChoice& choice, size_t i, const std::string& refused);

// The plan of the shortest predicted step among the counts that fit, and what was compared as its first note. `plan`
// throws infeasible where a count does not fit, and bad input where the model cannot be worked on in so many parts.
// The first of `counts` that fits comes first. `compares`: then more, then fewer micro-batches are planned, all of them
// where that is little work, else on either side as long as steps become shorter.
Planned plan_in_micro_batches(const MicroBatchChoice& choice, bool compares, const std::function<Planned(int)>& plan,
                              const Watch& watch);

// Which of `counts` comes after the i-th, whose plan took so long and does not fit: the next one. Where the time that
// is left may not be enough for all others, it is the last, which needs least memory.
size_t next_to_try(const MicroBatchChoice& choice, size_t i, double took_s, std::optional<double> left_s);

}  // namespace partita
