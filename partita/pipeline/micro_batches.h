// Lists the numbers of micro-batches that a request leaves open. The out-of-memory policy tries them (out_of_memory.h).
//
// Example: a batch of 48 on 2 replicas of 2 stages. 8, 12 and 24 are tried, then 6, 4, 3, 2 and 1.
#pragma once
#include <string>
#include <vector>

#include "partita/pipeline/request.h"

namespace partita {

struct MicroBatchChoice {
  std::vector<int> counts;      // to be tried in this order, until a plan fits
  bool open = false;            // the request leaves it to us
  std::string note;             // their origin; empty: as asked
  std::vector<int> fewer = {};  // and these, if the step cannot be divided into any of `counts`
};

// - --micro-batches M: M.
// - --micro-batch-size b: batch / (replicas x b). Bad input if that is no whole number; usage error for a search whose
//   options do not say how many replicas there are (SearchEntry::sharing).
// - Neither, and S > 1 stages: the divisors of a replica's batch from 4 S on, the least first; then those below, the
//   largest first. For interleaved stages only multiples of S. Example, a batch of 48 on 2 replicas of 2 stages: 8, 12,
//   24. Fewer micro-batches leave stages idle for longer, more need less memory.
// - Neither, and one stage: 1.
// Lists the counts for a request. `whole`: the training step on the whole batch.
MicroBatchChoice micro_batches_to_try(const Request& request, const Graph& whole, const Cluster& cluster);

// Returns the note about the i-th of counts and fewer, one behind the other. `refused`: why an earlier one cannot be.
std::string note_of(const MicroBatchChoice& choice, size_t i, const std::string& refused);

// Tells whether the groups of batch norms, which loading makes, depend on a number of micro-batches that the request
// does not say: `micro` and `replica`.
bool groups_by_micro_batches(const Request& request);
// Throws a usage error if they do, and there is a choice.
void validate_batch_norm_groups(const Request& request, const MicroBatchChoice& choice);

}  // namespace partita
