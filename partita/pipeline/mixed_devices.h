// Computes how long faster devices wait if a plan splits operations evenly over devices of several types.
//
// Example: data parallelism over A100 and V100 devices. The A100s compute for 40 ms of a step, the V100s for 100 ms, on
// as many samples each: the A100s wait for 60 ms.
#pragma once
#include <string>
#include <vector>

#include "partita/pipeline/planned.h"

namespace partita {

// The times of one type's devices in a step.
struct TypeTime {
  std::string type;
  int64_t compute_ns = 0;  // of the device of this type that computes longest
  int64_t waits_ns = 0;    // difference to the slowest type
};
// Returns the times of types over which operations are split together, the fastest first. Empty: no operation is split
// over devices of several types, or the plan is an estimate.
std::vector<TypeTime> times_of_mixed_devices(const Planned& planned);

}  // namespace partita
