// Adds queues, registers and tasks to a PhysicalGraph that is being made.
#include "partita/physical/draft.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita {

namespace {

QueueId add_queue(Draft& draft, Queue queue) {
  draft.graph.queues.push_back(std::move(queue));
  return QueueId(draft.graph.queues.size() - 1);
}

int64_t elements_at(const Boxes& boxes, int position) {
  int64_t elements = 1;
  for (size_t d = 0; d < boxes.rank(); ++d) elements *= boxes.at(static_cast<size_t>(position), d).size();
  return elements;
}

}  // namespace

Draft make_draft(std::string name, const Cluster& cluster, DeviceMask device_mask) {
  Draft draft{cluster, std::move(device_mask), {}, {}, {}, {}, {}, 0, {}, {}, {}, {}, true, {}};
  draft.graph.name = std::move(name);
  draft.graph.device_count = static_cast<int>(cluster.devices.size());
  draft.graph.compute_count = cluster.compute_count;
  for (size_t d = 0; d < cluster.devices.size(); ++d) {
    const Device& device = cluster.devices[d];
    const bool compute = static_cast<int>(d) < cluster.compute_count;
    draft.compute_queues.push_back(add_queue(draft, {compute ? QueueKind::kCompute : QueueKind::kHost, DeviceId(d),
                                                     LinkId(), device.name + (compute ? ".compute" : ".host")}));
    const auto collectives = [&](QueueKind kind, const char* of) {
      return compute ? add_queue(draft, {kind, DeviceId(d), LinkId(), device.name + of}) : QueueId();
    };
    draft.sample_queues.push_back(collectives(QueueKind::kCollective, ".collective.activations"));
    draft.parameter_queues.push_back(collectives(QueueKind::kParameterCollective, ".collective.parameters"));
  }
  for (size_t l = 0; l < cluster.links.size(); ++l)
    draft.link_queues.push_back(add_queue(draft, {QueueKind::kLink, DeviceId(), LinkId(l), cluster.links[l].name}));
  return draft;
}

RegisterId PositionRegisters::at(int position) const {
  const auto found = find(position);
  ensure(found != end(), "no register of position {}", position);
  return found->second;
}

const std::vector<int>& positions_here(Draft& draft, const Mesh& mesh) {
  for (const auto& [known, positions] : draft.positions)
    if (known == mesh.devices) return positions;
  std::vector<int> positions;
  for (int p = 0; p < mesh.positions(); ++p)
    if (!draft.device_mask || (*draft.device_mask)[mesh.devices[p].index()]) positions.push_back(p);
  return draft.positions.emplace_back(mesh.devices, std::move(positions)).second;
}

RegisterId add_register(Draft& draft, std::string name, const Context& at, DeviceId device,
                        const std::vector<Shape>& radices, Box box) {
  Register& reg = draft.graph.registers.emplace_back();
  reg.name = std::move(name);
  reg.device = device;
  reg.tensor = at.tensor;
  reg.dtype = at.dtype;
  reg.uses = at.firings;
  reg.bytes = volume(box) * bytes_of(at.dtype);
  if (draft.complete) {
    for (const Shape& axis : radices) reg.axes.insert(reg.axes.end(), axis.begin(), axis.end());
    reg.boxes.push_back(std::move(box));
  }
  MicroBatchAxis& along = draft.micro_batch_axes.emplace_back();
  if (at.along.axis >= 0 && !radices.empty()) {
    const auto place = factored_axis(at.along, radices);
    ensure(place.has_value(), "{}: samples are inside a factored axis", at.name);
    along = *place;
  }
  return RegisterId(draft.graph.registers.size() - 1);
}

Placed new_registers(Draft& draft, const Context& at, Layout of, const char* suffix) {
  Placed placed{std::move(of), {}, false};
  const Layout& layout = placed.layout;
  const std::vector<int>& positions = positions_here(draft, layout.mesh);
  placed.regs.reserve(positions.size());
  for (int p : positions) {
    const DeviceId device = layout.mesh.devices[p];
    placed.regs.add(
        p, add_register(draft, named(draft, "{}{}@{}", at.name, suffix, device_name(draft, device)), at, layout, p));
  }
  return placed;
}

RegisterId add_register(Draft& draft, std::string name, const Context& at, const Layout& layout, int position) {
  const DeviceId device = layout.mesh.devices[static_cast<size_t>(position)];
  if (draft.complete)
    return add_register(draft, std::move(name), at, device, layout.radices,
                        layout.boxes[static_cast<size_t>(position)]);
  const RegisterId made = add_register(draft, std::move(name), at, device, layout.radices, {});
  draft.graph.reg(made).bytes = elements_at(layout.boxes, position) * bytes_of(at.dtype);
  return made;
}

Task new_task(const Draft& draft, std::string name, const Context& at, DeviceId device, Work work) {
  Task task;
  task.name = std::move(name);
  task.op = at.op;
  task.key = at.key;
  task.phase = at.phase;
  task.device = device;
  task.queue = draft.compute_queues[device.index()];
  task.turn = at.turn;
  task.rate = at.firings;
  if (!draft.stages.empty() && at.op.valid()) task.stage = draft.stages[at.op.index()];
  task.work = std::move(work);
  return task;
}

Access access(const Draft& draft, RegisterId reg, const Box& box, bool fresh, int tensor) {
  Access a{reg, fresh, {}, tensor};
  if (draft.complete && box != draft.graph.reg(reg).boxes[0]) a.boxes = {box};
  return a;
}

Access access(const Draft& draft, const Placed& placed, int position, int tensor) {
  const RegisterId reg = placed.regs.at(position);
  if (!draft.complete) return {reg, placed.fresh, {}, tensor};
  return access(draft, reg, placed.layout.boxes[position], placed.fresh, tensor);
}

const Box& box_of(const Draft& draft, const Access& access) {
  return access.boxes.empty() ? draft.graph.reg(access.reg).boxes[0] : access.boxes[0];
}

int64_t bytes_of(const Draft& draft, const Access& access) {
  return volume(box_of(draft, access)) * bytes_of(draft.graph.reg(access.reg).dtype);
}

int64_t bytes_at(const Draft& draft, const Placed& placed, int position) {
  return elements_at(placed.layout.boxes, position) * bytes_of(draft.graph.reg(placed.regs.at(position)).dtype);
}

}  // namespace partita
