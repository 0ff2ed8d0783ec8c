// Checks a plan against graph and cluster, independently of all searches.
//
// It shares nothing with any search: neither a search's cost tables, nor bytes that boxing predicts without making the
// steps (conversion_bytes(), Converter::bytes, Converter::table). It shares the code that defines what a plan means:
// derivation (tdl/), layouts and steps (sharding/), and the Resolved that resolve() makes of them, which lowering reads
// too. It still checks by itself. Every rule about choices is tested on the plan as it stands, before anything is
// derived from it. Bytes are counted from the boxes of the steps, and boxing's bytes must agree.
#pragma once
#include <cstdint>

#include "partita/plan/resolve.h"

namespace partita {

struct CheckReport {
  int64_t comm_bytes = 0;   // all conversions and inner steps, between compute devices, counted from the boxes
  int64_t inner_bytes = 0;  // those of them that are moved inside strategies
  int64_t conversions = 0;
};

// Checks the choices as they stand; it must pass before resolve(). Throws bad input naming op, tensor, rule and values.
// Ops: one is missing or lacks a strategy, has two reducers on one value, or more shards than extent. Meshes: a device
// is there twice or unknown, or extents and devices disagree. Others: a kept layout does not exist, a replaced tensor
// ends elsewhere than it began, an order asks for a cycle.
void check_choices(const Graph& graph, const Plan& plan, const Cluster& cluster);
// Counts the bytes that a plan moves; `resolved` must be of this plan. If it does not have all devices, boxing's count
// is taken.
CheckReport check(const Graph& graph, const Plan& plan, const Resolved& resolved, const Cluster& cluster);
// Does both, for a plan that is resolved for nothing else, without the pieces of steps on more than 1,024 devices.
CheckReport check(const Graph& graph, const Plan& plan, const Cluster& cluster);

}  // namespace partita
