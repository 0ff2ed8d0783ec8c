// Checks pins and answers questions about the choices that they fix.
#include "partita/plan/constraints.h"

#include <algorithm>
#include <utility>

#include "partita/plan/choice_rules.h"
#include "partita/plan/pin_error.h"
#include "partita/plan/resolve.h"

namespace partita {

const OpChoice* Constraints::choice_of(OpId id) const {
  const auto found = ops.find(id);
  return found == ops.end() ? nullptr : &found->second;
}

const Placement* Constraints::kept_of(TensorId id) const {
  const auto found = kept.find(id);
  return found == kept.end() ? nullptr : &found->second;
}

const Placement* Constraints::kept_of(const Graph& graph, TensorId id) const {
  const TensorId replaced = graph.tensor(id).replaces;
  return kept_of(replaced.valid() ? replaced : id);
}

const OpChoice& Constraints::choice_or(OpId id, const OpChoice& free) const {
  const OpChoice* fixed = choice_of(id);
  return fixed ? *fixed : free;
}

OpId Constraints::op_of_last_stage() const {
  const auto last = std::ranges::max_element(ops, {}, [](const auto& fixed) { return fixed.second.stage; });
  return last == ops.end() ? OpId() : last->first;
}

namespace {

void check_device_type(const Op& op, const Mesh& mesh, const Cluster& cluster) {
  const bool cpu = op.device_type == DeviceType::kCpu;
  for (DeviceId d : mesh.devices) {
    const bool host = cluster.device(d).host == d;
    if (cpu ? !host : d.value >= cluster.compute_count)
      fail_pin("op '{}' is pinned on device {}, '{}', which {}", op.name, d.value, cluster.device(d).name,
               cpu ? "is no CPU, and its device type is cpu" : "is a host: give it the device type cpu");
  }
}

}  // namespace

void check_constraints(const Graph& graph, const Constraints& constraints, const Cluster& cluster) {
  Mesh last;
  DerivationCache cache;
  for (const auto& [id, choice] : constraints.ops) {
    if (id.index() >= graph.ops.size()) fail_pin("op {} is unknown", id.value);
    const Op& op = graph.op(id);
    check_op_choice(Whose::kPins, op, choice, cluster, last);
    if (!cache.get(op.bound, choice.mesh.extents, choice.strategies)) fail_pin("{}", why_not_derived(op, choice));
    check_device_type(op, choice.mesh, cluster);
  }
  check_kept(Whose::kPins, graph, constraints.kept, cluster, last);
}

Constrained constrain(Graph graph, const Pins& pins, const Cluster& cluster) {
  for (const auto& [id, type] : pins.device_types) graph.op(id).device_type = type;
  for (const auto& [id, group] : pins.colocation) graph.op(id).colocation = group;
  Constraints constraints{pins.ops, pins.kept};
  check_constraints(graph, constraints, cluster);
  if (!pins.device_types.empty() || !pins.colocation.empty()) verify_groups(graph);
  return {std::move(graph), std::move(constraints)};
}

bool satisfies(const Plan& plan, const Constraints& constraints) {
  return std::ranges::all_of(constraints.ops,
                             [&](const auto& fixed) { return plan.ops[fixed.first.index()] == fixed.second; }) &&
         std::ranges::all_of(constraints.kept, [&](const auto& fixed) {
           const auto at = plan.kept.find(fixed.first);
           return at != plan.kept.end() && at->second == fixed.second;
         });
}

Plan with_constraints(Plan plan, const Constraints& constraints) {
  for (const auto& [id, choice] : constraints.ops) plan.ops[id.index()] = choice;
  for (const auto& [id, placement] : constraints.kept) plan.kept[id] = placement;
  return plan;
}

void fail_pinned_mesh(const char* subject, const std::string& name, const std::string& splits, const Mesh& mesh,
                      const Mesh& pinned) {
  fail_pin("{} '{}': {} mesh {}, the pin has {}", subject, name, splits, to_string(mesh), to_string(pinned));
}

}  // namespace partita
