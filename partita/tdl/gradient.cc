// Derived gradients (25): each access x[f(I)] of a stage gives dx[u] = sum over the unsolved indices of
// G[lhs(I)] * d body / d access, with u = f(I) solved for one index an axis. The gradient is built as a bound formula
// and written as text, so that it goes through parser and binder like a formula that a person wrote.
#include <algorithm>
#include <cmath>
#include <set>

#include "partita/base/error.h"
#include "partita/tdl/affine.h"
#include "partita/tdl/functions.h"

namespace partita::tdl {

namespace {

// ---------------------------------------------------------------- expressions

Expr number(double value) {
  Expr e;
  e.kind = ExprKind::kNumber;
  e.number = value;
  return e;
}

Expr unary(std::string function, Expr x) {
  Expr e;
  e.kind = ExprKind::kUnary;
  e.function = std::move(function);
  e.args.push_back(std::move(x));
  return e;
}

Expr binary(std::string function, Expr x, Expr y) {
  Expr e;
  e.kind = ExprKind::kBinary;
  e.function = std::move(function);
  e.args.push_back(std::move(x));
  e.args.push_back(std::move(y));
  return e;
}

Expr select(Expr condition, Expr yes, Expr no) {
  Expr e;
  e.kind = ExprKind::kIf;
  e.args.push_back(std::move(condition));
  e.args.push_back(std::move(yes));
  e.args.push_back(std::move(no));
  return e;
}

Expr read(int tensor, std::vector<Affine> subscripts) {
  Expr e;
  e.kind = ExprKind::kRead;
  e.tensor = tensor;
  e.subscripts = std::move(subscripts);
  return e;
}

bool is_number(const Expr& e, double value) { return e.kind == ExprKind::kNumber && e.number == value; }
bool is_guard(const Expr& e) { return e.kind == ExprKind::kIf && (is_number(e.args[1], 0) || is_number(e.args[2], 0)); }

// f(e), pushed into the side of an `if` whose other side is 0; f must be linear.
template <typename F>
Expr push(Expr e, F f) {
  if (!is_guard(e)) return f(std::move(e));
  int side = is_number(e.args[2], 0) ? 1 : 2;
  Expr inner = std::move(e.args[side]);
  e.args[side] = push(std::move(inner), f);
  return e;
}

Expr over(Expr x, const Expr& y);

Expr negated(Expr e) {
  return push(std::move(e), [](Expr x) {
    if (x.kind == ExprKind::kNumber) return number(-x.number);
    if (x.kind == ExprKind::kUnary && x.function == "neg") return Expr(x.args[0]);
    return unary("neg", std::move(x));
  });
}

Expr times(Expr x, Expr y) {
  if (is_number(x, 1)) return y;
  if (is_number(y, 1)) return x;
  if (is_number(x, -1)) return negated(std::move(y));
  if (is_number(y, -1)) return negated(std::move(x));
  if (x.kind == ExprKind::kNumber && y.kind == ExprKind::kNumber) return number(x.number * y.number);
  if (is_guard(y)) return push(std::move(y), [&](Expr z) { return times(x, std::move(z)); });
  if (y.kind == ExprKind::kUnary && y.function == "neg") return negated(times(std::move(x), Expr(y.args[0])));
  if (y.kind == ExprKind::kBinary && y.function == "/" && is_number(y.args[0], 1)) return over(std::move(x), y.args[1]);
  if (is_guard(x)) return push(std::move(x), [&](Expr z) { return times(std::move(z), y); });
  return binary("*", std::move(x), std::move(y));
}

Expr over(Expr x, const Expr& y) {
  return push(std::move(x), [&](Expr z) {
    if (z.kind == ExprKind::kUnary && z.function == "neg") return negated(binary("/", Expr(z.args[0]), y));
    return binary("/", std::move(z), y);
  });
}

}  // namespace

Expr tidied(Expr e, const std::vector<Interval>& ranges) {
  static const std::set<std::string> kComparisons = {"<", "<=", "==", "!=", ">=", ">"};
  if (e.kind != ExprKind::kBinary && e.kind != ExprKind::kUnary && e.kind != ExprKind::kIf) {
    for (Expr& a : e.args) a = tidied(std::move(a), ranges);
    return e;
  }
  if (std::optional<Affine> form = affine_of(e)) return expr_of(simplified(*form, ranges));
  for (Expr& a : e.args) a = tidied(std::move(a), ranges);
  if (e.kind == ExprKind::kIf && e.args[0].kind == ExprKind::kNumber)
    return Expr(e.args[e.args[0].number != 0 ? 1 : 2]);
  if (e.kind != ExprKind::kBinary) return e;
  if (e.function == "and" || e.function == "or") {
    double neutral = e.function == "and" ? 1 : 0;
    for (int side : {0, 1}) {
      if (e.args[side].kind != ExprKind::kNumber) continue;
      return e.args[side].number == neutral ? Expr(e.args[1 - side]) : number(1 - neutral);
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
  auto decided = [&](bool always, bool never) { return always ? number(1) : never ? number(0) : std::move(e); };
  if (e.function == "<") return decided(hi < 0, lo >= 0);
  if (e.function == "<=") return decided(hi <= 0, lo > 0);
  if (e.function == ">") return decided(lo > 0, hi <= 0);
  if (e.function == ">=") return decided(lo >= 0, hi < 0);
  if (e.function == "==") return decided(lo == 0 && hi == 0, lo > 0 || hi < 0);
  return decided(lo > 0 || hi < 0, lo == 0 && hi == 0);
}

namespace {

Expr plus(Expr x, Expr y) {
  if (y.kind == ExprKind::kUnary && y.function == "neg") return binary("-", std::move(x), Expr(y.args[0]));
  return binary("+", std::move(x), std::move(y));
}

// Reads in value position: what a condition or a rounding compares is not differentiated.
void collect_accesses(const Expr& e, std::vector<const Expr*>& into) {
  static const std::set<std::string> kFlat = {"<", "<=", "==", "!=", ">=", ">", "and", "or", "%", "//"};
  if (e.kind == ExprKind::kRead) into.push_back(&e);
  if (e.kind == ExprKind::kIf) {
    collect_accesses(e.args[1], into);
    collect_accesses(e.args[2], into);
  } else if (e.kind != ExprKind::kRead && e.kind != ExprKind::kRng &&
             !(e.kind == ExprKind::kBinary && (kFlat.contains(e.function) || find_integer_function(e.function)))) {
    for (const Expr& a : e.args) collect_accesses(a, into);
  }
}

std::optional<Expr> derivative(const Expr& e, const Expr* access);

std::optional<Expr> derivative_of_binary(const Expr& e, const Expr* access) {
  const std::string& f = e.function;
  const Expr &x = e.args[0], &y = e.args[1];
  std::optional<Expr> dx = derivative(x, access), dy = derivative(y, access);  // one access is on one side
  if (!dx && !dy) return std::nullopt;
  if (f == "+") return dx ? dx : dy;
  if (f == "-") return dx ? *dx : negated(*dy);
  if (f == "*") return dx ? times(*dx, y) : times(x, *dy);
  if (f == "/") return dx ? over(*dx, y) : negated(over(times(x, *dy), times(y, y)));
  if (f == "^") {
    if (dy) return times(*dy, times(e, unary("log", x)));
    if (is_number(y, 2)) return times(*dx, times(number(2), x));
    Expr lower = y.kind == ExprKind::kNumber ? number(y.number - 1) : binary("-", y, number(1));
    return times(*dx, times(y, binary("^", x, std::move(lower))));
  }
  if (f == "max" || f == "min") {  // at a tie the second argument gets it, so that relu'(0) is 0
    if (dx) return select(binary(f == "max" ? ">" : "<", x, y), *dx, number(0));
    return select(binary(f == "max" ? "<=" : ">=", x, y), *dy, number(0));
  }
  return std::nullopt;
}

// e with x in place of every read.
Expr with_reads(Expr e, const Expr& x) {
  if (e.kind == ExprKind::kRead) return x;
  for (Expr& a : e.args) a = with_reads(std::move(a), x);
  return e;
}

std::optional<Expr> derivative_of_unary(const Expr& e, const Expr* access) {
  const std::string& f = e.function;
  const Expr& x = e.args[0];
  if (f == "stop" || f == "sign" || f == "floor" || f == "not") return std::nullopt;
  std::optional<Expr> d = derivative(x, access);
  if (!d) return std::nullopt;
  if (f == "neg") return negated(*d);
  if (f == "exp") return times(*d, e);
  if (f == "log") return over(*d, x);
  if (f == "sqrt") return over(times(number(0.5), *d), e);
  if (f == "abs") return times(*d, unary("sign", x));
  if (f == "tanh") return times(*d, binary("-", number(1), binary("*", e, e)));
  if (f == "sigmoid") return times(*d, binary("*", e, binary("-", number(1), e)));
  if (f == "sin") return times(*d, unary("cos", x));
  if (f == "cos") return negated(times(*d, unary("sin", x)));
  if (f == "erf")
    return times(*d, times(number(2 / std::sqrt(std::acos(-1.0))), unary("exp", unary("neg", binary("*", x, x)))));
  const RealFunction* real = find_real_function(f);
  ensure(real != nullptr, "no derivative of the function '{}'", f);
  const Bound slope = bind(fmt::format("d(x)[] = {}", real->derivative), {{}});
  return times(*d, with_reads(slope.stages.at(0).body, x));
}

// d e / d (this very access); empty where it is zero.
std::optional<Expr> derivative(const Expr& e, const Expr* access) {
  if (&e == access) return number(1);
  switch (e.kind) {
    case ExprKind::kUnary:
      return derivative_of_unary(e, access);
    case ExprKind::kBinary:
      return derivative_of_binary(e, access);
    case ExprKind::kIf: {
      if (std::optional<Expr> yes = derivative(e.args[1], access)) return select(e.args[0], *yes, number(0));
      if (std::optional<Expr> no = derivative(e.args[2], access)) return select(e.args[0], number(0), *no);
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

// Sums and products of reads, numbers and indices: finite wherever their operands are, so that a factor 0 makes it 0.
bool is_polynomial(const Expr& e) {
  static const std::set<std::string> kRing = {"+", "-", "*"};
  switch (e.kind) {
    case ExprKind::kNumber:
      return std::isfinite(e.number);
    case ExprKind::kIndex:
      return true;
    case ExprKind::kRead:
      return std::isfinite(e.number);
    case ExprKind::kUnary:
      return e.function == "neg" && is_polynomial(e.args[0]);
    case ExprKind::kBinary:
      return kRing.contains(e.function) && is_polynomial(e.args[0]) && is_polynomial(e.args[1]);
    case ExprKind::kIf:
      return is_polynomial(e.args[1]) && is_polynomial(e.args[2]);
    default:
      return false;
  }
}

// Every index of `e` replaced: index -> form.
using Substitution = std::map<int, Affine>;

Affine substituted_all(const Affine& form, const Substitution& by) {
  Affine result;
  result.constant = form.constant;
  for (const Affine::Term& t : form.terms) {
    Affine part;
    if (t.atom.kind == Affine::Atom::Kind::kIndex) {
      auto it = by.find(t.atom.index);
      part = it == by.end() ? affine_index(t.atom.index) : it->second;
    } else {
      Affine inner = substituted_all(*t.atom.inner, by);
      part = t.atom.kind == Affine::Atom::Kind::kMod ? modulo(inner, t.atom.divisor) : floor_div(inner, t.atom.divisor);
    }
    result = result + scaled(part, t.coefficient);
  }
  return result;
}

Expr substituted_all(Expr e, const Substitution& by) {
  if (e.kind == ExprKind::kIndex) {
    auto it = by.find(e.index);
    return it == by.end() ? e : expr_of(it->second);
  }
  for (Affine& s : e.subscripts) s = substituted_all(s, by);
  for (Expr& a : e.args) a = substituted_all(std::move(a), by);
  return e;
}

bool mentions(const Expr& e, int index) {
  if (e.kind == ExprKind::kIndex && e.index == index) return true;
  for (const Affine& s : e.subscripts)
    if (uses_index(s, index)) return true;
  return std::any_of(e.args.begin(), e.args.end(), [&](const Expr& a) { return mentions(a, index); });
}

// Where `tensor` is read at `form` on an axis, reads it at `value`, which form is known to equal.
void set_subscript(Expr& e, int tensor, size_t axis, const Affine& form, const Affine& value) {
  if (e.kind == ExprKind::kRead && e.tensor == tensor && e.subscripts[axis] == form) e.subscripts[axis] = value;
  for (Expr& a : e.args) set_subscript(a, tensor, axis, form, value);
}

// Whether e asks for `inner % divisor == 0` somewhere.
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

// ---------------------------------------------------------------- transposition

constexpr int kZero = -1;  // in a Part's left side: the axis has extent 1 and is written at 0

// One contribution to a tensor's cotangent: at lhs (an index, or kZero, a factored axis), the sum of body over
// `summed`.
struct Part {
  std::vector<int> lhs;
  std::vector<int> summed;
  Expr body;
};

// The cotangent of one tensor: parts, and for a result the tensor g_RESULT itself.
struct Cotangent {
  int given = -1;
  std::vector<Part> parts;
};

class Transposer {
 public:
  Transposer(const Bound& forward, int operand) : f_(forward), g_(forward), operand_(operand) {
    g_.name = fmt::format("{}_d{}", f_.name, f_.tensors[operand].name);
    g_.results.clear();
    for (const Stage& stage : f_.stages) used_names_.insert(f_.tensors[stage.tensor].name);
    for (const BoundTensor& t : f_.tensors) used_names_.insert(t.name);
    for (const Index& i : f_.indices) used_names_.insert(i.name);
  }

  std::optional<Gradient> run() {
    find_dependents();
    if (!depends_[operand_]) return std::nullopt;
    cotangents_.resize(f_.tensors.size());
    for (int r : f_.results) {
      if (!depends_[r]) continue;
      BoundTensor given = f_.tensors[r];
      given.name = fresh_name("g_" + f_.tensors[r].name);
      given.is_operand = true;
      cotangents_[r].given = add_tensor(given);
    }
    for (int s = static_cast<int>(f_.stages.size()) - 1; s >= 0; --s)
      if (depends_[f_.stages[s].tensor]) transpose(f_.stages[s]);
    if (cotangents_[operand_].parts.empty()) return std::nullopt;
    int result = total(operand_, true);
    g_.results = {result};
    return finish();
  }

 private:
  // Tensors that the operand's value flows into.
  void find_dependents() {
    depends_.assign(f_.tensors.size(), false);
    depends_[operand_] = true;
    bool any = false;
    for (const Stage& stage : f_.stages) {
      std::vector<const Expr*> accesses;
      collect_accesses(stage.body, accesses);
      for (const Expr* a : accesses)
        if (depends_[a->tensor]) depends_[stage.tensor] = any = true;
    }
    if (!any) depends_[operand_] = false;
    // Towards no result, no gradient.
    std::vector<bool> reaches(f_.tensors.size(), false);
    for (int r : f_.results) reaches[r] = true;
    for (int s = static_cast<int>(f_.stages.size()) - 1; s >= 0; --s) {
      if (!reaches[f_.stages[s].tensor]) continue;
      std::vector<const Expr*> accesses;
      collect_accesses(f_.stages[s].body, accesses);
      for (const Expr* a : accesses) reaches[a->tensor] = true;
    }
    for (size_t t = 0; t < depends_.size(); ++t) depends_[t] = depends_[t] && reaches[t];
  }

  int add_tensor(BoundTensor tensor) {
    g_.tensors.push_back(std::move(tensor));
    return static_cast<int>(g_.tensors.size()) - 1;
  }
  int add_index(const std::string& name, int64_t extent) {
    g_.indices.push_back({fresh_name(name), extent, true});
    return static_cast<int>(g_.indices.size()) - 1;
  }
  std::string fresh_name(const std::string& wanted) {
    std::string plain = wanted;
    std::replace(plain.begin(), plain.end(), '.', '_');
    std::string name = plain;
    for (int n = 1; used_names_.contains(name); ++n) name = fmt::format("{}_{}", plain, n);
    used_names_.insert(name);
    return name;
  }
  // The index that runs along an axis of a tensor where none of the forward formula can.
  int axis_index(int tensor, size_t axis) {
    auto [it, fresh] = axis_indices_.try_emplace({tensor, axis}, -1);
    if (fresh)
      it->second = add_index(fmt::format("{}_{}", f_.tensors[tensor].name, axis), f_.tensors[tensor].factored[axis]);
    return it->second;
  }
  std::vector<Interval> all_ranges() const {
    std::vector<Interval> ranges;
    for (const Index& i : g_.indices) ranges.push_back({0, i.extent});
    return ranges;
  }
  static std::vector<Affine> forms(const std::vector<int>& lhs) {
    std::vector<Affine> result;
    for (int i : lhs) result.push_back(i == kZero ? affine_constant(0) : affine_index(i));
    return result;
  }

  void transpose(const Stage& stage) {
    const BoundTensor& tensor = f_.tensors[stage.tensor];
    int cotangent = total(stage.tensor, false);
    if (cotangent < 0) return;
    const Expr* reduce = stage.body.kind == ExprKind::kReduce ? &stage.body : nullptr;
    const Expr& body = reduce ? reduce->args[0] : stage.body;
    if (reduce && reduce->reducer == Reducer::kProd)
      fail("{}: the gradient of {} goes through prod(..) in stage {}, which has no derived gradient: declare one",
           f_.name, f_.tensors[operand_].name, tensor.name);
    if (body.kind == ExprKind::kOpaque)
      fail("{}: the gradient of {} goes through opaque {}: declare a gradient", f_.name, f_.tensors[operand_].name,
           body.function);

    std::vector<int> own;  // the stage's indices, those of the left side first
    for (const Affine& form : stage.lhs) collect_indices(form, own);
    size_t lhs_indices = own.size();
    if (reduce) own.insert(own.end(), reduce->reduced.begin(), reduce->reduced.end());
    std::set<int> reduced(own.begin() + static_cast<std::ptrdiff_t>(lhs_indices), own.end());

    std::vector<const Expr*> accesses;
    collect_accesses(body, accesses);
    for (const Expr* access : accesses) {
      if (!depends_[access->tensor]) continue;
      reject_opaque(body, access);
      std::optional<Expr> d = derivative(body, access);
      if (!d) continue;
      bool polynomial = is_polynomial(*d);
      Expr flow = times(read(cotangent, stage.lhs), std::move(*d));
      if (reduce && reduce->reducer != Reducer::kSum)  // all that tie get it
        flow = select(binary("==", body, read(stage.tensor, stage.lhs)), std::move(flow), number(0));
      Part part = solve(stage, *access, body, own, reduced, std::move(flow), polynomial);
      std::vector<Part>& parts = cotangents_[access->tensor].parts;
      std::vector<int> wanted = parts.empty() ? names_of_stage(access->tensor) : parts.front().lhs;
      if (!wanted.empty()) rename_like(wanted, part);
      part.body = tidied(std::move(part.body), all_ranges());
      parts.push_back(std::move(part));
    }
  }

  void reject_opaque(const Expr& e, const Expr* access) const {
    if (e.kind == ExprKind::kOpaque &&
        std::any_of(e.args.begin(), e.args.end(), [&](const Expr& a) { return &a == access; }))
      fail("{}: the gradient of {} goes through opaque {}: declare a gradient", f_.name, f_.tensors[operand_].name,
           e.function);
    for (const Expr& a : e.args) reject_opaque(a, access);
  }

  // The contribution `flow` of one access, at the access's own subscripts: they are solved for indices of the stage.
  Part solve(const Stage& stage, const Expr& access, const Expr& body, const std::vector<int>& own,
             const std::set<int>& reduced, Expr flow, bool polynomial) {
    const BoundTensor& tensor = f_.tensors[access.tensor];
    std::vector<int> left = own;
    auto is_left = [&](int i) { return std::find(left.begin(), left.end(), i) != left.end(); };
    auto remove_left = [&](int i) { left.erase(std::find(left.begin(), left.end(), i)); };
    std::vector<Affine> forms = access.subscripts;  // of what is not solved yet
    Part part;
    part.lhs.resize(forms.size());
    std::vector<Expr> guards;
    auto replace = [&](int index, const Affine& by) {
      Substitution one = {{index, by}};
      for (Affine& form : forms) form = substituted_all(form, one);
      flow = substituted_all(std::move(flow), one);
      for (Expr& g : guards) g = substituted_all(std::move(g), one);
    };
    // 0 <= form < limit, where that is not certain; a cotangent read out of its range is 0 without being asked.
    auto guard_range = [&](const Affine& form, int64_t limit, int index) {
      if (polynomial && zero_outside(stage, index)) return;
      Interval range = range_of(form, all_ranges());
      if (range.lo < 0) guards.push_back(binary(">=", expr_of(form), number(0)));
      if (range.hi > limit) guards.push_back(binary("<", expr_of(form), number(static_cast<double>(limit))));
    };
    bool has_mod = false;
    for (const Affine& s : access.subscripts)
      for (const Affine::Term& t : s.terms) has_mod = has_mod || t.atom.kind == Affine::Atom::Kind::kMod;

    std::vector<bool> solved = has_mod ? solve_digits(access, left, replace) : std::vector<bool>(forms.size(), false);
    for (size_t axis = 0; axis < forms.size(); ++axis) {
      int plain = forms[axis].plain_index();
      int64_t extent = tensor.factored[axis];
      if (solved[axis]) {
        part.lhs[axis] = extent == 1 ? kZero : axis_index(access.tensor, axis);
      } else if (plain >= 0 && is_left(plain) && g_.indices[plain].extent == extent) {
        part.lhs[axis] = plain;
        remove_left(plain);
        solved[axis] = true;
      }
    }

    for (size_t axis = 0; axis < forms.size(); ++axis) {
      if (solved[axis]) continue;
      const Affine form = forms[axis];
      int u = tensor.factored[axis] == 1 ? kZero : axis_index(access.tensor, axis);
      part.lhs[axis] = u;
      Affine target = u == kZero ? affine_constant(0) : affine_index(u);
      set_subscript(flow, access.tensor, axis, form, target);
      if (!has_mod && solve_quotient(form, target, body, left, reduced, guard_range, replace)) continue;

      // coefficient * v = rest, for the index v that is cheapest to solve for: an index of the left side first, since
      // what is left over is summed, and what the formula sums (a convolution's kernel) is mostly shorter.
      const Affine::Term* best = nullptr;
      auto rank = [&](const Affine::Term& t) {
        return std::tuple(reduced.contains(t.atom.index), std::abs(t.coefficient) != 1,
                          g_.indices[t.atom.index].extent == 1);
      };
      for (const Affine::Term& t : form.terms)
        if (t.atom.kind == Affine::Atom::Kind::kIndex && is_left(t.atom.index) && (!best || rank(t) < rank(*best)))
          best = &t;
      if (!best) {
        if (!(form == target)) guards.push_back(binary("==", expr_of(target), expr_of(form)));
        continue;
      }
      int v = best->atom.index;
      int64_t c = best->coefficient;
      Affine rest = target - (form - scaled(affine_index(v), c));
      if (c < 0) {
        c = -c;
        rest = scaled(rest, -1);
      }
      replace(v, c == 1 ? rest : floor_div(rest, c));
      guard_range(rest, c * g_.indices[v].extent, v);
      if (c != 1) guards.push_back(binary("==", expr_of(modulo(rest, c)), number(0)));
      remove_left(v);
    }
    for (Expr& g : guards) flow = select(std::move(g), std::move(flow), number(0));
    part.summed = std::move(left);
    part.body = std::move(flow);
    return part;
  }

  // A reshape: the subscripts with quotients are the digits of one number, x[L // 6, L % 6], and so are the indices in
  // it, L = 8 i + j. Then i and j are digits of 6 u + v: i = (6 u + v) // 8, j = (6 u + v) % 8. Which axes that solves.
  template <typename Replace>
  std::vector<bool> solve_digits(const Expr& access, std::vector<int>& left, Replace replace) {
    const Shape& extents = f_.tensors[access.tensor].factored;
    std::vector<bool> none(extents.size(), false), solved = none;
    for (size_t axis = 0; axis < extents.size(); ++axis)  // named in the axes' order
      if (has_quotient(access.subscripts[axis]) && extents[axis] > 1) axis_index(access.tensor, axis);
    Affine number, target;
    int64_t size = 1;
    for (size_t axis = extents.size(); axis-- > 0;) {
      const Affine& form = access.subscripts[axis];
      if (!has_quotient(form)) continue;
      Interval range = range_of(form, all_ranges());
      if (range.lo < 0 || range.hi > extents[axis]) return none;
      number = number + scaled(form, size);
      if (extents[axis] > 1) target = target + scaled(affine_index(axis_index(access.tensor, axis)), size);
      size *= extents[axis];
      solved[axis] = true;
    }
    number = without_mod(number);
    if (number.constant != 0 || has_quotient(number)) return none;
    std::vector<Affine::Term> digits = number.terms;
    std::sort(digits.begin(), digits.end(), [](const auto& a, const auto& b) { return a.coefficient < b.coefficient; });
    int64_t weight = 1;
    for (const Affine::Term& t : digits) {
      if (t.coefficient != weight || std::find(left.begin(), left.end(), t.atom.index) == left.end()) return none;
      weight *= g_.indices[t.atom.index].extent;
    }
    if (weight != size) return none;
    for (const Affine::Term& t : digits) {
      int64_t extent = g_.indices[t.atom.index].extent;
      Affine digit = floor_div(target, t.coefficient);
      if (t.coefficient * extent < size) digit = modulo(digit, extent);
      replace(t.atom.index, digit);
      left.erase(std::find(left.begin(), left.end(), t.atom.index));
    }
    return solved;
  }

  // x[inner // d]: inner = d * u + rho, with rho = 0 where the body asks for inner % d == 0, else summed over.
  template <typename GuardRange, typename Replace>
  bool solve_quotient(const Affine& form, const Affine& target, const Expr& body, std::vector<int>& left,
                      const std::set<int>& reduced, GuardRange guard_range, Replace replace) {
    if (form.terms.size() != 1 || form.constant != 0 || form.terms[0].coefficient != 1) return false;
    const Affine::Atom& atom = form.terms[0].atom;
    if (atom.kind != Affine::Atom::Kind::kFloorDiv) return false;
    const Affine& inner = *atom.inner;
    int v = -1;
    int64_t sign = 1;
    for (const Affine::Term& t : inner.terms) {
      if (t.atom.kind != Affine::Atom::Kind::kIndex || std::abs(t.coefficient) != 1) continue;
      int i = t.atom.index;
      if (std::find(left.begin(), left.end(), i) == left.end()) continue;
      if (v >= 0 && !(reduced.contains(v) && !reduced.contains(i))) continue;
      v = i;
      sign = t.coefficient;
    }
    if (v < 0) return false;
    Affine whole = scaled(target, atom.divisor);
    if (!asks_divisible(body, inner, atom.divisor)) {
      int rho = add_index(fmt::format("{}_rest", f_.indices[v].name), atom.divisor);
      left.push_back(rho);
      whole = whole + affine_index(rho);
    }
    Affine rest = scaled(whole - (inner - scaled(affine_index(v), sign)), sign);
    replace(v, rest);
    guard_range(rest, g_.indices[v].extent, v);
    left.erase(std::find(left.begin(), left.end(), v));
    return true;
  }

  // Whether the stage's left side is read at `index` alone along an axis that it fills, so that a value out of its
  // range reads 0 there.
  bool zero_outside(const Stage& stage, int index) const {
    const BoundTensor& tensor = f_.tensors[stage.tensor];
    size_t axis = 0;
    for (size_t stored = 0; stored < tensor.shape.size(); ++stored) {
      size_t radices = tensor.radices[stored].size();
      if (radices == 1 && stage.lhs[axis].plain_index() == index && tensor.shape[stored] == f_.indices[index].extent)
        return true;
      axis += radices;
    }
    return false;
  }

  // The indices that the stage of a tensor writes it at, if they are plain ones; else, and for an operand, none.
  std::vector<int> names_of_stage(int tensor) const {
    std::vector<int> names;
    if (int s = f_.stage_of(tensor); s >= 0)
      for (const Affine& form : f_.stages[s].lhs) names.push_back(form.plain_index());
    return std::find(names.begin(), names.end(), -1) == names.end() ? names : std::vector<int>();
  }

  // Gives `part` the left side `wanted`, by renaming, where extents allow it.
  void rename_like(const std::vector<int>& wanted, Part& part) {
    if (part.lhs == wanted) return;
    Substitution by;
    std::map<int, int> names;
    std::set<int> targets;
    for (size_t a = 0; a < part.lhs.size(); ++a) {
      int from = part.lhs[a], to = wanted[a];
      if (from == to) continue;
      if (from == kZero || to == kZero) {  // extent 1 either way
        if (from != kZero) by[from] = affine_constant(0);
        else std::erase(part.summed, to);
        continue;
      }
      if (g_.indices[from].extent != g_.indices[to].extent || names.contains(from) || targets.contains(to)) return;
      names[from] = to;
      targets.insert(to);
    }
    for (int to : targets) {
      if (names.contains(to)) continue;
      bool used = mentions(part.body, to) ||
                  std::find(part.summed.begin(), part.summed.end(), to) != part.summed.end() ||
                  std::find(part.lhs.begin(), part.lhs.end(), to) != part.lhs.end();
      if (!used) continue;
      // The name that has become free, if it is of the same extent, else a new one.
      int other = -1;
      for (const auto& [from, target] : names) {
        bool taken = targets.contains(from) ||
                     std::any_of(names.begin(), names.end(), [&](auto& n) { return n.second == from; });
        if (!taken && g_.indices[from].extent == g_.indices[to].extent) other = from;
      }
      names[to] = other >= 0 ? other : add_index(g_.indices[to].name, g_.indices[to].extent);
    }
    for (const auto& [from, to] : names) by[from] = affine_index(to);
    part.body = substituted_all(std::move(part.body), by);
    for (int& i : part.summed)
      if (names.contains(i)) i = names.at(i);
    part.lhs = wanted;
  }

  int add_stage(const std::string& name, int like, const std::vector<int>& lhs, const std::vector<int>& summed,
                Expr body) {
    BoundTensor tensor = f_.tensors[like];
    tensor.name = fresh_name(name);
    tensor.is_operand = false;
    int t = add_tensor(tensor);
    if (!summed.empty()) {
      Expr reduce;
      reduce.kind = ExprKind::kReduce;
      reduce.reducer = Reducer::kSum;
      reduce.reduced = summed;
      reduce.args.push_back(std::move(body));
      body = std::move(reduce);
    }
    back_.push_back({t, forms(lhs), std::move(body), false});
    return t;
  }

  // The tensor that holds the sum of all contributions to `tensor`; -1 if there are none. `stage`: it must be a stage.
  int total(int tensor, bool stage) {
    Cotangent& c = cotangents_[tensor];
    if (c.parts.empty() && c.given < 0) return -1;
    if (c.parts.empty() && !stage) return c.given;
    std::string name = "d_" + f_.tensors[tensor].name;
    if (c.given < 0 && c.parts.size() == 1) {
      Part& only = c.parts[0];
      if (!stage && only.summed.empty() && is_whole_read(only)) return only.body.tensor;
      return add_stage(name, tensor, only.lhs, only.summed, std::move(only.body));
    }
    const std::vector<int> lhs = c.parts.front().lhs;
    std::optional<Expr> sum;
    if (c.given >= 0) sum = read(c.given, forms(lhs));
    for (Part& part : c.parts) {
      bool inlined = part.lhs == lhs && part.summed.empty();
      Expr term = inlined ? std::move(part.body)
                          : read(add_stage(name, tensor, part.lhs, part.summed, std::move(part.body)), forms(lhs));
      sum = sum ? plus(std::move(*sum), std::move(term)) : std::move(term);
    }
    return add_stage(name, tensor, lhs, {}, std::move(*sum));
  }

  // body is another tensor, read at the part's own left side and of the same shape.
  bool is_whole_read(const Part& part) const {
    const Expr& e = part.body;
    if (e.kind != ExprKind::kRead) return false;
    const Shape& shape = g_.tensors[e.tensor].factored;
    if (e.subscripts.size() != part.lhs.size()) return false;
    std::vector<Affine> lhs = forms(part.lhs);
    for (size_t a = 0; a < lhs.size(); ++a)
      if (!(e.subscripts[a] == lhs[a]) || shape[a] != (part.lhs[a] == kZero ? 1 : g_.indices[part.lhs[a]].extent))
        return false;
    return true;
  }

  static void renumber(Expr& e, const std::vector<int>& tensors) {
    if (e.kind == ExprKind::kRead) e.tensor = tensors[e.tensor];
    for (Expr& a : e.args) renumber(a, tensors);
  }
  static void collect(const Expr& e, std::vector<int>& indices) {
    if (e.kind == ExprKind::kIndex) collect_indices(affine_index(e.index), indices);
    for (const Affine& s : e.subscripts) collect_indices(s, indices);
    for (int i : e.reduced) collect_indices(affine_index(i), indices);
    for (const Expr& a : e.args) collect(a, indices);
  }
  // Drops the indices that no stage uses; the others keep their order.
  void drop_unused_indices() {
    std::vector<int> used;
    for (const Stage& s : g_.stages) {
      for (const Affine& form : s.lhs) collect_indices(form, used);
      collect(s.body, used);
    }
    std::sort(used.begin(), used.end());
    std::vector<Index> kept;
    Substitution by;
    for (int i : used) {
      by[i] = affine_index(static_cast<int>(kept.size()));
      kept.push_back(g_.indices[i]);
    }
    for (Stage& s : g_.stages) {
      for (Affine& form : s.lhs) form = substituted_all(form, by);
      s.body = substituted_all(std::move(s.body), by);
      if (s.body.kind == ExprKind::kReduce)
        for (int& i : s.body.reduced) i = by.at(i).plain_index();
    }
    g_.indices = std::move(kept);
  }

  // Keeps what the result needs, forward stages first; operands in the forward order, then the cotangents.
  Gradient finish() {
    std::vector<Stage> all = f_.stages;
    all.insert(all.end(), back_.begin(), back_.end());
    std::vector<bool> needed(g_.tensors.size(), false);
    needed[g_.results[0]] = true;
    for (auto s = all.rbegin(); s != all.rend(); ++s)
      if (needed[s->tensor]) for_each_read(s->body, [&](const Expr& read) { needed[read.tensor] = true; });
    std::vector<int> position(g_.tensors.size(), -1);
    std::vector<BoundTensor> tensors;
    Gradient gradient;
    auto keep = [&](int t) {
      position[t] = static_cast<int>(tensors.size());
      tensors.push_back(g_.tensors[t]);
    };
    for (size_t t = 0; t < g_.tensors.size(); ++t)
      if (g_.tensors[t].is_operand && needed[t]) {
        keep(static_cast<int>(t));
        gradient.operands.push_back(g_.tensors[t].name);
      }
    g_.operand_count = static_cast<int>(tensors.size());
    g_.stages.clear();
    for (Stage& s : all)
      if (needed[s.tensor]) {
        keep(s.tensor);
        g_.stages.push_back(std::move(s));
      }
    for (Stage& s : g_.stages) {
      s.tensor = position[s.tensor];
      renumber(s.body, position);
    }
    g_.results = {position[g_.results[0]]};
    g_.tensors = std::move(tensors);
    drop_unused_indices();
    gradient.text = to_text(g_);
    return gradient;
  }

  const Bound& f_;
  Bound g_;  // the forward formula, and what is added to it
  int operand_;
  std::vector<bool> depends_;
  std::vector<Cotangent> cotangents_;
  std::vector<Stage> back_;
  std::map<std::pair<int, size_t>, int> axis_indices_;
  std::set<std::string> used_names_;
};

}  // namespace

std::optional<Gradient> gradient(const Bound& bound, int operand) {
  ensure(operand >= 0 && operand < bound.operand_count, "gradient of operand {} of {}", operand, bound.name);
  return Transposer(bound, operand).run();
}

}  // namespace partita::tdl
