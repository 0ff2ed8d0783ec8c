// Finds devices that compute nothing in a step.
//
// Example: a plan for a node of 4 A100 and one of 4 T4 splits every operation over the A100s, and a table is kept on
// one T4. Then 4 of 8 devices are idle, all of them T4, and one of these holds a tensor.
#pragma once
#include <string>
#include <vector>

#include "partita/pipeline/planned.h"

namespace partita {

struct IdleDevices {
  struct Type {
    std::string type;
    int idle = 0, all = 0;  // devices of this type
  };
  std::vector<Type> types;  // in the cluster's order
  int count = 0;            // in all
  int holding = 0;          // those of them on which tensors are kept, or from which tensors come
};
// Returns the devices on which no operation of the plan has a shard. An estimate has none: every device has the model
// to itself.
IdleDevices idle_devices(const Planned& planned);

// Returns "3 of 16 devices compute nothing: 3 of 16 P100"; or "4 of 8 devices compute nothing: all 4 T4, of which 1
// holds tensors". Empty: there are none.
std::string idle_text(const Planned& planned);

}  // namespace partita
