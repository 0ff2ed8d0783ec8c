// Derives kinds: which values are true and which partial on one mesh axis. docs/inside/TDL.md, rules 11 to 16.
#include <algorithm>
#include <cmath>

#include "partita/tdl/analysis.h"
#include "partita/tdl/functions.h"
#include "partita/tdl/mutant.h"

namespace partita::tdl {
namespace {

constexpr Kind kTrue = std::nullopt;
constexpr Kind kPSum = Reducer::kSum, kPMax = Reducer::kMax, kPMin = Reducer::kMin, kPProd = Reducer::kProd;
constexpr size_t kMostAlternatives = 8;  // ways to join that are tried at one sum

bool extremal(Kind k) { return k == kPMax || k == kPMin; }
Kind flipped(Kind k) { return k == kPMax ? kPMin : k == kPMin ? kPMax : k; }
// Sums and products of a fill value are not the fill value; maxima are.
bool counts_fill(Kind k) { return k == kPSum || k == kPProd; }

int sign_of_literal(const Expr& e) {
  return e.kind != ExprKind::kNumber || std::isinf(e.number) ? 0 : e.number > 0 ? 1 : e.number < 0 ? -1 : 0;
}
bool is_identity(const Expr& e, Reducer r) { return e.kind == ExprKind::kNumber && e.number == identity_of(r); }

class StageKinds {
 public:
  StageKinds(const Analysis& analysis, const std::vector<int>& split, const std::vector<Kind>& partial,
             AxisKinds& state)
      : bound_(*analysis.bound), analysis_(analysis), split_(split), partial_(partial), state_(state) {}

  // Derives the kind of a stage; makes whole all values that must be whole before it.
  Kind run(int stage) {
    stage_ = stage;
    const StageAnalysis& s = analysis_.stages[stage];
    const bool scope = std::any_of(split_.begin(), split_.end(), [&](int i) { return s.has_on_left(i); });
    const Expr& body = bound_.stages[stage].body;
    Kind kind;
    while (true) {  // a value made whole for one read is whole for all (16)
      const int before = state_.conversions;
      kind = kind_of(body, scope, false);
      if (!state_.exists) return kTrue;
      if (state_.conversions == before || MUTANT("no_fixpoint")) break;
    }
    if (kind && scope) refuse(bound_.tensors[bound_.stages[stage].tensor].name + " would be partial on its own split");
    return kind;
  }

 private:
  void refuse(const std::string& why) {
    if (state_.exists) state_.why = why;
    state_.exists = false;
  }

  Kind read(const Expr& e, bool scope, bool demand) {
    const std::string& name = bound_.tensors[e.tensor].name;
    const Kind kind = e.tensor < bound_.operand_count ? partial_[e.tensor] : state_.first[e.tensor];
    if (!kind) return kTrue;
    const bool fill = e.has_else && counts_fill(kind) && e.number != identity_of(*kind) && !MUTANT("else_linear");
    if (e.tensor < bound_.operand_count) {
      if (scope || demand) refuse(name + " must be whole where it is read");
      if (fill) refuse(name + " is read with a fill value, so it can't be partial");
      return kind;
    }
    if (state_.whole_before[e.tensor] >= 0) return kTrue;
    if (fill || demand || (scope && !MUTANT("p_in_scope"))) {
      state_.whole_before[e.tensor] = stage_;
      ++state_.conversions;
      return kTrue;
    }
    return kind;
  }

  void make_whole(const Expr& e, bool scope) { kind_of(e, scope, true); }

  // The kind of x op y (13); nothing if they do not combine.
  static std::optional<Kind> combined(const std::string& op, Kind x, Kind y, const Expr& ex, const Expr& ey) {
    if (!x && !y) return kTrue;
    if (op == "+" || op == "-") {
      if (x == kPSum && y == kPSum) return kPSum;
      if (MUTANT("add_FP") && (x == kPSum || y == kPSum)) return kPSum;
      if (extremal(x) && !y) return x;
      if (extremal(y) && !x) return op == "+" || MUTANT("sub_no_flip") ? y : flipped(y);
      if (MUTANT("max_plus_max") && extremal(x) && x == y) return x;
    }
    if (op == "*") {
      if ((x == kPSum && !y) || (y == kPSum && !x)) return kPSum;
      if (MUTANT("mul_PP") && x == kPSum && y == kPSum) return kPSum;
      if (x == kPProd && y == kPProd) return kPProd;
      if (extremal(x) && !y && (sign_of_literal(ey) || MUTANT("max_scale")))
        return sign_of_literal(ey) < 0 && !MUTANT("max_scale") ? flipped(x) : x;
      if (extremal(y) && !x && (sign_of_literal(ex) || MUTANT("max_scale")))
        return sign_of_literal(ex) < 0 && !MUTANT("max_scale") ? flipped(y) : y;
    }
    if (op == "/") {
      if (x == kPSum && !y) return kPSum;
      if (MUTANT("div_by_P") && y == kPSum) return kPSum;
      if (extremal(x) && !y && sign_of_literal(ey)) return sign_of_literal(ey) > 0 ? x : flipped(x);
    }
    if (op == "max" || op == "min") {
      const Kind own = op == "max" ? kPMax : kPMin;
      if ((!x || x == own) && (!y || y == own)) return own;
      if (MUTANT("relu_linear") && x == kPSum) return kPSum;
    }
    return std::nullopt;
  }

  Kind kind_of(const Expr& e, bool scope, bool demand) {
    if (!state_.exists) return kTrue;
    switch (e.kind) {
      case ExprKind::kNumber:
      case ExprKind::kIndex:
        return kTrue;
      case ExprKind::kRead:
        return read(e, scope, demand);
      case ExprKind::kOpaque:
        for (const Expr& a : e.args) read(a, scope, true);
        return kTrue;
      case ExprKind::kReduce:
        return reduction(e, scope);
      default:
        break;
    }
    if (demand) {
      for (const Expr& a : e.args) make_whole(a, scope);
      return kTrue;
    }
    switch (e.kind) {
      case ExprKind::kBinary:
        return binary(e, scope);
      case ExprKind::kUnary:
        return unary(e, scope);
      case ExprKind::kIf:
        return choice(e, scope);
      default:
        for (const Expr& a : e.args) make_whole(a, scope);
        return kTrue;
    }
  }

  Kind binary(const Expr& e, bool scope) {
    const Expr &a = e.args[0], &b = e.args[1];
    const Kind x = kind_of(a, scope, false), y = kind_of(b, scope, false);
    if (auto kind = combined(e.function, x, y, a, b)) return *kind;
    const bool sums = (e.function == "+" || e.function == "-") && (x == kPSum || y == kPSum);
    const bool products = e.function == "*" && (x == kPProd || y == kPProd);
    if ((sums || products) && !(x && y)) offer(x ? b : a, x ? *x : *y);
    if (y) make_whole(b, scope);  // the right operand first: it is the divisor of a quotient
    if (auto kind = combined(e.function, x, kTrue, a, b)) return *kind;
    make_whole(a, scope);
    return kTrue;
  }

  Kind unary(const Expr& e, bool scope) {
    const Kind x = kind_of(e.args[0], scope, false);
    if (!x) return kTrue;
    if (e.function == "neg" && x != kPProd) return flipped(x);
    if (is_monotone(e.function) && extremal(x)) return x;
    if (e.function == "stop") return x;
    if (MUTANT("exp_linear") && (e.function == "exp" || e.function == "sqrt") && x == kPSum) return x;
    if (MUTANT("abs_mono") && e.function == "abs" && extremal(x)) return x;
    make_whole(e.args[0], scope);
    return kTrue;
  }

  Kind choice(const Expr& e, bool scope) {
    make_whole(e.args[0], scope);
    const Kind x = kind_of(e.args[1], scope, false), y = kind_of(e.args[2], scope, false);
    if (x == y) return x;
    if (!x || !y) {
      const Kind partial = x ? x : y;
      const Expr& other = e.args[x ? 2 : 1];
      if (is_identity(other, *partial) || extremal(partial) || MUTANT("if_const")) return partial;
      offer(other, *partial);
    }
    make_whole(e.args[1], scope);
    make_whole(e.args[2], scope);
    return kTrue;
  }

  bool reduces_split(const Expr& e) const {
    return std::any_of(e.reduced.begin(), e.reduced.end(),
                       [&](int i) { return std::find(split_.begin(), split_.end(), i) != split_.end(); });
  }

  Kind reduction(const Expr& e, bool scope) {
    if (reduces_split(e)) {  // (12)
      kind_of(e.args[0], true, true);
      return MUTANT("max_as_sum") && e.reducer == Reducer::kMax ? kPSum : Kind(e.reducer);
    }
    const Kind x = kind_of(e.args[0], scope, false);
    if (!x || x == Kind(e.reducer)) return x;
    if (MUTANT("sum_of_max") && extremal(x)) return x;
    if (MUTANT("max_of_sum") && e.reducer == Reducer::kMax) return x;
    make_whole(e.args[0], scope);
    return kTrue;
  }

  // ------------------------------------------------------------ operands that join (14)

  using Sets = std::vector<std::vector<int>>;

  void offer(const Expr& true_side, Reducer r) {
    const StageAnalysis& s = analysis_.stages[stage_];
    const bool scope = std::any_of(split_.begin(), split_.end(), [&](int i) { return s.has(i); });
    for (std::vector<int>& set : joins(true_side, r, scope))
      if (!set.empty()) state_.joins.push_back({r, std::move(set)});
  }

  static Sets both(const Sets& a, const Sets& b) {
    Sets out;
    for (const auto& x : a)
      for (const auto& y : b) {
        if (out.size() == kMostAlternatives) return out;
        std::vector<int> joint = x;
        for (int t : y)
          if (std::find(joint.begin(), joint.end(), t) == joint.end()) joint.push_back(t);
        out.push_back(std::move(joint));
      }
    return out;
  }

  // Finds sets of operands under which, all partial, the expression is P(r): it is linear in them.
  Sets joins(const Expr& e, Reducer r, bool scope) {
    const bool sum = r == Reducer::kSum;
    switch (e.kind) {
      case ExprKind::kNumber:
        return is_identity(e, r) ? Sets{{}} : Sets{};
      case ExprKind::kRead: {
        if (scope || (e.has_else && counts_fill(r) && e.number != identity_of(r))) return {};
        if (e.tensor < bound_.operand_count)
          return partial_[e.tensor] ? (partial_[e.tensor] == Kind(r) ? Sets{{}} : Sets{}) : Sets{{e.tensor}};
        if (state_.first[e.tensor])
          return state_.first[e.tensor] == Kind(r) && state_.whole_before[e.tensor] < 0 ? Sets{{}} : Sets{};
        const int stage = bound_.stage_of(e.tensor);
        const StageAnalysis& s = analysis_.stages[stage];
        const bool inner_scope = std::any_of(split_.begin(), split_.end(), [&](int i) { return s.has(i); });
        return joins(bound_.stages[stage].body, r, inner_scope);
      }
      case ExprKind::kUnary:
        if (e.function == "stop" || (sum && e.function == "neg")) return joins(e.args[0], r, scope);
        return {};
      case ExprKind::kBinary: {
        const bool chain = sum ? e.function == "+" || e.function == "-" : e.function == "*";
        if (chain) return both(joins(e.args[0], r, scope), joins(e.args[1], r, scope));
        if (sum && e.function == "/") return joins(e.args[0], r, scope);
        if (sum && e.function == "*") {
          Sets out = joins(e.args[0], r, scope);
          for (auto& set : joins(e.args[1], r, scope))
            if (out.size() < kMostAlternatives) out.push_back(std::move(set));
          return out;
        }
        return {};
      }
      case ExprKind::kIf:
        return both(joins(e.args[1], r, scope), joins(e.args[2], r, scope));
      case ExprKind::kReduce:
        return e.reducer == r && !reduces_split(e) ? joins(e.args[0], r, scope) : Sets{};
      default:
        return {};
    }
  }

  const Bound& bound_;
  const Analysis& analysis_;
  const std::vector<int>& split_;
  const std::vector<Kind>& partial_;
  AxisKinds& state_;
  int stage_ = 0;
};

}  // namespace

AxisKinds kinds_on_axis(const Analysis& analysis, const std::vector<int>& split, const std::vector<Kind>& partial) {
  const Bound& bound = *analysis.bound;
  AxisKinds result;
  result.first.assign(bound.tensors.size(), kTrue);
  std::copy(partial.begin(), partial.end(), result.first.begin());
  result.whole_before.assign(bound.tensors.size(), -1);
  StageKinds stages(analysis, split, partial, result);
  for (size_t s = 0; s < bound.stages.size() && result.exists; ++s) {
    const Kind kind = stages.run(static_cast<int>(s));
    result.first[bound.stages[s].tensor] = kind;
  }
  return result;
}

}  // namespace partita::tdl
