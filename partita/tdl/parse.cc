// Lexer and recursive-descent parser of the grammar in docs/TDL.md, section 1.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include "partita/base/error.h"
#include "partita/tdl/functions.h"
#include "partita/tdl/syntax.h"

namespace partita::tdl {
namespace {

using Kind = Syntax::Kind;

enum class TokenKind { kNumber, kName, kDotted, kGroup, kSign, kEnd };  // kDotted: x.2

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // kDotted: the name; kGroup: without the dots
  double number = 0;
  int axis = 0;
  size_t at = 0;
  bool starts_line = false;  // the first of a line, outside all brackets
};

constexpr std::array<std::string_view, 7> kKeywords = {"if", "else", "and", "or", "not", "inf", "opaque"};
constexpr int kDeepest = 600;         // nested calls of the parser: 200 parentheses
constexpr size_t kShownBefore = 100;  // characters of the line that an error shows before the place
constexpr int kLongest = 1000;        // terms of one sum

bool is_keyword(std::string_view name) {
  return std::find(kKeywords.begin(), kKeywords.end(), name) != kKeywords.end();
}
bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }

std::vector<Token> tokens_of(const std::string& text) {
  std::vector<Token> tokens;
  size_t i = 0;
  int depth = 0;
  bool new_line = false;
  auto at = [&](size_t p) { return p < text.size() ? text[p] : '\0'; };
  while (i < text.size()) {
    const char c = text[i];
    if (c == '\n' || c == ';') {
      if (c == ';' && depth > 0) fail_at("", text, i, "a ';' inside brackets");
      new_line |= depth == 0;
      ++i;
      continue;
    }
    if (std::isspace(static_cast<unsigned char>(c))) {
      ++i;
      continue;
    }
    if (c == '#') {
      while (i < text.size() && text[i] != '\n') ++i;
      continue;
    }
    Token token;
    token.at = i;
    token.starts_line = new_line;
    new_line = false;
    if (is_digit(c)) {
      size_t end = i;
      while (is_digit(at(end))) ++end;
      if (at(end) == '.' && is_digit(at(end + 1))) {
        ++end;
        while (is_digit(at(end))) ++end;
      }
      if (at(end) == 'e' || at(end) == 'E') {
        size_t exponent = end + 1;
        if (at(exponent) == '+' || at(exponent) == '-') ++exponent;
        if (is_digit(at(exponent))) {
          while (is_digit(at(exponent))) ++exponent;
          end = exponent;
        }
      }
      token.kind = TokenKind::kNumber;
      token.text = text.substr(i, end - i);
      token.number = std::strtod(token.text.c_str(), nullptr);
      if (!std::isfinite(token.number)) fail_at("", text, i, "the number is too large");
      i = end;
    } else if (starts_name(c)) {
      size_t end = i;
      while (in_name(at(end))) ++end;
      token.kind = TokenKind::kName;
      token.text = text.substr(i, end - i);
      const bool negative = at(end) == '.' && at(end + 1) == '-' && is_digit(at(end + 2));
      if (negative || (at(end) == '.' && is_digit(at(end + 1)))) {
        size_t last = end + (negative ? 2 : 1);
        while (is_digit(at(last))) ++last;
        if (last - end > 5) fail_at("", text, i, "no tensor has that axis");
        token.kind = TokenKind::kDotted;
        token.axis = std::atoi(text.substr(end + 1, last - end - 1).c_str());
        end = last;
      }
      i = end;
    } else if (c == '.' && at(i + 1) == '.' && starts_name(at(i + 2))) {
      size_t end = i + 2;
      while (in_name(at(end))) ++end;
      token.kind = TokenKind::kGroup;
      token.text = text.substr(i + 2, end - i - 2);
      i = end;
    } else {
      static constexpr std::array<std::string_view, 21> kSigns = {"//", "->", "<=", ">=", "==", "!=", "-",
                                                                  "+",  "*",  "/",  "%",  "(",  ")",  "[",
                                                                  "]",  ",",  "<",  ">",  "=",  ":",  "^"};
      const std::string_view rest = std::string_view(text).substr(i);
      auto sign = std::find_if(kSigns.begin(), kSigns.end(), [&](std::string_view s) { return rest.starts_with(s); });
      if (sign == kSigns.end()) fail_at("", text, i, fmt::format("no formula has the character '{}'", c));
      token.kind = TokenKind::kSign;
      token.text = *sign;
      i += sign->size();
      if (*sign == "(" || *sign == "[") ++depth;
      if (*sign == ")" || *sign == "]") depth = std::max(0, depth - 1);
    }
    tokens.push_back(std::move(token));
  }
  Token end;
  end.at = text.find_last_not_of(" \t\r\n;") + 1;
  end.starts_line = true;
  tokens.push_back(end);
  return tokens;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), tokens_(tokens_of(text_)) {}

  Definition definition() {
    Definition d;
    d.text = text_;
    d.name = name_ = name("a name");
    take("(");
    while (!peek(")")) {
      const size_t at = here().at;
      d.operands.push_back(name("an operand's name"));
      if (std::count(d.operands.begin(), d.operands.end(), d.operands.back()) > 1)
        error(at, fmt::format("two operands are named {}", d.operands.back()));
      if (!peek(")")) take(",");
    }
    take(")");
    operands_ = d.operands;
    std::vector<Syntax> lhs;
    const size_t result_at = here().at;
    const bool single = peek("[");
    if (single) {
      next();
      lhs = items("]", false);
      const bool taken = std::count(d.operands.begin(), d.operands.end(), "out") > 0;
      d.results = {taken ? "result" : "out"};
      d.results_at = {result_at};
    } else {
      if (!peek("->")) error(here().at, fmt::format("expected '[' or '->', found {}", found()));
      do {
        next();
        d.results_at.push_back(here().at);
        d.results.push_back(name("a result's name"));
        if (std::count(d.results.begin(), d.results.end(), d.results.back()) > 1)
          error(d.results_at.back(), fmt::format("two results are named {}", d.results.back()));
      } while (peek(","));
    }
    if (peek("where")) {
      do {
        next();
        Definition::Extent extent;
        extent.at = here().at;
        extent.index = index_name();
        take("<");
        extent.value = sum();
        d.where.push_back(std::move(extent));
      } while (peek(","));
    }
    take("=");
    in_body_ = true;
    while (here().kind != TokenKind::kEnd) {
      if (!d.stages.empty() && !here().starts_line)
        error(here().at, fmt::format("expected an operator or a new line, found {}", found()));
      Definition::StageText stage;
      stage.at = here().at;
      if (starts_stage()) {
        stage.name = name("a stage's name");
        take("[");
        stage.lhs = items("]", false);
        take("=");
        stage.body = expression();
      } else {
        if (!single) error(here().at, "expected `stage[..] = ..`: with named results every line defines a stage");
        stage.name = d.results[0];
        stage.at = result_at;
        stage.lhs = lhs;
        stage.body = expression();
        if (here().kind != TokenKind::kEnd)
          error(here().at, fmt::format("expected the end of the formula after its result, found {}", found()));
      }
      for (const Definition::StageText& other : d.stages)
        if (other.name == stage.name) error(stage.at, fmt::format("two stages are named {}", stage.name));
      if (std::count(d.operands.begin(), d.operands.end(), stage.name))
        error(stage.at, fmt::format("the stage {} has an operand's name", stage.name));
      d.stages.push_back(std::move(stage));
    }
    if (d.stages.empty()) error(here().at, "expected an expression after '='");
    for (size_t i = 0; i < d.results.size(); ++i) {
      const bool defined =
          std::any_of(d.stages.begin(), d.stages.end(), [&](const auto& s) { return s.name == d.results[i]; });
      if (!defined)
        error(d.results_at[i],
              single ? "no line gives the result" : fmt::format("no stage defines the result {}", d.results[i]));
    }
    return d;
  }

 private:
  const Token& here() const { return tokens_[position_]; }
  const Token& ahead(size_t n) const { return tokens_[std::min(position_ + n, tokens_.size() - 1)]; }
  [[noreturn]] void error(size_t at, const std::string& message) const { fail_at(name_, text_, at, message); }
  std::string found() const {
    if (here().kind == TokenKind::kEnd) return "the end";
    if (here().kind == TokenKind::kGroup) return fmt::format("'..{}'", here().text);
    return fmt::format("'{}'", here().text);
  }
  static bool is(const Token& t, std::string_view sign) {
    return (t.kind == TokenKind::kSign || t.kind == TokenKind::kName) && t.text == sign;
  }
  bool peek(std::string_view sign) const { return is(here(), sign); }
  // In the body a new line outside brackets ends an expression.
  bool continues() const { return !(in_body_ && here().starts_line); }
  const Token& next() { return tokens_[position_ + 1 < tokens_.size() ? position_++ : position_]; }
  void take(std::string_view sign) {
    if (!peek(sign)) error(here().at, fmt::format("expected '{}', found {}", sign, found()));
    next();
  }
  std::string name(std::string_view what) {
    if (here().kind != TokenKind::kName || is_keyword(here().text))
      error(here().at, fmt::format("expected {}, found {}", what, found()));
    return next().text;
  }
  bool is_operand(const std::string& n) const {
    return std::find(operands_.begin(), operands_.end(), n) != operands_.end();
  }
  // An index: a name, or one of a group's, b.0.
  std::string index_name() {
    if (here().kind == TokenKind::kDotted && !is_operand(here().text) && here().axis >= 0) {
      const Token& t = next();
      return fmt::format("{}.{}", t.text, t.axis);
    }
    return name("an index");
  }

  // name [ .. ] = , and not ==
  bool starts_stage() const {
    if (here().kind != TokenKind::kName || !is(ahead(1), "[")) return false;
    int depth = 0;
    for (size_t i = position_ + 1; i < tokens_.size(); ++i) {
      if (is(tokens_[i], "[") || is(tokens_[i], "(")) ++depth;
      if ((is(tokens_[i], "]") || is(tokens_[i], ")")) && --depth == 0)
        return is(tokens_[std::min(i + 1, tokens_.size() - 1)], "=");
    }
    return false;
  }

  static Syntax node(Kind kind, size_t at, std::string name = "", std::vector<Syntax> args = {}) {
    Syntax s;
    s.kind = kind;
    s.at = at;
    s.name = std::move(name);
    s.args = std::move(args);
    return s;
  }

  // Comma-separated subscripts up to `close`, which is taken. `data`: a read, where `:` and `v = expr` may stand.
  std::vector<Syntax> items(std::string_view close, bool data) {
    std::vector<Syntax> list;
    while (!peek(close)) {
      const Token& t = here();
      if (data && t.kind == TokenKind::kSign && t.text == ":") {
        next();
        list.push_back(node(Kind::kWhole, t.at));
      } else if (t.kind == TokenKind::kGroup) {
        next();
        list.push_back(node(Kind::kGroup, t.at, t.text));
      } else if (data && (t.kind == TokenKind::kName || t.kind == TokenKind::kDotted) && is(ahead(1), "=")) {
        std::string index = index_name();
        next();
        list.push_back(node(Kind::kNamed, t.at, std::move(index), {sum()}));
      } else {
        list.push_back(sum());
      }
      if (!peek(close)) {
        if (!peek(",")) error(here().at, fmt::format("expected ',' or '{}', found {}", close, found()));
        next();
      }
    }
    take(close);
    return list;
  }

  struct Nested {
    explicit Nested(Parser& p) : parser(p) {
      if (++p.depth_ > kDeepest) p.error(p.here().at, "the expression is nested too deeply");
    }
    ~Nested() { --parser.depth_; }
    Parser& parser;
  };

  template <typename Sub>
  Syntax left_associative(std::initializer_list<std::string_view> signs, Sub sub) {
    Syntax a = sub();
    int chain = 0;
    while (continues() && std::any_of(signs.begin(), signs.end(), [&](std::string_view s) { return peek(s); })) {
      if (++chain > kLongest) error(here().at, "the expression is too long");
      const Token& t = next();
      std::vector<Syntax> sides;
      sides.push_back(std::move(a));
      sides.push_back(sub());
      a = node(Kind::kBinary, t.at, t.text, std::move(sides));
    }
    return a;
  }
  Syntax expression() {
    Nested nested(*this);
    return left_associative({"or"}, [&] { return left_associative({"and"}, [&] { return comparison(); }); });
  }
  Syntax comparison() {
    Syntax a = sum();
    for (std::string_view sign : {"<", "<=", "==", "!=", ">=", ">"}) {
      if (!continues() || !peek(sign)) continue;
      const Token& t = next();
      std::vector<Syntax> sides;
      sides.push_back(std::move(a));
      sides.push_back(sum());
      return node(Kind::kBinary, t.at, t.text, std::move(sides));
    }
    return a;
  }
  Syntax sum() {
    return left_associative({"+", "-"}, [&] { return product(); });
  }
  Syntax product() {
    return left_associative({"*", "/", "//", "%"}, [&] { return unary(); });
  }
  Syntax unary() {
    Nested nested(*this);
    const Token& t = here();
    if (peek("-") || peek("not")) {
      next();
      std::vector<Syntax> arg;
      arg.push_back(unary());
      return node(Kind::kUnary, t.at, t.text == "-" ? "neg" : "not", std::move(arg));
    }
    Syntax a = primary();
    if (continues() && peek("^")) {
      const Token& sign = next();
      std::vector<Syntax> sides;
      sides.push_back(std::move(a));
      sides.push_back(primary());
      return node(Kind::kBinary, sign.at, "^", std::move(sides));
    }
    return a;
  }

  // sum(k, ..n) and an operand: the position after the closing parenthesis, or 0 if this is no reducer.
  size_t reducer_ends() const {
    size_t i = position_ + 2;
    size_t count = 0;
    while (i < tokens_.size()) {
      const Token& t = tokens_[i];
      const bool index = (t.kind == TokenKind::kName && !is_keyword(t.text)) || t.kind == TokenKind::kGroup ||
                         (t.kind == TokenKind::kDotted && !is_operand(t.text));
      if (!index) return 0;
      ++count, ++i;
      if (i < tokens_.size() && is(tokens_[i], ",")) ++i;
      else break;
    }
    if (i + 1 >= tokens_.size() || !is(tokens_[i], ")")) return 0;
    const Token& body = tokens_[i + 1];
    const bool operand =
        body.kind == TokenKind::kNumber || body.kind == TokenKind::kDotted || is(body, "(") ||
        (body.kind == TokenKind::kName && body.text != "and" && body.text != "or" && body.text != "else");
    const bool could_be_function = count == 2 && (here().text == "max" || here().text == "min");
    return operand && !(could_be_function && body.starts_line) ? i + 1 : 0;
  }

  Syntax primary() {
    Nested nested(*this);
    const Token t = here();
    if (t.kind == TokenKind::kEnd || t.kind == TokenKind::kGroup)
      error(t.at, fmt::format("expected a value, found {}", found()));
    if (t.kind == TokenKind::kNumber) {
      next();
      Syntax s = node(Kind::kNumber, t.at);
      s.number = t.number;
      return s;
    }
    if (t.kind == TokenKind::kDotted) {
      next();
      if (is_operand(t.text)) {
        Syntax s = node(Kind::kExtent, t.at, t.text);
        s.axis = t.axis;
        return s;
      }
      if (t.axis < 0) error(t.at, fmt::format("{} is no operand, so it has no axis {}", t.text, t.axis));
      return node(Kind::kName, t.at, fmt::format("{}.{}", t.text, t.axis));
    }
    if (peek("(")) {
      next();
      Syntax s = expression();
      take(")");
      return s;
    }
    if (t.kind == TokenKind::kSign) error(t.at, fmt::format("expected a value, found {}", found()));
    next();
    if (t.text == "inf") {
      Syntax s = node(Kind::kNumber, t.at);
      s.number = std::numeric_limits<double>::infinity();
      return s;
    }
    if (t.text == "if") {
      take("(");
      std::vector<Syntax> parts;
      for (int i = 0; i < 3; ++i) {
        if (i > 0) take(",");
        parts.push_back(expression());
      }
      take(")");
      return node(Kind::kIf, t.at, "if", std::move(parts));
    }
    if (t.text == "opaque") return opaque(t);
    if (is_keyword(t.text)) error(t.at, fmt::format("expected a value, found '{}'", t.text));
    if (peek("(")) return call(t);
    if (peek("[")) {
      next();
      Syntax s = node(Kind::kAccess, t.at, t.text, items("]", true));
      if (peek("else")) {
        next();
        const bool negative = peek("-");
        if (negative) next();
        const Token& value = here();
        if (value.kind != TokenKind::kNumber && !peek("inf"))
          error(value.at, fmt::format("expected a number after 'else', found {}", found()));
        next();
        s.has_else = true;
        s.number = value.kind == TokenKind::kNumber ? value.number : std::numeric_limits<double>::infinity();
        if (negative) s.number = -s.number;
      }
      return s;
    }
    return node(Kind::kName, t.at, t.text);
  }

  Syntax opaque(const Token& t) {
    Syntax s = node(Kind::kOpaque, t.at, name("the name of an opaque kernel"));
    take("(");
    while (!peek(")")) {
      const Token slice = here();
      std::string tensor = name("a slice of a tensor");
      take("[");
      s.args.push_back(node(Kind::kAccess, slice.at, std::move(tensor), items("]", true)));
      if (!peek(")")) take(",");
    }
    take(")");
    take("[");
    s.names = items("]", false);
    return s;
  }

  Syntax call(const Token& t) {
    --position_;  // reducer_ends() looks from the name
    const size_t body = find_reducer(t.text) ? reducer_ends() : 0;
    ++position_;
    next();  // (
    if (body) {
      Syntax s = node(Kind::kReduce, t.at, t.text);
      while (!peek(")")) {
        const Token index = here();
        if (index.kind == TokenKind::kGroup) {
          next();
          s.names.push_back(node(Kind::kGroup, index.at, index.text));
        } else {
          s.names.push_back(node(Kind::kName, index.at, index_name()));
        }
        if (!peek(")")) take(",");
      }
      take(")");
      s.args.push_back(product());
      return s;
    }
    Syntax s = node(Kind::kCall, t.at, t.text);
    while (!peek(")")) {
      const Token& argument = here();
      if (argument.kind == TokenKind::kGroup) {
        next();
        s.args.push_back(node(Kind::kGroup, argument.at, argument.text));
      } else {
        s.args.push_back(expression());
      }
      if (!peek(")")) {
        if (!peek(",")) error(here().at, fmt::format("expected ',' or ')', found {}", found()));
        next();
      }
    }
    take(")");
    const int wanted = is_call_of_two(t.text) ? 2 : t.text == "ext" || t.text == "lin" ? 1 : arity_of(t.text);
    if (t.text == "rng") {
      if (s.args.empty()) error(t.at, "rng needs arguments that tell one number from another");
    } else if (wanted < 0) {
      error(t.at, find_reducer(t.text)
                      ? fmt::format("{} needs index names in parentheses and an operand after them", t.text)
                      : fmt::format("there is no function {}", t.text));
    } else if (static_cast<int>(s.args.size()) != wanted) {
      error(t.at, fmt::format("{} takes {} argument{}, not {}", t.text, wanted, wanted == 1 ? "" : "s", s.args.size()));
    }
    for (const Syntax& a : s.args)
      if (a.kind == Kind::kGroup && t.text != "ext" && t.text != "lin")
        error(a.at, fmt::format("a group of indices is no value: write lin(..{})", a.name));
    if (t.text == "lin" && s.args[0].kind != Kind::kGroup) error(t.at, "lin takes a group of indices, lin(..i)");
    if (t.text == "ext" && s.args[0].kind != Kind::kGroup && s.args[0].kind != Kind::kName)
      error(t.at, "ext takes an index or a group of indices");
    if (is_call_of_two(t.text)) s.kind = Kind::kBinary;
    return s;
  }

  std::string text_;
  std::vector<Token> tokens_;
  size_t position_ = 0;
  int depth_ = 0;
  bool in_body_ = false;
  std::string name_;
  std::vector<std::string> operands_;
};

}  // namespace

void fail_at(std::string_view name, std::string_view text, size_t at, const std::string& message) {
  at = std::min(at, text.size());
  const size_t before = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  const size_t begin = before == std::string_view::npos ? 0 : before + 1;
  const size_t end = std::min(text.find('\n', at), text.size());
  const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(begin), '\n') + 1;
  // Of a long line, what is around the place.
  const size_t from = at - begin > kShownBefore + 20 ? at - kShownBefore : begin;
  std::string shown(text.substr(from, std::min(end - from, 2 * kShownBefore)));
  std::replace(shown.begin(), shown.end(), '\t', ' ');
  const std::string_view cut = from > begin ? ".." : "";
  fail("{}, line {}, column {}: {}\n    {}{}\n    {:>{}}", name.empty() ? "formula" : name, line, at - begin + 1,
       message, cut, shown, '^', at - from + cut.size() + 1);
}

std::optional<Reducer> find_reducer(std::string_view name) {
  for (Reducer r : {Reducer::kSum, Reducer::kMax, Reducer::kMin, Reducer::kProd})
    if (name == name_of(r)) return r;
  return std::nullopt;
}

int arity_of(std::string_view function) {
  for (std::string_view f :
       {"exp", "log", "sqrt", "tanh", "sigmoid", "erf", "sin", "cos", "abs", "sign", "floor", "stop"})
    if (f == function) return 1;
  return find_real_function(function) ? 1 : -1;
}

std::string_view name_of(Reducer reducer) {
  switch (reducer) {
    case Reducer::kSum:
      return "sum";
    case Reducer::kMax:
      return "max";
    case Reducer::kMin:
      return "min";
    case Reducer::kProd:
      return "prod";
  }
  return "";
}

double identity_of(Reducer reducer) {
  switch (reducer) {
    case Reducer::kSum:
      return 0;
    case Reducer::kMax:
      return -std::numeric_limits<double>::infinity();
    case Reducer::kMin:
      return std::numeric_limits<double>::infinity();
    case Reducer::kProd:
      return 1;
  }
  return 0;
}

DefinitionPtr parse(std::string_view text) { return std::make_shared<const Definition>(Parser(text).definition()); }

std::vector<std::string> operand_names(const Definition& definition) { return definition.operands; }
std::vector<std::string> result_names(const Definition& definition) { return definition.results; }
const std::string& name_of(const Definition& definition) { return definition.name; }

namespace {

// Names that stand somewhere, and those of them that must be indices: written at plainly, reduced, bounded, read from
// data, or read at plainly.
void collect_names(const Syntax& s, std::set<std::string>& names, std::set<std::string>& indices) {
  if (s.kind == Syntax::Kind::kName) names.insert(s.name);
  if (s.kind == Syntax::Kind::kNamed) indices.insert(s.name);
  if (s.kind == Syntax::Kind::kReduce)
    for (const Syntax& index : s.names) indices.insert(index.name);
  if (s.kind == Syntax::Kind::kAccess || s.kind == Syntax::Kind::kCall)
    for (const Syntax& subscript : s.args)
      if (subscript.kind == Syntax::Kind::kName &&
          (s.kind == Syntax::Kind::kAccess || s.name == "ext" || s.name == "lin"))
        indices.insert(subscript.name);
  for (const Syntax& arg : s.args) collect_names(arg, names, indices);
  for (const Syntax& name : s.names)
    if (s.kind != Syntax::Kind::kReduce) collect_names(name, names, indices);
}

}  // namespace

std::vector<std::string> attribute_names(const Definition& definition) {
  std::set<std::string> names, indices;
  for (const Definition::Extent& extent : definition.where) {
    indices.insert(extent.index);
    collect_names(extent.value, names, indices);
  }
  for (const Definition::StageText& stage : definition.stages) {
    for (const Syntax& s : stage.lhs) {
      if (s.kind == Syntax::Kind::kName) indices.insert(s.name);
      collect_names(s, names, indices);
    }
    collect_names(stage.body, names, indices);
  }
  std::vector<std::string> attributes;
  for (const std::string& name : names)
    if (!indices.contains(name) && name != "inf" && name.find('.') == std::string::npos) attributes.push_back(name);
  return attributes;
}

}  // namespace partita::tdl
