// Plans models of repeated layers by their configurations: all are estimated in closed form (estimator/space.h), the
// best are planned and simulated, and the fastest of these that fits is the plan.
//
// Example: Llama 3 70B on 64 H100 with a batch of 256: 1,275 configurations are estimated in 3 s, and the three fastest
// that fit are simulated.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "partita/estimator/space.h"
#include "partita/pipeline/planned.h"
#include "partita/pipeline/request.h"
#include "partita/pipeline/runner.h"

namespace partita {

// Tells whether a request leaves the way of training to us: `auto`, for the shortest step, without pins, initial plan
// or proof.
bool leaves_configuration_open(const Request& request);
// Tells whether configurations can be estimated for a cluster: several devices of one type, without measured times.
bool has_configurations(const Cluster& cluster);

// The estimated space of a request, as a reader wants it.
struct ConfigurationTable {
  size_t count = 0, fitting = 0;
  int64_t capacity_bytes = 0;  // of the device with the least memory
  struct Row {
    EstimatedConfiguration estimate;
    std::optional<int64_t> simulated_ns;  // the step of its plan; none: not simulated
    int64_t step_ns() const { return simulated_ns.value_or(estimate.step_ns); }
  };
  std::vector<Row> best;      // the fastest that fit, different in their degrees, at most ten
  std::vector<Row> frontier;  // no other is faster and smaller
  bool whole = true;          // all were estimated
  struct Finalist {
    Configuration configuration;
    int64_t estimated_ns = 0;
    std::optional<int64_t> step_ns;  // simulated; none: it has no plan
    std::string why_none;
  };
  std::vector<Finalist> finalists;
};

// Makes one plan of the request.
using PlanOne = std::function<Planned(const Request& request, const Budget& budget)>;
// Returns the fastest plan of the finalists. None: the model has no repeated layers or no samples, or none of the first
// finalists has a plan. Does not apply if no configuration fits by its estimate: the error names the nearest to
// fitting, and the fewest nodes of the same preset on which one fits.
std::optional<Planned> plan_best_configuration(const Request& request, const LoadedModel& model, const Cluster& cluster,
                                               const Budget& budget, const PlanOne& plan, Runner& runner);

}  // namespace partita
