// Prints bound formulas as text that parses again.
#include "partita/tdl/text.h"

#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/tdl/affine.h"
#include "partita/tdl/functions.h"

namespace partita::tdl {
namespace {

std::string text_of(const Expr& e, const Bound& bound, const Names& names);

bool same_precedence(const std::string& a, const std::string& b) {
  auto level = [](const std::string& f) {
    return f == "+" || f == "-" ? 1 : f == "*" || f == "/" || f == "//" || f == "%" ? 2 : 0;
  };
  return a == b ? a == "and" || a == "or" || level(a) > 0 : level(a) > 0 && level(a) == level(b);
}

// a + b + c without the parentheses that reading from the left makes needless.
std::string chain_text(const Expr& e, const Bound& bound, const Names& names) {
  const Expr& left = e.args[0];
  const bool bare = left.kind == ExprKind::kBinary && same_precedence(left.function, e.function);
  return fmt::format("{} {} {}", bare ? chain_text(left, bound, names) : text_of(left, bound, names), e.function,
                     text_of(e.args[1], bound, names));
}

std::string list_of(const std::vector<Expr>& args, const Bound& bound, const Names& names) {
  std::string text;
  for (const Expr& a : args) text += (text.empty() ? "" : ", ") + text_of(a, bound, names);
  return text;
}

std::string read_text(const Expr& e, const Bound& bound, const Names& names) {
  const BoundTensor& tensor = bound.tensors[e.tensor];
  std::vector<bool> whole;  // per stored axis: only axes with one radix are read whole
  size_t digit = 0;
  for (const Shape& radices : tensor.radices) {
    whole.push_back(!e.whole.empty() && e.whole[digit]);
    digit += radices.size();
  }
  std::string text =
      names.tensors[e.tensor] + subscripts_text(join_subscripts(e.subscripts, tensor.radices), whole, names);
  if (!e.has_else) return text;
  return text + (e.number < 0 ? " else -" : " else ") + number_text(std::abs(e.number));
}

std::string text_of(const Expr& e, const Bound& bound, const Names& names) {
  switch (e.kind) {
    case ExprKind::kNumber:
      return number_text(e.number);
    case ExprKind::kIndex:
      return names.indices[e.index];
    case ExprKind::kRead:
      return read_text(e, bound, names);
    case ExprKind::kUnary:
      if (e.function == "neg") return fmt::format("(-{})", text_of(e.args[0], bound, names));
      if (e.function == "not") return fmt::format("(not {})", text_of(e.args[0], bound, names));
      return fmt::format("{}({})", e.function, text_of(e.args[0], bound, names));
    case ExprKind::kBinary:
      if (is_call_of_two(e.function)) return fmt::format("{}({})", e.function, list_of(e.args, bound, names));
      return fmt::format("({})", chain_text(e, bound, names));
    case ExprKind::kIf:
      return fmt::format("if({})", list_of(e.args, bound, names));
    case ExprKind::kRng:
      return fmt::format("rng({})", list_of(e.args, bound, names));
    case ExprKind::kReduce: {
      std::string over;
      for (int i : e.reduced) over += (over.empty() ? "" : ", ") + names.indices[i];
      return fmt::format("{}({}) {}", name_of(e.reducer), over, text_of(e.args[0], bound, names));
    }
    case ExprKind::kOpaque:
      return fmt::format("opaque {}({}){}", e.function, list_of(e.args, bound, names),
                         subscripts_text(e.subscripts, {}, names));
  }
  return "";
}

}  // namespace

Names printable_names(const Bound& bound) {
  Names names;
  for (const BoundTensor& t : bound.tensors) names.tensors.push_back(t.name);
  for (const Index& index : bound.indices) names.indices.push_back(index.name);
  auto taken = [&](const std::string& name) {
    return std::count(names.tensors.begin(), names.tensors.end(), name) +
               std::count(names.indices.begin(), names.indices.end(), name) >
           0;
  };
  for (std::string& name : names.indices) {
    const size_t dot = name.find('.');
    if (dot == std::string::npos) continue;
    const int tensor = bound.find_tensor(name.substr(0, dot));
    if (tensor < 0 || !bound.tensors[tensor].is_operand) continue;
    std::string other = name;
    other[dot] = '_';
    while (taken(other)) other += '_';
    name = other;
  }
  return names;
}

std::string number_text(double value) {
  if (std::isinf(value)) return value < 0 ? "(-inf)" : "inf";
  return value < 0 || std::signbit(value) ? fmt::format("({})", value) : fmt::format("{}", value);
}

std::string subscripts_text(const std::vector<Affine>& subscripts, const std::vector<bool>& whole, const Names& names) {
  std::string text;
  for (size_t a = 0; a < subscripts.size(); ++a)
    text += (a ? ", " : "") + (!whole.empty() && whole[a] ? ":" : to_string(subscripts[a], names.indices));
  return "[" + text + "]";
}

std::vector<Affine> join_subscripts(const std::vector<Affine>& digits, const std::vector<Shape>& radices) {
  std::vector<Affine> axes;
  size_t digit = 0;
  for (const Shape& r : radices) {
    Affine axis = digits[digit++];
    for (size_t i = 1; i < r.size(); ++i) axis = scaled(axis, r[i]) + digits[digit++];
    axes.push_back(std::move(axis));
  }
  return axes;
}

std::string to_text(const Bound& bound) {
  const Names names = printable_names(bound);
  std::vector<std::string> operands(names.tensors.begin(), names.tensors.begin() + bound.operand_count);
  std::string text = fmt::format("{}({}) -> ", bound.name, fmt::join(operands, ", "));
  for (size_t r = 0; r < bound.results.size(); ++r) text += (r ? ", " : "") + names.tensors[bound.results[r]];
  for (size_t i = 0; i < bound.indices.size(); ++i)
    text += fmt::format("{}{} < {}", i ? ", " : " where ", names.indices[i], bound.indices[i].extent);
  text += " =";
  for (const Stage& stage : bound.stages) {
    const std::vector<Affine> lhs = join_subscripts(stage.lhs, bound.tensors[stage.tensor].radices);
    text += fmt::format("\n    {}{} = {}", names.tensors[stage.tensor], subscripts_text(lhs, {}, names),
                        text_of(stage.body, bound, names));
  }
  return text;
}

}  // namespace partita::tdl
