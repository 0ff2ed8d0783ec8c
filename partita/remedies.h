// What would make a plan fit.
#pragma once
#include <string>

#include "partita/request.h"

namespace partita {

// The end of the message of a request whose plan fits no device: which changes of the request fit. Tried are no
// buckets, where they were asked for, fully sharded data parallelism, activation recomputation, smaller batches and
// more devices, each planned by a rule; then the search that was asked for with recomputation, and for others that
// place operations whole `placement`. These last ones have what is left of a few seconds, after which no more are
// begun. Each is told with its bytes and its step; of those with the batch and the devices that were asked for the
// fastest is first.
std::string remedies(const Request& request);

}  // namespace partita
