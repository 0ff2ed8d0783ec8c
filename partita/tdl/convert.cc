// Converts expressions while a definition is bound (second phase): names become indices, tensors and numbers.
#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/tdl/affine.h"
#include "partita/tdl/binding.h"
#include "partita/tdl/functions.h"
#include "partita/tdl/make_expr.h"
#include "partita/tdl/mutant.h"

namespace partita::tdl {
namespace {

using Kind = Syntax::Kind;

// The value if both sides are literals and the function is a plain one.
std::optional<double> folded(const std::string& f, const std::vector<Expr>& args) {
  if (!std::all_of(args.begin(), args.end(), [](const Expr& a) { return is_number(a); })) return std::nullopt;
  const double x = args[0].number;
  if (args.size() == 1) {
    if (f == "neg") return -x;
    if (f == "exp") return std::exp(x);
    if (f == "log") return std::log(x);
    if (f == "sqrt") return std::sqrt(x);
    if (f == "tanh") return std::tanh(x);
    if (f == "sin") return std::sin(x);
    if (f == "cos") return std::cos(x);
    if (f == "abs") return std::abs(x);
    if (f == "floor") return std::floor(x);
    if (const RealFunction* real = find_real_function(f); real && std::isfinite(real->value(x))) return real->value(x);
    return std::nullopt;
  }
  const double y = args[1].number;
  std::optional<double> value;
  if (f == "+") value = x + y;
  if (f == "-") value = x - y;
  if (f == "*") value = x * y;
  if (f == "/") value = x / y;
  if (f == "^") value = std::pow(x, y);
  if (f == "max") value = std::max(x, y);
  if (f == "min") value = std::min(x, y);
  if (f == "//" && y != 0) value = std::floor(x / y);
  if (f == "%" && y != 0) value = x - y * std::floor(x / y);
  if (value && std::isnan(*value)) return std::nullopt;
  return value;
}

Expr make_folded(ExprKind kind, const std::string& function, std::vector<Expr> args) {
  if (auto value = folded(function, args)) return make_number(*value);
  return make_expr(kind, function, std::move(args));
}

int index_named(const Binding& b, const std::string& name, size_t at) {
  const int index = b.index(name);
  if (index < 0)
    b.error(at, fmt::format("nothing fixes the extent of {}: add `where {} < ..`, or give an attribute {}", name, name,
                            name));
  return index;
}

std::vector<int> group_indices(const Binding& b, const Syntax& group) {
  if (!b.ranks.contains(group.name)) b.error(group.at, fmt::format("no operand is read with ..{}", group.name));
  std::vector<int> indices;
  for (int q = 0; q < b.ranks.at(group.name); ++q)
    indices.push_back(index_named(b, fmt::format("{}.{}", group.name, q), group.at));
  return indices;
}

std::vector<int> names_to_indices(const Binding& b, const std::vector<Syntax>& names) {
  std::vector<int> indices;
  for (const Syntax& s : names) {
    if (s.kind == Kind::kGroup) {
      for (int i : group_indices(b, s)) indices.push_back(i);
    } else {
      if (b.attributes.contains(s.name))
        b.error(s.at, fmt::format("{} is an attribute, so it can't be an index", s.name));
      indices.push_back(index_named(b, s.name, s.at));
    }
    for (size_t i = 0; i + 1 < indices.size(); ++i)
      if (indices[i] == indices.back())
        b.error(s.at, fmt::format("{} is reduced twice", b.bound.indices[indices.back()].name));
  }
  return indices;
}

Affine subscript(const Binding& b, const Syntax& s) {
  if (reads_data(s)) b.error(s.at, "an index that is read from data needs a name: t[v = ids[..]]");
  const Expr e = convert_expression(b, s);
  NotAffine why;
  auto form = affine_of(e, &why);
  if (!form) {
    if (why == NotAffine::kProduct) b.error(s.at, "a product of two indices");
    if (why == NotAffine::kDivisor) b.error(s.at, "an index can only be divided by a positive constant");
    b.error(s.at, "a subscript must be made of indices and integers, with + - * // %");
  }
  return form->plain_index() >= 0 ? *form : simplified(*form, full_ranges(b.bound));
}

// The subscripts of a read or a left side. `shape`: of the operand that is read, none if groups are never broadcast.
struct Subscripts {
  std::vector<Affine> forms;
  std::vector<bool> whole;
  std::vector<std::pair<int, const Syntax*>> from_data;  // index, its value
};
Subscripts subscripts(const Binding& b, const Syntax& owner, const std::vector<Syntax>& items, const Shape* shape) {
  Subscripts result;
  const std::vector<int> widths = shape ? b.group_widths(owner, *shape) : std::vector<int>();
  size_t group = 0;
  for (const Syntax& s : items) {
    const size_t axis = result.forms.size();
    if (s.kind == Kind::kGroup) {
      std::vector<int> indices = group_indices(b, s);
      if (shape) indices.erase(indices.begin(), indices.end() - widths[group++]);
      for (size_t q = 0; q < indices.size(); ++q) {
        const bool broadcast = shape && (*shape)[axis + q] == 1 && b.bound.indices[indices[q]].extent != 1;
        result.forms.push_back(broadcast && !MUTANT("no_broadcast") ? affine_constant(0) : affine_index(indices[q]));
        result.whole.push_back(false);
      }
    } else if (s.kind == Kind::kNamed) {
      result.from_data.emplace_back(index_named(b, s.name, s.at), &s.args[0]);
      result.forms.push_back(affine_index(result.from_data.back().first));
      result.whole.push_back(false);
    } else {
      result.whole.push_back(s.kind == Kind::kWhole);
      result.forms.push_back(s.kind == Kind::kWhole ? Affine{} : subscript(b, s));
    }
  }
  return result;
}

Expr convert_read(const Binding& b, const Syntax& s, bool in_opaque) {
  const int tensor = b.bound.find_tensor(s.name);
  if (tensor < 0) {
    const bool later = std::any_of(b.definition.stages.begin(), b.definition.stages.end(),
                                   [&](const auto& stage) { return stage.name == s.name; });
    b.error(s.at, later ? fmt::format("{} is read before the line that defines it", s.name)
                        : fmt::format("there is no operand or stage {}", s.name));
  }
  const bool is_operand = b.bound.tensors[tensor].is_operand;
  const Shape shape = b.bound.tensors[tensor].shape;
  Subscripts subs = subscripts(b, s, s.args, is_operand ? &shape : nullptr);
  if (subs.forms.size() != shape.size())
    b.error(s.at, fmt::format("{} has {}, and is read with {}", s.name, axes_text(shape.size()), subs.forms.size()));
  Expr e;
  e.kind = ExprKind::kRead;
  e.tensor = tensor;
  e.has_else = s.has_else;
  e.number = s.has_else ? s.number : 0;
  e.subscripts = std::move(subs.forms);
  if (in_opaque) {
    e.whole = std::move(subs.whole);
    if (!subs.from_data.empty()) b.error(s.at, "a slice of an opaque kernel can't be chosen by data");
    return e;
  }
  for (size_t i = 0; i < subs.whole.size(); ++i)
    if (subs.whole[i]) b.error(s.at, "only a slice of an opaque kernel is read whole, with `:`");
  if (subs.from_data.empty()) return e;
  // t[v = ids[..b], h] is sum(v) if(ids[..b] == v, t[v, h], 0)
  if (s.has_else && s.number != 0)
    b.error(s.at, "a read at an index from data gives 0 out of range: it can have no `else`");
  Expr sum = make_expr(ExprKind::kReduce, "", {});
  std::optional<Expr> guard;
  for (auto [index, value] : subs.from_data) {
    if (std::count(sum.reduced.begin(), sum.reduced.end(), index))
      b.error(value->at, fmt::format("{} is read from data twice", b.bound.indices[index].name));
    sum.reduced.push_back(index);
    Expr equal = make_binary("==", convert_expression(b, *value), make_index(index));
    guard = guard ? make_binary("and", std::move(*guard), std::move(equal)) : std::move(equal);
  }
  sum.args.push_back(make_if(std::move(*guard), std::move(e), make_number(0)));
  return sum;
}

Expr call(const Binding& b, const Syntax& s) {
  if (s.name == "ext") {
    double product = 1;
    if (s.args[0].kind == Kind::kGroup) {
      for (int i : group_indices(b, s.args[0])) product *= static_cast<double>(b.bound.indices[i].extent);
    } else {
      product = static_cast<double>(b.bound.indices[index_named(b, s.args[0].name, s.args[0].at)].extent);
    }
    return make_number(product);
  }
  if (s.name == "lin") {  // row-major
    Affine number;
    for (int i : group_indices(b, s.args[0])) number = scaled(number, b.bound.indices[i].extent) + affine_index(i);
    return expr_of(number);
  }
  std::vector<Expr> args;
  for (const Syntax& a : s.args) args.push_back(convert_expression(b, a));
  if (s.name == "rng") return make_expr(ExprKind::kRng, s.name, std::move(args));
  return make_folded(ExprKind::kUnary, s.name, std::move(args));
}

Expr reduction(const Binding& b, const Syntax& s) {
  Expr e = make_expr(ExprKind::kReduce, "", {});
  e.reducer = *find_reducer(s.name);
  e.reduced = names_to_indices(b, s.names);
  Expr body = convert_expression(b, s.args[0]);
  if (body.kind == ExprKind::kReduce && body.reducer == e.reducer) {  // nested equal reducers merge (3)
    for (int i : body.reduced) {
      if (std::count(e.reduced.begin(), e.reduced.end(), i))
        b.error(s.at, fmt::format("{} is reduced twice", b.bound.indices[i].name));
      e.reduced.push_back(i);
    }
    body = Expr(std::move(body.args[0]));
  }
  e.args.push_back(std::move(body));
  return e;
}

}  // namespace

Expr convert_expression(const Binding& b, const Syntax& s) {
  switch (s.kind) {
    case Syntax::Kind::kNumber:
      return make_number(s.number);
    case Syntax::Kind::kName: {
      auto attribute = b.attributes.find(s.name);
      if (attribute != b.attributes.end()) return make_number(attribute->second);
      if (b.operand(s.name) >= 0 || b.bound.find_tensor(s.name) >= 0)
        b.error(s.at, fmt::format("{} is a tensor: read it as {}[..]", s.name, s.name));
      return make_index(index_named(b, s.name, s.at));
    }
    case Syntax::Kind::kExtent: {
      const Shape& shape = b.shapes[b.operand(s.name)];
      const int axis = s.axis < 0 ? s.axis + static_cast<int>(shape.size()) : s.axis;
      if (axis < 0 || axis >= static_cast<int>(shape.size()))
        b.error(s.at, fmt::format("{} has {}, so there is no {}.{}", s.name, axes_text(shape.size()), s.name, s.axis));
      return make_number(static_cast<double>(shape[axis]));
    }
    case Syntax::Kind::kAccess:
      return convert_read(b, s, false);
    case Syntax::Kind::kUnary:
    case Syntax::Kind::kBinary: {
      std::vector<Expr> args;
      for (const Syntax& a : s.args) args.push_back(convert_expression(b, a));
      if ((s.name == "//" || s.name == "%") && is_number(args[1]) && args[1].number == 0)
        b.error(s.at, fmt::format("'{}' by zero", s.name));
      return make_folded(s.kind == Syntax::Kind::kUnary ? ExprKind::kUnary : ExprKind::kBinary, s.name,
                         std::move(args));
    }
    case Syntax::Kind::kIf: {
      std::vector<Expr> args;
      for (const Syntax& a : s.args) args.push_back(convert_expression(b, a));
      return make_expr(ExprKind::kIf, "", std::move(args));
    }
    case Syntax::Kind::kReduce:
      return reduction(b, s);
    case Syntax::Kind::kCall:
      return call(b, s);
    case Syntax::Kind::kOpaque: {
      Expr e = make_expr(ExprKind::kOpaque, s.name, {});
      for (const Syntax& slice : s.args) e.args.push_back(convert_read(b, slice, true));
      e.subscripts = subscripts(b, s, s.names, nullptr).forms;
      return e;
    }
    case Syntax::Kind::kGroup:
      b.error(s.at, fmt::format("a group of indices is no value: write lin(..{})", s.name));
    case Syntax::Kind::kWhole:
      b.error(s.at, "`:` stands only in a slice of an opaque kernel");
    case Syntax::Kind::kNamed:
      b.error(s.at, "an index is read from data only in a read's subscripts");
  }
  b.error(s.at, "not an expression");
}

std::vector<Affine> left_side(const Binding& b, const Syntax& owner, const std::vector<Syntax>& items) {
  return subscripts(b, owner, items, nullptr).forms;
}

}  // namespace partita::tdl
