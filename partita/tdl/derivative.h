// Derives expressions, and multiplies and adds the results.
#pragma once
#include <optional>
#include <vector>

#include "partita/tdl/tdl.h"

namespace partita::tdl {

// Collects reads in value position, left to right: operands of conditions and roundings are not differentiated.
void collect_accesses(const Expr& e, std::vector<const Expr*>& accesses);
// d e / d (this very access, a part of e); empty if it is zero.
std::optional<Expr> derivative(const Expr& e, const Expr* access);
// Tells whether e is sums and products of reads, numbers and indices: finite if its operands are, so that a factor 0
// makes it 0.
bool is_polynomial(const Expr& e);

// x * y, without factors 1 and -1, guards (an `if` whose other side is 0) outermost.
Expr times(Expr x, Expr y);
// x + y; x - z if y is -z.
Expr plus(Expr x, Expr y);

}  // namespace partita::tdl
