// Derives expressions by the rules of calculus.
#include "partita/tdl/derivative.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "partita/base/error.h"
#include "partita/tdl/functions.h"
#include "partita/tdl/make_expr.h"

namespace partita::tdl {
namespace {

bool is_guard(const Expr& e) { return e.kind == ExprKind::kIf && (is_number(e.args[1], 0) || is_number(e.args[2], 0)); }

// f(e), pushed into the side of an `if` whose other side is 0; f must be linear.
template <typename F>
Expr push(Expr e, F f) {
  if (!is_guard(e)) return f(std::move(e));
  int side = is_number(e.args[2], 0) ? 1 : 2;
  Expr inner = std::move(e.args[side]);
  e.args[side] = push(std::move(inner), f);
  return e;
}

Expr negated(Expr e) {
  return push(std::move(e), [](Expr x) {
    if (x.kind == ExprKind::kNumber) return make_number(-x.number);
    if (x.kind == ExprKind::kUnary && x.function == "neg") return Expr(x.args[0]);
    return make_unary("neg", std::move(x));
  });
}

Expr over(Expr x, const Expr& y) {
  return push(std::move(x), [&](Expr z) {
    if (z.kind == ExprKind::kUnary && z.function == "neg") return negated(make_binary("/", Expr(z.args[0]), y));
    return make_binary("/", std::move(z), y);
  });
}

// An expression that reads no tensor is a bound; it gets nothing at a tie: relu'(0) is 0.
bool is_bound(const Expr& e) {
  std::vector<const Expr*> accesses;
  collect_accesses(e, accesses);
  return accesses.empty();
}

// The derivative of max(e, other) and min(e, other), where `inner` is that of e. At a tie with a number it is all of
// it, at a tie of two values half, as in PyTorch's relu and maximum.
Expr derivative_of_extremum(const std::string& f, const Expr& e, const Expr& other, Expr inner) {
  if (is_bound(other)) return make_if(make_binary(f == "max" ? ">" : "<", e, other), std::move(inner), make_number(0));
  Expr half = times(make_number(0.5), inner);
  Expr tied = make_if(make_binary("==", e, other), std::move(half), std::move(inner));
  return make_if(make_binary(f == "max" ? "<" : ">", e, other), make_number(0), std::move(tied));
}

// The slope of x^y in x is 0 if y is 0; that in y is 0 if x is 0 and y is not negative. Else it would be 0 times
// infinity.
Expr derivative_of_power(const Expr& e, std::optional<Expr> dx, std::optional<Expr> dy) {
  const Expr &x = e.args[0], &y = e.args[1];
  if (dy) {
    Expr zero = make_binary("and", make_binary("==", x, make_number(0)), make_binary(">=", y, make_number(0)));
    return make_if(std::move(zero), make_number(0), times(std::move(*dy), times(e, make_unary("log", x))));
  }
  if (is_number(y, 1)) return std::move(*dx);
  if (is_number(y, 2)) return times(std::move(*dx), times(make_number(2), x));
  if (is_number(y)) return times(std::move(*dx), times(y, make_binary("^", x, make_number(y.number - 1))));
  Expr slope = times(std::move(*dx), times(y, make_binary("^", x, make_binary("-", y, make_number(1)))));
  return make_if(make_binary("==", y, make_number(0)), make_number(0), std::move(slope));
}

std::optional<Expr> derivative_of_binary(const Expr& e, const Expr* access) {
  const std::string& f = e.function;
  const Expr &x = e.args[0], &y = e.args[1];
  std::optional<Expr> dx = derivative(x, access), dy = derivative(y, access);  // one access is on one side
  if (!dx && !dy) return std::nullopt;
  if (f == "+") return dx ? dx : dy;
  if (f == "-") return dx ? *dx : negated(*dy);
  if (f == "*") return dx ? times(*dx, y) : times(x, *dy);
  // Not x over y^2, which may be 0 or infinite though y is not.
  if (f == "/") return dx ? over(*dx, y) : negated(times(*dy, over(e, y)));
  if (f == "%") return dx ? *dx : negated(times(*dy, make_binary("//", x, y)));
  if (f == "^") return is_number(y, 0) ? std::nullopt : std::optional(derivative_of_power(e, dx, dy));
  if (f == "max" || f == "min")
    return dx ? derivative_of_extremum(f, x, y, std::move(*dx)) : derivative_of_extremum(f, y, x, std::move(*dy));
  return std::nullopt;
}

// e with x in place of every read.
Expr with_reads(Expr e, const Expr& x) {
  if (e.kind == ExprKind::kRead) return x;
  for (Expr& a : e.args) a = with_reads(std::move(a), x);
  return e;
}

std::optional<Expr> derivative_of_unary(const Expr& e, const Expr* access) {
  const std::string& f = e.function;
  const Expr& x = e.args[0];
  if (f == "stop" || f == "sign" || f == "floor" || f == "not") return std::nullopt;
  std::optional<Expr> d = derivative(x, access);
  if (!d) return std::nullopt;
  if (f == "neg") return negated(*d);
  if (f == "exp") return times(*d, e);
  if (f == "log") return over(*d, x);
  if (f == "sqrt") return over(times(make_number(0.5), *d), e);
  if (f == "abs") return times(*d, make_unary("sign", x));
  if (f == "tanh") return times(*d, make_binary("-", make_number(1), make_binary("*", e, e)));
  if (f == "sigmoid") return times(*d, make_binary("*", e, make_binary("-", make_number(1), e)));
  if (f == "sin") return times(*d, make_unary("cos", x));
  if (f == "cos") return negated(times(*d, make_unary("sin", x)));
  if (f == "erf")
    return times(*d, times(make_number(2 / std::sqrt(std::acos(-1.0))),
                           make_unary("exp", make_unary("neg", make_binary("*", x, x)))));
  const RealFunction* real = find_real_function(f);
  ensure(real != nullptr, "no derivative of the function '{}'", f);
  const Bound slope = bind(fmt::format("d(x)[] = {}", real->derivative), {{}});
  return times(*d, with_reads(slope.stages.at(0).body, x));
}

}  // namespace

Expr times(Expr x, Expr y) {
  if (is_number(x, 1)) return y;
  if (is_number(y, 1)) return x;
  if (is_number(x, -1)) return negated(std::move(y));
  if (is_number(y, -1)) return negated(std::move(x));
  if (x.kind == ExprKind::kNumber && y.kind == ExprKind::kNumber) return make_number(x.number * y.number);
  if (is_guard(y)) return push(std::move(y), [&](Expr z) { return times(x, std::move(z)); });
  if (y.kind == ExprKind::kUnary && y.function == "neg") return negated(times(std::move(x), Expr(y.args[0])));
  if (y.kind == ExprKind::kBinary && y.function == "/" && is_number(y.args[0], 1)) return over(std::move(x), y.args[1]);
  if (is_guard(x)) return push(std::move(x), [&](Expr z) { return times(std::move(z), y); });
  return make_binary("*", std::move(x), std::move(y));
}

Expr plus(Expr x, Expr y) {
  if (y.kind == ExprKind::kUnary && y.function == "neg") return make_binary("-", std::move(x), Expr(y.args[0]));
  return make_binary("+", std::move(x), std::move(y));
}

void collect_accesses(const Expr& e, std::vector<const Expr*>& into) {
  static const std::set<std::string> kFlat = {"<", "<=", "==", "!=", ">=", ">", "and", "or", "//"};
  if (e.kind == ExprKind::kRead) into.push_back(&e);
  if (e.kind == ExprKind::kIf) {
    collect_accesses(e.args[1], into);
    collect_accesses(e.args[2], into);
  } else if (e.kind != ExprKind::kRead && e.kind != ExprKind::kRng &&
             !(e.kind == ExprKind::kBinary && (kFlat.contains(e.function) || find_integer_function(e.function)))) {
    for (const Expr& a : e.args) collect_accesses(a, into);
  }
}

std::optional<Expr> derivative(const Expr& e, const Expr* access) {
  if (&e == access) return make_number(1);
  switch (e.kind) {
    case ExprKind::kUnary:
      return derivative_of_unary(e, access);
    case ExprKind::kBinary:
      return derivative_of_binary(e, access);
    case ExprKind::kIf: {
      if (std::optional<Expr> yes = derivative(e.args[1], access)) return make_if(e.args[0], *yes, make_number(0));
      if (std::optional<Expr> no = derivative(e.args[2], access)) return make_if(e.args[0], make_number(0), *no);
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

bool is_polynomial(const Expr& e) {
  static const std::set<std::string> kRing = {"+", "-", "*"};
  switch (e.kind) {
    case ExprKind::kNumber:
      return std::isfinite(e.number);
    case ExprKind::kIndex:
      return true;
    case ExprKind::kRead:
      return std::isfinite(e.number);
    case ExprKind::kUnary:
      return e.function == "neg" && is_polynomial(e.args[0]);
    case ExprKind::kBinary:
      return kRing.contains(e.function) && is_polynomial(e.args[0]) && is_polynomial(e.args[1]);
    case ExprKind::kIf:
      return is_polynomial(e.args[1]) && is_polynomial(e.args[2]);
    default:
      return false;
  }
}

}  // namespace partita::tdl
