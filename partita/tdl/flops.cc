// Counts a position's operations and touched elements (21 to 23) from its ranges.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "partita/base/error.h"
#include "partita/tdl/functions.h"
#include "partita/tdl/products.h"
#include "partita/tdl/tdl.h"

namespace partita::tdl {

namespace {

bool reads_data(const Expr& e) {
  if (e.kind == ExprKind::kRead || e.kind == ExprKind::kRng || e.kind == ExprKind::kOpaque) return true;
  return std::any_of(e.args.begin(), e.args.end(), reads_data);
}

void indices_of(const Affine& form, std::set<int>& into) {
  for (const Affine::Term& t : form.terms) {
    if (t.atom.inner) indices_of(*t.atom.inner, into);
    else into.insert(t.atom.index);
  }
}

void indices_of(const Expr& e, std::set<int>& into) {
  if (e.kind == ExprKind::kIndex) into.insert(e.index);
  for (const Affine& s : e.subscripts) indices_of(s, into);
  for (const Expr& a : e.args) indices_of(a, into);
}

bool is_call(const Expr& e, std::string_view function) { return e.kind == ExprKind::kBinary && e.function == function; }
bool is_number(const Expr& e, double value) { return e.kind == ExprKind::kNumber && e.number == value; }

void conjuncts(const Expr& c, std::vector<const Expr*>& into) {
  if (is_call(c, "and")) {
    conjuncts(c.args[0], into);
    conjuncts(c.args[1], into);
  } else {
    into.push_back(&c);
  }
}

// Counts arithmetic on values. Index arithmetic and guards are free; the dearer side of an `if` counts.
int64_t operations(const Expr& e) {
  if (!reads_data(e)) return 0;
  if (e.kind == ExprKind::kIf) return std::max(operations(e.args[1]), operations(e.args[2]));
  int64_t n = 0;
  for (const Expr& a : e.args) n += operations(a);
  if (e.kind == ExprKind::kRng) return n + 1;
  if (e.kind == ExprKind::kUnary) return n + (e.function != "stop" && e.function != "neg" && e.function != "not");
  static const std::set<std::string> kCounted = {"+", "-", "*", "/", "^", "max", "min"};
  if (e.kind == ExprKind::kBinary) return n + (kCounted.contains(e.function) || find_integer_function(e.function));
  return e.kind == ExprKind::kOpaque ? 0 : n;  // an opaque's cost is declared (24)
}

// A stage's body inside its guards. The guards' other sides add nothing; those on index values are kept apart. So are
// the indices that a guard `v == data` determines, with that data.
struct Guarded {
  const Expr* body;
  std::vector<const Expr*> guards;
  std::map<int, const Expr*> determined;
};

Guarded unwrap(const Stage& stage) {
  bool reduces = stage.body.kind == ExprKind::kReduce;
  Guarded g{reduces ? &stage.body.args[0] : &stage.body, {}, {}};
  double nothing = reduces ? identity_of(stage.body.reducer) : 0;
  while (g.body->kind == ExprKind::kIf && is_number(g.body->args[2], nothing)) {
    std::vector<const Expr*> all;
    conjuncts(g.body->args[0], all);
    for (const Expr* c : all) {
      if (!reads_data(*c)) {
        g.guards.push_back(c);
        continue;
      }
      if (!is_call(*c, "==")) continue;
      for (int side : {0, 1}) {
        const Expr &index = c->args[side], &data = c->args[1 - side];
        std::set<int> in_data;
        indices_of(data, in_data);
        if (index.kind == ExprKind::kIndex && reads_data(data) && !in_data.contains(index.index)) {
          g.determined.emplace(index.index, &data);
          break;
        }
      }
    }
    g.body = &g.body->args[1];
  }
  return g;
}

// The stage's own indices: those of its left side, and reduced ones.
std::set<int> stage_indices(const Stage& stage) {
  std::set<int> own;
  for (const Affine& form : stage.lhs) indices_of(form, own);
  if (stage.body.kind == ExprKind::kReduce) own.insert(stage.body.reduced.begin(), stage.body.reduced.end());
  return own;
}

using Point = std::vector<int64_t>;  // the value of every index

double value_of(const Expr& e, const Point& at) {  // of an expression that reads no data
  auto arg = [&](int i) { return value_of(e.args[i], at); };
  if (e.kind == ExprKind::kNumber) return e.number;
  if (e.kind == ExprKind::kIndex) return static_cast<double>(at[e.index]);
  if (e.kind == ExprKind::kIf) return arg(0) != 0 ? arg(1) : arg(2);
  const std::string& f = e.function;
  if (e.kind == ExprKind::kUnary) {
    if (f == "neg") return -arg(0);
    if (f == "not") return arg(0) == 0;
    if (f == "floor") return std::floor(arg(0));
    if (f == "abs") return std::abs(arg(0));
    return arg(0);
  }
  double x = arg(0), y = arg(1);
  if (f == "+") return x + y;
  if (f == "-") return x - y;
  if (f == "*") return x * y;
  if (f == "/") return x / y;
  if (f == "//") return std::floor(x / y);
  if (f == "%") return x - y * std::floor(x / y);
  if (f == "^") return std::pow(x, y);
  if (f == "<") return x < y;
  if (f == "<=") return x <= y;
  if (f == "==") return x == y;
  if (f == "!=") return x != y;
  if (f == ">=") return x >= y;
  if (f == ">") return x > y;
  if (f == "and") return x != 0 && y != 0;
  if (f == "or") return x != 0 || y != 0;
  if (f == "max") return std::max(x, y);
  return std::min(x, y);
}

// The coefficient of an index in an expression that is affine in it.
std::optional<double> coefficient(const Expr& e, int index) {
  std::set<int> in;
  indices_of(e, in);
  if (!in.contains(index)) return 0;
  if (e.kind == ExprKind::kIndex) return 1;
  if (e.kind == ExprKind::kUnary && e.function == "neg") {
    std::optional<double> a = coefficient(e.args[0], index);
    return a ? std::optional(-*a) : std::nullopt;
  }
  if (e.kind != ExprKind::kBinary) return std::nullopt;
  std::optional<double> a = coefficient(e.args[0], index), b = coefficient(e.args[1], index);
  if (!a || !b) return std::nullopt;
  if (e.function == "+") return *a + *b;
  if (e.function == "-") return *a - *b;
  if (e.function == "*" && e.args[0].kind == ExprKind::kNumber) return e.args[0].number * *b;
  if (e.function == "*" && e.args[1].kind == ExprKind::kNumber) return e.args[1].number * *a;
  return std::nullopt;
}

// Tells whether a guard is an interval of this index once the other values are fixed.
bool is_interval_of(const Expr& guard, int index) {
  static const std::set<std::string> kSolvable = {"<", "<=", "==", ">=", ">"};
  return guard.kind == ExprKind::kBinary && kSolvable.contains(guard.function) &&
         coefficient(guard.args[0], index).has_value() && coefficient(guard.args[1], index).has_value();
}

// A guard that is an interval of an index: c * index + rest  OP  0, where rest has the other indices.
struct Narrowing {
  const Expr* guard;
  double c;
};

Narrowing narrowing_of(const Expr& guard, int index) {
  return {&guard, *coefficient(guard.args[0], index) - *coefficient(guard.args[1], index)};
}

// Narrows `range` of `index` to values for which the guard holds at a point of the other indices.
void narrow_to_guard(const Narrowing& by, int index, Point& at, Interval& range) {
  const auto& [of, c] = by;
  const Expr& guard = *of;
  at[index] = 0;
  double rest = value_of(guard.args[0], at) - value_of(guard.args[1], at);
  std::string op = guard.function;
  if (c == 0) {
    if (value_of(guard, at) == 0) range.hi = range.lo;
    return;
  }
  if (c < 0) op = op == "<" ? ">" : op == "<=" ? ">=" : op == ">" ? "<" : op == ">=" ? "<=" : op;
  double root = -rest / c;
  if (op == "<") range.hi = std::min(range.hi, static_cast<int64_t>(std::ceil(root)));
  if (op == "<=" || op == "==") range.hi = std::min(range.hi, static_cast<int64_t>(std::floor(root)) + 1);
  if (op == ">") range.lo = std::max(range.lo, static_cast<int64_t>(std::floor(root)) + 1);
  if (op == ">=" || op == "==") range.lo = std::max(range.lo, static_cast<int64_t>(std::ceil(root)));
}

// Counts the points of some indices that guards tie together. Indices get values one after the other. Each is narrowed
// by the guards that are intervals of it once those before it are known, and the last is counted, not walked.
class PointCounter {
 public:
  PointCounter(std::vector<int> indices, const std::vector<const Expr*>& guards, const std::vector<Interval>& ranges)
      : ranges_(ranges), at_(ranges.size(), 0) {
    auto is_solved = [&](int i) {
      return std::any_of(guards.begin(), guards.end(),
                         [&](const Expr* g) { return g->function == "==" && is_interval_of(*g, i); });
    };
    std::stable_sort(indices.begin(), indices.end(), [&](int a, int b) {
      return std::pair(is_solved(a), ranges[a].size()) < std::pair(is_solved(b), ranges[b].size());
    });
    for (int i : indices) levels_.push_back({i, {}, {}});
    for (const Expr* g : guards) {
      std::set<int> used;
      indices_of(*g, used);
      size_t last = 0;
      for (size_t k = 0; k < levels_.size(); ++k)
        if (used.contains(levels_[k].index)) last = k;
      Level& level = levels_[last];
      if (is_interval_of(*g, level.index)) level.narrowing.push_back(narrowing_of(*g, level.index));
      else level.tested.push_back(g);
    }
  }

  double count(size_t level = 0) {
    if (level == levels_.size()) return 1;
    const Level& l = levels_[level];
    Interval range = ranges_[l.index];
    for (const Narrowing& n : l.narrowing) narrow_to_guard(n, l.index, at_, range);
    if (level + 1 == levels_.size() && l.tested.empty()) return static_cast<double>(range.size());
    double n = 0;
    for (int64_t x = range.lo; x < range.hi; ++x) {
      at_[l.index] = x;
      if (std::all_of(l.tested.begin(), l.tested.end(), [&](const Expr* g) { return value_of(*g, at_) != 0; }))
        n += count(level + 1);
    }
    return n;
  }

 private:
  struct Level {
    int index;
    std::vector<Narrowing> narrowing;  // of the guards whose last index this is
    std::vector<const Expr*> tested;   // such guards that are no interval
  };
  const std::vector<Interval>& ranges_;
  Point at_;
  std::vector<Level> levels_;
};

double points(const std::set<int>& own, const Guarded& guarded, const std::vector<Interval>& ranges) {
  // Groups of indices that share guards; a guard on a determined index restricts nothing that is counted.
  struct Group {
    std::set<int> indices;
    std::vector<const Expr*> guards;
  };
  std::vector<Group> groups;
  for (const Expr* g : guarded.guards) {
    Group merged{{}, {g}};
    indices_of(*g, merged.indices);
    if (std::any_of(merged.indices.begin(), merged.indices.end(),
                    [&](int i) { return guarded.determined.contains(i); }))
      continue;
    std::vector<Group> rest;
    for (Group& other : groups) {
      bool meet =
          std::any_of(other.indices.begin(), other.indices.end(), [&](int i) { return merged.indices.contains(i); });
      if (meet) {
        merged.indices.insert(other.indices.begin(), other.indices.end());
        merged.guards.insert(merged.guards.end(), other.guards.begin(), other.guards.end());
      } else {
        rest.push_back(std::move(other));
      }
    }
    rest.push_back(std::move(merged));
    groups = std::move(rest);
  }
  double n = 1;
  std::set<int> counted;
  for (const Group& g : groups) {
    n *= PointCounter({g.indices.begin(), g.indices.end()}, g.guards, ranges).count();
    counted.insert(g.indices.begin(), g.indices.end());
  }
  for (int i : own)
    if (!counted.contains(i) && !guarded.determined.contains(i)) n *= static_cast<double>(ranges[i].size());
  return n;
}

bool reduces_points(const Stage& stage, const Guarded& guarded) {
  return stage.body.kind == ExprKind::kReduce && !std::all_of(stage.body.reduced.begin(), stage.body.reduced.end(),
                                                              [&](int i) { return guarded.determined.contains(i); });
}

// FLOPs for each point.
double operations_of(const Stage& stage, const Guarded& guarded) {
  return static_cast<double>(operations(*guarded.body)) + (reduces_points(stage, guarded) ? 1 : 0);
}

}  // namespace

std::vector<int> determined_indices(const Stage& stage) {
  std::vector<int> indices;
  for (const auto& [index, data] : unwrap(stage).determined) indices.push_back(index);
  return indices;
}

StagePoints stage_points(const Stage& stage) {
  const Guarded guarded = unwrap(stage);
  StagePoints points{operations_of(stage, guarded), {}};
  for (int i : stage_indices(stage))
    if (!guarded.determined.contains(i)) points.indices.push_back(i);
  return points;
}

double count_points(const std::vector<int>& indices, const std::vector<Interval>& ranges) {
  double n = 1;
  for (int i : indices) n *= static_cast<double>(ranges[static_cast<size_t>(i)].size());
  return n;
}

double StagePoints::flops(const std::vector<Interval>& ranges) const {
  return operations * count_points(indices, ranges);
}

std::vector<double> stage_flops(const Bound& bound, const std::vector<Interval>& ranges) {
  std::vector<double> result;
  for (const Stage& stage : bound.stages) {
    Guarded guarded = unwrap(stage);
    std::set<int> own = stage_indices(stage);
    double share = 1;  // the share of the values that data can name which falls to these ranges
    for (const auto& [index, data] : guarded.determined)
      share *= static_cast<double>(ranges[index].size()) /
               static_cast<double>(std::max<int64_t>(1, bound.indices[index].extent));
    const double per_point = operations_of(stage, guarded);
    result.push_back(per_point == 0 ? 0 : per_point * share * points(own, guarded, ranges));
  }
  return result;
}

double flops(const Bound& bound, const std::vector<Interval>& ranges) {
  std::vector<double> stages = stage_flops(bound, ranges);
  return std::accumulate(stages.begin(), stages.end(), 0.0);
}

double flops(const Bound& bound) { return flops(bound, full_ranges(bound)); }

std::vector<int64_t> touched_elements(const Bound& bound, const Derived& derived, int position) {
  const std::vector<Interval> ranges = derived.ranges[static_cast<size_t>(position)];
  std::vector<int64_t> result;
  for (size_t t = 0; t < bound.tensors.size(); ++t) {
    const BoundTensor& tensor = bound.tensors[t];
    if (!tensor.is_operand) {
      result.push_back(volume(derived.boxes[t][static_cast<size_t>(position)]));
      continue;
    }
    size_t rank = tensor.factored.size();
    std::vector<int64_t> step(rank, 0);     // gcd of the distances between elements read
    std::vector<int64_t> at_most(rank, 0);  // points of the data that determine a subscript; 0 if none does
    std::vector<bool> first(rank, true);
    std::vector<int64_t> origin(rank, 0);
    for (const Stage& stage : bound.stages) {
      std::map<int, const Expr*> determined = unwrap(stage).determined;
      for_each_read(stage.body, [&](const Expr& read) {
        if (read.tensor != static_cast<int>(t)) return;
        for (size_t a = 0; a < rank; ++a) {
          if (a < read.whole.size() && read.whole[a]) {
            step[a] = 1;
            continue;
          }
          const Affine& form = read.subscripts[a];
          for (const Affine::Term& term : form.terms)
            step[a] =
                term.atom.inner || ranges[term.atom.index].size() > 1 ? std::gcd(step[a], term.coefficient) : step[a];
          if (first[a]) origin[a] = form.constant;
          step[a] = std::gcd(step[a], form.constant - origin[a]);
          auto it = determined.find(form.plain_index());
          if (it != determined.end() && (first[a] || at_most[a] > 0)) {
            std::set<int> in_data;
            indices_of(*it->second, in_data);
            int64_t n = 1;
            for (int i : in_data) n *= ranges[i].size();
            at_most[a] += n;
          } else {
            at_most[a] = 0;
          }
          first[a] = false;
        }
      });
    }
    int64_t count = 1;
    for (size_t a = 0; a < rank; ++a) {
      int64_t size = derived.boxes[t].at(static_cast<size_t>(position), a).size();
      if (step[a] > 1) size = (size + step[a] - 1) / step[a];
      if (at_most[a] > 0) size = std::min(size, at_most[a]);
      count *= size;
    }
    result.push_back(count);
  }
  return result;
}

}  // namespace partita::tdl
