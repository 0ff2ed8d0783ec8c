// Adds a training step's use of the gradients: clipping, the learning rate's schedule, the update of each parameter.
// All of it is ops of the graph, planned, lowered and run like any other.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "partita/graph/builder.h"

namespace partita {

struct Optimizer {
  // NAME, or NAME?option=value,..: an optimizer of the registry (OpDefinition::Update) with attributes as options:
  // "adamw?beta2=0.95". All have `fine`: 1 makes updates of elementary operations, with the same results but for
  // rounding. Then no operation is a parameter's update by itself, and rules that split states (zero) find none to
  // split.
  std::string kind = "sgd";
  double lr = 0.01;
  double momentum = 0.0, weight_decay = 0.0;  // options too; 0: not given
  double clip_norm = 0.0;                     // of all gradients together; 0: they are not clipped
  // NAME, or NAME?option=value,..: a schedule of the registry: "cosine?warmup=100,steps=1000".
  std::string schedule = "constant";
  bool operator==(const Optimizer&) const = default;
};

// Lists the registry's optimizers.
std::vector<std::string> optimizer_names(const OpRegistry& registry);
std::vector<std::string> schedule_names(const OpRegistry& registry);

// Validates the optimizer. Bad input: an unknown optimizer, schedule or option, or a value out of range.
void check_optimizer(const Optimizer& optimizer, const OpRegistry& registry);
// The same optimizer with its schedule's `steps`, if the schedule needs them and they are not given.
Optimizer with_steps(Optimizer optimizer, int64_t steps, const OpRegistry& registry);

// Adds the update ops for pairs of parameter and gradient. Returns the sum of the squares of all gradients if they are
// clipped, or if it is `wanted`; else none.
TensorId add_updates(GraphBuilder& build, const Optimizer& optimizer,
                     const std::vector<std::pair<TensorId, TensorId>>& gradients, bool wanted = false);

}  // namespace partita
