// Verifies that a PhysicalGraph has a meaning: every field is in range, and every element that is read was written by
// the task that should have. shares.cc checks which values are whole; admission checks order and edges.
#include <algorithm>
#include <set>

#include "partita/physical/shares.h"
#include "partita/physical/verify_parts.h"

namespace partita {
namespace verifying {

const Box& held_box(const PhysicalGraph& graph, const Access& access, int rate, int firing) {
  const Register& reg = graph.reg(access.reg);
  return reg.box(reg.carried ? 0 : uses_of(reg, rate, firing, true).first);
}

const Box& part(const PhysicalGraph& graph, const Access& access, int rate, int firing) {
  if (!access.boxes.empty()) return access.boxes[access.boxes.size() == 1 ? 0 : static_cast<std::size_t>(firing)];
  return held_box(graph, access, rate, firing);
}

std::vector<Box> without(const Box& box, const std::vector<Box>& parts) {
  std::vector<Box> left;
  if (!is_empty(box)) left.push_back(box);
  for (const Box& part : parts) {
    if (left.empty()) break;
    std::vector<Box> next;
    for (const Box& piece : left)
      for (Box& rest : subtract(piece, part)) next.push_back(std::move(rest));
    left = std::move(next);
  }
  return left;
}

namespace {

// ---------------------------------------------------------------- fields

bool has_device(const PhysicalGraph& graph, DeviceId id) { return id.valid() && id.value < graph.device_count; }

void check_queues(const PhysicalGraph& graph) {
  if (graph.device_count < 1 || graph.compute_count < 0 || graph.compute_count > graph.device_count ||
      graph.micro_batches < 1)
    fail("physical graph '{}': {} devices, {} of them for compute, {} micro-batches", graph.name, graph.device_count,
         graph.compute_count, graph.micro_batches);
  for (const Queue& queue : graph.queues)
    if (queue.kind == QueueKind::kLink ? !queue.link.valid() : !has_device(graph, queue.device))
      fail("queue '{}': its {} does not exist", queue.name, queue.kind == QueueKind::kLink ? "link" : "device");
}

void check_boxes(const Register& reg) {
  expect(reg, reg.boxes.size() == 1 || static_cast<int>(reg.boxes.size()) == reg.uses, "{} boxes for {} uses",
         reg.boxes.size(), reg.uses);
  int64_t largest = 0;
  for (const Box& box : reg.boxes) {
    expect(reg, box.size() == reg.axes.size(), "box {} has {} axes, the tensor {}", to_string(box), box.size(),
           reg.axes.size());
    expect(reg, is_empty(box) || contains(full_box(reg.axes), box), "box {} is not inside the tensor of [{}]",
           to_string(box), fmt::join(reg.axes, ","));
    largest = std::max(largest, volume(box));
  }
  expect(reg, reg.bytes == largest * bytes_of(reg.dtype), "{} bytes for {} elements of {}", reg.bytes, largest,
         name_of(reg.dtype));
}

void check_registers(const PhysicalGraph& graph) {
  std::vector<int64_t> end(graph.device_count, 0);
  bool placed = false;
  for (const Register& reg : graph.registers) {
    expect(reg, has_device(graph, reg.device), "device {} does not exist", reg.device.value);
    expect(reg, reg.uses == 1 || reg.uses == graph.micro_batches, "{} uses a step, neither 1 nor the {} micro-batches",
           reg.uses, graph.micro_batches);
    expect(reg,
           !(reg.carried && reg.constant) && !(reg.carried && reg.accumulated) &&
               (reg.uses == 1 || (!reg.carried && !reg.constant && !reg.accumulated)),
           "carried, constant and accumulated exclude each other and have one use a step");
    expect(reg, reg.term < 0 || reg.carried || reg.constant, "holds a term of a sum, and is not there before a step");
    expect(reg, reg.count >= 1 && reg.count <= reg.uses, "{} slots for {} uses", reg.count, reg.uses);
    expect(reg, reg.bytes >= 0, "{} bytes", reg.bytes);
    if (!reg.boxes.empty() || !reg.axes.empty()) check_boxes(reg);
    if (reg.offset == -1) continue;
    placed = true;
    expect(reg, reg.offset >= 0 && reg.offset % kAlignBytes == 0, "offset {} is not a multiple of {}", reg.offset,
           kAlignBytes);
    if (reg.bytes > 0)
      end[reg.device.index()] = std::max(end[reg.device.index()], reg.slot_offset(reg.count - 1) + reg.bytes);
  }
  if (!placed) return;
  for (const Register& reg : graph.registers) expect(reg, reg.offset >= 0, "is not placed, others are");
  if (graph.peak_bytes != end)
    fail("physical graph '{}': peak_bytes [{}] are not the registers' ends [{}]", graph.name,
         fmt::join(graph.peak_bytes, ", "), fmt::join(end, ", "));
}

void check_names(const PhysicalGraph& graph) {
  std::set<std::string_view> seen;
  for (const Register& reg : graph.registers) expect(reg, seen.insert(reg.name).second, "another has the same name");
  seen.clear();
  for (const Task& task : graph.tasks) expect(task, seen.insert(task.name).second, "another has the same name");
}

void check_access(const PhysicalGraph& graph, const Task& task, const Access& access, bool is_write) {
  expect(task, access.reg.valid() && access.reg.index() < graph.registers.size(), "register {} does not exist",
         access.reg.value);
  const Register& reg = graph.reg(access.reg);
  expect(task, !reg.boxes.empty(), "'{}' is scratch, and not to be read or written", reg.name);
  expect(task, access.boxes.size() <= 1 || static_cast<int>(access.boxes.size()) == task.rate,
         "{} boxes of '{}' for {} acts", access.boxes.size(), reg.name, task.rate);
  expect(task, !access.fresh || (reg.carried && !is_write), "'{}' has no new value to read", reg.name);
  expect(task, !is_write || !reg.constant, "writes '{}', which is constant", reg.name);
  if (reg.uses > 1)
    expect(task, task.rate == reg.uses || (!is_write && access.boxes.empty()),
           "acts {} times a step and '{}' has {} uses", task.rate, reg.name, reg.uses);
  if (is_write)
    expect(task, !reg.carried || task.rate == 1, "writes the carried '{}' {} times a step", reg.name, task.rate);
  if (is_write && task.rate > 1 && reg.uses == 1)
    expect(task, reg.accumulated, "writes '{}' {} times a step, which is not accumulated", reg.name, task.rate);
  const bool transfer = std::holds_alternative<CopyWork>(task.work);
  if (reg.device != task.device)
    expect(task, transfer && !is_write && !task.route.empty(),
           "uses '{}' on another device; only a transfer with a route reads there", reg.name);
  for (int firing = 0; firing < task.rate; ++firing) {
    const Box& box = part(graph, access, task.rate, firing);
    expect(task, box.size() == reg.axes.size(), "box {} of '{}' has {} axes, not {}", to_string(box), reg.name,
           box.size(), reg.axes.size());
    expect(task, is_empty(box) || contains(held_box(graph, access, task.rate, firing), box),
           "box {} is not inside '{}', which holds {}", to_string(box), reg.name,
           to_string(held_box(graph, access, task.rate, firing)));
  }
}

void check_task(const PhysicalGraph& graph, const Task& task) {
  expect(task, has_device(graph, task.device), "device {} does not exist", task.device.value);
  expect(task, task.queue.valid() && task.queue.index() < graph.queues.size(), "queue {} does not exist",
         task.queue.value);
  expect(task, task.rate == 1 || task.rate == graph.micro_batches,
         "acts {} times a step, neither 1 nor the {} micro-batches", task.rate, graph.micro_batches);
  expect(task, task.flops >= 0 && task.bytes >= 0 && task.stage >= 0, "negative flops, bytes or stage");
  const Queue& queue = graph.queues[task.queue.index()];
  const bool is_collective = std::holds_alternative<CollectiveWork>(task.work);
  expect(task, is_collective == queue.is_static(), "queue '{}' is of the wrong kind", queue.name);
  if (queue.kind == QueueKind::kLink) {
    expect(task, std::holds_alternative<CopyWork>(task.work), "only transfers stand on a link's queue");
    expect(task, std::find(task.route.begin(), task.route.end(), queue.link) != task.route.end(),
           "its route does not pass the link of queue '{}'", queue.name);
  } else {
    expect(task, queue.device == task.device, "queue '{}' is another device's", queue.name);
  }
  for (const auto* accesses : {&task.reads, &task.writes})
    for (const Access& access : *accesses) check_access(graph, task, access, accesses == &task.writes);
  for (RegisterId id : task.scratch) {
    expect(task, id.valid() && id.index() < graph.registers.size(), "scratch register {} does not exist", id.value);
    const Register& reg = graph.reg(id);
    expect(task, reg.device == task.device && !reg.carried && !reg.constant && (reg.uses == 1 || reg.uses == task.rate),
           "'{}' cannot be its scratch", reg.name);
  }
  expect(task,
         !task.addend || (!task.scratch.empty() && graph.reg(task.scratch.back()).bytes >= addend_bytes(graph, task)),
         "has no scratch of {} bytes for what it adds", addend_bytes(graph, task));
}

// ---------------------------------------------------------------- every element that is read was written

// The parts that are written in a use.
std::vector<Box> parts_written(const PhysicalGraph& graph, const Writers& writers, RegisterId id, int use) {
  const Register& reg = graph.reg(id);
  std::vector<Box> parts;
  for (const Writer& w : writers[id.index()]) {
    const Task& task = graph.task(w.task);
    if (reg.uses > 1) parts.push_back(part(graph, *w.access, task.rate, use));
    else parts.push_back(part(graph, *w.access, task.rate, 0));
  }
  return parts;
}

// No element is written twice in a use, and what is carried is written whole.
void check_written(const PhysicalGraph& graph, const Writers& writers, RegisterId id) {
  const Register& reg = graph.reg(id);
  const auto& of_register = writers[id.index()];
  for (int use = 0; use < reg.uses; ++use) {
    const std::vector<Box> parts = parts_written(graph, writers, id, use);
    for (std::size_t i = 0; i < parts.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        expect(reg, is_empty(intersect(parts[i], parts[j])), "'{}' and '{}' both write {}",
               graph.task(of_register[j].task).name, graph.task(of_register[i].task).name,
               to_string(intersect(parts[i], parts[j])));
    if (!reg.carried) continue;
    const auto left = without(reg.box(0), parts);
    expect(reg, left.empty(), "is carried into the next step, and nothing writes {}",
           left.empty() ? "" : to_string(left[0]));
  }
}

void check_covered(const PhysicalGraph& graph, const Writers& writers, const Task& task, const Access& read) {
  const Register& reg = graph.reg(read.reg);
  if (reg.constant || (reg.carried && !read.fresh)) return;
  for (int firing = 0; firing < task.rate; ++firing) {
    const UseRange uses = uses_of(reg, task.rate, firing, read.fresh);
    for (int use = uses.first; use < uses.last; ++use) {
      const Box& wanted = uses.last - uses.first > 1 ? reg.box(use) : part(graph, read, task.rate, firing);
      const auto left = without(wanted, parts_written(graph, writers, read.reg, reg.carried ? 0 : use));
      expect(task, left.empty(), "reads {} of '{}', of which nothing writes {}", to_string(wanted), reg.name,
             left.empty() ? "" : to_string(left[0]));
    }
  }
}

void check_order_and_edges(const PhysicalGraph& graph) {
  const NodeTable table = number_nodes(graph);
  places(graph, table);
  for (const Edge& edge : graph.edges)
    for (const Node& node : {edge.from, edge.to})
      if (!node.task.valid() || node.task.index() >= graph.tasks.size() || node.firing < 0 ||
          node.firing >= graph.task(node.task).rate || table.nodes[table.number(node)] != node)
        fail("physical graph '{}': an edge names task {} act {}, which is not a node", graph.name, node.task.value,
             node.firing);
}

}  // namespace

void check_fields(const PhysicalGraph& graph) {
  check_queues(graph);
  check_registers(graph);
  check_names(graph);
  for (const Task& task : graph.tasks) check_task(graph, task);
}

void check_coverage(const PhysicalGraph& graph, const Writers& writers) {
  for (std::size_t r = 0; r < graph.registers.size(); ++r) check_written(graph, writers, RegisterId(r));
  for (const Task& task : graph.tasks)
    for (const Access& read : task.reads) check_covered(graph, writers, task, read);
}

}  // namespace verifying

void verify(const PhysicalGraph& graph) {
  verifying::check_fields(graph);
  verifying::Writers writers(graph.registers.size());
  for (std::size_t t = 0; t < graph.tasks.size(); ++t)
    for (const Access& write : graph.tasks[t].writes) writers[write.reg.index()].push_back({TaskId(t), &write});
  verifying::check_kernels(graph);
  verifying::check_work(graph, writers);
  verifying::check_coverage(graph, writers);
  check_shares(graph);
  if (!graph.order.empty()) verifying::check_order_and_edges(graph);
}

}  // namespace partita
