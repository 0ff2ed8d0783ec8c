// The independent checker: judges a plan against graph and cluster, sharing nothing with any search.
#pragma once
#include <cstdint>

#include "partita/plan/plan.h"

namespace partita {

struct CheckReport {
  int64_t comm_bytes = 0;   // all conversions and inner steps, between compute devices, counted from the boxes
  int64_t inner_bytes = 0;  // of these, inside strategies
  int64_t conversions = 0;
};

// Throws bad input naming op, tensor, rule and values: a missing op, a strategy name that the op lacks, two reducers on
// one value, a device twice or unknown, more parts than extent, a mesh whose extents and devices disagree, a kept
// layout that does not exist, a replaced tensor that ends elsewhere than it began.
CheckReport check(const Graph& graph, const Plan& plan, const Cluster& cluster);

}  // namespace partita
