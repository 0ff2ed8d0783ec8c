// Puts index arithmetic of expressions in its normal form.
#include <algorithm>
#include <set>

#include "partita/tdl/affine.h"
#include "partita/tdl/make_expr.h"

namespace partita::tdl {

Expr normalize_index_arithmetic(Expr e, const std::vector<Interval>& ranges) {
  static const std::set<std::string> kComparisons = {"<", "<=", "==", "!=", ">=", ">"};
  if (e.kind != ExprKind::kBinary && e.kind != ExprKind::kUnary && e.kind != ExprKind::kIf) {
    for (Expr& a : e.args) a = normalize_index_arithmetic(std::move(a), ranges);
    return e;
  }
  if (std::optional<Affine> form = affine_of(e)) return expr_of(simplified(*form, ranges));
  for (Expr& a : e.args) a = normalize_index_arithmetic(std::move(a), ranges);
  if (e.kind == ExprKind::kIf && e.args[0].kind == ExprKind::kNumber)
    return Expr(e.args[e.args[0].number != 0 ? 1 : 2]);
  if (e.kind != ExprKind::kBinary) return e;
  if (e.function == "and" || e.function == "or") {
    double neutral = e.function == "and" ? 1 : 0;
    for (int side : {0, 1}) {
      if (e.args[side].kind != ExprKind::kNumber) continue;
      return e.args[side].number == neutral ? Expr(e.args[1 - side]) : make_number(1 - neutral);
    }
    return e;
  }
  if (!kComparisons.contains(e.function)) return e;
  std::optional<Affine> a = affine_of(e.args[0]), b = affine_of(e.args[1]);
  if (!a || !b) return e;
  Affine form = *a - *b;
  std::vector<int> used;
  collect_indices(form, used);
  if (std::any_of(used.begin(), used.end(), [&](int i) { return ranges[i].empty(); })) return e;
  Interval r = range_of(form, ranges);  // of a - b
  int64_t lo = r.lo, hi = r.hi - 1;
  auto decided = [&](bool always, bool never) {
    return always ? make_number(1) : never ? make_number(0) : std::move(e);
  };
  if (e.function == "<") return decided(hi < 0, lo >= 0);
  if (e.function == "<=") return decided(hi <= 0, lo > 0);
  if (e.function == ">") return decided(lo > 0, hi <= 0);
  if (e.function == ">=") return decided(lo >= 0, hi < 0);
  if (e.function == "==") return decided(lo == 0 && hi == 0, lo > 0 || hi < 0);
  return decided(lo > 0 || hi < 0, lo == 0 && hi == 0);
}

}  // namespace partita::tdl
