// Derivatives of expressions, and the products that they are made of.
#pragma once
#include <optional>
#include <vector>

#include "partita/tdl/tdl.h"

namespace partita::tdl {

// Reads in value position, left to right: what a condition or a rounding compares is not differentiated.
void collect_accesses(const Expr& e, std::vector<const Expr*>& accesses);
// d e / d (this very access, a part of e); empty where it is zero.
std::optional<Expr> derivative(const Expr& e, const Expr* access);
// Sums and products of reads, numbers and indices: finite wherever their operands are, so that a factor 0 makes it 0.
bool is_polynomial(const Expr& e);

// x * y, with factors 1 and -1 gone and guards (an `if` whose other side is 0) outermost.
Expr times(Expr x, Expr y);
// x + y; x - z where y is -z.
Expr plus(Expr x, Expr y);

}  // namespace partita::tdl
