// Solves the subscripts of an access for the indices of its stage, axis by axis.
#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "partita/base/error.h"
#include "partita/tdl/affine.h"
#include "partita/tdl/backward.h"
#include "partita/tdl/make_expr.h"
#include "partita/tdl/substitute.h"

namespace partita::tdl {
namespace {

// If `tensor` is read at `form` on an axis, reads it at `value`, which is known to equal form.
void set_subscript(Expr& e, int tensor, size_t axis, const Affine& form, const Affine& value) {
  if (e.kind == ExprKind::kRead && e.tensor == tensor && e.subscripts[axis] == form) e.subscripts[axis] = value;
  for (Expr& a : e.args) set_subscript(a, tensor, axis, form, value);
}

// Tells whether e tests `inner % divisor == 0` somewhere.
bool asks_divisible(const Expr& e, const Affine& inner, int64_t divisor) {
  if (e.kind == ExprKind::kBinary && e.function == "==" && is_number(e.args[1], 0))
    if (std::optional<Affine> left = affine_of(e.args[0]); left && *left == modulo(inner, divisor)) return true;
  return std::any_of(e.args.begin(), e.args.end(), [&](const Expr& a) { return asks_divisible(a, inner, divisor); });
}

// The form without %, as q % d = q - d * (q // d), and with (q // a) // b as q // (a * b).
Affine without_mod(const Affine& form) {
  Affine result = affine_constant(form.constant);
  for (const Affine::Term& t : form.terms) {
    if (t.atom.kind == Affine::Atom::Kind::kIndex) {
      result = result + scaled(affine_index(t.atom.index), t.coefficient);
      continue;
    }
    Affine inner = without_mod(*t.atom.inner);
    bool nested = inner.constant == 0 && inner.terms.size() == 1 && inner.terms[0].coefficient == 1 &&
                  inner.terms[0].atom.kind == Affine::Atom::Kind::kFloorDiv;
    Affine quotient = nested ? floor_div(*inner.terms[0].atom.inner, inner.terms[0].atom.divisor * t.atom.divisor)
                             : floor_div(inner, t.atom.divisor);
    Affine value = t.atom.kind == Affine::Atom::Kind::kMod ? inner - scaled(quotient, t.atom.divisor) : quotient;
    result = result + scaled(value, t.coefficient);
  }
  return result;
}

bool has_quotient(const Affine& form) {
  return std::any_of(form.terms.begin(), form.terms.end(),
                     [](const Affine::Term& t) { return t.atom.inner != nullptr; });
}

bool has_mod(const std::vector<Affine>& forms) {
  for (const Affine& form : forms)
    for (const Affine::Term& t : form.terms)
      if (t.atom.kind == Affine::Atom::Kind::kMod) return true;
  return false;
}

class Solver {
 public:
  Solver(Backward& backward, Flow flow)
      : b_(backward),
        flow_(std::move(flow)),
        tensor_(b_.forward.tensors[flow_.access.tensor]),
        left_(flow_.own),
        forms_(flow_.access.subscripts) {}

  CotangentPart run() {
    const bool with_mod = has_mod(flow_.access.subscripts);
    CotangentPart part;
    part.lhs.resize(forms_.size());
    std::vector<bool> solved = with_mod ? solve_digits() : std::vector<bool>(forms_.size(), false);
    for (size_t axis = 0; axis < forms_.size(); ++axis) {
      const int plain = forms_[axis].plain_index();
      const int64_t extent = tensor_.factored[axis];
      if (solved[axis]) {
        part.lhs[axis] = extent == 1 ? kZero : axis_index(axis);
      } else if (plain >= 0 && is_left(plain) && extent_of(plain) == extent) {
        part.lhs[axis] = plain;
        remove_left(plain);
        solved[axis] = true;
      }
    }
    for (size_t axis = 0; axis < forms_.size(); ++axis) {
      if (solved[axis]) continue;
      const Affine form = forms_[axis];
      const int u = tensor_.factored[axis] == 1 ? kZero : axis_index(axis);
      part.lhs[axis] = u;
      const Affine target = u == kZero ? affine_constant(0) : affine_index(u);
      set_subscript(flow_.value, flow_.access.tensor, axis, form, target);
      if (with_mod || !solve_quotient(form, target)) solve_sum(form, target);
    }
    for (Expr& g : guards_) flow_.value = make_if(std::move(g), std::move(flow_.value), make_number(0));
    part.summed = std::move(left_);
    part.body = std::move(flow_.value);
    return part;
  }

 private:
  bool is_left(int i) const { return std::find(left_.begin(), left_.end(), i) != left_.end(); }
  void remove_left(int i) { left_.erase(std::find(left_.begin(), left_.end(), i)); }
  int64_t extent_of(int index) const { return b_.formula.indices[index].extent; }
  int axis_index(size_t axis) { return b_.axis_index(flow_.access.tensor, axis); }

  void replace(int index, const Affine& by) {
    const Substitution one = {{index, by}};
    for (Affine& form : forms_) form = substituted(form, one);
    flow_.value = substituted(std::move(flow_.value), one);
    for (Expr& g : guards_) g = substituted(std::move(g), one);
  }

  // Guards 0 <= form < limit, if that is not certain; a cotangent read out of its range is 0 without a guard.
  void guard_range(const Affine& form, int64_t limit, int index) {
    if (flow_.polynomial && zero_outside(index)) return;
    const Interval range = range_of(form, full_ranges(b_.formula));
    if (range.lo < 0) guards_.push_back(make_binary(">=", expr_of(form), make_number(0)));
    if (range.hi > limit) guards_.push_back(make_binary("<", expr_of(form), make_number(static_cast<double>(limit))));
  }

  // Tells whether the stage's left side is read at `index` alone along an axis that it fills. A value out of its range
  // then reads 0.
  bool zero_outside(int index) const {
    const BoundTensor& tensor = b_.forward.tensors[flow_.stage.tensor];
    size_t axis = 0;
    for (size_t stored = 0; stored < tensor.shape.size(); ++stored) {
      const size_t radices = tensor.radices[stored].size();
      if (radices == 1 && flow_.stage.lhs[axis].plain_index() == index &&
          tensor.shape[stored] == b_.forward.indices[index].extent)
        return true;
      axis += radices;
    }
    return false;
  }

  // Solves a reshape: the subscripts with quotients are the digits of one number, x[L // 6, L % 6], and so are the
  // indices in it, L = 8 i + j. Then i and j are digits of 6 u + v: i = (6 u + v) // 8, j = (6 u + v) % 8. Returns the
  // axes that it solves.
  std::vector<bool> solve_digits() {
    const Shape& extents = tensor_.factored;
    const std::vector<Affine>& subscripts = flow_.access.subscripts;
    std::vector<bool> none(extents.size(), false);
    std::vector<bool> solved = none;
    for (size_t axis = 0; axis < extents.size(); ++axis)  // named in the axes' order
      if (has_quotient(subscripts[axis]) && extents[axis] > 1) axis_index(axis);
    Affine number, target;
    int64_t size = 1;
    for (size_t axis = extents.size(); axis-- > 0;) {
      const Affine& form = subscripts[axis];
      if (!has_quotient(form)) continue;
      const Interval range = range_of(form, full_ranges(b_.formula));
      if (range.lo < 0 || range.hi > extents[axis]) return none;
      number = number + scaled(form, size);
      if (extents[axis] > 1) target = target + scaled(affine_index(axis_index(axis)), size);
      size *= extents[axis];
      solved[axis] = true;
    }
    number = without_mod(number);
    if (number.constant != 0 || has_quotient(number)) return none;
    std::vector<Affine::Term> digits = number.terms;
    std::sort(digits.begin(), digits.end(), [](const auto& a, const auto& b) { return a.coefficient < b.coefficient; });
    int64_t weight = 1;
    for (const Affine::Term& t : digits) {
      if (t.coefficient != weight || !is_left(t.atom.index)) return none;
      weight *= extent_of(t.atom.index);
    }
    if (weight != size) return none;
    for (const Affine::Term& t : digits) {
      Affine digit = floor_div(target, t.coefficient);
      const int64_t extent = extent_of(t.atom.index);
      if (t.coefficient * extent < size) digit = modulo(digit, extent);
      replace(t.atom.index, digit);
      remove_left(t.atom.index);
    }
    return solved;
  }

  // Solves x[inner // d]: inner = d * u + rho, with rho = 0 if the body tests inner % d == 0, else summed over.
  bool solve_quotient(const Affine& form, const Affine& target) {
    if (form.terms.size() != 1 || form.constant != 0 || form.terms[0].coefficient != 1) return false;
    const Affine::Atom& atom = form.terms[0].atom;
    if (atom.kind != Affine::Atom::Kind::kFloorDiv) return false;
    const Affine& inner = *atom.inner;
    int v = -1;
    int64_t sign = 1;
    for (const Affine::Term& t : inner.terms) {
      if (t.atom.kind != Affine::Atom::Kind::kIndex || std::abs(t.coefficient) != 1) continue;
      const int i = t.atom.index;
      if (!is_left(i)) continue;
      if (v >= 0 && !(flow_.reduced.contains(v) && !flow_.reduced.contains(i))) continue;
      v = i;
      sign = t.coefficient;
    }
    if (v < 0) return false;
    Affine whole = scaled(target, atom.divisor);
    if (!asks_divisible(flow_.body, inner, atom.divisor)) {
      const int rho = b_.add_index(fmt::format("{}_rest", b_.forward.indices[v].name), atom.divisor);
      left_.push_back(rho);
      whole = whole + affine_index(rho);
    }
    const Affine rest = scaled(whole - (inner - scaled(affine_index(v), sign)), sign);
    replace(v, rest);
    guard_range(rest, extent_of(v), v);
    remove_left(v);
    return true;
  }

  // Solves coefficient * v = rest for the index v that is cheapest to solve for. An index of the left side comes first:
  // the remaining indices are summed, and indices that the formula sums (a convolution's kernel) are mostly shorter.
  void solve_sum(const Affine& form, const Affine& target) {
    const Affine::Term* best = nullptr;
    auto rank = [&](const Affine::Term& t) {
      return std::tuple(flow_.reduced.contains(t.atom.index), std::abs(t.coefficient) != 1,
                        extent_of(t.atom.index) == 1);
    };
    for (const Affine::Term& t : form.terms)
      if (t.atom.kind == Affine::Atom::Kind::kIndex && is_left(t.atom.index) && (!best || rank(t) < rank(*best)))
        best = &t;
    if (!best) {
      if (!(form == target)) guards_.push_back(make_binary("==", expr_of(target), expr_of(form)));
      return;
    }
    const int v = best->atom.index;
    int64_t c = best->coefficient;
    Affine rest = target - (form - scaled(affine_index(v), c));
    if (c < 0) {
      c = -c;
      rest = scaled(rest, -1);
    }
    replace(v, c == 1 ? rest : floor_div(rest, c));
    guard_range(rest, c * extent_of(v), v);
    if (c != 1) guards_.push_back(make_binary("==", expr_of(modulo(rest, c)), make_number(0)));
    remove_left(v);
  }

  Backward& b_;
  Flow flow_;
  const BoundTensor& tensor_;  // the tensor that is read
  std::vector<int> left_;      // indices of the stage that no axis is solved for yet
  std::vector<Affine> forms_;  // the subscripts, with the solutions put in
  std::vector<Expr> guards_;
};

}  // namespace

CotangentPart cotangent_part(Backward& backward, Flow flow) { return Solver(backward, std::move(flow)).run(); }

}  // namespace partita::tdl
