// Why the predicted step of a plan is not what the local task graph said, by which it was searched
// (partita/task_graph/local_tasks.h).
#pragma once
#include <string>

#include "partita/pipeline/planned.h"

namespace partita {

// A line where the two differ by more than 5%; else, and for plans of other searches, empty. It lowers and simulates
// the plan once more.
std::string local_time_note(const Planned& planned);

}  // namespace partita
