// Into how many micro-batches a step's batch is cut, where a request does not say so itself.
#pragma once
#include <optional>
#include <string>
#include <vector>

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

// Which of `counts` comes after the i-th, whose plan took so long and does not fit: the next one. Where the time that
// is left may not be enough for all others, it is the last, which needs least memory.
size_t next_to_try(const MicroBatchChoice& choice, size_t i, double took_s, std::optional<double> left_s);

}  // namespace partita
