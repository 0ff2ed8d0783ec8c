// Makes canonical forms: a formula without its names, with commuting terms in one order.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/tdl/affine.h"
#include "partita/tdl/analysis.h"
#include "partita/tdl/factor.h"
#include "partita/tdl/make_expr.h"
#include "partita/tdl/text.h"

namespace partita::tdl {
namespace {

using Key = uint64_t;  // equal for formulas that differ in names and order alone

Key mix(Key a, Key b) {
  a ^= b + 0x9E3779B97F4A7C15u + (a << 6) + (a >> 2);
  a *= 0xBF58476D1CE4E5B9u;
  return a ^ (a >> 29);
}
Key mix(Key a, const std::string& text) { return mix(a, hash_name(text)); }

bool chains(const std::string& f) {
  return f == "+" || f == "*" || f == "and" || f == "or" || f == "max" || f == "min";
}
bool commutes(const std::string& f) { return chains(f) || f == "==" || f == "!="; }

// Flattens (a + b) + c into its three terms.
void flatten_terms(const Expr& e, const std::string& f, std::vector<const Expr*>& terms) {
  if (e.kind == ExprKind::kBinary && e.function == f && chains(f)) {
    for (const Expr& a : e.args) flatten_terms(a, f, terms);
  } else {
    terms.push_back(&e);
  }
}

std::vector<const Expr*> children(const Expr& e) {
  std::vector<const Expr*> list;
  if (e.kind == ExprKind::kBinary && chains(e.function)) {
    flatten_terms(e, e.function, list);
  } else {
    for (const Expr& a : e.args) list.push_back(&a);
  }
  return list;
}

// Colours indices by their places, refined until no colour divides further, as in testing graphs for isomorphism
// (Weisfeiler and Leman). Indices of one colour play the same part, or almost.
class Colours {
 public:
  explicit Colours(const Bound& bound) : bound_(bound) {
    for (const Index& index : bound.indices) colour_.push_back(mix(1, static_cast<Key>(index.extent)));
    settle();
  }

  // The indices of the least colour that several indices have.
  std::vector<int> tied() const {
    if (classes_ == used_) return {};
    std::map<Key, std::vector<int>> classes;
    for (size_t i = 0; i < colour_.size(); ++i)
      if (!seen_[i].empty()) classes[colour_[i]].push_back(static_cast<int>(i));
    for (auto& entry : classes)
      if (entry.second.size() > 1) return std::move(entry.second);
    return {};
  }
  // Gives one index a colour of its own, and refines the others by it.
  void single_out(int index) {
    colour_[index] = mix(8, colour_[index]);
    settle();
  }

  Key of(int index) const { return colour_[index]; }

  Key of(const Affine& a) const {
    std::vector<Key> terms;
    for (const auto& term : a.terms) terms.push_back(of(term));
    std::sort(terms.begin(), terms.end());
    Key key = mix(2, static_cast<Key>(a.constant));
    for (Key t : terms) key = mix(key, t);
    return key;
  }

  Key of(const Affine::Term& term) const {
    Key key = mix(3, static_cast<Key>(term.coefficient));
    key = mix(key, static_cast<Key>(term.atom.kind));
    if (term.atom.kind == Affine::Atom::Kind::kIndex) return mix(key, colour_[term.atom.index]);
    return mix(mix(key, static_cast<Key>(term.atom.divisor)), of(*term.atom.inner));
  }

  Key of(const Expr& e) const {
    Key key = mix(4, static_cast<Key>(e.kind));
    key = mix(key, std::bit_cast<Key>(e.number));
    key = mix(key, e.function);
    key = mix(key, static_cast<Key>(e.has_else));
    key = mix(key, static_cast<Key>(e.tensor));
    if (e.kind == ExprKind::kReduce) key = mix(key, static_cast<Key>(e.reducer));
    if (e.kind == ExprKind::kIndex) key = mix(key, colour_[e.index]);
    for (size_t a = 0; a < e.subscripts.size(); ++a)
      key = mix(key, !e.whole.empty() && e.whole[a] ? 5 : of(e.subscripts[a]));
    std::vector<Key> reduced;
    for (int i : e.reduced) reduced.push_back(colour_[i]);
    std::sort(reduced.begin(), reduced.end());
    for (Key r : reduced) key = mix(key, r);
    std::vector<Key> below;
    for (const Expr* a : children(e)) below.push_back(of(*a));
    if (commutes(e.function)) std::sort(below.begin(), below.end());
    for (Key b : below) key = mix(key, b);
    return key;
  }

 private:
  // Refines until no colour is divided any more.
  void settle() {
    size_t before = 0;
    do {
      before = classes_;
      refine();
      count();
    } while (classes_ > before && classes_ < used_);
  }

  // Counts indices that occur, and their colours.
  void count() {
    std::vector<Key> sorted;
    for (size_t i = 0; i < colour_.size(); ++i)
      if (!seen_[i].empty()) sorted.push_back(colour_[i]);
    std::sort(sorted.begin(), sorted.end());
    used_ = sorted.size();
    classes_ = static_cast<size_t>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
  }

  void occurs(int index, Key where) { seen_[index].push_back(where); }

  void walk(const Affine& a, Key where) {
    for (const auto& term : a.terms) {
      const Key here = mix(mix(where, of(a)), static_cast<Key>(term.coefficient));
      if (term.atom.kind == Affine::Atom::Kind::kIndex) occurs(term.atom.index, here);
      else walk(*term.atom.inner, here);
    }
  }

  void walk(const Expr& e, Key where) {
    where = mix(where, of(e));
    if (e.kind == ExprKind::kIndex) occurs(e.index, where);
    for (int i : e.reduced) occurs(i, where);
    for (size_t a = 0; a < e.subscripts.size(); ++a) walk(e.subscripts[a], mix(where, a));
    size_t slot = 0;
    for (const Expr* child : children(e)) walk(*child, mix(where, commutes(e.function) ? 0 : ++slot));
  }

  void refine() {
    seen_.assign(colour_.size(), {});
    for (size_t s = 0; s < bound_.stages.size(); ++s) {
      const Stage& stage = bound_.stages[s];
      for (size_t a = 0; a < stage.lhs.size(); ++a) walk(stage.lhs[a], mix(mix(6, s), a));
      walk(stage.body, mix(7, s));
    }
    for (size_t i = 0; i < colour_.size(); ++i) {
      std::sort(seen_[i].begin(), seen_[i].end());
      for (Key k : seen_[i]) colour_[i] = mix(colour_[i], k);
    }
  }

  const Bound& bound_;
  std::vector<Key> colour_;
  std::vector<std::vector<Key>> seen_;
  size_t used_ = 0, classes_ = 0;
};

// The formula with its indices numbered in order of occurrence; commuting terms are in the order of their colours.
class Numbered {
 public:
  Numbered(const Bound& bound, Colours colours)
      : bound_(bound), colours_(std::move(colours)), number_(bound.indices.size(), -1) {}

  Bound run() {
    Bound out;
    out.name = "f";
    out.operand_count = bound_.operand_count;
    out.results = bound_.results;
    out.tensors = bound_.tensors;
    for (size_t t = 0; t < out.tensors.size(); ++t)
      out.tensors[t].name = fmt::format("{}{}", out.tensors[t].is_operand ? "o" : "s",
                                        out.tensors[t].is_operand ? t : t - bound_.operand_count);
    out.stages = bound_.stages;
    for (Stage& stage : out.stages) {
      sort(stage.body);
      for (const Affine& a : stage.lhs) number(a);
      number(stage.body);
    }
    for (Stage& stage : out.stages) {
      for (Affine& a : stage.lhs) a = renumbered(a);
      renumber(stage.body);
    }
    out.indices.resize(order_.size());
    for (size_t i = 0; i < order_.size(); ++i)
      out.indices[i] = {fmt::format("i{}", i), bound_.indices[order_[i]].extent, true};
    return out;
  }

  int number_of(int index) const { return number_[index]; }

 private:
  void sort(Expr& e) {
    if (e.kind == ExprKind::kBinary && commutes(e.function)) {
      std::vector<std::pair<Key, Expr>> terms;
      for (const Expr* a : children(e)) terms.emplace_back(colours_.of(*a), *a);
      std::stable_sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      for (auto& [key, term] : terms) sort(term);
      Expr chain = std::move(terms[0].second);
      for (size_t i = 1; i < terms.size(); ++i) {
        chain = make_binary(e.function, std::move(chain), std::move(terms[i].second));
      }
      e = std::move(chain);
    } else {
      for (Expr& a : e.args) sort(a);
    }
    std::stable_sort(e.reduced.begin(), e.reduced.end(), [&](int a, int b) { return colours_.of(a) < colours_.of(b); });
  }

  void number(int index) {
    if (number_[index] >= 0) return;
    number_[index] = static_cast<int>(order_.size());
    order_.push_back(index);
  }
  void number(const Affine& a) {
    std::vector<const Affine::Term*> terms;
    for (const auto& term : a.terms) terms.push_back(&term);
    std::stable_sort(terms.begin(), terms.end(),
                     [&](const auto* x, const auto* y) { return colours_.of(*x) < colours_.of(*y); });
    for (const auto* term : terms) {
      if (term->atom.kind == Affine::Atom::Kind::kIndex) number(term->atom.index);
      else number(*term->atom.inner);
    }
  }
  void number(const Expr& e) {
    if (e.kind == ExprKind::kIndex) number(e.index);
    for (const Affine& a : e.subscripts) number(a);
    for (const Expr& a : e.args) number(a);
    for (int i : e.reduced) number(i);
  }

  Affine renumbered(const Affine& a) const {
    Affine out = affine_constant(a.constant);
    for (const auto& term : a.terms) {
      Affine part;
      if (term.atom.kind == Affine::Atom::Kind::kIndex) {
        part = affine_index(number_[term.atom.index]);
      } else {
        const Affine inner = renumbered(*term.atom.inner);
        part = term.atom.kind == Affine::Atom::Kind::kMod ? modulo(inner, term.atom.divisor)
                                                          : floor_div(inner, term.atom.divisor);
      }
      out = out + scaled(part, term.coefficient);
    }
    return out;
  }
  void renumber(Expr& e) const {
    if (e.kind == ExprKind::kIndex) e.index = number_[e.index];
    for (int& i : e.reduced) i = number_[i];
    std::sort(e.reduced.begin(), e.reduced.end());
    for (Affine& a : e.subscripts) a = renumbered(a);
    for (Expr& a : e.args) renumber(a);
  }

  const Bound& bound_;
  const Colours colours_;
  std::vector<int> number_;  // of an index, in order of occurrence; -1: it does not occur
  std::vector<int> order_;
};

// If indices share one colour, finds the least form over the orders of these (McKay 1981). It singles out one of them,
// which separates others, until all differ. Two of them may give the same form with the singled out ones at the same
// places. Then the formula is symmetric, and one of the two is skipped.
class LeastForm {
 public:
  explicit LeastForm(const Bound& bound) : bound_(bound) {}

  std::string of(const Colours& colours) {
    const std::vector<int> tied = colours.tied();
    if (tied.empty()) return written(colours);
    std::string least;
    std::set<std::string> pictures;
    for (int index : tied) {
      Colours one = colours;
      one.single_out(index);
      single_.push_back(index);
      if (pictures.insert(picture(one)).second && (least.empty() || forms_ < kMostForms)) {
        std::string form = of(one);
        if (least.empty() || form < least) least = std::move(form);
      }
      single_.pop_back();
    }
    return least;
  }

 private:
  // Some formulas have symmetries that few of the images show. Their least form is taken over this many.
  static constexpr int kMostForms = 1000;

  std::string written(const Colours& colours) {
    ++forms_;
    return to_text(Numbered(bound_, colours).run());
  }
  // Makes the form with ties below decided by position, and the numbers of the singled out indices.
  std::string picture(Colours colours) {
    for (std::vector<int> tied = colours.tied(); !tied.empty(); tied = colours.tied()) colours.single_out(tied[0]);
    ++forms_;
    Numbered numbered(bound_, colours);
    std::string text = to_text(numbered.run());
    for (int index : single_) text += fmt::format(" {}", numbered.number_of(index));
    return text;
  }

  const Bound& bound_;
  std::vector<int> single_;  // singled out, in order
  int forms_ = 0;
};

// A form as a sum of products, signs in the coefficients: only the order of its terms depends on indices' numbers.
Expr sum_of(const Affine& form) {
  std::optional<Expr> sum;
  auto add = [&](Expr term) { sum = sum ? make_binary("+", std::move(*sum), std::move(term)) : std::move(term); };
  for (const Affine::Term& term : form.terms) {
    Expr atom;
    if (term.atom.kind == Affine::Atom::Kind::kIndex) atom = expr_of(affine_index(term.atom.index));
    else
      atom = make_binary(term.atom.kind == Affine::Atom::Kind::kMod ? "%" : "//", sum_of(*term.atom.inner),
                         expr_of(affine_constant(term.atom.divisor)));
    add(term.coefficient == 1 ? std::move(atom)
                              : make_binary("*", expr_of(affine_constant(term.coefficient)), std::move(atom)));
  }
  if (!sum || form.constant != 0) add(expr_of(affine_constant(form.constant)));
  return std::move(*sum);
}

// Writes a comparison of two index forms as `form >= 0`, or as `form == form` or `form != form` without negative terms;
// empty if it is none.
std::optional<Expr> plain_comparison(const Expr& e) {
  const auto a = affine_of(e.args[0]), b = affine_of(e.args[1]);
  if (!a || !b) return std::nullopt;
  const std::string& op = e.function;
  const Affine one = affine_constant(1);
  if (op == "<") return make_binary(">=", sum_of(*b - *a - one), sum_of({}));
  if (op == "<=") return make_binary(">=", sum_of(*b - *a), sum_of({}));
  if (op == ">") return make_binary(">=", sum_of(*a - *b - one), sum_of({}));
  if (op == ">=") return make_binary(">=", sum_of(*a - *b), sum_of({}));
  if (op != "==" && op != "!=") return std::nullopt;
  Affine left, right;  // the positive and the negative terms of the difference: either side may be first
  const Affine down = *a - *b;
  for (const auto& term : down.terms) {
    if (term.coefficient > 0) left.terms.push_back(term);
    else right.terms.push_back({-term.coefficient, term.atom});
  }
  (down.constant > 0 ? left : right).constant = std::abs(down.constant);
  return make_binary(op, sum_of(left), sum_of(right));
}

// Writes index arithmetic as sums of terms, comparisons in one direction, and nested guards as one.
Expr plain_expression(Expr e) {
  const bool operation = e.kind == ExprKind::kBinary || e.kind == ExprKind::kUnary;
  if (operation)
    if (const auto form = affine_of(e)) return sum_of(*form);
  if (e.kind == ExprKind::kBinary)
    if (auto comparison = plain_comparison(e)) return *comparison;
  if (e.kind == ExprKind::kBinary && (e.function == ">" || e.function == ">=")) {
    std::swap(e.args[0], e.args[1]);
    e.function = e.function == ">" ? "<" : "<=";
  }
  for (Expr& a : e.args) a = plain_expression(std::move(a));
  if (e.kind == ExprKind::kIf && is_number(e.args[2], 0) && e.args[1].kind == ExprKind::kIf &&
      is_number(e.args[1].args[2], 0)) {
    Expr inner = std::move(e.args[1]);
    e.args[0] = make_binary("and", std::move(e.args[0]), std::move(inner.args[0]));
    Expr value = std::move(inner.args[1]);
    e.args[1] = std::move(value);
  }
  return e;
}

// Replaces indices of extent 1 by 0, their only value, and resolves comparisons that the ranges then decide.
class WithoutUnits {
 public:
  explicit WithoutUnits(const Bound& bound) : bound_(bound), ranges_(full_ranges(bound)) {}

  Affine form(Affine a) const {
    std::vector<int> used;
    collect_indices(a, used);
    for (int i : used)
      if (unit(i)) a = substituted(a, i, affine_constant(0));
    return simplified(a, ranges_);
  }

  Expr expr(Expr e) const { return normalize_index_arithmetic(substituted_units(std::move(e)), ranges_); }

 private:
  bool unit(int index) const { return bound_.indices[index].extent == 1; }

  Expr substituted_units(Expr e) const {
    if (e.kind == ExprKind::kIndex && unit(e.index)) return expr_of(affine_constant(0));
    for (Affine& a : e.subscripts) a = form(a);
    for (Expr& a : e.args) a = substituted_units(std::move(a));
    if (e.kind != ExprKind::kReduce) return e;
    std::erase_if(e.reduced, [&](int i) { return unit(i); });
    return e.reduced.empty() ? Expr(e.args[0]) : e;
  }

  const Bound& bound_;
  const std::vector<Interval> ranges_;
};

bool has_opaque(const Expr& e) {
  return e.kind == ExprKind::kOpaque || std::any_of(e.args.begin(), e.args.end(), has_opaque);
}

}  // namespace

std::string canonical(const Bound& bound) {
  Bound plain_bound = as_stored(bound);
  const bool empty =
      std::any_of(bound.indices.begin(), bound.indices.end(), [](const Index& i) { return i.extent == 0; });
  const WithoutUnits units(bound);
  for (Stage& stage : plain_bound.stages) {
    if (!empty) {  // ranges decide nothing if nothing is computed
      for (Affine& a : stage.lhs) a = units.form(a);
      stage.body = units.expr(std::move(stage.body));
    }
    stage.body = plain_expression(std::move(stage.body));
  }
  std::string shapes;
  for (int t = 0; t < plain_bound.operand_count; ++t)
    shapes += fmt::format("{}o{}[{}]", t ? " " : "", t, fmt::join(plain_bound.tensors[t].shape, ","));
  return shapes + "\n" + LeastForm(plain_bound).of(Colours(plain_bound));
}

bool is_elementwise(const Bound& bound) {
  if (bound.stages.empty()) return false;
  std::vector<int> own;
  for (size_t s = 0; s < bound.stages.size(); ++s) {
    const Stage& stage = bound.stages[s];
    if (stage.body.kind == ExprKind::kReduce) return false;
    std::vector<int> indices;
    for (const Affine& a : stage.lhs) {
      if (a.plain_index() < 0) return false;
      indices.push_back(a.plain_index());
    }
    if (s > 0 && indices != own) return false;
    own = indices;
  }
  const Analysis analysis = analyze(bound);
  for (const StageAnalysis& s : analysis.stages)
    for (const Read& read : s.reads) {
      const Expr& e = *read.access;
      if (!e.whole.empty()) return false;
      if (volume(bound.tensors[e.tensor].shape) == 1 && volume(bound.tensors[bound.results[0]].shape) != 1) {
        const bool fixed =
            std::all_of(e.subscripts.begin(), e.subscripts.end(), [](const Affine& a) { return a.terms.empty(); });
        if (!fixed) return false;
        continue;
      }
      if (e.subscripts.size() != own.size()) return false;
      for (size_t a = 0; a < own.size(); ++a)
        if (e.subscripts[a].plain_index() != own[a]) return false;
    }
  return true;
}

bool takes_one_pass(const Bound& bound) {
  int64_t largest = 0;
  for (const BoundTensor& t : bound.tensors) largest = std::max(largest, volume(t.shape));
  const Analysis analysis = analyze(bound);
  for (size_t s = 0; s < bound.stages.size(); ++s) {
    double points = 1;
    for (int index : analysis.stages[s].indices) points *= static_cast<double>(bound.indices[index].extent);
    if (points > static_cast<double>(largest) || has_opaque(bound.stages[s].body)) return false;
  }
  return true;
}

bool reduces(const Bound& bound) {
  return std::any_of(bound.stages.begin(), bound.stages.end(),
                     [](const Stage& s) { return s.body.kind == ExprKind::kReduce; });
}

std::vector<std::string> lint_warnings(const Bound& bound) {
  const Analysis analysis = analyze(bound);
  std::vector<std::string> found;
  auto meet = [&](int a, int b) {
    return std::any_of(analysis.stages.begin(), analysis.stages.end(),
                       [&](const StageAnalysis& s) { return s.has(a) && s.has(b); });
  };
  for (int t = 0; t < bound.operand_count; ++t)
    for (size_t axis = 0; axis < bound.tensors[t].factored.size(); ++axis) {
      std::vector<int> names;
      for (const StageAnalysis& s : analysis.stages)
        for (const Read& read : s.reads) {
          if (read.access->tensor != t || (!read.access->whole.empty() && read.access->whole[axis])) continue;
          const int index = read.access->subscripts[axis].plain_index();
          if (index >= 0 && std::find(names.begin(), names.end(), index) == names.end()) names.push_back(index);
        }
      for (size_t a = 0; a < names.size(); ++a)
        for (size_t b = a + 1; b < names.size(); ++b) {
          if (meet(names[a], names[b])) continue;
          found.push_back(fmt::format(
              "axis {} of {} is read by {} and by {}, which never meet: under one name, a split would reach both", axis,
              bound.tensors[t].name, bound.indices[names[a]].name, bound.indices[names[b]].name));
        }
    }
  return found;
}

}  // namespace partita::tdl
