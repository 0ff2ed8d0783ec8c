#include "partita/tdl/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/tdl/functions.h"
#include "partita/tdl/mutant.h"

namespace partita::tdl {

Array real_array(Shape shape, std::vector<double> values) {
  ensure(volume(shape) == static_cast<int64_t>(values.size()), "array of {} has {} elements", shape, values.size());
  return {DType::kFloat64, std::move(shape), std::move(values), {}, {}};
}

Array int_array(Shape shape, std::vector<int64_t> values) {
  ensure(volume(shape) == static_cast<int64_t>(values.size()), "array of {} has {} elements", shape, values.size());
  return {DType::kInt64, std::move(shape), {}, std::move(values), {}};
}

int64_t offset_in(const Box& box, std::span<const int64_t> point) {
  int64_t offset = 0;
  for (size_t a = 0; a < box.size(); ++a) offset = offset * box[a].size() + (point[a] - box[a].lo);
  return offset;
}

void for_each_point(const Box& box, const std::function<void(std::span<const int64_t>)>& f) {
  if (is_empty(box)) return;
  std::vector<int64_t> point;
  for (const Interval& i : box) point.push_back(i.lo);
  while (true) {
    f(point);
    size_t a = box.size();
    while (a > 0 && ++point[a - 1] == box[a - 1].hi) {
      point[a - 1] = box[a - 1].lo;
      --a;
    }
    if (a == 0) return;
  }
}

Piece piece_of(const Array& whole, const Shape& factored, const Box& box) {
  Piece piece{box, {whole.dtype, extents(box), {}, {}, {}}};
  Box full = full_box(factored);
  for_each_point(box, [&](std::span<const int64_t> point) {
    int64_t i = offset_in(full, point);
    if (is_float(whole.dtype)) {
      piece.data.reals.push_back(whole.reals[i]);
      if (!whole.terms.empty()) piece.data.terms.push_back(whole.terms[i]);
    } else {
      piece.data.ints.push_back(whole.ints[i]);
    }
  });
  return piece;
}

double rng_value(std::span<const int64_t> arguments) {
  size_t n = arguments.size();
  if (n < 2 || n > 4) fail("rng() takes a seed, up to two more keys, and an element's number; got {} arguments", n);
  auto key = [&](size_t from_end) { return n > from_end + 1 ? static_cast<uint64_t>(arguments[n - 1 - from_end]) : 0; };
  return philox_uniform(static_cast<uint64_t>(arguments[0]), key(2), key(1), static_cast<uint64_t>(arguments[n - 1]));
}

namespace {

Array cholesky(const std::vector<Array>& slices) {
  const Array& a = slices.at(0);
  if (a.shape.size() != 2 || a.shape[0] != a.shape[1]) fail("chol: a square matrix is needed, got shape {}", a.shape);
  int64_t n = a.shape[0];
  Array l = real_array(a.shape, std::vector<double>(n * n));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      double s = a.at(i * n + j);
      for (int64_t k = 0; k < j; ++k) s -= l.reals[i * n + k] * l.reals[j * n + k];
      l.reals[i * n + j] = i == j ? std::sqrt(s) : s / l.reals[j * n + j];
    }
  return l;
}

int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) fail("integer division by zero in a formula");
  if (b == -1) return static_cast<int64_t>(-static_cast<uint64_t>(a));  // the least has no negative
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}
// Saturating, so that the largest and least int64, the identities of min and max, stay beyond all values.
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
int64_t add(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_add_overflow(a, b, &r) ? (a < 0 ? kLeast : kMost) : r;
}
int64_t subtract(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_sub_overflow(a, b, &r) ? (a < 0 ? kLeast : kMost) : r;
}
int64_t multiply(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? ((a < 0) != (b < 0) ? kLeast : kMost) : r;
}
int64_t floor_mod(int64_t a, int64_t b) { return b == -1 ? 0 : a - b * floor_div(a, b); }

int64_t value_of(const Affine& form, const std::vector<int64_t>& at) {
  int64_t value = form.constant;
  for (const Affine::Term& t : form.terms) {
    if (t.atom.kind == Affine::Atom::Kind::kIndex) {
      value += t.coefficient * at[t.atom.index];
      continue;
    }
    int64_t inner = value_of(*t.atom.inner, at);
    bool div = t.atom.kind == Affine::Atom::Kind::kFloorDiv;
    value += t.coefficient * (div ? floor_div(inner, t.atom.divisor) : floor_mod(inner, t.atom.divisor));
  }
  return value;
}

void collect_indices(const Affine& form, std::vector<int>& into) {
  for (const Affine::Term& t : form.terms) {
    if (t.atom.inner) collect_indices(*t.atom.inner, into);
    else if (std::find(into.begin(), into.end(), t.atom.index) == into.end()) into.push_back(t.atom.index);
  }
}

// bool < int64 < float64, and an operation on values is done in the larger of their types.
enum class Type { kBool, kInt, kReal };
Type type_of(DType d) { return is_float(d) ? Type::kReal : d == DType::kInt64 ? Type::kInt : Type::kBool; }
DType dtype_of(Type t) { return t == Type::kReal ? DType::kFloat64 : t == Type::kInt ? DType::kInt64 : DType::kBool; }

// A value and the sum of the absolute terms in it.
struct Real {
  double value, terms;
};

// An expression with its types and functions resolved.
struct Node {
  const Expr* expr;
  ExprKind kind;
  Type type;
  char op = 0;                               // kBinary: one letter per function; kUnary: likewise
  const RealFunction* real = nullptr;        // kUnary
  const IntegerFunction* integer = nullptr;  // kBinary
  std::vector<Node> args;
};

const std::map<std::string, char> kBinaryOps = {{"+", '+'},   {"-", '-'},  {"*", '*'}, {"/", '/'},   {"//", 'd'},
                                                {"%", '%'},   {"^", '^'},  {"<", '<'}, {"<=", 'l'},  {"==", '='},
                                                {"!=", '!'},  {">=", 'g'}, {">", '>'}, {"and", '&'}, {"or", '|'},
                                                {"max", 'M'}, {"min", 'm'}};
const std::map<std::string, char> kUnaryOps = {
    {"neg", '-'}, {"not", '!'}, {"exp", 'e'}, {"log", 'l'}, {"sqrt", 'q'}, {"tanh", 't'}, {"sigmoid", 'g'},
    {"erf", 'f'}, {"sin", 's'}, {"cos", 'c'}, {"abs", 'a'}, {"sign", 'n'}, {"stop", '='}, {"floor", '_'}};

char lookup(const std::map<std::string, char>& table, const std::string& name) {
  auto it = table.find(name);
  ensure(it != table.end(), "the evaluator has no function '{}'", name);
  return it->second;
}

bool is_integer(double x) { return std::floor(x) == x && std::abs(x) <= 9007199254740992.0; }

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
    Node body = compile(reduce ? reduce->args[0] : stage_.body);
    Box reduced;
    if (reduce)
      for (int i : reduce->reduced) reduced.push_back(ranges_[i]);
    Type type = reduce && reduce->reducer == Reducer::kSum ? std::max(body.type, Type::kInt) : body.type;
    if (reduce && reduce->reducer == Reducer::kProd) type = std::max(type, Type::kInt);

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
    piece.data.shape = extents(piece.box);
    int64_t n = volume(piece.box);
    if (type == Type::kReal) piece.data.reals.resize(n);
    else piece.data.ints.resize(n);
    if (type == Type::kReal && options_.with_terms) piece.data.terms.resize(n);

    for_each_point(points, [&](std::span<const int64_t> point) {
      place(point);
      int64_t i = offset_in(piece.box, target);
      if (type != Type::kReal) {
        piece.data.ints[i] = reduce ? reduce_ints(body, *reduce, reduced) : integer(body);
      } else if (options_.with_terms) {
        Real r = reduce ? reduce_terms(body, *reduce, reduced) : terms(body);
        piece.data.reals[i] = r.value;
        piece.data.terms[i] = r.terms;
      } else {
        piece.data.reals[i] = reduce ? reduce_reals(body, *reduce, reduced) : real(body);
      }
    });
    return piece;
  }

 private:
  Node compile(const Expr& e) {
    Node node{&e, e.kind, Type::kReal};
    if (e.kind != ExprKind::kOpaque)
      for (const Expr& a : e.args) node.args.push_back(compile(a));
    Type widest = Type::kBool;
    for (const Node& a : node.args) widest = std::max(widest, a.type);
    Type arithmetic = std::max(widest, Type::kInt);
    switch (e.kind) {
      case ExprKind::kNumber:
        node.type = is_integer(e.number) ? Type::kInt : Type::kReal;
        break;
      case ExprKind::kIndex:
        node.type = Type::kInt;
        break;
      case ExprKind::kRead: {
        const Piece* piece = pieces_[e.tensor];
        node.type = piece ? type_of(piece->data.dtype) : Type::kReal;
        if (e.has_else && e.number != 0)
          node.type = std::max(node.type, is_integer(e.number) ? Type::kInt : Type::kReal);
        break;
      }
      case ExprKind::kUnary:
        node.real = find_real_function(e.function);
        if (node.real) break;
        node.op = lookup(kUnaryOps, e.function);
        if (node.op == '!') node.type = Type::kBool;
        else if (node.op == '=') node.type = widest;
        else if (std::string("-an_").find(node.op) != std::string::npos) node.type = arithmetic;
        break;
      case ExprKind::kBinary:
        node.integer = find_integer_function(e.function);
        if (node.integer) {
          node.type = Type::kInt;
          break;
        }
        node.op = lookup(kBinaryOps, e.function);
        if (std::string("<l=!g>&|").find(node.op) != std::string::npos) node.type = Type::kBool;
        else if (node.op == '^') {
          bool natural = e.args[1].kind == ExprKind::kNumber && e.args[1].number >= 0;
          node.type = natural ? arithmetic : Type::kReal;
        } else if (node.op != '/') node.type = arithmetic;
        break;
      case ExprKind::kIf:
        node.type = std::max(node.args[1].type, node.args[2].type);
        break;
      case ExprKind::kRng:
        node.type = Type::kReal;
        break;
      case ExprKind::kOpaque:
        node.type = Type::kReal;
        break;
      case ExprKind::kReduce:
        ensure(false, "stage {}: a reducer below the root", bound_.tensors[stage_.tensor].name);
    }
    return node;
  }

  // Where a read finds its element in its piece, or -1 out of the tensor's range.
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

  bool truth(const Node& n) { return n.type == Type::kReal ? real(n) != 0 : integer(n) != 0; }

  bool compare(const Node& n) {
    const Node &x = n.args[0], &y = n.args[1];
    auto decide = [&](auto a, auto b) {
      switch (n.op) {
        case '<':
          return a < b;
        case 'l':
          return a <= b;
        case '=':
          return a == b;
        case '!':
          return a != b;
        case 'g':
          return a >= b;
        default:
          return a > b;
      }
    };
    if (x.type == Type::kReal || y.type == Type::kReal) return decide(real(x), real(y));
    return decide(integer(x), integer(y));
  }

  int64_t integer(const Node& n) {  // of a node that is not real
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
        int64_t x = integer(n.args[0]);
        switch (n.op) {
          case '-':
            return subtract(0, x);
          case 'a':
            return x < 0 ? subtract(0, x) : x;
          case 'n':
            return (x > 0) - (x < 0);
          default:
            return x;  // stop, floor
        }
      }
      case ExprKind::kBinary: {
        if (n.op == '&' || n.op == '|') {  // both sides are read, as the region analysis assumes
          bool x = truth(n.args[0]), y = truth(n.args[1]);
          return n.op == '&' ? x && y : x || y;
        }
        if (n.type == Type::kBool) return compare(n);
        if (n.integer) return n.integer->value(whole(n.args[0]), whole(n.args[1]));
        int64_t x = integer(n.args[0]), y = integer(n.args[1]);
        switch (n.op) {
          case '+':
            return add(x, y);
          case '-':
            return subtract(x, y);
          case '*':
            return multiply(x, y);
          case 'd':
            return floor_div(x, y);
          case '%':
            return floor_mod(x, y);
          case 'M':
            return std::max(x, y);
          case 'm':
            return std::min(x, y);
          default: {
            int64_t power = 1;
            for (int64_t i = 0; i < y; ++i) power = multiply(power, x);
            return power;
          }
        }
      }
      case ExprKind::kIf:
        return truth(n.args[0]) ? integer(n.args[1]) : integer(n.args[2]);
      default:
        break;
    }
    ensure(false, "no integer value of a node of kind {}", static_cast<int>(n.kind));
    return 0;
  }

  int64_t whole(const Node& n) { return n.type == Type::kReal ? static_cast<int64_t>(real(n)) : integer(n); }

  static double value_of_unary(const Node& n, double x) { return n.real ? n.real->value(x) : unary(n.op, x); }
  static double unary(char op, double x) {
    switch (op) {
      case '-':
        return -x;
      case 'e':
        return std::exp(x);
      case 'l':
        return std::log(x);
      case 'q':
        return std::sqrt(x);
      case 't':
        return std::tanh(x);
      case 'g':
        return 1 / (1 + std::exp(-x));
      case 'f':
        return std::erf(x);
      case 's':
        return std::sin(x);
      case 'c':
        return std::cos(x);
      case 'a':
        return std::abs(x);
      case 'n':
        return std::isnan(x) ? x : (x > 0) - (x < 0);
      case '_':
        return std::floor(x);
      default:
        return x;
    }
  }
  // |derivative| of a unary function whose value is f; 0 for the stepwise ones.
  static double slope(char op, double x, double f) {
    switch (op) {
      case 'e':
        return std::abs(f);
      case 'l':
        return 1 / std::abs(x);
      case 'q':
        return f == 0 ? 0 : 0.5 / std::abs(f);
      case 't':
        return 1 - f * f;
      case 'g':
        return f * (1 - f);
      case 'f':
        return 1.1283791670955126 * std::exp(-x * x);  // 2 / sqrt(pi)
      case 's':
        return std::abs(std::cos(x));
      case 'c':
        return std::abs(std::sin(x));
      case 'n':
      case '_':
        return 0;
      default:
        return 1;
    }
  }
  static double largest(double a, double b) { return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b); }
  static double least(double a, double b) { return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b); }
  static double binary(char op, double x, double y) {
    switch (op) {
      case '+':
        return x + y;
      case '-':
        return x - y;
      case '*':
        return x * y;
      case '/':
        return x / y;
      case 'd':
        return std::floor(x / y);
      case '%': {  // of the exact quotient rounded down
        const double rest = std::fmod(x, y);
        return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
      }
      case '^':
        return std::pow(x, y);
      case 'M':
        return largest(x, y);
      default:
        return least(x, y);
    }
  }

  double real(const Node& n) {
    if (n.type != Type::kReal) return static_cast<double>(integer(n));
    const Expr& e = *n.expr;
    switch (n.kind) {
      case ExprKind::kNumber:
        return e.number;
      case ExprKind::kRead: {
        int64_t i = locate(e);
        return i < 0 ? fill(e) : pieces_[e.tensor]->data.at(i);
      }
      case ExprKind::kUnary:
        return value_of_unary(n, real(n.args[0]));
      case ExprKind::kBinary: {
        double x = real(n.args[0]);
        return binary(n.op, x, real(n.args[1]));
      }
      case ExprKind::kIf:
        return truth(n.args[0]) ? real(n.args[1]) : real(n.args[2]);
      case ExprKind::kRng: {
        std::vector<int64_t> arguments;
        for (const Node& a : n.args) arguments.push_back(a.type == Type::kReal ? std::llround(real(a)) : integer(a));
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
  Real terms(const Node& n) {
    Real r = terms_of(n);
    if (!std::isfinite(r.value)) r.terms = 0;
    return r;
  }

  Real terms_of(const Node& n) {
    if (n.type != Type::kReal) {
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
        double f = value_of_unary(n, x.value), s = n.real ? n.real->slope(x.value) : slope(n.op, x.value, f);
        bool exact = n.op == '-' || n.op == 'a' || n.op == '=';
        return {f, (s == 0 ? 0 : s * x.terms) + (exact ? 0 : std::abs(f))};
      }
      case ExprKind::kBinary: {
        Real x = terms(n.args[0]), y = terms(n.args[1]);
        double f = binary(n.op, x.value, y.value), ax = std::abs(x.value), ay = std::abs(y.value);
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

  int64_t reduce_ints(const Node& body, const Expr& reduce, const Box& reduced) {
    Reducer r = reduce.reducer;
    int64_t total = r == Reducer::kSum ? 0 : r == Reducer::kProd ? 1 : r == Reducer::kMax ? kLeast : kMost;
    each_reduced(reduce, reduced, [&] {
      int64_t v = integer(body);
      switch (r) {
        case Reducer::kSum:
          total = add(total, v);
          break;
        case Reducer::kProd:
          total = multiply(total, v);
          break;
        case Reducer::kMax:
          total = std::max(total, v);
          break;
        case Reducer::kMin:
          total = std::min(total, v);
          break;
      }
    });
    return total;
  }

  static double combine(Reducer r, double total, double v) {
    switch (r) {
      case Reducer::kSum:
        return total + v;
      case Reducer::kProd:
        return total * v;
      case Reducer::kMax:
        return largest(total, v);
      case Reducer::kMin:
        return least(total, v);
    }
    return v;
  }

  static double start(Reducer r) {
    double inf = std::numeric_limits<double>::infinity();
    return r == Reducer::kSum ? 0 : r == Reducer::kProd ? 1 : r == Reducer::kMax ? -inf : inf;
  }

  double reduce_reals(const Node& body, const Expr& reduce, const Box& reduced) {
    double total = start(reduce.reducer);
    each_reduced(reduce, reduced, [&] { total = combine(reduce.reducer, total, real(body)); });
    return total;
  }

  Real reduce_terms(const Node& body, const Expr& reduce, const Box& reduced) {
    Reducer r = reduce.reducer;
    Real total{start(r), r == Reducer::kProd ? 1.0 : 0.0};
    each_reduced(reduce, reduced, [&] {
      Real x = terms(body);
      if (r == Reducer::kSum) total.terms += x.terms;
      else if (r == Reducer::kProd) {
        double ax = std::abs(x.value), at = std::abs(total.value);
        total.terms = at * x.terms + total.terms * ax - at * ax;
      } else total.terms = std::max(total.terms, x.terms);
      total.value = combine(r, total.value, x.value);
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

OpaqueRegistry standard_opaques() { return {{"chol", cholesky}}; }

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
