// Prints the list of kernels that tools/profile_torch.py times on hardware elsewhere (docs/reference/profile.md).
//
// Example: linear of 32 x 64 x 64 is an entry. It has the id that a profile knows it by, the ranges of its indices, and
// the boxes that it reads and writes. It also has the number of its formula, whose stages are there as trees.
#pragma once
#include <string>

#include "partita/cluster/cluster.h"
#include "partita/measure/kernels.h"

namespace partita {

// Returns JSON with `schema_version` 1 and `kind` "worklist", a formula or a kernel on each line. `device`: the type of
// the devices that the profile will be of, and their kind.
std::string print_worklist(const KernelsToTime& kernels, const std::string& device, DeviceKind kind);

}  // namespace partita
