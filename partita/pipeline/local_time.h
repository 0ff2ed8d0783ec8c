// Explains why the predicted step of a plan differs from that of the local task graph by which it was searched
// (partita/task_graph/local_tasks.h).
#pragma once
#include <string>

#include "partita/pipeline/planned.h"

namespace partita {

// Returns a line if the two differ by more than 5%; else, and for plans of other searches, empty. It lowers and
// simulates the plan once more.
std::string local_time_note(const Planned& planned);

}  // namespace partita
