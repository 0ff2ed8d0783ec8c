// Builds and runs small graphs for the runtime: chains of empty kernels, collectives after one another, copies.
#include "partita/measure/probes.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>

#include "partita/base/align.h"
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
constexpr int kChain = 64;            // tasks of a graph that measures overheads
constexpr int kRepeated = 4;
constexpr int kSteps = 10;       // of a run at most
constexpr double kLate = 1.6;    // times as long, on every second device
constexpr double kSpinUs = 100;  // of a kernel: so long other threads sleep, as they do in a step
constexpr double kProbe = 6;     // times as long as a kernel is timed, is a probe
constexpr double kLongest = 4;   // times as long as asked, until a probe has its runs
constexpr int64_t kRows = 64;    // of the tensors that are moved

// Kernels that write their registers, and then go through memory for some time, so that the runtime finds caches as it
// does in a step: full of operands.
class SpinKernels final : public Kernels {
 public:
  explicit SpinKernels(double spin_us) : spin_us_(spin_us), swept_(spin_us > 0 ? kSwept : 0) {}
  void run(const KernelCall& call) override {
    const Clock::time_point from = Clock::now();
    for (const View& view : call.writes) fill_view(view, 1);
    // Devices do not end at once in a step: the first waits, and its thread sleeps, until the last has come.
    const double spin_us = spin_us_ * (call.task->device.value % 2 == 0 ? 1 : kLate);
    thread_local size_t at = 0;
    unsigned sum = 0;
    while (us_since(from) < spin_us)
      for (size_t line = 0; line < kLinesAtOnce; ++line, at = (at + kAlignBytes) % swept_.size())
        sum += static_cast<unsigned>(swept_[at]);
    sum_ = sum;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double us_since(Clock::time_point from) {
    return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
  }
  static constexpr size_t kSwept = 16 << 20, kLinesAtOnce = 64;
  double spin_us_;
  std::vector<std::byte> swept_;
  std::atomic<unsigned> sum_{0};  // so that the reads happen
};

// A graph of `devices` devices, each with a compute queue, a collective queue and a queue of transfers to it. Every
// task waits for those that were added last.
class ChainBuilder {
 public:
  explicit ChainBuilder(int devices) {
    graph.name = "probe";
    graph.device_count = graph.compute_count = devices;
    graph.peak_bytes.assign(static_cast<size_t>(devices), 0);
    for (const QueueKind kind : {QueueKind::kCompute, QueueKind::kCollective, QueueKind::kLink})
      for (int d = 0; d < devices; ++d) {
        const bool link = kind == QueueKind::kLink;
        graph.queues.push_back({kind, link ? DeviceId() : DeviceId(d), link ? LinkId(d) : LinkId(),
                                fmt::format("{}.{}", d, static_cast<int>(kind))});
      }
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
  // Tasks that run at once, each on one of `graph.queues`; the participants of a collective are one node.
  void add(std::vector<std::pair<Task, int>>&& together) {
    std::vector<Node> nodes;
    for (auto& [task, queue] : together) {
      const TaskId id(graph.tasks.size());
      task.name = fmt::format("t{}", id.value);
      task.op = OpId(id.value);
      task.queue = QueueId(queue);
      task.device = DeviceId(queue % graph.device_count);
      const auto* collective = std::get_if<CollectiveWork>(&task.work);
      graph.tasks.push_back(std::move(task));
      if (!collective || std::get<CollectiveWork>(graph.tasks.back().work).rank == 0) nodes.push_back({id, 0});
    }
    for (const Node& node : nodes) {
      for (const Node& before : last_) graph.edges.push_back({before, node, false, EdgeKind::kData});
      graph.order.push_back(node);
    }
    if (first_.empty()) first_ = nodes;
    last_ = std::move(nodes);
  }
  // The first tasks wait for the last of the step before.
  void close() {
    for (const Node& before : last_)
      for (const Node& node : first_)
        if (before != node) graph.edges.push_back({before, node, true, EdgeKind::kData});
  }

  PhysicalGraph graph;

 private:
  std::vector<Node> first_, last_;
};

// Collectives or copies of a graph, one after another.
int repeated(double bytes) {
  constexpr double kMany = 4 << 20;
  return bytes > kMany ? 1 : kRepeated;
}

// A kernel that writes these registers, all of one shape of two axes.
Task kernel(const PhysicalGraph& graph, const std::vector<RegisterId>& writes) {
  KernelWork work;
  work.definition = "probe";
  if (!writes.empty())
    work.bound = std::make_shared<const tdl::Bound>(tdl::bind("probe(a)[i, j] = a[i, j]", {graph.reg(writes[0]).axes}));
  work.last_stage = 1;
  work.ranges = {{}};
  Task task;
  for (RegisterId reg : writes) {
    Access access{reg};
    access.tensor = 1;
    task.writes.push_back(access);
  }
  task.work = std::move(work);
  return task;
}

// Runs the graph for about so long, and reads each step's times. Events are of whole runs of a few steps.
template <typename See>
void run_probe(ChainBuilder& b, Kernels& kernels, const TimingOptions& options, const See& see) {
  b.close();
  const Memory memory(b.graph);
  Hooks hooks;
  hooks.kernels = &kernels;
  const Firings firings = prepare_firings(memory, &kernels);
  const auto began = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(); };
  run_threads(firings, hooks, {.steps = 1, .trace = false});
  const auto steps = std::clamp<int64_t>(static_cast<int64_t>(options.seconds / seconds()), 1, kSteps);
  // A long graph is run once.
  const auto goes_on = [&](int runs) {
    if (runs == 0 || options.stopped()) return runs == 0;
    return seconds() < options.seconds || (runs < options.least_runs && seconds() < kLongest * options.seconds);
  };
  for (int runs = 0; goes_on(runs); ++runs) see(run_threads(firings, hooks, {.steps = steps, .trace = true}).trace);
}

// The mean of the middle half: times of two kinds (a thread that is awake, one that sleeps) add up by their mean.
double middle_mean(std::vector<double> us) {
  std::sort(us.begin(), us.end());
  const size_t first = us.size() / 4, last = us.size() - us.size() / 4;
  double sum = 0;
  for (size_t i = first; i < last; ++i) sum += us[i];
  return sum / static_cast<double>(last - first);
}

// Durations of the `wanted` tasks, in order of their start, and the gap before each: since all that it waits for had
// ended.
struct Seen {
  std::vector<double> us, gap_us;
};
template <typename Wanted>
Seen seen_by(ChainBuilder& b, Kernels& kernels, const TimingOptions& options, const Wanted& wanted) {
  Seen seen;
  run_probe(b, kernels, options, [&](const Trace& trace) {
    std::map<std::pair<int, TaskId>, int64_t> ended;
    for (const Event& e : trace.events) ended[{e.step, e.task}] = e.end_ns;
    for (const Event& e : trace.events) {
      if (!wanted(b.graph.task(e.task))) continue;
      int64_t before = -1;
      for (const Edge& edge : b.graph.edges)
        if (edge.to.task == e.task)
          if (const auto found = ended.find({e.step - edge.next, edge.from.task}); found != ended.end())
            before = std::max(before, found->second);
      seen.us.push_back(static_cast<double>(e.end_ns - e.start_ns) / 1e3);
      if (before >= 0) seen.gap_us.push_back(static_cast<double>(e.start_ns - before) / 1e3);
    }
  });
  return seen;
}

// The operand and result of each participant in a collective of `elements`, for a tensor of n rows and some columns.
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

// The bytes that a participant sends of a tensor of one byte, as lowering counts them.
double sent_part(StepKind kind, int n) {
  const double part = (n - 1.0) / n;
  if (kind == StepKind::kAllReduce) return 2 * part;
  return kind == StepKind::kAllToAll ? part / n : part;
}

// A span goes from the end of the last kernel that makes an operand to the start of those that wait for the result. The
// messages before and after count by themselves.
void add_spans(const Trace& trace, const PhysicalGraph& graph, double message_us, CollectiveSpans& spans) {
  std::map<std::pair<int, TaskId>, Event> events;
  std::map<std::pair<int, CollectiveId>, double> quickest_us;  // of the participants
  for (const Event& e : trace.events) {
    events.emplace(std::pair(e.step, e.task), e);
    if (const auto* work = std::get_if<CollectiveWork>(&graph.task(e.task).work)) {
      const double us = static_cast<double>(e.end_ns - e.start_ns) / 1e3;
      double& least = quickest_us.emplace(std::pair(e.step, work->collective), us).first->second;
      least = std::min(least, us);
    }
  }
  for (const Event& e : trace.events) {
    const auto* work = std::get_if<CollectiveWork>(&graph.task(e.task).work);
    if (!work || work->rank != 0) continue;
    int64_t made = -1;
    double waiting = 0;
    int count = 0;
    for (const Edge& edge : graph.edges) {
      if (edge.to.task == e.task)
        if (const auto before = events.find({e.step - edge.next, edge.from.task}); before != events.end())
          made = std::max(made, before->second.end_ns);
      if (edge.from.task == e.task)
        if (const auto after = events.find({e.step + edge.next, edge.to.task}); after != events.end())
          waiting += static_cast<double>(after->second.start_ns), ++count;
    }
    if (made < 0 || count == 0) continue;
    spans.net_us.push_back((waiting / count - static_cast<double>(made)) / 1e3 - 2 * message_us);
    spans.own_us.push_back(quickest_us.at({e.step, work->collective}));
  }
}

// Measures between kernels that make the operands.
Measured measure_collective(StepKind kind, int n, double bytes, double message_us, const TimingOptions& options) {
  const int64_t columns = std::max<int64_t>(n, static_cast<int64_t>(bytes / sent_part(kind, n) / 4 / kRows));
  const bool partial = kind == StepKind::kAllReduce || kind == StepKind::kReduceScatter;
  ChainBuilder b(n);
  std::vector<RegisterId> held, got;
  for (int r = 0; r < n; ++r) {
    const Parts parts = parts_of(kind, r, n, kRows, columns);
    held.push_back(b.reg(r, parts.held, {kRows, columns}));
    got.push_back(b.reg(r, parts.got, {kRows, columns}));
  }
  const auto make = [&] {
    std::vector<std::pair<Task, int>> makers;
    for (int r = 0; r < n; ++r) makers.emplace_back(kernel(b.graph, {held[static_cast<size_t>(r)]}), r);
    b.add(std::move(makers));
  };
  for (int i = 0; i < repeated(bytes); ++i) {
    make();
    std::vector<std::pair<Task, int>> participants;
    for (int r = 0; r < n; ++r) {
      Task task;
      task.work = CollectiveWork{kind, CollectiveId(i), r, n, partial, tdl::Reducer::kSum};
      task.reads = {{held[static_cast<size_t>(r)]}};
      task.writes = {{got[static_cast<size_t>(r)]}};
      participants.emplace_back(std::move(task), n + r);
    }
    b.add(std::move(participants));
  }
  make();  // tasks that wait for the last of them
  SpinKernels spin(kSpinUs);
  CollectiveSpans spans;
  run_probe(b, spin, options, [&](const Trace& trace) { add_spans(trace, b.graph, message_us, spans); });
  return time_of(spans);
}

// Measures a copy of a kernel's result: to another device, on the queue of the link; or on the device's own queue.
Measured measure_copy(bool between, double bytes, const TimingOptions& options) {
  const int devices = between ? 2 : 1;
  const int64_t columns = std::max<int64_t>(1, static_cast<int64_t>(bytes / 4 / kRows));
  ChainBuilder b(devices);
  const Shape axes = {kRows, columns};
  const RegisterId from = b.reg(0, full_box(axes), axes), to = b.reg(devices - 1, full_box(axes), axes);
  for (int i = 0; i < repeated(bytes); ++i) {
    b.add({{kernel(b.graph, {from}), 0}});
    Task task;
    task.work = CopyWork{};
    task.reads = {{from}};
    task.writes = {{to}};
    b.add({{std::move(task), between ? 2 * devices + 1 : 0}});
  }
  SpinKernels spin(kSpinUs);
  return measured_of(
      seen_by(b, spin, options, [](const Task& t) { return std::holds_alternative<CopyWork>(t.work); }).us);
}

// Feeds as the training loop does: samples are drawn from a data set, or an output is taken.
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
    feed.load = [this, items](TensorId input, int64_t, Interval elements) {
      return data->take(graph, input, items, elements);
    };
    feed.keep = [](TensorId, int64_t, const Values&) {};
    hooks = hooks_of(graph, std::move(feed), kernels, 1);
    bytes_.resize(static_cast<size_t>(kRows * columns * 4));
    view = {
        bytes_.data(), DType::kFloat32, full_box({kRows, columns}), dense_strides({kRows, columns}), {kRows, columns}};
  }
  int64_t columns;
  Graph graph;
  std::unique_ptr<Dataset> data;
  SpinKernels kernels{0};
  Hooks hooks;
  std::vector<std::byte> bytes_;
  View view;
};

Measured measure_load(double bytes, const TimingOptions& options) {
  const Feeding feeding(bytes);
  return time_in_threads([&](int) { feeding.hooks.load(feeding.graph.inputs[0], 0, feeding.view); }, 1, options);
}

Measured measure_output(double bytes, const TimingOptions& options) {
  const Feeding feeding(bytes);
  return time_in_threads([&](int) { feeding.hooks.take(feeding.graph.outputs[0], 0, feeding.view); }, 1, options);
}

}  // namespace

Measured time_of(const CollectiveSpans& spans) {
  Measured measured = measured_of(spans.net_us);
  measured.us = std::max({1e-3, middle_mean(spans.net_us), middle_mean(spans.own_us)});
  return measured;
}

Overheads measure_overheads() {
  const TimingOptions options{.seconds = 0.1, .least_runs = 5, .cores = 1};
  const auto any = [](const Task&) { return true; };
  const auto chain = [](int devices) {
    ChainBuilder b(devices);
    std::vector<RegisterId> regs;
    for (int d = 0; d < devices; ++d) regs.push_back(b.reg(d, full_box({1, 1}), {1, 1}));
    for (int i = 0; i < kChain; ++i) b.add({{kernel(b.graph, {regs[static_cast<size_t>(i % devices)]}), i % devices}});
    return b;
  };
  Overheads overheads;
  SpinKernels none(0), spin(kSpinUs);
  ChainBuilder one = chain(1), two = chain(2);
  const Seen alone = seen_by(one, none, options, any), apart = seen_by(two, spin, options, any);
  const double between_us = measured_of(alone.gap_us).us;
  overheads.task_us = measured_of(alone.us).us + between_us;
  overheads.message_us = std::max(0.0, measured_of(apart.gap_us).us - between_us);
  return overheads;
}

std::vector<Probe> runtime_probes(int devices, double message_us, const TimingOptions& options) {
  TimingOptions each = options;
  each.seconds = kProbe * options.seconds;
  std::vector<Probe> all;
  for (double bytes = kLeastBytes; bytes <= kMostBytes; bytes *= 4) {
    for (int n = 2; n <= devices; ++n)
      for (const StepKind kind :
           {StepKind::kAllReduce, StepKind::kAllGather, StepKind::kReduceScatter, StepKind::kAllToAll})
        all.push_back({{std::string(name_of(kind)), n}, bytes, [=] {
                         return measure_collective(kind, n, bytes, message_us, each);
                       }});
    for (const bool between : {false, true})
      all.push_back({{between ? "transfer" : "copy", 0}, bytes, [=] { return measure_copy(between, bytes, each); }});
    if (bytes > kMostFed) continue;
    all.push_back({{"load", 0}, bytes, [=] { return measure_load(bytes, each); }});
    all.push_back({{"output", 0}, bytes, [=] { return measure_output(bytes, each); }});
  }
  return all;
}

}  // namespace partita
