// Placements of whole operations by rules, which searches for placements begin with, and the results of such searches.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "partita/search/device_placement/placed_graph.h"

namespace partita {

// Experts' placement (Pesto, section 5.2), by OpId: layers one after another. Cells are in equal runs by depth, the
// first with what comes before it, the last with what comes behind. Without cells whole layers (stretches_of()) are in
// runs of about the same work; where branches with weights are concatenated, each branch is on the device with the
// least work so far.
std::vector<int> expert_devices(const Graph& graph, int devices);

// By operation of the problem: groups follow their update; what runs on hosts alone stays there.
std::vector<int> placed_as(const PlacedGraph& placed, const std::vector<int>& by_op);

PlacementProblem with_ample_memory(PlacementProblem problem);
// Each device has so many parts of `of` less.
PlacementProblem with_less_memory(PlacementProblem problem, int64_t parts, int64_t of);

std::string ms(int64_t ns);  // time_text(): "3.68 ms", "57.5 us"

// The framework's order, by operation of the problem.
std::vector<int> framework_ranks(const PlacementProblem& problem);

// The plan of a placement, in the order that `order` names: framework, critical, or own (the schedule's), whether it
// fits or not.
SearchResult placed_result(const Problem& problem, const PlacedGraph& placed, PlacedSchedule schedule,
                           std::string_view order, std::string_view name);

// Whether a kernel's time depends on what ran before it (a profile with cold times): then bounds of the problem, whose
// times are those of the step on one device, are no bounds of every lowered step.
bool has_cold_times(const Cluster& cluster);
// Says what no schedule of whole operations takes less than, and in a note why.
void add_bound(const PlacementBounds& bounds, const Cluster& cluster, SearchResult& result);

// What the result's plan lacks on the device that lacks most, in whichever order counts of it (bytes; 0: it fits).
int64_t lacking_bytes(const Problem& problem, const SearchResult& result);

// Infeasible where the plan of a search by footprints lacks memory.
void expect_fits(int64_t lacking_bytes, std::string_view name);

}  // namespace partita
