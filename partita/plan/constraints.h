// Gives one view of the constraints that pins put on a plan. Searches, rules and the pipeline ask it op by op and
// tensor by tensor.
//
//   const Constrained step = constrain(graph, parse_pins(text, graph), cluster);  // PinError: they cannot be kept
//   if (const OpChoice* fixed = step.constraints.choice_of(op)) ..                // null: whoever plans may choose
//
// Device types and colocation groups are fields of the constrained graph's ops (has_device_types(), Op::device_type,
// Op::colocation), which kernels' times depend on too.
#pragma once
#include <map>
#include <set>
#include <string>

#include "partita/plan/pins.h"
#include "partita/plan/plan.h"

namespace partita {

struct Constraints {
  std::map<OpId, OpChoice> ops;        // mesh, strategies and stage
  std::map<TensorId, Placement> kept;  // kept layouts; never of a tensor that replaces another

  bool empty() const { return ops.empty() && kept.empty(); }
  // Null: it is free.
  const OpChoice* choice_of(OpId id) const;
  const Placement* kept_of(TensorId id) const;
  // The same. A new value has the kept layout of the tensor that it replaces.
  const Placement* kept_of(const Graph& graph, TensorId id) const;
  const OpChoice& choice_or(OpId id, const OpChoice& free) const;
  // The first op of the last stage that an op is fixed to; none: no op is fixed.
  OpId op_of_last_stage() const;
};

// Throws bad input if a choice or layout breaks a rule of plans on this cluster, a strategy does not exist, or a device
// is not of the op's type.
void check_constraints(const Graph& graph, const Constraints& constraints, const Cluster& cluster);

struct Constrained {
  Graph graph;
  Constraints constraints;
};
// Returns the graph with the device types and groups of the pins, and the other pins, checked. Bad input also if a
// launch op has no gpu op in its group, or a group has a cpu op and a gpu op.
Constrained constrain(Graph graph, const Pins& pins, const Cluster& cluster);

// Tells whether a plan has all that is fixed.
bool satisfies(const Plan& plan, const Constraints& constraints);
// Returns the plan with the constraints in place of its own choices.
Plan with_constraints(Plan plan, const Constraints& constraints);

// For searches that split over only one mesh: "pins: op 'fc1': exact splits over mesh 4, the pin has 2x2". `subject`:
// "op", "tensor".
[[noreturn]] void fail_pinned_mesh(const char* subject, const std::string& name, const std::string& splits,
                                   const Mesh& mesh, const Mesh& pinned);

}  // namespace partita
