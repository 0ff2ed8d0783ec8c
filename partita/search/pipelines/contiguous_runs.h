// Cuts costs into contiguous runs whose largest is small, for rules that put layers on devices.
//
// Worked example: contiguous_runs({3, 1, 1}, 2) is {0, 1, 1}: the largest sum is 3.
#pragma once
#include <vector>

namespace partita {

// Cuts costs into `runs` runs of at least one element (as many as there are elements, if those are fewer). The largest
// sum is as small as can be. Returns by element its run. Among equals the earliest cuts.
std::vector<int> contiguous_runs(const std::vector<double>& costs, int runs);

}  // namespace partita
