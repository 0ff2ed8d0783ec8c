// Small graphs for the runtime: chains of empty kernels, collectives after one another, copies.
#include "partita/measure/probes.h"

#include <algorithm>
#include <memory>

#include "partita/base/error.h"
#include "partita/graph/builder.h"
#include "partita/ops/ops.h"
#include "partita/runtime/run.h"
#include "partita/train/dataset.h"
#include "partita/train/feed.h"

namespace partita {

namespace {

constexpr double kLeastBytes = 1024, kMostBytes = 64 << 20;
constexpr double kMostFed = 4 << 20;  // of loads and outputs, whose numbers take long to draw
constexpr int kChain = 500;           // tasks of a graph that measures overheads
constexpr int kRepeated = 8;          // collectives or copies of a graph, one after another
constexpr int kRuns = 15;             // of overheads
constexpr int kSteps = 20;            // of a run, so that its own beginning hardly counts
constexpr double kSecondsOfProbe = 0.15;

class NoKernels final : public Kernels {
 public:
  void run(const KernelCall&) override {}
};

// A graph of `devices` devices with a compute queue and a collective queue each, in the order in which tasks are added;
// each task waits for the one before it.
class ChainBuilder {
 public:
  explicit ChainBuilder(int devices) {
    graph.name = "probe";
    graph.device_count = graph.compute_count = devices;
    graph.peak_bytes.assign(static_cast<size_t>(devices), 0);
    for (const QueueKind kind : {QueueKind::kCompute, QueueKind::kCollective})
      for (int d = 0; d < devices; ++d)
        graph.queues.push_back({kind, DeviceId(d), {}, fmt::format("{}.{}", d, static_cast<int>(kind))});
  }

  RegisterId reg(int device, const Box& box, const Shape& axes) {
    Register reg;
    reg.name = fmt::format("r{}", graph.registers.size());
    reg.device = DeviceId(device);
    reg.axes = axes;
    reg.boxes = {box};
    reg.bytes = volume(box) * bytes_of(reg.dtype);
    reg.offset = graph.peak_bytes[static_cast<size_t>(device)];
    graph.peak_bytes[static_cast<size_t>(device)] += reg.stride_bytes();
    graph.registers.push_back(reg);
    return RegisterId(graph.registers.size() - 1);
  }
  // A task on a queue of the graph that is next in order; the participants of a collective are next together.
  void add(Task task, int queue) {
    task.name = fmt::format("t{}", graph.tasks.size());
    task.op = OpId(graph.tasks.size());
    task.queue = QueueId(queue);
    task.device = graph.queues[static_cast<size_t>(queue)].device;
    const auto* collective = std::get_if<CollectiveWork>(&task.work);
    const bool joins = collective && collective->rank > 0;
    const Node node{TaskId(graph.tasks.size()), 0};
    graph.tasks.push_back(std::move(task));
    if (joins) return;
    if (!graph.order.empty()) graph.edges.push_back({graph.order.back(), node, false, EdgeKind::kData});
    graph.order.push_back(node);
  }

  PhysicalGraph graph;
};

// What each of so many tasks takes, which fill the step; steps follow one another.
Measured timed_steps(PhysicalGraph graph, int tasks, const TimingOptions& options) {
  graph.edges.push_back({graph.order.back(), graph.order.front(), true, EdgeKind::kData});
  const Memory memory(graph);
  NoKernels none;
  Hooks hooks;
  hooks.kernels = &none;
  const Acts acts = prepare_acts(memory, &none);
  Measured step = timed([&](int) { run_threads(acts, hooks, {.steps = kSteps, .trace = false}); }, 1, options);
  step.us /= tasks * kSteps;
  step.spread_us /= tasks * kSteps;
  return step;
}

double chain_us(int devices) {
  ChainBuilder b(devices);
  for (int i = 0; i < kChain; ++i) {
    Task task;
    task.work = KernelWork{};
    b.add(std::move(task), i % devices);
  }
  return timed_steps(std::move(b.graph), kChain, {.seconds = 0, .least_runs = kRuns, .cores = 1}).us;
}

// What each participant of a collective of `elements` holds and gets, of a tensor of n rows and some columns.
struct Parts {
  Box held, got;
};
Parts parts_of(StepKind kind, int rank, int n, int64_t rows, int64_t columns) {
  const Interval all_rows{0, rows}, all_columns{0, columns};
  const Interval my_rows = cut(rows, n, rank), my_columns = cut(columns, n, rank);
  switch (kind) {
    case StepKind::kAllGather:
      return {{my_rows, all_columns}, {all_rows, all_columns}};
    case StepKind::kReduceScatter:
      return {{all_rows, all_columns}, {my_rows, all_columns}};
    case StepKind::kAllToAll:
      return {{my_rows, all_columns}, {all_rows, my_columns}};
    default:
      return {{all_rows, all_columns}, {all_rows, all_columns}};
  }
}

// What a participant sends of a tensor of one byte, as lowering counts it.
double sent_part(StepKind kind, int n) {
  const double part = (n - 1.0) / n;
  if (kind == StepKind::kAllReduce) return 2 * part;
  return kind == StepKind::kAllToAll ? part / n : part;
}

Measured measure_collective(StepKind kind, int n, double bytes, const TimingOptions& options) {
  const int64_t rows = 64, columns = std::max<int64_t>(n, static_cast<int64_t>(bytes / sent_part(kind, n) / 4 / 64));
  const bool partial = kind == StepKind::kAllReduce || kind == StepKind::kReduceScatter;
  ChainBuilder b(n);
  std::vector<RegisterId> held, got;
  for (int r = 0; r < n; ++r) {
    const Parts parts = parts_of(kind, r, n, rows, columns);
    held.push_back(b.reg(r, parts.held, {rows, columns}));
    got.push_back(b.reg(r, parts.got, {rows, columns}));
  }
  for (int i = 0; i < kRepeated; ++i)
    for (int r = 0; r < n; ++r) {
      Task task;
      task.work = CollectiveWork{kind, CollectiveId(i), r, n, partial, tdl::Reducer::kSum};
      task.reads = {{held[static_cast<size_t>(r)]}};
      task.writes = {{got[static_cast<size_t>(r)]}};
      b.add(std::move(task), n + r);
    }
  return timed_steps(std::move(b.graph), kRepeated, options);
}

// From one device to the other, at the reader; or on one device.
Measured measure_copy(double bytes, const TimingOptions& options) {
  const Shape axes = {static_cast<int64_t>(bytes / 4)};
  std::vector<std::byte> from_bytes(static_cast<size_t>(axes[0]) * 4), to_bytes(from_bytes.size());
  return timed(
      [&](int) {
        const View from{from_bytes.data(), DType::kFloat32, full_box(axes), {1}, axes};
        copy_box(from, {to_bytes.data(), DType::kFloat32, full_box(axes), {1}, axes});
      },
      1, options);
}

// As the training loop does: samples are drawn from a data set, or an output is taken.
struct Feeding {
  explicit Feeding(double bytes) : columns(std::max<int64_t>(1, static_cast<int64_t>(bytes / 4 / kRows))) {
    GraphBuilder build("probe", standard_ops());
    const TensorId x = build.input("x", {kRows, columns}, DType::kFloat32);
    build.graph().outputs = {x};
    graph = build.graph();
    data = std::make_unique<Dataset>(Dataset::synthetic(graph, 1));
    Feed feed;
    std::vector<int64_t> items;
    for (int64_t i = 0; i < kRows; ++i) items.push_back(i);
    feed.load = [this, items](TensorId input, int64_t) { return data->take(graph, input, items); };
    feed.keep = [](TensorId, int64_t, const Values&) {};
    hooks = hooks_of(graph, std::move(feed), kernels, 1);
    bytes_.resize(static_cast<size_t>(kRows * columns * 4));
    view = {
        bytes_.data(), DType::kFloat32, full_box({kRows, columns}), dense_strides({kRows, columns}), {kRows, columns}};
  }
  static constexpr int64_t kRows = 32;
  int64_t columns;
  Graph graph;
  std::unique_ptr<Dataset> data;
  NoKernels kernels;
  Hooks hooks;
  std::vector<std::byte> bytes_;
  View view;
};

Measured measure_load(double bytes, const TimingOptions& options) {
  const Feeding feeding(bytes);
  return timed([&](int) { feeding.hooks.load(feeding.graph.inputs[0], 0, feeding.view); }, 1, options);
}

Measured measure_output(double bytes, const TimingOptions& options) {
  const Feeding feeding(bytes);
  return timed([&](int) { feeding.hooks.take(feeding.graph.outputs[0], 0, feeding.view); }, 1, options);
}

}  // namespace

Overheads measure_overheads() {
  Overheads overheads;
  overheads.task_us = chain_us(1);
  overheads.message_us = std::max(0.0, chain_us(2) - overheads.task_us);
  return overheads;
}

std::vector<Probe> probes(int devices, const TimingOptions& options) {
  TimingOptions each = options;
  each.seconds = std::min(options.seconds, kSecondsOfProbe);
  std::vector<Probe> all;
  for (double bytes = kLeastBytes; bytes <= kMostBytes; bytes *= 4) {
    for (int n = 2; n <= devices; ++n)
      for (const StepKind kind :
           {StepKind::kAllReduce, StepKind::kAllGather, StepKind::kReduceScatter, StepKind::kAllToAll})
        all.push_back(
            {{std::string(name_of(kind)), n}, bytes, [=] { return measure_collective(kind, n, bytes, each); }});
    for (const char* copy : {"copy", "transfer"})
      all.push_back({{copy, 0}, bytes, [=] { return measure_copy(bytes, each); }});
    if (bytes > kMostFed) continue;
    all.push_back({{"load", 0}, bytes, [=] { return measure_load(bytes, each); }});
    all.push_back({{"output", 0}, bytes, [=] { return measure_output(bytes, each); }});
  }
  return all;
}

}  // namespace partita
