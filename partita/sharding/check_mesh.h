// Checks the invariant of every mesh. Internal to sharding/.
#pragma once
#include "partita/sharding/layout.h"

namespace partita {

// Our bug if a mesh lists more or fewer devices than its extents make: "2x2 [0, 1, 2]".
void check_mesh(const Mesh& mesh);

}  // namespace partita
