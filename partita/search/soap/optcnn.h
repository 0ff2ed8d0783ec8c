// Implements OptCNN's search (Jia, Lin, Qi, Aiken: Exploring Hidden Dimensions in Parallelizing Convolutional Neural
// Networks, ICML 2018, section 5). It chooses a configuration for each unit such that the sum of unit_costs.h is least.
//
// Worked example: a chain of three units has 2 x 3 and 3 x 2 costs between them, so the middle one has one unit on
// either side. Its elimination leaves a table of 2 x 2: for each two configurations of its neighbours the least cost of
// it and its two pairs. Then the first unit is eliminated, and the last, whose least cost is that of the plan.
#pragma once
#include <string>
#include <vector>

#include "partita/search/soap/unit_costs.h"

namespace partita {

struct UnitValues {
  int64_t cost = 0;
  std::vector<int> values;    // by unit: a configuration
  bool least = false;         // proved to be the least
  int eliminated = 0;         // units of at most two neighbours, one after another
  int left = 0;               // those that are not
  int64_t largest_table = 0;  // entries
};

// Node elimination: a unit that has tables with one or two others is taken out, and leaves a table between them. Edge
// elimination: two tables between the same units become one. The rest is eliminated in general (elimination.h) if no
// table has more than `max_table` entries. Otherwise values are improved around some that are held, and one by one:
// then they need not be the least. Returns the best so far if the watch ends. `from`: values to be no worse than.
UnitValues least_values(const UnitCosts& costs, const std::vector<int>& from, const Watch& watch = {},
                        int64_t max_table = int64_t{1} << 22);

}  // namespace partita
