// Prints each representation for --dump: its own text or JSON.
#pragma once
#include "partita/physical/trace.h"
#include "partita/pipeline/load_model.h"
#include "partita/pipeline/runner.h"
#include "partita/plan/check.h"
#include "partita/search/search.h"

namespace partita {

// Prints a graph without the values of parameters and states, which a model's file has.
Printed printed(const Graph& graph);
Printed printed(const LoadedModel& model);  // its forward graph
Printed printed(const Cluster& cluster);    // the YAML that it was made from
Printed printed(const CheckReport& report);
Printed printed(const PhysicalGraph& graph);
Printed printed(const Plan& plan, const Graph& graph);
// A search without a plan: its estimate, or the reason why there is neither.
Printed printed(const SearchResult& found);
// A Chrome trace.
Printed printed(const Trace& trace, const PhysicalGraph& physical, const Cluster& cluster);

}  // namespace partita
