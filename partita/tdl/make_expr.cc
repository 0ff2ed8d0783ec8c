// Makes expressions.
#include "partita/tdl/make_expr.h"

namespace partita::tdl {

Expr make_expr(ExprKind kind, std::string function, std::vector<Expr> args) {
  Expr e;
  e.kind = kind;
  e.function = std::move(function);
  e.args = std::move(args);
  return e;
}

Expr make_number(double value) {
  Expr e;
  e.number = value;
  return e;
}

Expr make_index(int index) {
  Expr e;
  e.kind = ExprKind::kIndex;
  e.index = index;
  return e;
}

Expr make_read(int tensor, std::vector<Affine> subscripts) {
  Expr e;
  e.kind = ExprKind::kRead;
  e.tensor = tensor;
  e.subscripts = std::move(subscripts);
  return e;
}

Expr make_unary(std::string function, Expr x) {
  Expr e = make_expr(ExprKind::kUnary, std::move(function), {});
  e.args.push_back(std::move(x));
  return e;
}

Expr make_binary(std::string function, Expr x, Expr y) {
  Expr e = make_expr(ExprKind::kBinary, std::move(function), {});
  e.args.push_back(std::move(x));
  e.args.push_back(std::move(y));
  return e;
}

Expr make_if(Expr condition, Expr yes, Expr no) {
  Expr e = make_expr(ExprKind::kIf, "", {});
  e.args.push_back(std::move(condition));
  e.args.push_back(std::move(yes));
  e.args.push_back(std::move(no));
  return e;
}

Expr make_sum(std::vector<int> reduced, Expr body) {
  Expr e = make_expr(ExprKind::kReduce, "", {});
  e.reducer = Reducer::kSum;
  e.reduced = std::move(reduced);
  e.args.push_back(std::move(body));
  return e;
}

}  // namespace partita::tdl
