// Computes with quasi-affine index forms: their one normal form, their ranges, and consequences of guards.
#include "partita/tdl/affine.h"

#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/tdl/make_expr.h"
#include "partita/tdl/mutant.h"

namespace partita::tdl {
namespace {

using Atom = Affine::Atom;
using Term = Affine::Term;

__extension__ using Wide = __int128;
constexpr int64_t kFarthest = int64_t{1} << 61;  // ends of intervals stay within
constexpr int64_t kLargest = int64_t{1} << 50;   // numbers in a form; larger ones are left to the evaluator

bool fits_form(const Affine& a, int64_t factor = 1) {
  auto within = [&](int64_t x) {
    return static_cast<Wide>(x) * factor <= kLargest && static_cast<Wide>(x) * factor >= -kLargest;
  };
  return within(a.constant) &&
         std::all_of(a.terms.begin(), a.terms.end(), [&](const Term& t) { return within(t.coefficient); });
}

std::strong_ordering compare(const Atom& a, const Atom& b) {
  if (a.kind != b.kind) return a.kind <=> b.kind;
  if (a.kind == Atom::Kind::kIndex) return a.index <=> b.index;
  if (a.divisor != b.divisor) return a.divisor <=> b.divisor;
  return compare(*a.inner, *b.inner);
}

// Sorts by atom, collects equal atoms, drops zeros.
void normalize(std::vector<Term>& terms) {
  std::stable_sort(terms.begin(), terms.end(),
                   [](const Term& a, const Term& b) { return compare(a.atom, b.atom) < 0; });
  std::vector<Term> kept;
  for (Term& term : terms) {
    if (!kept.empty() && compare(kept.back().atom, term.atom) == 0) kept.back().coefficient += term.coefficient;
    else kept.push_back(std::move(term));
  }
  std::erase_if(kept, [](const Term& t) { return t.coefficient == 0; });
  terms = std::move(kept);
}

Affine atom_form(Atom::Kind kind, const Affine& inner, int64_t divisor) {
  Affine a;
  a.terms.push_back({1, {kind, -1, std::make_shared<const Affine>(inner), divisor}});
  return a;
}

}  // namespace

int Affine::plain_index() const {
  const bool plain =
      constant == 0 && terms.size() == 1 && terms[0].coefficient == 1 && terms[0].atom.kind == Atom::Kind::kIndex;
  return plain ? terms[0].atom.index : -1;
}

int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && a < 0 ? q - 1 : q;
}

Affine affine_constant(int64_t value) {
  Affine a;
  a.constant = value;
  return a;
}

Affine affine_index(int index) {
  Affine a;
  a.terms.push_back({1, {Atom::Kind::kIndex, index, nullptr, 0}});
  return a;
}

Affine operator+(const Affine& a, const Affine& b) {
  Affine sum = a;
  sum.constant += b.constant;
  sum.terms.insert(sum.terms.end(), b.terms.begin(), b.terms.end());
  normalize(sum.terms);
  return sum;
}

Affine operator-(const Affine& a, const Affine& b) { return a + scaled(b, -1); }

Affine scaled(const Affine& a, int64_t factor) {
  Affine product = a;
  product.constant *= factor;
  for (Term& term : product.terms) term.coefficient *= factor;
  normalize(product.terms);
  return product;
}

Multiples split_multiples(const Affine& a, int64_t divisor) {
  Affine whole, rest;
  for (const Term& term : a.terms) {
    if (term.coefficient % divisor == 0) whole.terms.push_back({term.coefficient / divisor, term.atom});
    else rest.terms.push_back(term);
  }
  whole.constant = floor_divide(a.constant, divisor);
  rest.constant = a.constant - divisor * whole.constant;
  return {whole, rest};
}

Affine floor_div(const Affine& a, int64_t divisor) {
  ensure(divisor > 0, "floor_div by {}", divisor);
  auto [whole, rest] = split_multiples(a, divisor);
  return rest.terms.empty() ? whole : whole + atom_form(Atom::Kind::kFloorDiv, rest, divisor);
}

Affine modulo(const Affine& a, int64_t divisor) {
  ensure(divisor > 0, "modulo by {}", divisor);
  Affine rest = split_multiples(a, divisor).rest;
  return rest.terms.empty() ? rest : atom_form(Atom::Kind::kMod, rest, divisor);
}

std::strong_ordering compare(const Affine& a, const Affine& b) {
  if (a.constant != b.constant) return a.constant <=> b.constant;
  if (a.terms.size() != b.terms.size()) return a.terms.size() <=> b.terms.size();
  for (size_t i = 0; i < a.terms.size(); ++i) {
    if (a.terms[i].coefficient != b.terms[i].coefficient) return a.terms[i].coefficient <=> b.terms[i].coefficient;
    if (auto c = compare(a.terms[i].atom, b.terms[i].atom); c != 0) return c;
  }
  return std::strong_ordering::equal;
}

void collect_indices(const Affine& a, std::vector<int>& indices) {
  for (const Term& term : a.terms) {
    if (term.atom.kind != Atom::Kind::kIndex) collect_indices(*term.atom.inner, indices);
    else if (std::find(indices.begin(), indices.end(), term.atom.index) == indices.end())
      indices.push_back(term.atom.index);
  }
}

bool uses_index(const Affine& a, int index) {
  return std::any_of(a.terms.begin(), a.terms.end(), [&](const Term& t) {
    return t.atom.kind == Atom::Kind::kIndex ? t.atom.index == index : uses_index(*t.atom.inner, index);
  });
}

Affine substituted(const Affine& a, int index, const Affine& replacement) {
  Affine result = affine_constant(a.constant);
  for (const Term& term : a.terms) {
    Affine part;
    if (term.atom.kind == Atom::Kind::kIndex) {
      part = term.atom.index == index ? replacement : affine_index(term.atom.index);
    } else {
      const Affine inner = substituted(*term.atom.inner, index, replacement);
      part =
          term.atom.kind == Atom::Kind::kMod ? modulo(inner, term.atom.divisor) : floor_div(inner, term.atom.divisor);
    }
    result = result + scaled(part, term.coefficient);
  }
  return result;
}

namespace {

// The range of a form without one of its terms; of the whole form if `left_out` is null.
Interval range_without(const Affine& a, const Term* left_out, const std::vector<Interval>& ranges) {
  Wide lo = a.constant, hi = a.constant;  // both ends included
  for (const Term& term : a.terms) {
    if (&term == left_out) continue;
    const Atom& atom = term.atom;
    Interval r = atom.kind == Atom::Kind::kIndex ? ranges[atom.index] : range_of(*atom.inner, ranges);
    int64_t x = r.lo, y = r.hi - 1;
    const int64_t d = atom.divisor;
    if (atom.kind == Atom::Kind::kFloorDiv) {
      if (MUTANT("trunc_div")) x = x / d, y = y / d;
      else x = floor_divide(x, d), y = floor_divide(MUTANT("div_ceil") ? y + 1 : y, d);
    } else if (atom.kind == Atom::Kind::kMod) {
      const int64_t period = floor_divide(x, d);
      if (period == floor_divide(y, d) || MUTANT("mod_no_wrap")) x = x - d * period, y = y - d * floor_divide(y, d);
      else x = 0, y = d - 1;
    }
    if (term.coefficient < 0 && !MUTANT("neg_no_swap")) std::swap(x, y);
    lo += static_cast<Wide>(term.coefficient) * x, hi += static_cast<Wide>(term.coefficient) * y;
  }
  auto clamped = [](Wide x) { return static_cast<int64_t>(std::clamp<Wide>(x, -kFarthest, kFarthest)); };
  return {clamped(lo), clamped(hi) + 1};
}

}  // namespace

Interval range_of(const Affine& a, const std::vector<Interval>& ranges) { return range_without(a, nullptr, ranges); }

Affine simplified(const Affine& a, const std::vector<Interval>& ranges) {
  Affine result = affine_constant(a.constant);
  for (const Term& term : a.terms) {
    const Atom& atom = term.atom;
    Affine part;
    if (atom.kind == Atom::Kind::kIndex) {
      part = affine_index(atom.index);
    } else {
      const Affine inner = simplified(*atom.inner, ranges);
      std::vector<int> used;
      collect_indices(inner, used);
      const bool known = std::none_of(used.begin(), used.end(), [&](int i) { return ranges[i].empty(); });
      const Interval r = known ? range_of(inner, ranges) : Interval{0, 0};
      const int64_t period = floor_divide(r.lo, atom.divisor);
      const bool decided = known && period == floor_divide(r.hi - 1, atom.divisor);
      if (atom.kind == Atom::Kind::kFloorDiv) part = decided ? affine_constant(period) : floor_div(inner, atom.divisor);
      else part = decided ? inner - affine_constant(period * atom.divisor) : modulo(inner, atom.divisor);
    }
    result = result + scaled(part, term.coefficient);
  }
  return result;
}

std::optional<Affine> affine_of(const Expr& e, NotAffine* why) {
  auto none = [&](NotAffine reason) -> std::optional<Affine> {
    if (why) *why = reason;
    return std::nullopt;
  };
  if (why) *why = NotAffine::kNo;
  if (e.kind == ExprKind::kNumber) {
    if (std::floor(e.number) != e.number || std::abs(e.number) > static_cast<double>(kLargest))
      return none(NotAffine::kOther);
    return affine_constant(static_cast<int64_t>(e.number));
  }
  if (e.kind == ExprKind::kIndex) return affine_index(e.index);
  if (e.kind == ExprKind::kUnary && e.function == "neg") {
    auto a = affine_of(e.args[0], why);
    if (a) *a = scaled(*a, -1);
    return a;
  }
  if (e.kind != ExprKind::kBinary) return none(NotAffine::kOther);
  const std::string& op = e.function;
  if (op != "+" && op != "-" && op != "*" && op != "//" && op != "%") return none(NotAffine::kOther);
  auto a = affine_of(e.args[0], why);
  if (!a) return a;
  auto b = affine_of(e.args[1], why);
  if (!b) return b;
  if (op == "+" || op == "-") {
    Affine sum = op == "+" ? *a + *b : *a - *b;
    return fits_form(sum) ? std::optional(std::move(sum)) : none(NotAffine::kOther);
  }
  if (op == "*") {
    if (!a->terms.empty() && !b->terms.empty()) return none(NotAffine::kProduct);
    if (a->terms.empty()) std::swap(a, b);
    return fits_form(*a, b->constant) ? std::optional(scaled(*a, b->constant)) : none(NotAffine::kOther);
  }
  if (!b->terms.empty() || b->constant <= 0) return none(NotAffine::kDivisor);
  return op == "//" ? floor_div(*a, b->constant) : modulo(*a, b->constant);
}

Expr expr_of(const Affine& a) {
  auto number = [](int64_t value) { return make_number(static_cast<double>(value)); };
  std::optional<Expr> sum;
  for (const Term& term : a.terms) {
    Expr part = term.atom.kind == Atom::Kind::kIndex
                    ? make_index(term.atom.index)
                    : make_binary(term.atom.kind == Atom::Kind::kMod ? "%" : "//", expr_of(*term.atom.inner),
                                  number(term.atom.divisor));
    const int64_t size = std::abs(term.coefficient);
    if (!sum && term.coefficient != 1) {
      part = make_binary("*", number(term.coefficient), std::move(part));
    } else if (size != 1) {
      part = make_binary("*", number(size), std::move(part));
    }
    sum = sum ? make_binary(term.coefficient < 0 ? "-" : "+", std::move(*sum), std::move(part)) : std::move(part);
  }
  if (!sum) return number(a.constant);
  if (a.constant == 0) return std::move(*sum);
  return make_binary(a.constant < 0 ? "-" : "+", std::move(*sum), number(std::abs(a.constant)));
}

void collect_constraints(const Expr& c, bool negated, std::vector<Affine>& nonnegative) {
  if (c.kind == ExprKind::kUnary && c.function == "not") return collect_constraints(c.args[0], !negated, nonnegative);
  if (c.kind != ExprKind::kBinary) return;
  if (c.function == (negated ? "or" : "and")) {
    for (const Expr& side : c.args) collect_constraints(side, negated, nonnegative);
    return;
  }
  static const char* const kOpposite[][2] = {{"<", ">="},  {"<=", ">"}, {"==", "!="},
                                             {"!=", "=="}, {">=", "<"}, {">", "<="}};
  auto op = std::find_if(std::begin(kOpposite), std::end(kOpposite), [&](auto& pair) { return c.function == pair[0]; });
  if (op == std::end(kOpposite)) return;
  const std::string_view holds = (*op)[negated ? 1 : 0];
  const auto a = affine_of(c.args[0]), b = affine_of(c.args[1]);
  if (!a || !b) return;
  const Affine up = *b - *a, down = *a - *b;  // a <= b, a >= b
  if (holds == "<") nonnegative.push_back(up - affine_constant(1));
  if (holds == "<=" || holds == "==") nonnegative.push_back(up);
  if (holds == ">=" || holds == "==") nonnegative.push_back(down);
  if (holds == ">") nonnegative.push_back(down - affine_constant(1));
}

bool narrow_ranges(std::vector<Interval>& ranges, const std::vector<Affine>& nonnegative) {
  // A bound that one form narrows can narrow another's; three rounds settle the guards that occur.
  bool narrows = true;
  for (int round = 0; round < 3 && narrows; ++round) {
    narrows = false;
    for (const Affine& form : nonnegative) {
      if (form.terms.empty() && form.constant < 0) return false;
      for (const Term& term : form.terms) {
        if (term.atom.kind != Atom::Kind::kIndex) continue;
        const int64_t most = range_without(form, &term, ranges).hi - 1;
        const int64_t size = std::abs(term.coefficient);
        const int64_t bound = MUTANT("guard_trunc") ? most / size : floor_divide(most, size);
        Interval& range = ranges[term.atom.index];
        const Interval before = range;
        if (term.coefficient > 0) range.lo = std::max(range.lo, -bound);
        else range.hi = std::min(range.hi, bound + 1);
        if (MUTANT("guard_strict") && term.coefficient < 0) --range.hi;
        if (range.empty()) return false;
        narrows = narrows || range != before;
      }
    }
  }
  return true;
}

std::string to_string(const Affine& a, const std::vector<std::string>& names) {
  std::string text;
  for (const Term& term : a.terms) {
    std::string atom = term.atom.kind == Atom::Kind::kIndex
                           ? names[term.atom.index]
                           : fmt::format("(({}) {} {})", to_string(*term.atom.inner, names),
                                         term.atom.kind == Atom::Kind::kMod ? "%" : "//", term.atom.divisor);
    const int64_t size = std::abs(term.coefficient);
    text += text.empty() ? (term.coefficient < 0 ? "-" : "") : (term.coefficient < 0 ? " - " : " + ");
    text += size == 1 ? atom : fmt::format("{}*{}", size, atom);
  }
  if (text.empty()) return std::to_string(a.constant);
  if (a.constant != 0) text += fmt::format(" {} {}", a.constant < 0 ? '-' : '+', std::abs(a.constant));
  return text;
}

}  // namespace partita::tdl
