#include "partita/physical/testing/builder.h"

#include "partita/base/error.h"

namespace partita::testing {

PhysicalBuilder::PhysicalBuilder(int devices, int micro_batches) : devices_(devices) {
  graph.name = "by hand";
  graph.micro_batches = micro_batches;
  graph.device_count = graph.compute_count = devices;
  for (int d = 0; d < devices; ++d)
    graph.queues.push_back({QueueKind::kCompute, DeviceId(d), {}, fmt::format("gpu{}.compute", d)});
  for (int d = 0; d < devices; ++d)
    graph.queues.push_back({QueueKind::kCollective, DeviceId(d), {}, fmt::format("gpu{}.collective.activations", d)});
  for (int d = 0; d < devices; ++d)
    graph.queues.push_back(
        {QueueKind::kParameterCollective, DeviceId(d), {}, fmt::format("gpu{}.collective.parameters", d)});
  for (int d = 0; d < devices; ++d)
    for (int e = 0; e < devices; ++e)
      graph.queues.push_back({QueueKind::kLink, {}, LinkId(d * devices + e), fmt::format("{}-{}", d, e)});
}

RegisterId PhysicalBuilder::reg(const std::string& name, int device, int64_t elements, int uses) {
  Register reg;
  reg.name = name;
  reg.device = DeviceId(device);
  reg.axes = {elements};
  reg.boxes = {full_box(reg.axes)};
  reg.bytes = elements * bytes_of(reg.dtype);
  reg.uses = uses;
  graph.registers.push_back(reg);
  return RegisterId(graph.registers.size() - 1);
}

RegisterId PhysicalBuilder::carried(const std::string& name, int device, int64_t elements) {
  const RegisterId id = reg(name, device, elements);
  graph.reg(id).carried = true;
  return id;
}

RegisterId PhysicalBuilder::constant(const std::string& name, int device, int64_t elements) {
  const RegisterId id = reg(name, device, elements);
  graph.reg(id).constant = true;
  return id;
}

TaskId PhysicalBuilder::push(Task task) {
  task.op = OpId(graph.tasks.size());
  graph.tasks.push_back(std::move(task));
  return TaskId(graph.tasks.size() - 1);
}

TaskId PhysicalBuilder::add(const std::string& name, int device, const std::vector<RegisterId>& reads,
                            const std::vector<RegisterId>& writes, int rate) {
  Task task;
  task.name = name;
  task.device = DeviceId(device);
  task.queue = QueueId(device);
  task.rate = rate;
  task.work = CombineWork{};
  for (RegisterId id : reads) task.reads.push_back({id});
  for (RegisterId id : writes) task.writes.push_back({id});
  return push(std::move(task));
}

TaskId PhysicalBuilder::copy(const std::string& name, RegisterId from, RegisterId to, int rate) {
  Task task;
  task.name = name;
  task.device = graph.reg(to).device;
  const std::size_t link = graph.reg(from).device.index() * devices_ + graph.reg(to).device.index();
  task.queue = QueueId(3 * devices_ + link);
  task.route = {LinkId(link)};
  task.rate = rate;
  task.turn = Task::Turn::kLazy;
  task.work = CopyWork{};
  task.bytes = graph.reg(to).bytes;
  task.reads = {{from}};
  task.writes = {{to}};
  return push(std::move(task));
}

std::vector<TaskId> PhysicalBuilder::all_reduce(const std::string& name, const std::vector<RegisterId>& reads,
                                                const std::vector<RegisterId>& writes, int rate, Of of) {
  std::vector<TaskId> result;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    Task task;
    task.device = graph.reg(reads[i]).device;
    task.name = fmt::format("{}@{}", name, task.device.value);
    task.queue = QueueId((of == Of::kParameters ? 2 : 1) * devices_ + task.device.index());
    const std::size_t next = graph.reg(reads[(i + 1) % reads.size()]).device.index();
    task.route = {LinkId(task.device.index() * devices_ + next)};
    task.rate = rate;
    task.turn = Task::Turn::kLazy;
    task.work = CollectiveWork{
        StepKind::kAllReduce, CollectiveId(collectives_), static_cast<int>(i), static_cast<int>(reads.size()), true,
        tdl::Reducer::kSum};
    task.reads = {{reads[i]}};
    task.writes = {{writes[i]}};
    result.push_back(push(std::move(task)));
  }
  ++collectives_;
  return result;
}

Node PhysicalBuilder::node(const std::string& task, int firing) const {
  for (std::size_t t = 0; t < graph.tasks.size(); ++t)
    if (graph.tasks[t].name == task) return node_of(graph, TaskId(t), firing);
  fail("no task '{}'", task);
}

PhysicalBuilder pipeline(int micro_batches, int ranks, int virtual_stages) {
  PhysicalBuilder b(ranks, micro_batches);
  const int stages = ranks * virtual_stages;
  const auto reg = [&](const char* name, int c) {
    return b.reg(fmt::format("{}{}", name, c), c % ranks, 16, micro_batches);
  };
  const auto stands = [&](TaskId id, int c, Phase phase) {
    b.graph.task(id).stage = c;
    b.graph.task(id).phase = phase;
  };
  // The register that virtual stage c reads of another, on its own device.
  const auto moved = [&](RegisterId from, const char* task, const char* name, int c, Phase phase) {
    if (b.graph.reg(from).device == DeviceId(c % ranks)) return from;
    const RegisterId to = reg(name, c);
    stands(b.copy(fmt::format("{}{}", task, c), from, to, micro_batches), c, phase);
    return to;
  };
  std::vector<RegisterId> kept(stages);
  for (int c = 0; c < stages; ++c) {
    std::vector<RegisterId> reads;
    if (c > 0) reads = {moved(kept[c - 1], "send", "in", c, Phase::kForward)};
    kept[c] = reg("act", c);
    stands(b.add(fmt::format("f{}", c), c % ranks, reads, {kept[c]}, micro_batches), c, Phase::kForward);
  }
  RegisterId gradient;
  for (int c = stages - 1; c >= 0; --c) {
    std::vector<RegisterId> reads{kept[c]};
    if (c + 1 < stages) reads.push_back(moved(gradient, "back", "gin", c, Phase::kBackward));
    gradient = reg("g", c);
    stands(b.add(fmt::format("b{}", c), c % ranks, reads, {gradient}, micro_batches), c, Phase::kBackward);
  }
  return b;
}

Cluster one_byte_a_ns(int devices) {
  Cluster cluster;
  cluster.compute_count = devices;
  cluster.devices.resize(devices);
  cluster.links.resize(devices * devices);
  for (int d = 0; d < devices; ++d) {
    Device& device = cluster.devices[d];
    device.name = fmt::format("gpu{}", d);
    for (DType dtype : {DType::kFloat32, DType::kFloat64}) device.peak_flops_per_s[dtype] = 1e9;
    device.memory_bandwidth_bytes_per_s = 1e9;
    device.memory_bytes = 1 << 20;
  }
  cluster.routes.climbs.resize(static_cast<size_t>(devices));
  for (int d = 0; d < devices; ++d)
    for (int e = 0; e < devices; ++e) {
      cluster.links[d * devices + e] = {fmt::format("{}-{}", d, e), 1e9, 0};
      if (d != e) cluster.routes.set(DeviceId(size_t(d)), DeviceId(size_t(e)), {LinkId(d * devices + e)});
    }
  return cluster;
}

void run_passes(PhysicalGraph& graph, const LowerOptions& options) {
  make_order(graph, options);
  make_counts(graph, options);
  plan_memory(graph, options);
  make_edges(graph);
}

}  // namespace partita::testing
