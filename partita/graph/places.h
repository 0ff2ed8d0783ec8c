// Counts places of experts (ops/experts.cc) in a plan and in a run. If no token is dropped, a plan counts on an even
// load: an expert has places for its share of a group's choices. A run takes the tokens as they come: an expert has a
// place for every token. Both graphs have the same ops and tensors, by number and name; some extents differ.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

bool has_experts(const Graph& graph);

// Tells whether some expert_dispatch drops no token (`dropless`) and has fewer places than a run may need.
bool has_planned_places(const Graph& graph);

// The same forward graph with a place for every token in each such expert_dispatch.
Graph with_all_places(const Graph& forward);

// By tensor of a forward graph: the share of its elements that belong to a token at an even load. It is tokens x
// choices over all places for tensors that experts compute, 1 elsewhere.
std::vector<double> used_shares(const Graph& graph);

// The number of parameters that one token uses: its choices' share of experts', all others.
int64_t active_parameters(const Graph& forward);

}  // namespace partita
