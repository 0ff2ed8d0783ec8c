// Replaces indices in forms and expressions.
#include "partita/tdl/substitute.h"

#include <algorithm>

#include "partita/tdl/affine.h"

namespace partita::tdl {

Affine substituted(const Affine& form, const Substitution& by) {
  Affine result;
  result.constant = form.constant;
  for (const Affine::Term& t : form.terms) {
    Affine part;
    if (t.atom.kind == Affine::Atom::Kind::kIndex) {
      auto it = by.find(t.atom.index);
      part = it == by.end() ? affine_index(t.atom.index) : it->second;
    } else {
      Affine inner = substituted(*t.atom.inner, by);
      part = t.atom.kind == Affine::Atom::Kind::kMod ? modulo(inner, t.atom.divisor) : floor_div(inner, t.atom.divisor);
    }
    result = result + scaled(part, t.coefficient);
  }
  return result;
}

Expr substituted(Expr e, const Substitution& by) {
  if (e.kind == ExprKind::kIndex) {
    auto it = by.find(e.index);
    return it == by.end() ? e : expr_of(it->second);
  }
  for (Affine& s : e.subscripts) s = substituted(s, by);
  for (Expr& a : e.args) a = substituted(std::move(a), by);
  return e;
}

bool mentions_index(const Expr& e, int index) {
  if (e.kind == ExprKind::kIndex && e.index == index) return true;
  for (const Affine& s : e.subscripts)
    if (uses_index(s, index)) return true;
  return std::any_of(e.args.begin(), e.args.end(), [&](const Expr& a) { return mentions_index(a, index); });
}

}  // namespace partita::tdl
