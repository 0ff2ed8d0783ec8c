// Places whole operations by rules, as initial plans of searches for placements, and makes the results of such
// searches.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "partita/search/device_placement/placed_graph.h"

namespace partita {

// Returns the experts' placement (Pesto, section 5.2), by OpId: layers one after another. Cells are in equal runs by
// depth, the first with all before it, the last with all behind. Without cells whole layers (layer_blocks_of()) are in
// runs of about the same work. If branches with weights are concatenated, each branch is on the device with the least
// work so far.
std::vector<int> expert_devices(const Graph& graph, int devices);

// Returns the device by operation of the problem: groups follow their update; operations for hosts alone stay there.
std::vector<int> placed_as(const PlacedGraph& placed, const std::vector<int>& by_op);

PlacementProblem with_ample_memory(PlacementProblem problem);
// Returns the problem with so many parts of `of` less memory on each device.
PlacementProblem with_less_memory(PlacementProblem problem, int64_t parts, int64_t of);

std::string ms(int64_t ns);  // time_text(): "3.68 ms", "57.5 us"

// Returns the framework's order, by operation of the problem.
std::vector<int> framework_ranks(const PlacementProblem& problem);

// Returns the plan of a placement, whether it fits or not, in the order that `order` names: framework, critical, or own
// (the schedule's).
SearchResult placed_result(const Problem& problem, const PlacedGraph& placed, PlacedSchedule schedule,
                           std::string_view order, std::string_view name);

// Tells whether a kernel's time depends on the one before it (a profile with cold times). Then bounds of the problem,
// whose times are those of the step on one device, do not hold for every lowered step.
bool has_cold_times(const Cluster& cluster);
// Adds the lower bound on schedules of whole operations, and a note with the reason.
void add_bound(const PlacementBounds& bounds, const Cluster& cluster, SearchResult& result);

// Returns the deficit of the result's plan on the device with the largest, in its order that counts (bytes; 0: it
// fits).
int64_t plan_deficit_bytes(const Problem& problem, const SearchResult& result);

// Infeasible if the plan of a search by footprints has a memory deficit.
void require_fit(int64_t deficit_bytes, std::string_view name);

}  // namespace partita
