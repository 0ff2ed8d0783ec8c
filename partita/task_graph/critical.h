// Finds the critical path of a timeline, for searches that propose changes and for reports.
//
// Worked example: a (3 ns) and b (2 ns) on one queue, c, which waits for a, for 1 ns on another. b ends last, at 5 ns;
// it began when a had left its queue: the critical path is a, b.
#pragma once
#include <vector>

#include "partita/task_graph/first_come.h"

namespace partita {

// Returns tasks from the first to one that ends last. Each begins when the one before it ends: a task that it waits
// for, or else the one before it on a queue.
std::vector<int> critical_path(const FlatTasks& flat, const Timeline& timeline);

}  // namespace partita
