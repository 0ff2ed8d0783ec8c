// Reads the text that print.cc writes, which describes the form.
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "partita/base/error.h"
#include "partita/graph/graph.h"
#include "partita/graph/infer.h"
#include "partita/graph/micro_batches.h"
#include "partita/graph/words.h"

namespace partita {
namespace {

struct Token {
  std::string text;
  bool quoted = false;
  bool is(std::string_view s) const { return !quoted && text == s; }
};

// Splits a line into words, quoted strings, and the single characters ( ) , = @.
std::vector<Token> tokens_of(std::string_view line) {
  std::vector<Token> tokens;
  std::size_t i = 0;
  while (i < line.size()) {
    const char c = line[i];
    if (c == ' ' || c == '\t' || c == '\r') {
      ++i;
    } else if (std::strchr("(),=@", c)) {
      tokens.push_back({std::string(1, c)});
      ++i;
    } else if (c == '"') {
      std::size_t end = i + 1;
      while (end < line.size() && line[end] != '"') end += line[end] == '\\' ? 2 : 1;
      if (end >= line.size()) fail("a string without an end");
      const auto parsed = nlohmann::json::parse(line.substr(i, end + 1 - i), nullptr, false);
      if (!parsed.is_string()) fail("a string that is not written as in JSON: {}", line.substr(i, end + 1 - i));
      tokens.push_back({parsed.get<std::string>(), true});
      i = end + 1;
    } else {
      const std::size_t end = std::min(line.find_first_of(" \t\r(),=@\"", i), line.size());
      tokens.push_back({std::string(line.substr(i, end - i))});
      i = end;
    }
  }
  return tokens;
}

double parse_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end) fail("'{}' is not a number", text);
  return value;
}

int64_t integer(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const int64_t value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end || errno) fail("'{}' is not an integer", text);
  return value;
}

std::vector<std::string> split_text(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

// "4x3"; a scalar's is empty.
Shape parse_shape(const std::string& text) {
  Shape shape;
  if (!text.empty())
    for (const std::string& extent : split_text(text, 'x')) shape.push_back(integer(extent));
  return shape;
}

// "float32[4x3]"
std::pair<DType, Shape> parse_type(const std::string& text) {
  const std::size_t open = text.find('[');
  if (open == std::string::npos || text.back() != ']') fail("'{}' is not a type such as float32[4x3]", text);
  return {parse_dtype(text.substr(0, open)), parse_shape(text.substr(open + 1, text.size() - open - 2))};
}

template <typename T>
std::vector<double> from_hex(const std::string& text) {
  std::vector<double> values;
  std::string bytes;
  for (char c : text) {
    const char* digit = c ? std::strchr("0123456789abcdef", c) : nullptr;
    if (!digit) fail("'{}' is not a hexadecimal digit", c);
    bytes.push_back(static_cast<char>(digit - "0123456789abcdef"));
  }
  if (bytes.size() % (2 * sizeof(T))) fail("{} hexadecimal digits are not whole numbers", bytes.size());
  for (std::size_t i = 0; i < bytes.size(); i += 2 * sizeof(T)) {
    unsigned char raw[sizeof(T)];
    for (std::size_t b = 0; b < sizeof(T); ++b)
      raw[b] = static_cast<unsigned char>(bytes[i + 2 * b] << 4 | bytes[i + 2 * b + 1]);
    T value;
    std::memcpy(&value, raw, sizeof(T));
    values.push_back(value);
  }
  return values;
}

Values parse_values(const std::string& text, DType dtype, const Shape& shape) {
  Values values{.dtype = dtype, .shape = shape};
  const std::size_t n = static_cast<std::size_t>(volume(shape));
  const std::size_t colon = text.find(':');
  const std::string form = text.substr(0, colon), body = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (form == "splat") {
    if (is_float(dtype)) values.real.assign(n, parse_number(body));
    else values.integer.assign(n, integer(body));
  } else if (form == "list") {
    for (const std::string& item : split_text(body, ';')) {
      if (is_float(dtype)) values.real.push_back(parse_number(item));
      else values.integer.push_back(integer(item));
    }
  } else if (form == "f32") {
    values.real = from_hex<float>(body);
  } else if (form == "f64") {
    values.real = from_hex<double>(body);
  } else if (form != "none") {
    fail("values '{}' are none of none, splat:, list:, f32:, f64:", form);
  }
  if (values.real.size() + values.integer.size() != n)
    fail("{} values for a shape of {} elements", values.real.size() + values.integer.size(), n);
  return values;
}

// Reads a word of an enum; `what` is for the message.
template <auto last>
auto parse_word(const EnumWords<last>& words, const std::string& text, const char* what) {
  const auto value = words.find(text);
  if (!value) fail("unknown {} '{}'", what, text);
  return *value;
}

// Reads one line after another; tensors are known by name from the lines before.
class TextReader {
 public:
  explicit TextReader(std::shared_ptr<const OpRegistry> registry) { graph_.registry = std::move(registry); }

  void line(std::string_view text) {
    tokens_ = tokens_of(text);
    at_ = 0;
    if (tokens_.empty()) return;
    const std::string keyword = take();
    if (keyword == "graph") graph_.name = take();
    else if (keyword == "tensor") tensor();
    else if (keyword == "op") op();
    else if (keyword == "inputs")
      while (!done()) graph_.inputs.push_back(tensor_named(take()));
    else if (keyword == "outputs")
      while (!done()) graph_.outputs.push_back(tensor_named(take()));
    else if (keyword == "loss") graph_.loss = tensor_named(take());
    else if (keyword == "micro-batches") micro_batches_ = static_cast<int>(integer(take()));
    else fail("a line begins with graph, tensor, op, inputs, outputs, loss or micro-batches, not '{}'", keyword);
    if (!done()) fail("'{}' is too much", tokens_[at_].text);
  }

  Graph finish() { return in_micro_batches(graph_, micro_batches_); }

 private:
  bool done() const { return at_ == tokens_.size(); }
  bool peek(std::string_view text) const { return !done() && tokens_[at_].is(text); }
  std::string take() {
    if (done()) fail("the line ends too early");
    return tokens_[at_++].text;
  }
  void expect(std::string_view text) {
    if (!peek(text))
      fail("expected '{}' {}", text, done() ? "at the end" : fmt::format("before '{}'", tokens_[at_].text));
    ++at_;
  }
  TensorId tensor_named(const std::string& name) const {
    auto found = tensors_.find(name);
    if (found == tensors_.end()) fail("no tensor '{}' in the lines before", name);
    return found->second;
  }

  void tensor() {
    Tensor t;
    t.name = take();
    std::tie(t.dtype, t.shape) = parse_type(take());
    t.role = parse_word(kRoles, take(), "role");
    while (!done()) {
      const std::string key = take();
      expect("=");
      const std::string value = take();
      if (key == "same") t.same_as = tensor_named(value);
      else if (key == "sample") t.sample_axis = static_cast<int>(integer(value));
      else if (key == "replaces") t.replaces = tensor_named(value);
      else if (key == "bound") t.initial_bound = parse_number(value);
      else if (key == "fill") t.initial_fill = parse_number(value);
      else if (key == "values") t.values = std::make_shared<const Values>(parse_values(value, t.dtype, t.shape));
      else fail("a tensor has no '{}'", key);
    }
    if (!tensors_.emplace(t.name, TensorId(graph_.tensors.size())).second) fail("a second tensor '{}'", t.name);
    graph_.tensors.push_back(std::move(t));
  }

  void op() {
    Op op;
    op.name = take();
    expect("=");
    op.definition = take();
    expect("(");
    while (!peek(")")) {
      op.operands.push_back(tensor_named(take()));
      if (!peek(")")) expect(",");
    }
    expect(")");
    while (peek("@")) {
      expect("@");
      const std::string key = take();
      expect("=");
      op.attributes[key] = parse_number(take());
    }
    expect("->");
    op.results.push_back(tensor_named(take()));
    while (peek(",")) {
      expect(",");
      op.results.push_back(tensor_named(take()));
    }
    while (!done()) {
      const std::string key = take();
      expect("=");
      const std::string value = take();
      if (key == "phase") op.phase = parse_word(kPhases, value, "phase");
      else if (key == "forward") op.forward = op_named(value);
      else if (key == "step") op.time_step = static_cast<int>(integer(value));
      else if (key == "cell") op.cell = static_cast<int>(integer(value));
      else if (key == "device") op.device_type = parse_word(kDeviceTypes, value, "device type");
      else if (key == "colocation") op.colocation = value;
      else if (key == "module") op.source.module = value;
      else if (key == "at") op.source.location = value;
      else if (key == "formula") op.formula = value;
      else if (key.starts_with("factor:")) op.factors[key.substr(7)] = parse_shape(value);
      else fail("an op has no '{}'", key);
    }
    const OpId id(graph_.ops.size());
    for (TensorId result : op.results) {
      Tensor& t = graph_.tensor(result);
      if (t.producer.valid()) fail("'{}' is the result of two ops", t.name);
      t.producer = id;
    }
    bind(op);
    if (!ops_.emplace(op.name, id).second) fail("a second op '{}'", op.name);
    graph_.ops.push_back(std::move(op));
  }

  OpId op_named(const std::string& name) const {
    auto found = ops_.find(name);
    if (found == ops_.end()) fail("no op '{}' in the lines before", name);
    return found->second;
  }

  // Equal ops share one bound formula.
  void bind(Op& op) {
    std::string form = op.formula.empty() ? op.definition : op.formula;
    std::vector<Shape> shapes;
    for (TensorId id : op.operands) {
      shapes.push_back(graph_.tensor(id).shape);
      form += fmt::format(" {}", name_of(graph_.tensor(id).dtype));
    }
    auto& known = bound_[{form, shapes, op.attributes, op.factors}];
    if (!known) known = bind_op(graph_, op);
    op.bound = known;
  }

  Graph graph_;
  int micro_batches_ = 1;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::map<std::string, TensorId> tensors_;
  std::map<std::string, OpId> ops_;
  std::map<std::tuple<std::string, std::vector<Shape>, tdl::Attributes, std::map<std::string, Shape>>,
           std::shared_ptr<const tdl::Bound>>
      bound_;
};

}  // namespace

Graph parse_graph(std::string_view text, std::shared_ptr<const OpRegistry> registry) {
  TextReader reader(std::move(registry));
  std::size_t begin = 0;
  for (int number = 1; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    try {
      reader.line(text.substr(begin, end - begin));
    } catch (const Error& error) {
      if (error.code() != ExitCode::kBadInput) throw;
      fail("graph text, line {}: {}", number, error.what());
    }
    begin = end + 1;
  }
  Graph graph = reader.finish();
  verify(graph);
  return graph;
}

}  // namespace partita
