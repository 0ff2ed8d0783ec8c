// Judges a plan: each rule of docs/reference/plan.md is a function, and bytes are counted from the boxes.
#include "partita/plan/check.h"

#include <algorithm>
#include <set>

#include "partita/base/error.h"
#include "partita/base/radices.h"
#include "partita/graph/micro_batches.h"
#include "partita/plan/pin_error.h"
#include "partita/plan/resolve.h"

namespace partita {

namespace {

// `last`: the mesh that was checked last. Mostly the next one is the same.
void check_mesh(const Mesh& mesh, const Cluster& cluster, const std::string& where, Mesh& last) {
  if (!last.devices.empty() && mesh == last) return;
  int64_t positions = 1;
  for (int extent : mesh.extents) {
    if (extent < 1) fail("{}: mesh extent {} is not positive", where, extent);
    if (__builtin_mul_overflow(positions, extent, &positions))
      fail("{}: a mesh [{}] has more positions than can be counted", where, fmt::join(mesh.extents, ", "));
  }
  if (positions != static_cast<int64_t>(mesh.devices.size()))
    fail("{}: a mesh of {} positions lists {} devices", where, positions, mesh.devices.size());
  std::set<DeviceId> seen;
  const auto devices = static_cast<int>(cluster.devices.size());
  for (DeviceId d : mesh.devices) {
    if (d.value < 0 || d.value >= devices)
      fail("{}: device {} is unknown; cluster '{}' has devices 0 to {}{}", where, d.value, cluster.name,
           cluster.compute_count - 1,
           devices > cluster.compute_count ? fmt::format(" and hosts to {}", devices - 1) : "");
    if (!seen.insert(d).second) fail("{}: device {} is listed twice", where, d.value);
  }
  last = mesh;
}

// Hosts run things whole and keep them whole.
void check_hosts(const Mesh& mesh, bool whole, const Cluster& cluster, const std::string& where) {
  for (DeviceId d : mesh.devices)
    if (d.value >= cluster.compute_count && !whole)
      fail("{}: device {} is a host, which runs and keeps things whole, and here each has a part", where, d.value);
}

// No index is cut into more parts than it has values, taking all mesh axes together.
void check_parts(const Op& op, const OpChoice& choice, const std::string& where) {
  std::map<std::string, int64_t> parts;
  for (size_t a = 0; a < choice.strategies.size(); ++a)
    for (const std::string& name : choice.strategies[a].names)
      parts.try_emplace(name, 1).first->second *= choice.mesh.extents[a];
  for (const auto& [name, count] : parts) {
    int index = op.bound->find_index(name);
    if (index < 0) {
      std::vector<std::string> known;
      for (const tdl::Index& i : op.bound->indices) known.push_back(i.name);
      fail("{}: the formula has no index '{}'; it has {}", where, name, fmt::join(known, ", "));
    }
    if (count > op.bound->indices[index].extent)
      fail("{}: index '{}' of extent {} can't be split in {} parts", where, name, op.bound->indices[index].extent,
           count);
  }
}

// `whose`: "plan", "pins".
void check_op(const char* whose, const Op& op, const OpChoice& choice, const Cluster& cluster, Mesh& last) {
  std::string where = fmt::format("{}: op '{}' ({})", whose, op.name, op.definition);
  check_mesh(choice.mesh, cluster, where, last);
  check_hosts(choice.mesh, choice.mesh.devices.size() == 1, cluster, where);
  if (choice.strategies.size() != choice.mesh.extents.size())
    fail("{}: {} strategies for a mesh of {} axes", where, choice.strategies.size(), choice.mesh.extents.size());
  for (const tdl::AxisStrategy& s : choice.strategies)
    for (const std::string& operand : s.partial) {
      int tensor = op.bound->find_tensor(operand);
      if (tensor < 0 || tensor >= op.bound->operand_count)
        fail("{}: no operand '{}' can be partial: the formula has none", where, operand);
    }
  check_parts(op, choice, where);
}

void check_placement(const char* whose, const Tensor& tensor, const Placement& placement, const Cluster& cluster,
                     Mesh& last) {
  std::string where = fmt::format("{}: tensor '{}'", whose, tensor.name);
  check_mesh(placement.mesh, cluster, where, last);
  const bool whole =
      std::all_of(placement.sbp.begin(), placement.sbp.end(), [](const Sbp& sbp) { return sbp == Sbp::broadcast(); });
  check_hosts(placement.mesh, whole, cluster, where);
  if (placement.sbp.size() != placement.mesh.extents.size())
    fail("{}: {} Sbp for a mesh of {} axes", where, placement.sbp.size(), placement.mesh.extents.size());
  const std::vector<Shape> radices = placement.radices.empty() ? unfactored(tensor.shape) : placement.radices;
  if (radices.size() != tensor.shape.size())
    fail("{}: radices for {} axes, it has {}", where, radices.size(), tensor.shape.size());
  for (size_t a = 0; a < radices.size() && !placement.radices.empty(); ++a) {
    int64_t product = 1;
    for (const int64_t radix : radices[a]) {
      if (radix < 1 && radices[a] != Shape{tensor.shape[a]})
        fail("{}: a radix of axis {} is {}; radices are positive numbers", where, a, radix);
      if (__builtin_mul_overflow(product, radix, &product))
        fail("{}: the radices of axis {} make more than its extent {}", where, a, tensor.shape[a]);
    }
    if (product != tensor.shape[a])
      fail("{}: the radices of axis {} make {}, its extent is {}", where, a, product, tensor.shape[a]);
  }
  std::optional<tdl::Reducer> reducer;
  std::map<std::pair<int, int>, int64_t> parts;
  for (size_t a = 0; a < placement.sbp.size(); ++a) {
    const Sbp& sbp = placement.sbp[a];
    if (sbp.kind == Sbp::Kind::kPartial) {
      if (reducer && *reducer != sbp.reducer)
        fail("{}: two reducers on one value, {} and {}", where, tdl::name_of(*reducer), tdl::name_of(sbp.reducer));
      reducer = sbp.reducer;
      // Each position keeps a term of a state that starts as a sum, the first of them as it is.
      const bool sum = tensor.role == Role::kState && is_float(tensor.dtype) && sbp.reducer == tdl::Reducer::kSum;
      if (!tensor.producer.valid() && !sum) fail("{}: {} can't be kept partial", where, name_of(tensor.role));
    }
    if (sbp.kind == Sbp::Kind::kSplit) {
      if (sbp.axis < 0 || sbp.axis >= static_cast<int>(tensor.shape.size()) || sbp.sub_axis < 0 ||
          sbp.sub_axis >= static_cast<int>(radices[sbp.axis].size()))
        fail("{}: {} names an axis that shape [{}] lacks", where, to_string(sbp), fmt::join(tensor.shape, ", "));
      int64_t& count = parts.try_emplace({sbp.axis, sbp.sub_axis}, 1).first->second;
      count *= placement.mesh.extents[a];
      if (count > radices[sbp.axis][sbp.sub_axis])
        fail("{}: axis {} of extent {} can't be split in {} parts", where, sbp.axis, radices[sbp.axis][sbp.sub_axis],
             count);
    }
  }
}

// A part of a sequence x batch has all of the sequence: it is kept split along one of these, and not along both as one.
void check_samples_digit(const char* whose, const Graph& graph, TensorId id, const Placement& placement) {
  const Tensor& tensor = graph.tensor(id);
  if (tensor.scope != MicroBatchScope::kMicroBatch) return;
  const TimePlace place = time_place(graph, id);
  const bool split = std::any_of(placement.sbp.begin(), placement.sbp.end(), [&](const Sbp& sbp) {
    return sbp.kind == Sbp::Kind::kSplit && sbp.axis == place.axis;
  });
  if (!split || factored_place(place, placement.radices.empty() ? unfactored(tensor.shape) : placement.radices)) return;
  const int64_t extent = tensor.shape[static_cast<size_t>(place.axis)];
  fail(
      "{}: tensor '{}': axis {} has samples inside {} others, and is split across them; give it the radices [{}, {}], "
      "or "
      "use --micro-batches 1",
      whose, tensor.name, place.axis, place.outer, place.outer, extent / place.outer);
}

void check_kept(const char* whose, const Graph& graph, const std::map<TensorId, Placement>& kept,
                const Cluster& cluster, Mesh& last) {
  for (const auto& [id, placement] : kept) {
    if (id.index() >= graph.tensors.size()) fail("{}: kept tensor {} is unknown", whose, id.value);
    const Tensor& tensor = graph.tensor(id);
    check_placement(whose, tensor, placement, cluster, last);
    check_samples_digit(whose, graph, id, placement);
    if (tensor.replaces.valid())
      fail("{}: tensor '{}' replaces '{}' and can't be kept elsewhere: give '{}' the layout", whose, tensor.name,
           graph.tensor(tensor.replaces).name, graph.tensor(tensor.replaces).name);
  }
}

// That the list has all transfers, and no others, is lowering's to say, which makes them.
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

// An order names each op once, after all that it must follow; any other asks for a cycle.
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
  auto expect_before = [&](OpId first, OpId then, const std::string& tensor, const char* why) {
    if (first.valid() && first != then && place[first.index()] > place[then.index()])
      fail("plan: order: op '{}' stands before '{}', which {} '{}': a cycle", graph.op(then).name, graph.op(first).name,
           why, tensor);
  };
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    for (TensorId t : graph.ops[i].operands) {
      expect_before(graph.tensor(t).producer, OpId(i), graph.tensor(t).name, "makes its operand");
      if (TensorId next = graph.replacement_of(t); next.valid())
        expect_before(OpId(i), graph.tensor(next).producer, graph.tensor(t).name, "reads what it replaces,");
    }
  }
}

// Which pipeline rank a device works for, where devices have several chunks: chunk c is rank c mod S's.
void check_chunks(const Graph& graph, const Plan& plan, const Pipelining& pipelining, const Cluster& cluster) {
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

// The stages are numbered without a gap, and the schedule can work on them.
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
  if (v > 1) check_chunks(graph, plan, pipelining, cluster);
}

// What is refetched is read by an op of the backward pass, or by one that fires once a part.
void check_refetched(const Graph& graph, const Plan& plan) {
  for (TensorId t : plan.resharded) {
    if (t.value < 0 || t.index() >= graph.tensors.size()) fail("plan: refetched: tensor {} is unknown", t.value);
    const bool backward = std::any_of(graph.ops.begin(), graph.ops.end(), [&](const Op& op) {
      return (op.phase == Phase::kBackward || op.per_micro_batch) &&
             std::find(op.operands.begin(), op.operands.end(), t) != op.operands.end();
    });
    if (!backward) fail("plan: refetched: no op of the backward pass reads tensor '{}'", graph.tensor(t).name);
  }
}

// Every op stands on the plan's mesh, and every tensor that the plan keeps is where the plan says.
void expect_resolved(const Graph& graph, const Plan& plan, const Resolved& resolved) {
  ensure(resolved.ops.size() == plan.ops.size() && resolved.kept_layouts.size() == graph.tensors.size(),
         "'{}' was resolved with {} ops and {} tensors", graph.name, resolved.ops.size(), resolved.kept_layouts.size());
  for (size_t i = 0; i < plan.ops.size(); ++i)
    ensure(resolved.ops[i].mesh == plan.ops[i].mesh, "op '{}' was resolved on another mesh", graph.ops[i].name);
  for (const auto& [id, placement] : plan.kept)
    ensure(same_placement(resolved.kept_layouts[id.index()], layout_of(placement, graph.tensor(id).shape)),
           "tensor '{}' was resolved to another home", graph.tensor(id).name);
}

constexpr int kMostListed = 1024;  // devices; on more the pieces of a step are too many to list

// The bytes of a step, counted from its boxes, without looking at what boxing said.
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
      // What each member gets and did not hold.
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
  for (size_t i = 0; i < graph.ops.size(); ++i) check_op("plan", graph.ops[i], plan.ops[i], cluster, last);
  check_pipeline(graph, plan, cluster);
  check_order(graph, plan.order);
  check_transfers(graph, plan, cluster);
  check_refetched(graph, plan);
  check_kept("plan", graph, plan.kept, cluster, last);
}

namespace {

void check_device_type(const Op& op, DeviceType type, const Mesh& mesh, const Cluster& cluster) {
  for (DeviceId d : mesh.devices) {
    const bool host = cluster.device(d).host == d;
    if (type == DeviceType::kCpu ? !host : d.value >= cluster.compute_count)
      fail_pin("op '{}' is pinned on device {}, '{}', which {}", op.name, d.value, cluster.device(d).name,
               type == DeviceType::kCpu ? "is no CPU, and its device type is cpu"
                                        : "is a host: give it the device type cpu");
  }
}

}  // namespace

void check_pins(const Graph& graph, const Pins& pins, const Cluster& cluster) {
  Mesh last;
  DerivationCache cache;
  for (const auto& [id, choice] : pins.ops) {
    if (id.index() >= graph.ops.size()) fail_pin("op {} is unknown", id.value);
    const Op& op = graph.op(id);
    check_op("pins", op, choice, cluster, last);
    if (!cache.get(op.bound, choice.mesh.extents, choice.strategies)) refuse_strategies("pins", op, choice);
    const auto type = pins.device_types.find(id);
    check_device_type(op, type == pins.device_types.end() ? op.device_type : type->second, choice.mesh, cluster);
  }
  check_kept("pins", graph, pins.kept, cluster, last);
}

CheckReport check(const Graph& graph, const Plan& plan, const Resolved& resolved, const Cluster& cluster) {
  expect_resolved(graph, plan, resolved);
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
