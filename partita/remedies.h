// What would make a plan fit.
#pragma once
#include <string>

#include "partita/pipeline.h"

namespace partita {

// To end the message of a request whose plan fits no device: changes of the request that were tried (fully sharded data
// parallelism, less kept for the backward pass, smaller batches, more devices), and which of them fit. Each is planned
// by a rule, without a search, and no more are begun after a few seconds.
std::string remedies(const Request& request);

}  // namespace partita
