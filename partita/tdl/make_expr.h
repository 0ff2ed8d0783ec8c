// Makes expressions for code that builds formulas.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "partita/tdl/tdl.h"

namespace partita::tdl {

Expr make_expr(ExprKind kind, std::string function, std::vector<Expr> args);
Expr make_number(double value);
Expr make_index(int index);
Expr make_read(int tensor, std::vector<Affine> subscripts);
Expr make_unary(std::string function, Expr x);
Expr make_binary(std::string function, Expr x, Expr y);
Expr make_if(Expr condition, Expr yes, Expr no);
Expr make_sum(std::vector<int> reduced, Expr body);

inline bool is_number(const Expr& e) { return e.kind == ExprKind::kNumber; }
inline bool is_number(const Expr& e, double value) { return is_number(e) && e.number == value; }

}  // namespace partita::tdl
