// Parses the text of PhysicalGraphs that print.cc prints.
#include <unordered_map>

#include "partita/base/error.h"
#include "partita/physical/physical.h"
#include "partita/physical/text.h"
#include "partita/physical/text_line.h"

namespace partita {
namespace {

using text::Line;
using text::Token;

struct Formula {
  tdl::Attributes attributes;
  std::shared_ptr<const tdl::Bound> bound;
};

// A text that is being read.
struct Parsing {
  std::vector<std::pair<std::string_view, int>> lines;  // with their numbers
  std::size_t next = 0;                                 // line
  PhysicalGraph graph;
  std::vector<Formula> formulas;
  std::unordered_map<std::string, std::size_t> queues, registers, tasks;  // by name: place in the graph
};

// ---------------------------------------------------------------- lines

bool blank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos || text.starts_with("//");  // a remark
}

bool indented(std::string_view text) { return !text.empty() && (text[0] == ' ' || text[0] == '\t'); }

bool done(Parsing& p) {
  while (p.next < p.lines.size() && blank(p.lines[p.next].first)) ++p.next;
  return p.next == p.lines.size();
}

// Returns the next line that is not blank.
Line next_line(Parsing& p) {
  if (done(p)) fail("physical graph: the text is empty");
  const auto& [text, number] = p.lines[p.next++];
  return Line(text, number);
}

// Tells whether an indented line follows.
bool is_below(Parsing& p) { return !done(p) && indented(p.lines[p.next].first); }

// ---------------------------------------------------------------- names

std::size_t find_named(Line& l, const std::unordered_map<std::string, std::size_t>& names, const char* what) {
  const std::string& name = l.take().text;
  const auto found = names.find(name);
  if (found == names.end()) l.error("there is no {} '{}'", what, name);
  return found->second;
}

Node read_node(const Parsing& p, Line& l) {
  const Token& token = l.take();
  const auto found = p.tasks.find(token.text);
  if (found == p.tasks.end()) l.error("there is no task '{}'", token.text);
  const Task& task = p.graph.tasks[found->second];
  if (token.firing < 0 && task.rate > 1)
    l.error("'{}' acts {} times a step: write {}#0, {}#1, ..", token.text, task.rate, token.text, token.text);
  if (token.firing >= task.rate) l.error("'{}' has no act {}", token.text, token.firing);
  return {TaskId(found->second), std::max(token.firing, 0)};
}

DeviceId read_device(const Parsing& p, Line& l, int at) {
  if (at >= p.graph.device_count) l.error("device {} is not one of {}", at, p.graph.device_count);
  return DeviceId(at);
}

// ---------------------------------------------------------------- items

void read_formula(Parsing& p, Line& l) {
  if (l.natural("formula") != static_cast<int>(p.formulas.size())) l.error("formulas are numbered 0, 1, 2, ..");
  l.expect("shapes");
  std::vector<Shape> shapes;
  while (l.at_box()) shapes.push_back(l.shape());
  Formula formula;
  if (l.take_if("attributes"))
    while (!l.done()) {
      const std::string text = l.take().text;
      const std::size_t equals = text.find('=');
      if (equals == std::string::npos) l.error("'{}' is not an attribute like stride=2", text);
      formula.attributes[text.substr(0, equals)] = l.real(text.substr(equals + 1));
    }
  std::string text;
  while (p.next < p.lines.size() && indented(p.lines[p.next].first)) {
    const std::string_view line = p.lines[p.next++].first;
    text += (text.empty() ? "" : "\n") + std::string(line.substr(std::min<std::size_t>(2, line.size())));
  }
  if (text.empty()) l.error("its TDL text must follow on indented lines");
  try {
    formula.bound = std::make_shared<const tdl::Bound>(tdl::bind(text, shapes, formula.attributes));
  } catch (const Error& error) {
    l.error("formula: {}", error.what());
  }
  p.formulas.push_back(std::move(formula));
}

void read_queue(Parsing& p, Line& l) {
  Queue queue;
  queue.name = l.take().text;
  queue.kind = l.one_of(text::kQueueKinds, "kind of queue");
  const int at = l.natural(queue.kind == QueueKind::kLink ? "link" : "device");
  if (queue.kind == QueueKind::kLink) queue.link = LinkId(at);
  else queue.device = read_device(p, l, at);
  if (!p.queues.try_emplace(queue.name, p.graph.queues.size()).second)
    l.error("there is a queue '{}' already", queue.name);
  p.graph.queues.push_back(queue);
}

void read_register(Parsing& p, Line& l) {
  Register reg;
  reg.name = l.take().text;
  l.expect("device");
  reg.device = read_device(p, l, l.natural("device"));
  if (l.take_if("tensor")) reg.tensor = TensorId(l.natural("tensor"));
  reg.dtype = l.one_of(text::kDTypes, "dtype");
  l.expect("axes");
  reg.axes = l.shape();
  l.expect("box");
  while (l.at_box()) reg.boxes.push_back(l.box());  // scratch has none
  l.expect("bytes");
  reg.bytes = l.integer();
  l.expect("offset");
  reg.offset = l.integer();
  l.expect("count");
  reg.count = l.natural("count");
  l.expect("uses");
  reg.uses = l.natural("uses");
  reg.carried = l.take_if("carried");
  reg.constant = l.take_if("constant");
  reg.accumulated = l.take_if("accumulated");
  if (l.take_if("term")) reg.term = l.natural("term");
  if (!p.registers.try_emplace(reg.name, p.graph.registers.size()).second)
    l.error("there is a register '{}' already", reg.name);
  p.graph.registers.push_back(std::move(reg));
}

Access read_access(const Parsing& p, Line& l) {
  Access access;
  access.reg = RegisterId(find_named(l, p.registers, "register"));
  access.fresh = l.take_if("fresh");
  if (l.take_if("as")) access.tensor = l.natural("tensor");
  if (l.take_if("box")) access.boxes = l.boxes();
  return access;
}

CollectiveWork read_collective(Line& l) {
  CollectiveWork work;
  work.collective = CollectiveId(l.natural("collective"));
  work.kind = l.one_of(text::kSteps, "kind of collective");
  l.expect("rank");
  work.rank = l.natural("rank");
  l.expect("of");
  work.size = l.natural("size");
  work.partial = l.take_if("partial");
  if (work.partial) work.reducer = l.one_of(text::kReducers, "reducer");
  return work;
}

KernelWork read_kernel(const Parsing& p, Line& l) {
  KernelWork work;
  work.definition = l.take().text;
  l.expect("formula");
  if (!l.take_if("-")) {
    const int number = l.natural("formula");
    if (number >= static_cast<int>(p.formulas.size())) l.error("there is no formula {}", number);
    work.bound = p.formulas[number].bound;
    work.attributes = p.formulas[number].attributes;
  }
  l.expect("stages");
  work.first_stage = l.natural("stage");
  work.last_stage = l.natural("stage");
  l.expect("stream");
  work.random_stream = l.integer<uint64_t>();
  return work;
}

Work read_work(const Parsing& p, Line& l) {
  const std::string word = l.take().text;
  if (word == "copy") return CopyWork{};
  if (word == "combine") return CombineWork{l.one_of(text::kReducers, "reducer")};
  if (word == "load") return LoadWork{TensorId(l.natural("tensor"))};
  if (word == "output") return OutputWork{TensorId(l.natural("tensor"))};
  if (word == "collective") return read_collective(l);
  if (word == "kernel") return read_kernel(p, l);
  l.error("'{}' is no work; known are kernel, copy, combine, collective, load, output", word);
}

// Reads the indented lines below a task and its work.
void read_task_parts(Parsing& p, Task& task) {
  while (is_below(p)) {
    Line part = next_line(p);
    const std::string word = part.take().text;
    auto* kernel = std::get_if<KernelWork>(&task.work);
    if (word == "ranges" && kernel) kernel->ranges.push_back(part.box());
    else if (word == "route")
      while (!part.done()) task.route.push_back(LinkId(part.natural("link")));
    else if (word == "read") task.reads.push_back(read_access(p, part));
    else if (word == "write") task.writes.push_back(read_access(p, part));
    else if (word == "scratch") task.scratch.push_back(RegisterId(find_named(part, p.registers, "register")));
    else if (word == "addend") {
      task.scratch.push_back(RegisterId(find_named(part, p.registers, "register")));
      task.addend = true;
    } else part.error("'{}' is no part of this task", word);
    part.finish();
  }
}

void read_task(Parsing& p, Line& l) {
  Task task;
  task.name = l.take().text;
  if (l.take_if("op")) task.op = OpId(l.natural("op"));
  task.phase = l.one_of(text::kPhases, "phase");
  l.expect("device");
  task.device = read_device(p, l, l.natural("device"));
  l.expect("queue");
  task.queue = QueueId(find_named(l, p.queues, "queue"));
  l.expect("rate");
  task.rate = l.natural("rate");
  l.expect("stage");
  task.stage = l.natural("stage");
  l.expect("turn");
  task.turn = l.one_of(text::kTurns, "turn");
  l.expect("flops");
  task.flops = l.real();
  l.expect("bytes");
  task.bytes = l.integer();
  task.elementwise = l.take_if("elementwise");
  if (!is_below(p)) l.error("the work of task '{}' must follow on an indented line", task.name);
  Line work_line = next_line(p);
  task.work = read_work(p, work_line);
  work_line.finish();
  read_task_parts(p, task);
  if (!p.tasks.try_emplace(task.name, p.graph.tasks.size()).second) l.error("there is a task '{}' already", task.name);
  p.graph.tasks.push_back(std::move(task));
}

void read_item(Parsing& p) {
  Line l = next_line(p);
  const std::string word = l.take().text;
  if (word == "micro_batches") {
    p.graph.micro_batches = l.natural("micro_batches");
  } else if (word == "devices") {
    p.graph.device_count = l.natural("devices");
    l.expect("compute");
    p.graph.compute_count = l.natural("devices");
  } else if (word == "formula") {
    read_formula(p, l);
  } else if (word == "queue") {
    read_queue(p, l);
  } else if (word == "register") {
    read_register(p, l);
  } else if (word == "task") {
    read_task(p, l);
  } else if (word == "order") {
    l.finish();
    while (is_below(p)) {
      Line nodes = next_line(p);
      while (!nodes.done()) p.graph.order.push_back(read_node(p, nodes));
    }
  } else if (word == "edge") {
    Edge edge;
    edge.from = read_node(p, l);
    l.expect("->");
    edge.to = read_node(p, l);
    edge.kind = l.one_of(text::kEdgeKinds, "kind of edge");
    edge.next = l.take_if("next");
    p.graph.edges.push_back(edge);
  } else if (word == "peak_bytes") {
    while (!l.done()) p.graph.peak_bytes.push_back(l.integer());
  } else {
    l.error(
        "'{}' begins no line; known are micro_batches, devices, formula, queue, register, task, order, edge, "
        "peak_bytes",
        word);
  }
  l.finish();
}

}  // namespace

PhysicalGraph parse_physical(std::string_view text) {
  Parsing p;
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    p.lines.emplace_back(text.substr(at, end - at), ++number);
    at = end + 1;
  }
  Line first = next_line(p);
  first.expect("physical");
  p.graph.name = first.take().text;
  first.finish();
  while (!done(p)) read_item(p);
  return std::move(p.graph);
}

}  // namespace partita
