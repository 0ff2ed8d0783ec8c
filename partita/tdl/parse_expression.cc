// Parses expressions and subscripts by recursive descent (docs/inside/TDL.md, section 1).
#include <algorithm>
#include <limits>

#include "partita/base/error.h"
#include "partita/tdl/cursor.h"
#include "partita/tdl/functions.h"

namespace partita::tdl {
namespace {

using Kind = Syntax::Kind;

constexpr int kDeepest = 600;   // nested calls of the parser: 200 parentheses
constexpr int kLongest = 1000;  // terms of one sum

// The number of arguments of a function of values (exp, .., stop), or -1 if there is none of that name.
int arity_of(std::string_view function) {
  for (std::string_view f :
       {"exp", "log", "sqrt", "tanh", "sigmoid", "erf", "sin", "cos", "abs", "sign", "floor", "stop"})
    if (f == function) return 1;
  return find_real_function(function) ? 1 : -1;
}

Syntax node(Kind kind, size_t at, std::string name = "", std::vector<Syntax> args = {}) {
  Syntax s;
  s.kind = kind;
  s.at = at;
  s.name = std::move(name);
  s.args = std::move(args);
  return s;
}

class ExpressionParser {
 public:
  explicit ExpressionParser(Cursor& cursor) : c_(cursor) {}

  std::vector<Syntax> items(std::string_view close, bool data) {
    std::vector<Syntax> list;
    while (!c_.peek(close)) {
      const Token& t = c_.here();
      if (data && t.kind == TokenKind::kSign && t.text == ":") {
        c_.next();
        list.push_back(node(Kind::kWhole, t.at));
      } else if (t.kind == TokenKind::kGroup) {
        c_.next();
        list.push_back(node(Kind::kGroup, t.at, t.text));
      } else if (data && (t.kind == TokenKind::kName || t.kind == TokenKind::kDotted) && is_token(c_.ahead(1), "=")) {
        std::string index = c_.take_index();
        c_.next();
        list.push_back(node(Kind::kNamed, t.at, std::move(index), {sum()}));
      } else {
        list.push_back(sum());
      }
      if (!c_.peek(close)) {
        if (!c_.peek(",")) c_.error(c_.here().at, fmt::format("expected ',' or '{}', found {}", close, c_.found()));
        c_.next();
      }
    }
    c_.take(close);
    return list;
  }

  Syntax expression() {
    Nested nested(*this);
    return left_associative({"or"}, [&] { return left_associative({"and"}, [&] { return comparison(); }); });
  }

  Syntax sum() {
    return left_associative({"+", "-"}, [&] { return product(); });
  }

 private:
  struct Nested {
    explicit Nested(ExpressionParser& p) : parser(p) {
      if (++p.depth_ > kDeepest) p.c_.error(p.c_.here().at, "the expression is nested too deeply");
    }
    ~Nested() { --parser.depth_; }
    ExpressionParser& parser;
  };

  template <typename Sub>
  Syntax left_associative(std::initializer_list<std::string_view> signs, Sub sub) {
    Syntax a = sub();
    int chain = 0;
    while (c_.continues() && std::any_of(signs.begin(), signs.end(), [&](std::string_view s) { return c_.peek(s); })) {
      if (++chain > kLongest) c_.error(c_.here().at, "the expression is too long");
      const Token& t = c_.next();
      std::vector<Syntax> sides;
      sides.push_back(std::move(a));
      sides.push_back(sub());
      a = node(Kind::kBinary, t.at, t.text, std::move(sides));
    }
    return a;
  }

  Syntax comparison() {
    Syntax a = sum();
    for (std::string_view sign : {"<", "<=", "==", "!=", ">=", ">"}) {
      if (!c_.continues() || !c_.peek(sign)) continue;
      const Token& t = c_.next();
      std::vector<Syntax> sides;
      sides.push_back(std::move(a));
      sides.push_back(sum());
      return node(Kind::kBinary, t.at, t.text, std::move(sides));
    }
    return a;
  }
  Syntax product() {
    return left_associative({"*", "/", "//", "%"}, [&] { return unary(); });
  }
  Syntax unary() {
    Nested nested(*this);
    const Token& t = c_.here();
    if (c_.peek("-") || c_.peek("not")) {
      c_.next();
      std::vector<Syntax> arg;
      arg.push_back(unary());
      return node(Kind::kUnary, t.at, t.text == "-" ? "neg" : "not", std::move(arg));
    }
    Syntax a = primary();
    if (c_.continues() && c_.peek("^")) {
      const Token& sign = c_.next();
      std::vector<Syntax> sides;
      sides.push_back(std::move(a));
      sides.push_back(primary());
      return node(Kind::kBinary, sign.at, "^", std::move(sides));
    }
    return a;
  }

  // The position after the parenthesis that closes sum(k, ..n) and an operand, with the word `sum` at `start`; 0 if
  // this is no reducer.
  size_t reducer_ends(size_t start) const {
    const std::string& function = c_.tokens[start].text;
    size_t i = start + 2;
    size_t count = 0;
    while (i < c_.tokens.size()) {
      const Token& t = c_.tokens[i];
      const bool index = (t.kind == TokenKind::kName && !is_keyword(t.text)) || t.kind == TokenKind::kGroup ||
                         (t.kind == TokenKind::kDotted && !c_.is_operand(t.text));
      if (!index) return 0;
      ++count, ++i;
      if (i < c_.tokens.size() && is_token(c_.tokens[i], ",")) ++i;
      else break;
    }
    if (i + 1 >= c_.tokens.size() || !is_token(c_.tokens[i], ")")) return 0;
    const Token& body = c_.tokens[i + 1];
    const bool operand =
        body.kind == TokenKind::kNumber || body.kind == TokenKind::kDotted || is_token(body, "(") ||
        (body.kind == TokenKind::kName && body.text != "and" && body.text != "or" && body.text != "else");
    const bool could_be_function = count == 2 && (function == "max" || function == "min");
    return operand && !(could_be_function && body.starts_line) ? i + 1 : 0;
  }

  Syntax primary() {
    Nested nested(*this);
    const Token t = c_.here();
    if (t.kind == TokenKind::kEnd || t.kind == TokenKind::kGroup)
      c_.error(t.at, fmt::format("expected a value, found {}", c_.found()));
    if (t.kind == TokenKind::kNumber) {
      c_.next();
      Syntax s = node(Kind::kNumber, t.at);
      s.number = t.number;
      return s;
    }
    if (t.kind == TokenKind::kDotted) {
      c_.next();
      if (c_.is_operand(t.text)) {
        Syntax s = node(Kind::kExtent, t.at, t.text);
        s.axis = t.axis;
        return s;
      }
      if (t.axis < 0) c_.error(t.at, fmt::format("{} is no operand, so it has no axis {}", t.text, t.axis));
      return node(Kind::kName, t.at, fmt::format("{}.{}", t.text, t.axis));
    }
    if (c_.peek("(")) {
      c_.next();
      Syntax s = expression();
      c_.take(")");
      return s;
    }
    if (t.kind == TokenKind::kSign) c_.error(t.at, fmt::format("expected a value, found {}", c_.found()));
    c_.next();
    if (t.text == "inf") {
      Syntax s = node(Kind::kNumber, t.at);
      s.number = std::numeric_limits<double>::infinity();
      return s;
    }
    if (t.text == "if") {
      c_.take("(");
      std::vector<Syntax> parts;
      for (int i = 0; i < 3; ++i) {
        if (i > 0) c_.take(",");
        parts.push_back(expression());
      }
      c_.take(")");
      return node(Kind::kIf, t.at, "if", std::move(parts));
    }
    if (t.text == "opaque") return opaque(t);
    if (is_keyword(t.text)) c_.error(t.at, fmt::format("expected a value, found '{}'", t.text));
    if (c_.peek("(")) return call(t);
    if (c_.peek("[")) return access(t);
    return node(Kind::kName, t.at, t.text);
  }

  Syntax access(const Token& t) {
    c_.next();
    Syntax s = node(Kind::kAccess, t.at, t.text, items("]", true));
    if (c_.peek("else")) {
      c_.next();
      const bool negative = c_.peek("-");
      if (negative) c_.next();
      const Token& value = c_.here();
      if (value.kind != TokenKind::kNumber && !c_.peek("inf"))
        c_.error(value.at, fmt::format("expected a number after 'else', found {}", c_.found()));
      c_.next();
      s.has_else = true;
      s.number = value.kind == TokenKind::kNumber ? value.number : std::numeric_limits<double>::infinity();
      if (negative) s.number = -s.number;
    }
    return s;
  }

  Syntax opaque(const Token& t) {
    Syntax s = node(Kind::kOpaque, t.at, c_.take_name("the name of an opaque kernel"));
    c_.take("(");
    while (!c_.peek(")")) {
      const Token slice = c_.here();
      std::string tensor = c_.take_name("a slice of a tensor");
      c_.take("[");
      s.args.push_back(node(Kind::kAccess, slice.at, std::move(tensor), items("]", true)));
      if (!c_.peek(")")) c_.take(",");
    }
    c_.take(")");
    c_.take("[");
    s.names = items("]", false);
    return s;
  }

  // The indices of a reducer, and its operand.
  Syntax reduction(const Token& t) {
    Syntax s = node(Kind::kReduce, t.at, t.text);
    while (!c_.peek(")")) {
      const Token index = c_.here();
      if (index.kind == TokenKind::kGroup) {
        c_.next();
        s.names.push_back(node(Kind::kGroup, index.at, index.text));
      } else {
        s.names.push_back(node(Kind::kName, index.at, c_.take_index()));
      }
      if (!c_.peek(")")) c_.take(",");
    }
    c_.take(")");
    s.args.push_back(product());
    return s;
  }

  // Parses a call, from the parenthesis behind its name.
  Syntax call(const Token& t) {
    const size_t body = find_reducer(t.text) ? reducer_ends(c_.position - 1) : 0;
    c_.next();  // (
    if (body) return reduction(t);
    Syntax s = node(Kind::kCall, t.at, t.text);
    while (!c_.peek(")")) {
      const Token& argument = c_.here();
      if (argument.kind == TokenKind::kGroup) {
        c_.next();
        s.args.push_back(node(Kind::kGroup, argument.at, argument.text));
      } else {
        s.args.push_back(expression());
      }
      if (!c_.peek(")")) {
        if (!c_.peek(",")) c_.error(c_.here().at, fmt::format("expected ',' or ')', found {}", c_.found()));
        c_.next();
      }
    }
    c_.take(")");
    const int wanted = is_call_of_two(t.text) ? 2 : t.text == "ext" || t.text == "lin" ? 1 : arity_of(t.text);
    if (t.text == "rng") {
      if (s.args.empty()) c_.error(t.at, "rng needs arguments that tell one number from another");
    } else if (wanted < 0) {
      c_.error(t.at, find_reducer(t.text)
                         ? fmt::format("{} needs index names in parentheses and an operand after them", t.text)
                         : fmt::format("there is no function {}", t.text));
    } else if (static_cast<int>(s.args.size()) != wanted) {
      c_.error(t.at,
               fmt::format("{} takes {} argument{}, not {}", t.text, wanted, wanted == 1 ? "" : "s", s.args.size()));
    }
    for (const Syntax& a : s.args)
      if (a.kind == Kind::kGroup && t.text != "ext" && t.text != "lin")
        c_.error(a.at, fmt::format("a group of indices is no value: write lin(..{})", a.name));
    if (t.text == "lin" && s.args[0].kind != Kind::kGroup) c_.error(t.at, "lin takes a group of indices, lin(..i)");
    if (t.text == "ext" && s.args[0].kind != Kind::kGroup && s.args[0].kind != Kind::kName)
      c_.error(t.at, "ext takes an index or a group of indices");
    if (is_call_of_two(t.text)) s.kind = Kind::kBinary;
    return s;
  }

  Cursor& c_;
  int depth_ = 0;
};

}  // namespace

std::vector<Syntax> parse_items(Cursor& c, std::string_view close, bool data) {
  return ExpressionParser(c).items(close, data);
}
Syntax parse_sum(Cursor& c) { return ExpressionParser(c).sum(); }
Syntax parse_expression(Cursor& c) { return ExpressionParser(c).expression(); }

}  // namespace partita::tdl
