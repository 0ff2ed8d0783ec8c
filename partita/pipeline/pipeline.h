// Makes a plan, a prediction and a run from a model and a cluster, by the steps of docs/ARCHITECTURE.md in their order.
//
//   Request request;
//   request.model = "zoo:mlp", request.cluster = "local:4";
//   Runner runner;
//   const Planned planned = plan_model(request, runner);
//   planned.report.comm_bytes;  // what a step moves
#pragma once
#include <string>

#include "partita/pipeline/evaluation.h"
#include "partita/pipeline/load_model.h"
#include "partita/pipeline/out_of_memory.h"
#include "partita/pipeline/planned.h"
#include "partita/pipeline/request.h"
#include "partita/pipeline/runner.h"

namespace partita {

LoadedModel load_model(const Request& request, Runner& runner);
Graph training_graph(const LoadedModel& model, const Request& request, Runner& runner);
// The training graph. If no training step can be made (no parameter, no floating output, an operation without a
// gradient), the graph for evaluation, and why.
struct StepGraph {
  Graph graph;
  std::string why_not_trained;
};
StepGraph step_graph(const LoadedModel& model, const Request& request, Runner& runner);

Planned plan_model(const Request& request, Runner& runner);
// The same for a graph made in C++. Fields of the request that name and change a model are not used. The plan can be
// written and read, but `open_plan` cannot build the model again.
Planned plan_graph(const LoadedModel& model, const Request& request, Runner& runner);
// A plan file needs nothing else: its model is built again, its cluster is in it. Bad input if the model has changed
// since. kAll: figures, from representatives if devices and micro-batches are very many (choose_representatives(),
// schedule/representatives.h). kWhole: of all, to be run or traced. kCheck: the plan is checked, and neither lowered
// nor simulated.
enum class Follow { kAll, kWhole, kCheck };
Planned open_plan(const std::string& path, Runner& runner, Follow follow = Follow::kAll, const Hardware& hardware = {});

// Checks, lowers and simulates a plan, and fills in the rest of `planned`. When `patience` ends, fewer orders of the
// plan are looked at. If all devices would take longer than it lasts, figures are extrapolated from representatives.
// Infeasible if the plan does not fit.
void finish(Planned& planned, Runner& runner, Follow follow = Follow::kAll, const Watch& patience = {},
            Buckets buckets = Buckets::kStay);

// Lowers all of it, if the figures were extrapolated from a few devices or micro-batches.
void follow_whole(Planned& planned, Runner& runner);

// Returns the plan with all that a run needs, lowered whole. Experts that drop no token get a place for every one
// (graph/places.h), so that figures are of the run and not of an even load. Other plans stay as they are.
Planned runnable(Planned planned, Runner& runner);

// The same model as it is evaluated, under the same plan.
struct Evaluation {
  Graph graph;
  Plan plan;
};
Evaluation evaluation(const Planned& planned, Runner& runner);

}  // namespace partita
