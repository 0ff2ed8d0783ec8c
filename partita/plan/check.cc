// Checks a plan: each rule of docs/reference/plan.md is a function, and bytes are counted from the boxes.
#include "partita/plan/check.h"

#include <algorithm>
#include <set>

#include "partita/base/error.h"
#include "partita/graph/micro_batches.h"
#include "partita/plan/choice_rules.h"
#include "partita/plan/resolve.h"

namespace partita {

namespace {

// Lowering checks that the list has all transfers, and no others, since it makes them.
void check_transfers(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  if (!plan.transfers) return;
  if (plan.order.empty()) fail("plan: transfers: a schedule is kept with the order of ops alone: give `order` too");
  if (plan.model.micro_batches > 1)
    fail("plan: transfers: a schedule of {} micro-batches cannot be kept: leave `transfers` out",
         plan.model.micro_batches);
  std::set<PlannedTransfer> seen;
  for (const PlannedTransfer& t : *plan.transfers) {
    if (t.tensor.value < 0 || t.tensor.index() >= graph.tensors.size())
      fail("plan: transfers: tensor {} is unknown", t.tensor.value);
    if (t.to.value < 0 || t.to.index() >= cluster.devices.size())
      fail("plan: transfers: '{}' goes to device {}; cluster '{}' has {}, hosts included", graph.tensor(t.tensor).name,
           t.to.value, cluster.name, cluster.devices.size());
    if (t.reader.valid() && (t.reader.value < 0 || t.reader.index() >= graph.ops.size()))
      fail("plan: transfers: op {} is unknown", t.reader.value);
    if (!seen.insert(t).second)
      fail("plan: transfers: '{}' to device {} stands twice", graph.tensor(t.tensor).name, t.to.value);
  }
}

// Checks that an order names each op once, after all that it must follow. Any other asks for a cycle.
void check_order(const Graph& graph, const std::vector<OpId>& order) {
  if (order.empty()) return;
  std::vector<int> place(graph.ops.size(), -1);
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i].value < 0 || order[i].index() >= graph.ops.size())
      fail("plan: order: op {} is unknown", order[i].value);
    int& at = place[order[i].index()];
    if (at >= 0) fail("plan: order: op '{}' stands twice", graph.op(order[i]).name);
    at = static_cast<int>(i);
  }
  for (size_t i = 0; i < place.size(); ++i)
    if (place[i] < 0) fail("plan: order: op '{}' is missing; the order names all ops or none", graph.ops[i].name);
  auto check_before = [&](OpId first, OpId then, const std::string& tensor, const char* why) {
    if (first.valid() && first != then && place[first.index()] > place[then.index()])
      fail("plan: order: op '{}' stands before '{}', which {} '{}': a cycle", graph.op(then).name, graph.op(first).name,
           why, tensor);
  };
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    for (TensorId t : graph.ops[i].operands) {
      check_before(graph.tensor(t).producer, OpId(i), graph.tensor(t).name, "makes its operand");
      if (TensorId next = graph.replacement_of(t); next.valid())
        check_before(OpId(i), graph.tensor(next).producer, graph.tensor(t).name, "reads what it replaces,");
    }
  }
}

// Checks that each device works for one pipeline rank if devices have several virtual stages: virtual stage c is rank c
// mod S's.
void check_virtual_stages(const Graph& graph, const Plan& plan, const Pipelining& pipelining, const Cluster& cluster) {
  std::vector<int> rank_of(cluster.devices.size(), -1);
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const OpChoice& choice = plan.ops[i];
    if (!graph.ops[i].per_micro_batch) continue;  // it has no turn
    const int rank = choice.stage % pipelining.ranks;
    for (const DeviceId d : choice.mesh.devices) {
      int& known = rank_of[d.index()];
      if (known < 0) known = rank;
      if (known != rank)
        fail(
            "plan: op '{}' of stage {} is on device {}, which has stages of pipeline rank {}; with {} ranks, stage {} "
            "is of rank {}",
            graph.ops[i].name, choice.stage, d.value, known, pipelining.ranks, choice.stage, rank);
    }
  }
}

// Checks that stages are numbered without a gap, and that the schedule suits them.
void check_pipeline(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  std::set<int> stages;
  for (const OpChoice& choice : plan.ops) stages.insert(choice.stage);
  const int count = static_cast<int>(stages.size()), v = plan.pipeline.virtual_stages;
  if (count > 0 && *stages.rbegin() != count - 1)
    fail("plan: its ops have {} different stages, and one has stage {}: stages are numbered from 0, without a gap",
         count, *stages.rbegin());
  if (v < 1 || std::max(count, 1) % v != 0)
    fail("plan: pipeline: {} virtual stages a device do not divide its {} stages: take a number that does", v, count);
  const Pipelining pipelining{plan.pipeline.schedule, std::max(count, 1) / v, v, graph.micro_batches()};
  if (const auto why = pipelining_error(pipelining)) fail("plan: pipeline: {}", *why);
  if (v > 1) check_virtual_stages(graph, plan, pipelining, cluster);
}

// Checks that an op of the backward pass, or one that fires once a micro-batch, reads each resharded tensor.
void check_resharded(const Graph& graph, const Plan& plan) {
  for (TensorId t : plan.resharded) {
    if (t.value < 0 || t.index() >= graph.tensors.size()) fail("plan: refetched: tensor {} is unknown", t.value);
    const bool backward = std::any_of(graph.ops.begin(), graph.ops.end(), [&](const Op& op) {
      return (op.phase == Phase::kBackward || op.per_micro_batch) &&
             std::find(op.operands.begin(), op.operands.end(), t) != op.operands.end();
    });
    if (!backward) fail("plan: refetched: no op of the backward pass reads tensor '{}'", graph.tensor(t).name);
  }
}

// Ensures that every op is on the plan's mesh, and every tensor that the plan keeps has the plan's layout.
void check_resolved(const Graph& graph, const Plan& plan, const Resolved& resolved) {
  ensure(resolved.ops.size() == plan.ops.size() && resolved.kept_layouts.size() == graph.tensors.size(),
         "'{}' was resolved with {} ops and {} tensors", graph.name, resolved.ops.size(), resolved.kept_layouts.size());
  for (size_t i = 0; i < plan.ops.size(); ++i)
    ensure(resolved.ops[i].mesh == plan.ops[i].mesh, "op '{}' was resolved on another mesh", graph.ops[i].name);
  for (const auto& [id, placement] : plan.kept)
    ensure(same_placement(resolved.kept_layouts[id.index()], layout_of(placement, graph.tensor(id).shape)),
           "tensor '{}' was resolved to another home", graph.tensor(id).name);
}

constexpr int kMostListed = 1024;  // devices; on more the pieces of a step are too many to list

// Counts the bytes of a step from its boxes, without boxing's figures.
int64_t counted_bytes(const Step& step, int64_t element) {
  int64_t elements = 0;
  if (step.kind == StepKind::kFetch || step.kind == StepKind::kLocal) {
    for (const Piece& piece : step.pieces)
      if (step.from.mesh.devices[piece.source] != step.to.mesh.devices[piece.target]) elements += volume(piece.box);
    return elements * element;
  }
  for (const std::vector<int>& group : step.groups) {
    int64_t p = static_cast<int64_t>(group.size()), held = 0, got = 0;
    for (int r : group) held += step.from.elements(r), got += step.to.elements(r);
    switch (step.kind) {
      // Reduce-scatter and all-gather of the group's shard: 2 (p-1) times its size, which each member holds whole.
      case StepKind::kAllReduce:
        elements += 2 * (p - 1) * held / p;
        break;
      // Each result element takes p-1 contributions from elsewhere.
      case StepKind::kReduceScatter:
        elements += (p - 1) * got;
        break;
      // The elements that each member gets and did not hold.
      case StepKind::kAllGather:
        elements += got - held;
        break;
      case StepKind::kAllToAll:
        for (int r : group) {
          int64_t own = is_empty(step.to.boxes[r]) ? 0 : volume(intersect(step.from.boxes[r], step.to.boxes[r]));
          elements += step.to.elements(r) - own;
        }
        break;
      case StepKind::kLocal:
      case StepKind::kFetch:
        break;
    }
  }
  return elements * element;
}

}  // namespace

void check_choices(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  if (plan.ops.size() != graph.ops.size())
    fail("plan: it has {} ops, model '{}' has {}: the plan is for another model", plan.ops.size(), graph.name,
         graph.ops.size());
  Mesh last;
  for (size_t i = 0; i < graph.ops.size(); ++i) check_op_choice(Whose::kPlan, graph.ops[i], plan.ops[i], cluster, last);
  check_pipeline(graph, plan, cluster);
  check_order(graph, plan.order);
  check_transfers(graph, plan, cluster);
  check_resharded(graph, plan);
  check_kept(Whose::kPlan, graph, plan.kept, cluster, last);
}

CheckReport check(const Graph& graph, const Plan& plan, const Resolved& resolved, const Cluster& cluster) {
  check_resolved(graph, plan, resolved);
  CheckReport report;
  for (const ResolvedConversion& c : resolved.conversions) {
    const int64_t element_bytes = bytes_of(graph.tensor(c.tensor).dtype);
    int64_t bytes = resolved.device_mask ? c.conversion.bytes : 0;
    for (size_t s = 0; !resolved.device_mask && s < c.conversion.steps.size(); ++s)
      bytes += counted_bytes(c.conversion.steps[s], element_bytes);
    ensure(bytes == c.conversion.bytes, "conversion of '{}': {} bytes from the boxes, boxing says {}",
           graph.tensor(c.tensor).name, bytes, c.conversion.bytes);
    report.comm_bytes += c.firings * bytes;
    report.conversions += 1;
  }
  Converter converter(cluster, resolved.device_mask);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const tdl::Derived& derived = *resolved.ops[i].derived;
    if (derived.inner.empty()) continue;
    for (const Conversion& c :
         inner_conversions(*op.bound, derived, plan.ops[i].mesh, bytes_of(inner_dtype(graph, op)), converter))
      report.inner_bytes += graph.firings(op) * c.bytes;
  }
  report.comm_bytes += report.inner_bytes;
  return report;
}

CheckReport check(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  check_choices(graph, plan, cluster);
  const DeviceMask nobody = cluster.compute_count <= kMostListed
                                ? nullptr
                                : std::make_shared<const std::vector<char>>(cluster.devices.size(), 0);
  return check(graph, plan, resolve(graph, plan, cluster, nobody), cluster);
}

}  // namespace partita
