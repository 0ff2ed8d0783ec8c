// Evaluates the stages of a bound formula point by point (the reference evaluator).
#include "partita/tdl/evaluate.h"

#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/tdl/affine.h"
#include "partita/tdl/mutant.h"
#include "partita/tdl/scalars.h"
#include "partita/tdl/typed_expr.h"

namespace partita::tdl {

double rng_value(std::span<const int64_t> arguments) {
  size_t n = arguments.size();
  if (n < 2 || n > 4) fail("rng() takes a seed, up to two more keys, and an element's number; got {} arguments", n);
  auto key = [&](size_t from_end) { return n > from_end + 1 ? static_cast<uint64_t>(arguments[n - 1 - from_end]) : 0; };
  return philox_uniform(static_cast<uint64_t>(arguments[0]), key(2), key(1), static_cast<uint64_t>(arguments[n - 1]));
}

namespace {

int64_t value_of(const Affine& form, const std::vector<int64_t>& at) {
  int64_t value = form.constant;
  for (const Affine::Term& t : form.terms) {
    if (t.atom.kind == Affine::Atom::Kind::kIndex) {
      value += t.coefficient * at[t.atom.index];
      continue;
    }
    int64_t inner = value_of(*t.atom.inner, at);
    const char division = t.atom.kind == Affine::Atom::Kind::kFloorDiv ? 'd' : '%';
    value += t.coefficient * scalars::binary(division, inner, t.atom.divisor);
  }
  return value;
}

// A value and the sum of the absolute terms in it.
struct Real {
  double value, terms;
};

class StageEvaluator {
 public:
  StageEvaluator(const Bound& bound, int stage, const std::vector<Interval>& ranges,
                 const std::vector<const Piece*>& pieces, const Evaluation& options)
      : bound_(bound),
        stage_(bound.stages[stage]),
        ranges_(ranges),
        pieces_(pieces),
        options_(options),
        at_(bound.indices.size()) {}

  Piece run() {
    const BoundTensor& tensor = bound_.tensors[stage_.tensor];
    std::vector<int> lhs_indices;
    for (const Affine& form : stage_.lhs) collect_indices(form, lhs_indices);
    Box points;
    for (int i : lhs_indices) points.push_back(ranges_[i]);

    const Expr* reduce = stage_.body.kind == ExprKind::kReduce ? &stage_.body : nullptr;
    const TypedExpr body = typed_expr(reduce ? reduce->args[0] : stage_.body, pieces_);
    const bool counts = reduce && (reduce->reducer == Reducer::kSum || reduce->reducer == Reducer::kProd);
    Box reduced;
    if (reduce)
      for (int i : reduce->reduced) reduced.push_back(ranges_[i]);
    const ValueType type = counts ? std::max(body.type, ValueType::kInt) : body.type;

    Piece piece{Box(tensor.factored.size(), Interval{0, 0}), {dtype_of(type), {}, {}, {}, {}}};
    if (is_empty(points)) {
      piece.data.shape = extents(piece.box);
      return piece;
    }
    std::vector<int64_t> target(stage_.lhs.size());
    auto place = [&](std::span<const int64_t> point) {
      for (size_t i = 0; i < lhs_indices.size(); ++i) at_[lhs_indices[i]] = point[i];
      for (size_t a = 0; a < target.size(); ++a) target[a] = value_of(stage_.lhs[a], at_);
    };
    bool first = true;
    for_each_point(points, [&](std::span<const int64_t> point) {
      place(point);
      for (size_t a = 0; a < target.size(); ++a) {
        Interval here{target[a], target[a] + 1};
        piece.box[a] = first ? here : hull(piece.box[a], here);
      }
      first = false;
    });
    ensure(volume(points) == volume(piece.box), "stage {}: what the ranges own is not the box {}", tensor.name,
           to_string(piece.box));
    make_room(piece);
    for_each_point(points, [&](std::span<const int64_t> point) {
      place(point);
      compute(body, reduce, reduced, piece.data, offset_in(piece.box, target));
    });
    return piece;
  }

 private:
  void make_room(Piece& piece) const {
    Array& data = piece.data;
    data.shape = extents(piece.box);
    const int64_t n = volume(piece.box);
    if (is_float(data.dtype)) data.reals.resize(n);
    else data.ints.resize(n);
    if (is_float(data.dtype) && options_.with_terms) data.terms.resize(n);
  }

  // Computes element i at the current point: of `body`, or of its reduction by `reduce`, if any, over `reduced`.
  void compute(const TypedExpr& body, const Expr* reduce, const Box& reduced, Array& data, int64_t i) {
    if (!is_float(data.dtype)) {
      data.ints[i] = reduce ? reduce_ints(body, *reduce, reduced) : integer(body);
    } else if (options_.with_terms) {
      Real r = reduce ? reduce_terms(body, *reduce, reduced) : terms(body);
      data.reals[i] = r.value;
      data.terms[i] = r.terms;
    } else {
      data.reals[i] = reduce ? reduce_reals(body, *reduce, reduced) : real(body);
    }
  }

  // The place of a read's element in its piece, or -1 out of the tensor's range.
  int64_t locate(const Expr& e) {
    const BoundTensor& tensor = bound_.tensors[e.tensor];
    std::vector<int64_t>& point = point_;
    point.resize(e.subscripts.size());
    for (size_t a = 0; a < point.size(); ++a) {
      point[a] = value_of(e.subscripts[a], at_);
      if (point[a] < 0 || point[a] >= tensor.factored[a]) return -1;
    }
    const Piece* piece = pieces_[e.tensor];
    bool held = piece != nullptr;
    for (size_t a = 0; held && a < point.size(); ++a)
      held = piece->box[a].lo <= point[a] && point[a] < piece->box[a].hi;
    if (!held)
      throw Error(ExitCode::kBug, fmt::format("stage {} reads {}{} outside the part it was given, {}",
                                              bound_.tensors[stage_.tensor].name, tensor.name, point,
                                              piece ? to_string(piece->box) : "nothing"));
    if (options_.reads) (*options_.reads)[e.tensor][offset_in(full_box(tensor.factored), point)] = true;
    return offset_in(piece->box, point);
  }
  double fill(const Expr& e) const { return e.has_else && !MUTANT("else_zero") ? e.number : 0; }

  bool truth(const TypedExpr& n) { return n.type == ValueType::kReal ? real(n) != 0 : integer(n) != 0; }

  bool compare(const TypedExpr& n) {
    const TypedExpr &x = n.args[0], &y = n.args[1];
    if (x.type == ValueType::kReal || y.type == ValueType::kReal) return scalars::compare(n.op, real(x), real(y));
    return scalars::compare(n.op, integer(x), integer(y));
  }

  // The value of an expression that is not real.
  int64_t integer(const TypedExpr& n) {
    const Expr& e = *n.expr;
    switch (n.kind) {
      case ExprKind::kNumber:
        return static_cast<int64_t>(e.number);
      case ExprKind::kIndex:
        return MUTANT("local_iota") ? at_[e.index] - ranges_[e.index].lo : at_[e.index];
      case ExprKind::kRead: {
        int64_t i = locate(e);
        return i < 0 ? static_cast<int64_t>(fill(e)) : pieces_[e.tensor]->data.ints[i];
      }
      case ExprKind::kUnary: {
        if (n.op == '!') return !truth(n.args[0]);
        return scalars::unary(n.op, integer(n.args[0]));
      }
      case ExprKind::kBinary: {
        if (n.op == '&' || n.op == '|') {  // both sides are read, as the region analysis assumes
          bool x = truth(n.args[0]), y = truth(n.args[1]);
          return n.op == '&' ? x && y : x || y;
        }
        if (n.type == ValueType::kBool) return compare(n);
        if (n.integer) return n.integer->value(whole(n.args[0]), whole(n.args[1]));
        const int64_t x = integer(n.args[0]);
        return scalars::binary(n.op, x, integer(n.args[1]));
      }
      case ExprKind::kIf:
        return truth(n.args[0]) ? integer(n.args[1]) : integer(n.args[2]);
      default:
        break;
    }
    ensure(false, "no integer value of a node of kind {}", static_cast<int>(n.kind));
    return 0;
  }

  int64_t whole(const TypedExpr& n) { return n.type == ValueType::kReal ? static_cast<int64_t>(real(n)) : integer(n); }

  static double unary(const TypedExpr& n, double x) { return n.real ? n.real->value(x) : scalars::unary(n.op, x); }

  double real(const TypedExpr& n) {
    if (n.type != ValueType::kReal) return static_cast<double>(integer(n));
    const Expr& e = *n.expr;
    switch (n.kind) {
      case ExprKind::kNumber:
        return e.number;
      case ExprKind::kRead: {
        int64_t i = locate(e);
        return i < 0 ? fill(e) : pieces_[e.tensor]->data.at(i);
      }
      case ExprKind::kUnary:
        return unary(n, real(n.args[0]));
      case ExprKind::kBinary: {
        double x = real(n.args[0]);
        return scalars::binary(n.op, x, real(n.args[1]));
      }
      case ExprKind::kIf:
        return truth(n.args[0]) ? real(n.args[1]) : real(n.args[2]);
      case ExprKind::kRng: {
        std::vector<int64_t> arguments;
        for (const TypedExpr& a : n.args)
          arguments.push_back(a.type == ValueType::kReal ? std::llround(real(a)) : integer(a));
        return rng_value(arguments);
      }
      case ExprKind::kOpaque:
        return opaque(e);
      default:
        break;
    }
    ensure(false, "no real value of a node of kind {}", static_cast<int>(n.kind));
    return 0;
  }

  // A value that is not finite has no rounding error to bound.
  Real terms(const TypedExpr& n) {
    Real r = terms_of(n);
    if (!std::isfinite(r.value)) r.terms = 0;
    return r;
  }

  Real terms_of(const TypedExpr& n) {
    if (n.type != ValueType::kReal) {
      double v = static_cast<double>(integer(n));
      return {v, std::abs(v)};
    }
    const Expr& e = *n.expr;
    switch (n.kind) {
      case ExprKind::kRead: {
        int64_t i = locate(e);
        if (i < 0) return {fill(e), std::abs(fill(e))};
        return {pieces_[e.tensor]->data.at(i), pieces_[e.tensor]->data.term(i)};
      }
      case ExprKind::kUnary: {
        Real x = terms(n.args[0]);
        double f = unary(n, x.value), s = n.real ? n.real->slope(x.value) : scalars::slope(n.op, x.value, f);
        bool exact = n.op == '-' || n.op == 'a' || n.op == '=';
        return {f, (s == 0 ? 0 : s * x.terms) + (exact ? 0 : std::abs(f))};
      }
      case ExprKind::kBinary: {
        Real x = terms(n.args[0]), y = terms(n.args[1]);
        double f = scalars::binary(n.op, x.value, y.value), ax = std::abs(x.value), ay = std::abs(y.value);
        switch (n.op) {
          case '+':
          case '-':
            return {f, x.terms + y.terms};
          case '*':
            return {f, ax * y.terms + x.terms * ay - ax * ay};
          case '/':
            return {f, x.terms / ay + std::abs(f) * (y.terms / ay - 1)};
          case '^': {
            double by_x = f == 0 ? 0 : std::abs(f * y.value) * x.terms / ax;
            double by_y = f == 0 || x.value <= 0 ? 0 : std::abs(f * std::log(ax)) * y.terms;
            return {f, std::abs(f) + by_x + by_y};
          }
          case '%':  // x - q y
            return {f, x.terms + std::abs(std::floor(x.value / y.value)) * y.terms};
          case 'M':
          case 'm':
            return {f, std::max(x.terms, y.terms)};
          default:
            return {f, std::abs(f)};
        }
      }
      case ExprKind::kIf:
        return truth(n.args[0]) ? terms(n.args[1]) : terms(n.args[2]);
      default: {
        double v = real(n);
        return {v, std::abs(v)};
      }
    }
  }

  // Calls f at every point of a reduction.
  template <typename F>
  void each_reduced(const Expr& reduce, const Box& reduced, F f) {
    for_each_point(reduced, [&](std::span<const int64_t> point) {
      for (size_t i = 0; i < point.size(); ++i) at_[reduce.reduced[i]] = point[i];
      f();
    });
  }

  int64_t reduce_ints(const TypedExpr& body, const Expr& reduce, const Box& reduced) {
    const char combine = scalars::letter_of(reduce.reducer);
    int64_t total = scalars::integer_identity_of(reduce.reducer);
    each_reduced(reduce, reduced, [&] { total = scalars::binary(combine, total, integer(body)); });
    return total;
  }

  double reduce_reals(const TypedExpr& body, const Expr& reduce, const Box& reduced) {
    const char combine = scalars::letter_of(reduce.reducer);
    double total = identity_of(reduce.reducer);
    each_reduced(reduce, reduced, [&] { total = scalars::binary(combine, total, real(body)); });
    return total;
  }

  Real reduce_terms(const TypedExpr& body, const Expr& reduce, const Box& reduced) {
    Reducer r = reduce.reducer;
    Real total{identity_of(r), r == Reducer::kProd ? 1.0 : 0.0};
    each_reduced(reduce, reduced, [&] {
      Real x = terms(body);
      if (r == Reducer::kSum) total.terms += x.terms;
      else if (r == Reducer::kProd) {
        double ax = std::abs(x.value), at = std::abs(total.value);
        total.terms = at * x.terms + total.terms * ax - at * ax;
      } else total.terms = std::max(total.terms, x.terms);
      total.value = scalars::binary(scalars::letter_of(r), total.value, x.value);
    });
    return total;
  }

  double opaque(const Expr& e) {
    std::vector<int64_t> key;
    std::vector<Box> slices;
    for (const Expr& read : e.args) {
      Box box;
      const BoundTensor& tensor = bound_.tensors[read.tensor];
      for (size_t a = 0; a < tensor.factored.size(); ++a) {
        bool whole = a < read.whole.size() && read.whole[a];
        int64_t at = whole ? 0 : value_of(read.subscripts[a], at_);
        box.push_back(whole ? Interval{0, tensor.factored[a]} : Interval{at, at + 1});
        if (!whole) key.push_back(at);
      }
      slices.push_back(std::move(box));
    }
    auto [it, fresh] = opaque_results_.try_emplace({&e, key});
    if (fresh) {
      std::vector<Array> arguments;
      for (size_t i = 0; i < e.args.size(); ++i) arguments.push_back(slice(e.args[i], slices[i]));
      const OpaqueRegistry* registry = options_.opaques;
      if (!registry || !registry->contains(e.function))
        fail("no evaluator is given for the opaque function '{}'", e.function);
      it->second = registry->at(e.function)(arguments);
    }
    const Array& result = it->second;
    std::vector<int64_t> point;
    for (const Affine& s : e.subscripts) point.push_back(value_of(s, at_));
    ensure(point.size() == result.shape.size(), "opaque {}: its result has rank {}, the formula reads {} indices",
           e.function, result.shape.size(), point.size());
    return result.at(offset_in(full_box(result.shape), point));
  }

  Array slice(const Expr& read, const Box& box) {
    const BoundTensor& tensor = bound_.tensors[read.tensor];
    const Piece* piece = pieces_[read.tensor];
    if (!piece || !contains(piece->box, box))
      throw Error(ExitCode::kBug, fmt::format("stage {} reads {}{} outside the part it was given, {}",
                                              bound_.tensors[stage_.tensor].name, tensor.name, to_string(box),
                                              piece ? to_string(piece->box) : "nothing"));
    Array array{DType::kFloat64, {}, {}, {}, {}};
    for (size_t a = 0; a < box.size(); ++a)
      if (a < read.whole.size() && read.whole[a]) array.shape.push_back(box[a].size());
    for_each_point(box, [&](std::span<const int64_t> point) {
      array.reals.push_back(piece->data.at(offset_in(piece->box, point)));
      if (options_.reads) (*options_.reads)[read.tensor][offset_in(full_box(tensor.factored), point)] = true;
    });
    return array;
  }

  const Bound& bound_;
  const Stage& stage_;
  const std::vector<Interval>& ranges_;
  const std::vector<const Piece*>& pieces_;
  const Evaluation& options_;
  std::vector<int64_t> at_;     // the value of every index at the current point
  std::vector<int64_t> point_;  // scratch of locate()
  std::map<std::pair<const Expr*, std::vector<int64_t>>, Array> opaque_results_;
};

}  // namespace

Piece evaluate_stage(const Bound& bound, int stage, const std::vector<Interval>& ranges,
                     const std::vector<const Piece*>& pieces, const Evaluation& options) {
  ensure(pieces.size() == bound.tensors.size() && ranges.size() == bound.indices.size(),
         "evaluate_stage: {} pieces and {} ranges", pieces.size(), ranges.size());
  return StageEvaluator(bound, stage, ranges, pieces, options).run();
}

std::vector<Array> evaluate(const Bound& bound, const std::vector<Array>& operands, const Evaluation& options) {
  if (static_cast<int>(operands.size()) != bound.operand_count)
    fail("{}: {} operands are given, it has {}", bound.name, operands.size(), bound.operand_count);
  std::vector<Piece> held(bound.tensors.size());
  std::vector<const Piece*> pieces(bound.tensors.size(), nullptr);
  for (int t = 0; t < bound.operand_count; ++t) {
    const BoundTensor& tensor = bound.tensors[t];
    if (operands[t].shape != tensor.shape && operands[t].shape != tensor.factored)
      fail("{}: operand {} has shape {}, the formula was bound to {}", bound.name, tensor.name, operands[t].shape,
           tensor.shape);
    held[t] = {full_box(tensor.factored), operands[t]};
    held[t].data.shape = tensor.factored;
    pieces[t] = &held[t];
  }
  std::vector<Interval> ranges;
  for (const Index& i : bound.indices) ranges.push_back({0, i.extent});
  for (size_t s = 0; s < bound.stages.size(); ++s) {
    int t = bound.stages[s].tensor;
    held[t] = evaluate_stage(bound, static_cast<int>(s), ranges, pieces, options);
    pieces[t] = &held[t];
  }
  std::vector<Array> results;
  for (int t : bound.results) {
    results.push_back(held[t].data);
    results.back().shape = bound.tensors[t].shape;
  }
  return results;
}

}  // namespace partita::tdl
