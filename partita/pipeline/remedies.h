// Finds changes of a request that would make its plan fit, for the message of one that does not.
#pragma once
#include <string>

#include "partita/pipeline/request.h"

namespace partita {

// Returns the end of the message of a request whose plan fits no device: changes of the request that fit. A rule plans
// them, the request's own or fully sharded data parallelism, whatever else the machine does meanwhile:
// - no buckets, if they were asked for;
// - smaller micro-batches with each kind of recomputation: for each kind the largest that fit, and the two fastest of
//   these;
// - if none of these fits, groups of devices that divide operations (megatron), likewise;
// - smaller batches;
// - two or four times the devices, with micro-batches and recomputation if it takes them.
// A search that is no rule is tried again with recomputation; for other searches of device placement, so is
// `placement`. Each gets a few seconds of CPU time. Each change is listed with its bytes and its step. The fastest of
// those with the requested batch and devices is first. If none fits, each is listed with the memory that it needs at
// least, or why there is no such step. Once the request's time limit has passed no further one is tried.
std::string remedies(const Request& request);

}  // namespace partita
