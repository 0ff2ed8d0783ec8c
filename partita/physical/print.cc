// Prints a PhysicalGraph as text that parse.cc reads: one line a queue, register, edge; a task with its work and
// accesses below it. Ids are places. Names with spaces or special characters stand in double quotes.
#include <fmt/format.h>

#include <map>
#include <tuple>

#include "partita/base/error.h"
#include "partita/physical/text.h"

namespace partita {
namespace {

std::string quoted(const std::string& name) {
  if (!name.empty() && name.find_first_of(" \t\n\"\\#|") == std::string::npos && name != "-") return name;
  std::string result = "\"";
  for (char c : name) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') result += "\\n";
    else result += c;
  }
  return result + '"';
}

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

std::string boxes_text(const std::vector<Box>& boxes) {
  std::string result;
  for (const Box& box : boxes) result += " " + to_string(box);
  return result;
}

std::string node_text(const PhysicalGraph& graph, const Node& node) {
  const Task& task = graph.task(node.task);
  return task.rate == 1 ? quoted(task.name) : fmt::format("{}#{}", quoted(task.name), node.firing);
}

// The bound formulas of all kernels, equal ones once.
struct Formulas {
  using Key = std::tuple<std::string, std::vector<Shape>, tdl::Attributes>;
  std::map<Key, int> number;
  std::vector<Key> keys;

  static Key key(const KernelWork& work) {
    std::vector<Shape> shapes;
    for (int i = 0; i < work.bound->operand_count; ++i) shapes.push_back(work.bound->tensors[i].shape);
    return {work.bound->text, shapes, work.attributes};
  }
  void add(const KernelWork& work) {
    if (!work.bound) return;
    const Key k = key(work);
    if (number.try_emplace(k, static_cast<int>(keys.size())).second) keys.push_back(k);
  }
};

struct Printer {
  const PhysicalGraph& graph;
  Formulas formulas;
  std::string out;

  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
  }

  void print() {
    for (const Task& task : graph.tasks)
      if (const auto* work = std::get_if<KernelWork>(&task.work)) formulas.add(*work);
    put("physical {}\nmicro_batches {}\ndevices {} compute {}\n", quoted(graph.name), graph.micro_batches,
        graph.device_count, graph.compute_count);
    for (std::size_t i = 0; i < formulas.keys.size(); ++i) formula(i);
    for (const Queue& queue : graph.queues)
      put("queue {} {} {}\n", quoted(queue.name), text::kQueueKinds.of(queue.kind),
          queue.kind == QueueKind::kLink ? queue.link.value : queue.device.value);
    for (const Register& reg : graph.registers) print(reg);
    for (const Task& task : graph.tasks) print(task);
    order();
    for (const Edge& edge : graph.edges)
      put("edge {} -> {} {}{}\n", node_text(graph, edge.from), node_text(graph, edge.to),
          text::kEdgeKinds.of(edge.kind), edge.next ? " next" : "");
    if (!graph.peak_bytes.empty()) put("peak_bytes {}\n", fmt::join(graph.peak_bytes, " "));
  }

  void formula(std::size_t i) {
    const auto& [text, shapes, attributes] = formulas.keys[i];
    put("formula {} shapes", i);
    for (const Shape& shape : shapes) put(" {}", shape_text(shape));
    if (!attributes.empty()) put(" attributes");
    for (const auto& [name, value] : attributes) put(" {}={}", name, value);
    put("\n");
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      put("  {}\n", text.substr(at, end - at));
      at = end + 1;
    }
  }

  void print(const Register& reg) {
    put("register {} device {}", quoted(reg.name), reg.device.value);
    if (reg.tensor.valid()) put(" tensor {}", reg.tensor.value);
    put(" {} axes {} box{} bytes {} offset {} count {} uses {}", text::kDTypes.of(reg.dtype), shape_text(reg.axes),
        boxes_text(reg.boxes), reg.bytes, reg.offset, reg.count, reg.uses);
    put("{}{}{}{}\n", reg.carried ? " carried" : "", reg.constant ? " constant" : "",
        reg.accumulated ? " accumulated" : "", reg.term < 0 ? std::string() : fmt::format(" term {}", reg.term));
  }

  void print(const Task& task) {
    put("task {}", quoted(task.name));
    if (task.op.valid()) put(" op {}", task.op.value);
    put(" {} device {} queue {} rate {} stage {} turn {} flops {} bytes {}{}\n", text::kPhases.of(task.phase),
        task.device.value, quoted(graph.queues[task.queue.index()].name), task.rate, task.stage,
        text::kTurns.of(task.turn), task.flops, task.bytes, task.elementwise ? " elementwise" : "");
    std::visit([&](const auto& work) { print(work); }, task.work);
    if (!task.route.empty()) {
      put("  route");
      for (LinkId link : task.route) put(" {}", link.value);
      put("\n");
    }
    for (const Access& access : task.reads) print("read", access);
    for (const Access& access : task.writes) print("write", access);
    for (size_t i = 0; i < task.scratch.size(); ++i)
      put("  {} {}\n", task.addend && i + 1 == task.scratch.size() ? "addend" : "scratch",
          quoted(graph.reg(task.scratch[i]).name));
  }

  void print(const char* what, const Access& access) {
    put("  {} {}", what, quoted(graph.reg(access.reg).name));
    if (access.fresh) put(" fresh");
    if (access.tensor >= 0) put(" as {}", access.tensor);
    if (!access.boxes.empty()) put(" box{}", boxes_text(access.boxes));
    put("\n");
  }

  void print(const KernelWork& work) {
    put("  kernel {} formula {} stages {} {} stream {}\n", quoted(work.definition),
        work.bound ? std::to_string(formulas.number.at(Formulas::key(work))) : "-", work.first_stage, work.last_stage,
        work.random_stream);
    for (const auto& ranges : work.ranges) put("  ranges {}\n", to_string(Box(ranges)));
  }
  void print(const CopyWork&) { put("  copy\n"); }
  void print(const CombineWork& work) { put("  combine {}\n", text::kReducers.of(work.reducer)); }
  void print(const CollectiveWork& work) {
    put("  collective {} {} rank {} of {}", work.collective.value, text::kSteps.of(work.kind), work.rank, work.size);
    put("{}\n", work.partial ? fmt::format(" partial {}", text::kReducers.of(work.reducer)) : std::string());
  }
  void print(const LoadWork& work) { put("  load {}\n", work.input.value); }
  void print(const OutputWork& work) { put("  output {}\n", work.output.value); }

  void order() {
    if (graph.order.empty()) return;
    put("order\n");
    constexpr std::size_t kWidth = 120;
    std::string line = " ";
    for (const Node& node : graph.order) {
      const std::string name = node_text(graph, node);
      if (line.size() + 1 + name.size() > kWidth && line.size() > 1) {
        put("{}\n", line);
        line = " ";
      }
      line += " " + name;
    }
    put("{}\n", line);
  }
};

}  // namespace

std::string print(const PhysicalGraph& graph) {
  Printer printer{graph, {}, {}};
  printer.print();
  return printer.out;
}

}  // namespace partita
