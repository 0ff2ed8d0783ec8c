// What would make a plan fit.
#pragma once
#include <string>

#include "partita/pipeline/request.h"

namespace partita {

// The end of the message of a request whose plan fits no device: which changes of the request fit. A rule plans them,
// the request's own or fully sharded data parallelism, whatever else the machine does meanwhile:
// - no buckets, where they were asked for;
// - smaller micro-batches with each kind of recomputation: for each kind the largest that fit, of these the two
// fastest;
// - if none of these fits, groups of devices that divide operations (megatron), likewise;
// - smaller batches;
// - two or four times the devices, with micro-batches and recomputation where it takes them.
// A search that is no rule is tried again with recomputation, and for others that place operations whole `placement`:
// each for a few seconds of CPU time. Each change is told with its bytes and its step; of those with the batch and the
// devices that were asked for the fastest is first. If none fits, each is told with what it needs at least, or why
// there is no such step. Once the request's time limit has passed no further one is tried.
std::string remedies(const Request& request);

}  // namespace partita
