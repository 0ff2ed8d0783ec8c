// Reads what print.cc prints.
#include <charconv>
#include <cstdlib>
#include <unordered_map>

#include "partita/base/error.h"
#include "partita/physical/physical.h"
#include "partita/physical/text.h"

namespace partita {
namespace {

struct Token {
  std::string text;
  bool quoted = false;
  int act = -1;  // of NAME#ACT
};

// One line's tokens, read from left to right.
class Line {
 public:
  Line(std::string_view text, int number) : number_(number) {
    for (std::size_t at = 0;;) {
      at = text.find_first_not_of(" \t\r", at);
      if (at == std::string_view::npos) break;
      tokens_.push_back(read(text, at));
    }
  }

  int number() const { return number_; }
  bool empty() const { return tokens_.empty(); }
  bool done() const { return next_ == tokens_.size(); }
  const Token& peek() const {
    if (done()) error("ends too early");
    return tokens_[next_];
  }
  const Token& take() {
    const Token& token = peek();
    ++next_;
    return token;
  }
  bool take_if(std::string_view word) {
    if (done() || tokens_[next_].quoted || tokens_[next_].text != word) return false;
    ++next_;
    return true;
  }
  void expect(std::string_view word) {
    if (!take_if(word)) error("expected '{}'{}", word, done() ? std::string() : " before '" + peek().text + "'");
  }
  void finish() const {
    if (!done()) error("does not expect '{}' here", peek().text);
  }

  template <typename T = int64_t>
  T integer() {
    const std::string& text = take().text;
    T value{};
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || end != text.data() + text.size()) error("'{}' is not a whole number", text);
    return value;
  }
  double real() { return real(take().text); }
  double real(const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end) error("'{}' is not a number", text);
    return value;
  }
  int natural(std::string_view what) {
    const int64_t value = integer();
    if (value < 0 || value > 1'000'000'000) error("{} {} is out of range", what, value);
    return static_cast<int>(value);
  }
  template <typename E, std::size_t N>
  E one_of(const text::Words<E, N>& words, std::string_view what) {
    const std::string& text = take().text;
    for (const auto& [value, word] : words)
      if (word == text) return value;
    error("'{}' is no {}", text, what);
  }
  Shape shape() {
    const std::string text = take().text;
    if (text.size() < 2 || text.front() != '[' || text.back() != ']') error("'{}' is not a shape like [4,6]", text);
    Shape shape;
    for (const std::string& part : split(text.substr(1, text.size() - 2), ','))
      if (!part.empty()) shape.push_back(number_in(part, text));
    return shape;
  }
  bool at_box() const { return !done() && !tokens_[next_].quoted && tokens_[next_].text[0] == '['; }
  Box box() {
    const std::string text = take().text;
    Box box;
    if (text == "[]") return box;
    for (const std::string& part : split(text, 'x')) {
      const std::size_t comma = part.find(',');
      if (part.size() < 5 || part.front() != '[' || part.back() != ')' || comma == std::string::npos)
        error("'{}' is not a box like [0,4)x[2,3)", text);
      box.push_back({number_in(part.substr(1, comma - 1), text),
                     number_in(part.substr(comma + 1, part.size() - comma - 2), text)});
    }
    return box;
  }
  std::vector<Box> boxes() {
    std::vector<Box> result;
    while (at_box()) result.push_back(box());
    if (result.empty()) error("expected a box like [0,4)x[2,3)");
    return result;
  }

  template <typename... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    fail("physical graph, line {}: {}", number_, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  Token read(std::string_view text, std::size_t& at) const {
    Token token;
    if (text[at] == '"') {
      token.quoted = true;
      for (++at;; ++at) {
        if (at >= text.size()) error("a name in quotes does not end");
        if (text[at] == '"') break;
        if (text[at] == '\\' && at + 1 < text.size()) {
          ++at;
          token.text += text[at] == 'n' ? '\n' : text[at];
        } else {
          token.text += text[at];
        }
      }
      ++at;
    }
    const std::size_t end = std::min(text.find_first_of(" \t\r", at), text.size());
    std::string rest(text.substr(at, end - at));
    at = end;
    const std::size_t hash = rest.rfind('#');
    if (hash != std::string::npos) {
      const std::string act = rest.substr(hash + 1);
      if (act.empty() || act.size() > 8 || act.find_first_not_of("0123456789") != std::string::npos)
        error("'{}' is not an act", rest);
      token.act = std::stoi(act);
      rest.resize(hash);
    }
    token.text += rest;
    return token;
  }
  std::vector<std::string> split(const std::string& text, char separator) const {
    std::vector<std::string> parts(1);
    for (char c : text) {
      if (c == separator) parts.emplace_back();
      else parts.back() += c;
    }
    return parts;
  }
  int64_t number_in(const std::string& part, const std::string& whole) const {
    int64_t value = 0;
    const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (problem != std::errc() || end != part.data() + part.size())
      error("'{}' in '{}' is not a whole number", part, whole);
    return value;
  }

  int number_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
};

struct Formula {
  tdl::Attributes attributes;
  std::shared_ptr<const tdl::Bound> bound;
};

class Parser {
 public:
  explicit Parser(std::string_view text) {
    int number = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      lines_.emplace_back(text.substr(at, end - at), ++number);
      at = end + 1;
    }
  }

  PhysicalGraph parse() {
    Line first = line();
    first.expect("physical");
    graph_.name = first.take().text;
    first.finish();
    while (!done()) item();
    return std::move(graph_);
  }

 private:
  bool done() {
    while (next_ < lines_.size() && blank(lines_[next_].first)) ++next_;
    return next_ == lines_.size();
  }
  static bool blank(std::string_view text) {
    return text.find_first_not_of(" \t\r") == std::string_view::npos || text.starts_with("//");  // a remark
  }
  static bool indented(std::string_view text) { return !text.empty() && (text[0] == ' ' || text[0] == '\t'); }
  // The next line that is not blank.
  Line line() {
    if (done()) fail("physical graph: the text is empty");
    const auto& [text, number] = lines_[next_++];
    return Line(text, number);
  }
  // Whether an indented line follows.
  bool below() { return !done() && indented(lines_[next_].first); }

  void item() {
    Line l = line();
    const std::string word = l.take().text;
    if (word == "micro_batches") {
      graph_.micro_batches = l.natural("micro_batches");
    } else if (word == "devices") {
      graph_.device_count = l.natural("devices");
      l.expect("compute");
      graph_.compute_count = l.natural("devices");
    } else if (word == "formula") {
      formula(l);
    } else if (word == "queue") {
      queue(l);
    } else if (word == "register") {
      reg(l);
    } else if (word == "task") {
      task(l);
    } else if (word == "order") {
      l.finish();
      while (below()) {
        Line nodes = line();
        while (!nodes.done()) graph_.order.push_back(node(nodes));
      }
    } else if (word == "edge") {
      Edge edge;
      edge.from = node(l);
      l.expect("->");
      edge.to = node(l);
      edge.kind = l.one_of(text::kEdgeKinds, "kind of edge");
      edge.next = l.take_if("next");
      graph_.edges.push_back(edge);
    } else if (word == "peak_bytes") {
      while (!l.done()) graph_.peak_bytes.push_back(l.integer());
    } else {
      l.error(
          "'{}' begins no line; known are micro_batches, devices, formula, queue, register, task, order, edge, "
          "peak_bytes",
          word);
    }
    l.finish();
  }

  void formula(Line& l) {
    if (l.natural("formula") != static_cast<int>(formulas_.size())) l.error("formulas are numbered 0, 1, 2, ..");
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
    while (next_ < lines_.size() && indented(lines_[next_].first)) {
      const std::string_view line = lines_[next_++].first;
      text += (text.empty() ? "" : "\n") + std::string(line.substr(std::min<std::size_t>(2, line.size())));
    }
    if (text.empty()) l.error("its TDL text must follow on indented lines");
    try {
      formula.bound = std::make_shared<const tdl::Bound>(tdl::bind(text, shapes, formula.attributes));
    } catch (const Error& error) {
      l.error("formula: {}", error.what());
    }
    formulas_.push_back(std::move(formula));
  }

  void queue(Line& l) {
    Queue queue;
    queue.name = l.take().text;
    queue.kind = l.one_of(text::kQueueKinds, "kind of queue");
    const int at = l.natural(queue.kind == QueueKind::kLink ? "link" : "device");
    if (queue.kind == QueueKind::kLink) queue.link = LinkId(at);
    else queue.device = device(l, at);
    if (!queues_.try_emplace(queue.name, graph_.queues.size()).second)
      l.error("there is a queue '{}' already", queue.name);
    graph_.queues.push_back(queue);
  }

  DeviceId device(Line& l, int at) const {
    if (at >= graph_.device_count) l.error("device {} is not one of {}", at, graph_.device_count);
    return DeviceId(at);
  }

  void reg(Line& l) {
    Register reg;
    reg.name = l.take().text;
    l.expect("device");
    reg.device = device(l, l.natural("device"));
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
    if (!registers_.try_emplace(reg.name, graph_.registers.size()).second)
      l.error("there is a register '{}' already", reg.name);
    graph_.registers.push_back(std::move(reg));
  }

  void task(Line& l) {
    Task task;
    task.name = l.take().text;
    if (l.take_if("op")) task.op = OpId(l.natural("op"));
    task.phase = l.one_of(text::kPhases, "phase");
    l.expect("device");
    task.device = device(l, l.natural("device"));
    l.expect("queue");
    task.queue = QueueId(find(l, queues_, "queue"));
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
    if (!below()) l.error("the work of task '{}' must follow on an indented line", task.name);
    Line work_line = line();
    task.work = work(work_line);
    work_line.finish();
    while (below()) {
      Line part = line();
      const std::string word = part.take().text;
      auto* kernel = std::get_if<KernelWork>(&task.work);
      if (word == "ranges" && kernel) kernel->ranges.push_back(part.box());
      else if (word == "route")
        while (!part.done()) task.route.push_back(LinkId(part.natural("link")));
      else if (word == "read") task.reads.push_back(access(part));
      else if (word == "write") task.writes.push_back(access(part));
      else if (word == "scratch") task.scratch.push_back(RegisterId(find(part, registers_, "register")));
      else part.error("'{}' is no part of this task", word);
      part.finish();
    }
    if (!tasks_.try_emplace(task.name, graph_.tasks.size()).second) l.error("there is a task '{}' already", task.name);
    graph_.tasks.push_back(std::move(task));
  }

  Access access(Line& l) {
    Access access;
    access.reg = RegisterId(find(l, registers_, "register"));
    access.fresh = l.take_if("fresh");
    if (l.take_if("as")) access.tensor = l.natural("tensor");
    if (l.take_if("box")) access.boxes = l.boxes();
    return access;
  }

  Work work(Line& l) {
    const std::string word = l.take().text;
    if (word == "copy") return CopyWork{};
    if (word == "combine") return CombineWork{l.one_of(text::kReducers, "reducer")};
    if (word == "load") return LoadWork{TensorId(l.natural("tensor"))};
    if (word == "output") return OutputWork{TensorId(l.natural("tensor"))};
    if (word == "collective") {
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
    if (word == "kernel") {
      KernelWork work;
      work.definition = l.take().text;
      l.expect("formula");
      if (!l.take_if("-")) {
        const int number = l.natural("formula");
        if (number >= static_cast<int>(formulas_.size())) l.error("there is no formula {}", number);
        work.bound = formulas_[number].bound;
        work.attributes = formulas_[number].attributes;
      }
      l.expect("stages");
      work.first_stage = l.natural("stage");
      work.last_stage = l.natural("stage");
      l.expect("stream");
      work.random_stream = l.integer<uint64_t>();
      return work;
    }
    l.error("'{}' is no work; known are kernel, copy, combine, collective, load, output", word);
  }

  Node node(Line& l) const {
    const Token& token = l.take();
    const auto found = tasks_.find(token.text);
    if (found == tasks_.end()) l.error("there is no task '{}'", token.text);
    const Task& task = graph_.tasks[found->second];
    if (token.act < 0 && task.rate > 1)
      l.error("'{}' acts {} times a step: write {}#0, {}#1, ..", token.text, task.rate, token.text, token.text);
    if (token.act >= task.rate) l.error("'{}' has no act {}", token.text, token.act);
    return {TaskId(found->second), std::max(token.act, 0)};
  }

  std::size_t find(Line& l, const std::unordered_map<std::string, std::size_t>& names, const char* what) const {
    const std::string& name = l.take().text;
    const auto found = names.find(name);
    if (found == names.end()) l.error("there is no {} '{}'", what, name);
    return found->second;
  }

  std::vector<std::pair<std::string_view, int>> lines_;
  std::size_t next_ = 0;
  PhysicalGraph graph_;
  std::vector<Formula> formulas_;
  std::unordered_map<std::string, std::size_t> queues_, registers_, tasks_;
};

}  // namespace

PhysicalGraph parse_physical(std::string_view text) { return Parser(text).parse(); }

}  // namespace partita
