#include "partita/physical/stage_program.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "partita/base/error.h"
#include "partita/tdl/affine.h"
#include "partita/tdl/functions.h"

namespace partita {

using tdl::Affine;
using tdl::Expr;
using tdl::ExprKind;
using Kind = StageInstr::Kind;
using Finish = StageProgram::Finish;

// ---------------------------------------------------------------- factors of axes

Part over_axes(const Part& part, const Shape& from, const Shape& to) {
  const auto result = try_over_axes(part, from, to);
  ensure(result.has_value(), "the box {} over axes {} is no box over axes {}", to_string(part.box), from, to);
  return *result;
}

std::optional<Part> try_over_axes(const Part& part, const Shape& from, const Shape& to) {
  auto regrouped_part = regrouped(StridedBox{part.box, part.strides}, from, to);
  if (!regrouped_part) return std::nullopt;
  return Part{part.dtype, std::move(regrouped_part->box), std::move(regrouped_part->strides)};
}

// ---------------------------------------------------------------- reads in a block

Box read_hull(const StageInstr& read, const std::vector<int>& dims, const std::vector<Interval>& block) {
  Box hull;
  for (const Affine& form : read.subscripts) {
    Interval axis{form.constant, form.constant + 1};
    for (const Affine::Term& t : form.terms) {
      const size_t d = std::find(dims.begin(), dims.end(), t.atom.index) - dims.begin();
      const int64_t a = t.coefficient * block[d].lo, b = t.coefficient * (block[d].hi - 1);
      axis.lo += std::min(a, b);
      axis.hi += std::max(a, b);
    }
    hull.push_back(axis);
  }
  return hull;
}

Shape read_strides(const StageInstr& read, const std::vector<int>& dims, const Shape& axis_strides) {
  Shape strides(dims.size(), 0);
  for (size_t a = 0; a < read.subscripts.size(); ++a)
    for (const Affine::Term& t : read.subscripts[a].terms)
      strides[std::find(dims.begin(), dims.end(), t.atom.index) - dims.begin()] += t.coefficient * axis_strides[a];
  return strides;
}

// ---------------------------------------------------------------- types and boxes

namespace {

bool is_integer(double x) { return std::floor(x) == x && std::abs(x) <= 9007199254740992.0; }

// bool < int64 < real
int type_rank(DType dtype) { return is_float(dtype) ? 2 : dtype == DType::kInt64 ? 1 : 0; }

enum class Function { kComparison, kLogic, kArithmetic, kReal, kPower, kSame, kInteger };
Function function_of(const Expr& e) {
  const std::string& f = e.function;
  if (e.kind == ExprKind::kUnary) {
    if (f == "not") return Function::kLogic;
    if (f == "stop") return Function::kSame;
    if (f == "neg" || f == "abs" || f == "sign" || f == "floor") return Function::kArithmetic;
    return Function::kReal;
  }
  if (f == "<" || f == "<=" || f == "==" || f == "!=" || f == ">=" || f == ">") return Function::kComparison;
  if (f == "and" || f == "or") return Function::kLogic;
  if (f == "/") return Function::kReal;
  if (tdl::find_integer_function(f)) return Function::kInteger;
  if (f == "^") return Function::kPower;
  return Function::kArithmetic;
}

// The type of an expression, as the reference evaluator has it.
int rank_of(const Expr& e, const std::vector<std::optional<Part>>& parts) {
  switch (e.kind) {
    case ExprKind::kNumber:
      return is_integer(e.number) ? 1 : 2;
    case ExprKind::kIndex:
      return 1;
    case ExprKind::kRead: {
      const int type = parts[e.tensor] ? type_rank(parts[e.tensor]->dtype) : 2;
      return e.has_else && e.number != 0 ? std::max(type, is_integer(e.number) ? 1 : 2) : type;
    }
    case ExprKind::kUnary:
    case ExprKind::kBinary: {
      int widest = 0;
      for (const Expr& a : e.args) widest = std::max(widest, rank_of(a, parts));
      switch (function_of(e)) {
        case Function::kComparison:
        case Function::kLogic:
          return 0;
        case Function::kSame:
          return widest;
        case Function::kArithmetic:
          return std::max(widest, 1);
        case Function::kInteger:
          return 1;
        case Function::kReal:
          return 2;
        case Function::kPower:
          return e.args[1].kind == ExprKind::kNumber && e.args[1].number >= 0 ? std::max(widest, 1) : 2;
      }
      return 2;
    }
    case ExprKind::kIf:
      return std::max(rank_of(e.args[1], parts), rank_of(e.args[2], parts));
    case ExprKind::kReduce: {
      const int type = rank_of(e.args[0], parts);
      return e.reducer == tdl::Reducer::kSum || e.reducer == tdl::Reducer::kProd ? std::max(type, 1) : type;
    }
    case ExprKind::kRng:
    case ExprKind::kOpaque:
      return 2;
  }
  return 2;
}

DType dtype_of_rank(int rank, DType real) { return rank == 2 ? real : rank == 1 ? DType::kInt64 : DType::kBool; }

}  // namespace

DType stage_dtype(const tdl::Bound& bound, int stage, const std::vector<std::optional<Part>>& parts, DType real) {
  return dtype_of_rank(rank_of(bound.stages[stage].body, parts), real);
}

Box stage_box(const tdl::Bound& bound, int stage, const std::vector<Interval>& ranges) {
  const tdl::Stage& s = bound.stages[stage];
  std::vector<int> indices;
  for (const Affine& form : s.lhs) tdl::collect_indices(form, indices);
  for (int i : indices)
    if (ranges[i].empty()) return Box(s.lhs.size(), Interval{0, 0});
  Box box;
  for (const Affine& form : s.lhs) box.push_back(tdl::range_of(form, ranges));
  return box;
}

// ---------------------------------------------------------------- compiling

namespace {

// One stride for several dimensions; empty if there is none. 0 where they have one element.
std::optional<int64_t> merged_stride(const Shape& sizes, const Shape& strides, const std::vector<int>& dims) {
  int64_t stride = 0, extent = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    const int d = dims[i];
    if (sizes[d] == 1) continue;
    if (extent == 1) stride = strides[d];
    else if (strides[d] != stride * extent) return std::nullopt;
    extent *= sizes[d];
  }
  return stride;
}

class Compiler {
 public:
  Compiler(const tdl::Bound& bound, int stage, const std::vector<Interval>& ranges,
           const std::vector<std::optional<Part>>& parts, DType real)
      : bound_(bound), stage_(bound.stages[stage]), ranges_(ranges), parts_(parts), real_(real) {
    program_.stage = stage;
    for (const Affine& form : stage_.lhs) tdl::collect_indices(form, program_.dims);
    program_.lhs_count = static_cast<int>(program_.dims.size());
    if (stage_.body.kind == ExprKind::kReduce)
      program_.dims.insert(program_.dims.end(), stage_.body.reduced.begin(), stage_.body.reduced.end());
    ensure(program_.dims.size() <= 60, "stage {} has {} indices", bound_.tensors[stage_.tensor].name,
           program_.dims.size());
    for (int i : program_.dims) program_.ranges.push_back(ranges_[i]);
  }

  StageProgram run() {
    const Expr& body = stage_.body;
    const bool reduces = body.kind == ExprKind::kReduce;
    program_.dtype = dtype_of_rank(rank_of(body, parts_), real_);
    if (reduces) {
      program_.reducer = body.reducer;
      if (!as_lookup(body) && !as_scatter(body) && !as_product(body)) {
        program_.finish = Finish::kReduce;
        program_.a = as(compile(body.args[0]), program_.dtype);
      }
    } else {
      program_.finish = Finish::kStore;
      program_.a = compile(body);
      const DType stored = parts_[stage_.tensor]->dtype;
      if (is_low(stored) && program_.code[program_.a].dtype == stored) program_.dtype = stored;  // it is only moved
      program_.a = as(program_.a, program_.dtype);
      if (program_.dtype == real_ && parts_[stage_.tensor]->dtype == DType::kInt64)
        program_.a = binary("max", binary("min", program_.a, constant(kLargestInt, real_), real_),
                            constant(-kLargestInt, real_), real_);
    }
    lifetimes();
    return std::move(program_);
  }

 private:
  // index == value, or value == index, where the value is of integers.
  struct Equality {
    int index;
    const Expr* value;
  };
  std::optional<Equality> equality(const Expr& e) const {
    if (e.kind != ExprKind::kBinary || e.function != "==") return std::nullopt;
    for (int side : {0, 1})
      if (e.args[side].kind == ExprKind::kIndex && rank_of(e.args[1 - side], parts_) == 1)
        return Equality{e.args[side].index, &e.args[1 - side]};
    return std::nullopt;
  }

  // sum(v) if(v == e, body, 0), where e does not depend on v: the body at v = e, where that is in v's range. An
  // embedding reads the rows that it needs, and no others. The same for several such indices, none of whose values
  // depends on another.
  bool as_lookup(const Expr& reduce) {
    const Expr& body = reduce.args[0];
    if (reduce.reducer != tdl::Reducer::kSum || body.kind != ExprKind::kIf || body.args[2].kind != ExprKind::kNumber ||
        body.args[2].number != 0)
      return false;
    std::vector<const Expr*> conditions = conjuncts(body.args[0]);
    std::vector<Equality> found;
    std::erase_if(conditions, [&](const Expr* c) {
      const auto e = equality(*c);
      const bool reduced =
          e && std::find(reduce.reduced.begin(), reduce.reduced.end(), e->index) != reduce.reduced.end();
      if (!reduced || uses(*e->value, e->index) || !only_plain(body, e->index)) return false;
      for (const Equality& other : found)
        if (other.index == e->index || uses(*e->value, other.index) || uses(*other.value, e->index)) return false;
      found.push_back(*e);
      return true;
    });
    if (found.empty()) return false;
    std::vector<Interval> ranges;
    for (const Equality& e : found) {
      const size_t d = std::find(program_.dims.begin(), program_.dims.end(), e.index) - program_.dims.begin();
      ranges.push_back(program_.ranges[d]);
      program_.dims.erase(program_.dims.begin() + d);
      program_.ranges.erase(program_.ranges.begin() + d);
    }
    int valid = -1;
    auto require = [&](int condition) {
      valid = valid < 0 ? condition : binary("and", valid, condition, DType::kBool);
    };
    for (size_t i = 0; i < found.size(); ++i) {
      const int value = as(compile(*found[i].value), DType::kInt64);
      looked_up_[found[i].index] = value;
      require(binary(">=", value, integer(ranges[i].lo), DType::kBool));
      require(binary("<", value, integer(ranges[i].hi), DType::kBool));
    }
    for (const Expr* c : conditions) require(as(compile(*c), DType::kBool));
    const int inside = as(compile(body.args[1]), program_.dtype);
    program_.a = select(valid, inside, constant(0, program_.dtype));
    program_.finish = reduce.reduced.size() == found.size() ? Finish::kStore : Finish::kReduce;
    return true;
  }
  static std::vector<const Expr*> conjuncts(const Expr& e) {
    if (e.kind != ExprKind::kBinary || e.function != "and") return {&e};
    std::vector<const Expr*> all = conjuncts(e.args[0]), more = conjuncts(e.args[1]);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // sum(b) if(e == v, body, 0) for an index v of the left side that neither e nor the body depends on: each body is
  // added where it belongs. The gradient of an embedding touches each row of it once, not every row of the table. The
  // same for several such indices that lie as one in the result; of other indices of the left side that an e depends
  // on, a block has one value.
  bool as_scatter(const Expr& reduce) {
    const Expr& body = reduce.args[0];
    if (reduce.reducer != tdl::Reducer::kSum || body.kind != ExprKind::kIf || body.args[2].kind != ExprKind::kNumber ||
        body.args[2].number != 0)
      return false;
    if (program_.dtype != real_ || !is_float(parts_[stage_.tensor]->dtype)) return false;
    for (const Affine& form : stage_.lhs)
      if (form.terms.size() > 1 || (form.terms.size() == 1 && (form.plain_index() < 0))) return false;
    const uint64_t kept = (uint64_t{1} << program_.lhs_count) - 1;
    const std::vector<const Expr*> conditions = conjuncts(body.args[0]);
    struct Place {
      int dim;
      size_t condition;
      const Expr* value;
    };
    std::vector<Place> places;
    for (size_t i = 0; i < conditions.size(); ++i) {
      const auto e = equality(*conditions[i]);
      if (!e) continue;
      const auto at = std::find(program_.dims.begin(), program_.dims.begin() + program_.lhs_count, e->index);
      if (at == program_.dims.begin() + program_.lhs_count || uses(body.args[1], e->index) || uses(*e->value, e->index))
        continue;
      bool alone = true;
      for (size_t k = 0; k < conditions.size(); ++k) alone = alone && (k == i || !uses(*conditions[k], e->index));
      if (alone) places.push_back({static_cast<int>(at - program_.dims.begin()), i, e->value});
    }
    if (places.empty()) return false;
    // As they lie in the result; where that is not as one, only the first.
    StageInstr lhs;
    lhs.subscripts = stage_.lhs;
    const Shape strides = read_strides(lhs, program_.dims, parts_[stage_.tensor]->strides);
    std::stable_sort(places.begin(), places.end(),
                     [&](const Place& p, const Place& q) { return strides[p.dim] > strides[q.dim]; });
    Shape extents;
    for (const Interval& r : program_.ranges) extents.push_back(r.size());
    std::vector<int> dims;
    for (const Place& p : places) dims.push_back(p.dim);
    if (!merged_stride(extents, strides, dims)) places.erase(places.begin() + 1, places.end());
    int counts = -1;
    auto require = [&](int condition) {
      counts = counts < 0 ? condition : binary("and", counts, condition, DType::kBool);
    };
    for (const Place& p : places) {
      const Interval range = program_.ranges[p.dim];
      const int value = as(compile(*p.value), DType::kInt64);
      program_.single |= program_.code[value].dims & kept;
      require(binary(">=", value, integer(range.lo), DType::kBool));
      require(binary("<", value, integer(range.hi), DType::kBool));
      const int offset = binary("-", value, integer(range.lo), DType::kInt64);
      program_.b = program_.b < 0 ? offset
                                  : binary("+", binary("*", program_.b, integer(range.size()), DType::kInt64), offset,
                                           DType::kInt64);
      program_.scattered.push_back(p.dim);
    }
    program_.b = select(counts, program_.b, integer(0));
    for (size_t k = 0; k < conditions.size(); ++k)
      if (std::none_of(places.begin(), places.end(), [&](const Place& p) { return p.condition == k; }))
        require(as(compile(*conditions[k]), DType::kBool));
    program_.a = select(counts, as(compile(body.args[1]), real_), constant(0, real_));
    program_.finish = Finish::kScatter;
    return true;
  }

  static bool uses(const Expr& e, int index) {
    if (e.kind == ExprKind::kIndex && e.index == index) return true;
    return std::any_of(e.subscripts.begin(), e.subscripts.end(),
                       [&](const Affine& s) { return tdl::uses_index(s, index); }) ||
           std::any_of(e.args.begin(), e.args.end(), [&](const Expr& a) { return uses(a, index); });
  }
  // Subscripts use the index by itself, or not at all.
  static bool only_plain(const Expr& e, int index) {
    return std::all_of(e.subscripts.begin(), e.subscripts.end(),
                       [&](const Affine& s) { return !tdl::uses_index(s, index) || s.plain_index() == index; }) &&
           std::all_of(e.args.begin(), e.args.end(), [&](const Expr& a) { return only_plain(a, index); });
  }
  int integer(int64_t value) { return constant(static_cast<double>(value), DType::kInt64); }

  // sum of f1 * f2 * .., perhaps under guards, where neither half depends on all indices: a matrix product. A guard
  // that depends on no summed index, and on both halves' own, is asked after it.
  bool as_product(const Expr& body) {
    if (body.reducer != tdl::Reducer::kSum || program_.dtype != real_) return false;
    std::vector<const Expr*> factors, guards;
    if (!flatten(body.args[0], factors, guards) || factors.size() < 2) return false;
    std::vector<uint64_t> dims;
    for (const Expr* f : factors) dims.push_back(dims_of(*f));
    // The last factor makes one side, with all that depend on no more; the others make the other side.
    uint64_t all = 0, second = dims.back(), first = 0;
    std::vector<bool> in_second(factors.size());
    for (size_t i = 0; i < factors.size(); ++i) {
      in_second[i] = i + 1 == factors.size() || (i > 0 && (dims[i] & ~second) == 0);
      if (!in_second[i]) first |= dims[i];
      all |= dims[i];
    }
    std::vector<bool> guard_second;
    std::vector<const Expr*> after;
    const uint64_t kept = (uint64_t{1} << program_.lhs_count) - 1;
    std::erase_if(guards, [&](const Expr* g) {
      const uint64_t d = dims_of(*g);
      const bool both = (d & ~first) != 0 && (d & ~second) != 0 && (d & ~((first | second) & kept)) == 0;
      if (both) after.push_back(g);
      return both;
    });
    for (const Expr* g : guards) {
      const uint64_t d = dims_of(*g);
      all |= d;
      const bool fits_second = (d & ~second) == 0;
      if ((d & ~first) != 0 && !fits_second) first |= d;
      guard_second.push_back(fits_second && (d & ~first) != 0);
    }
    uint64_t reduced = 0;
    int64_t rows = 1, columns = 1, batch = 1, summed = 1;
    for (size_t d = 0; d < program_.dims.size(); ++d) {
      const uint64_t bit = uint64_t{1} << d;
      const int64_t n = program_.ranges[d].size();
      if (static_cast<int>(d) >= program_.lhs_count) {
        reduced |= bit;
        if ((all & bit) == 0 && n != 1) return false;
        summed *= n;
      } else if ((first & bit) && (second & bit)) batch *= n;
      else if (first & bit) rows *= n;
      else if (second & bit) columns *= n;
    }
    if ((first & second & reduced) == 0) return false;
    if (rows == 1 || columns == 1) {
      if (batch != 1 || (rows == 1 && columns == 1)) return false;
    }
    int a = -1, b = -1;
    auto multiply = [&](int& side, int value) {
      value = as(value, real_);
      side = side < 0 ? value : binary("*", side, value, real_);
    };
    for (size_t i = 0; i < factors.size(); ++i) multiply(in_second[i] ? b : a, compile(*factors[i]));
    for (size_t i = 0; i < guards.size(); ++i) {
      int& side = guard_second[i] ? b : a;
      side = select(as(compile(*guards[i]), DType::kBool), side, constant(0, real_));
    }
    for (const Expr* g : after) {
      const int guard = as(compile(*g), DType::kBool);
      if ((program_.code[guard].dims & ~(program_.code[a].dims | program_.code[b].dims)) !=
          0) {  // a side holds nothing here
        a = select(guard, a, constant(0, real_));
        continue;
      }
      const int hidden = unary("not", guard, DType::kBool);
      program_.hidden = program_.hidden < 0 ? hidden : binary("or", program_.hidden, hidden, DType::kBool);
    }
    if (program_.hidden >= 0) {  // a value of its own: a side that is the constant 0 ends with the product
      program_.zero = static_cast<int>(program_.code.size());
      program_.code.push_back({Kind::kConst, real_});
    }
    program_.finish = Finish::kProduct;
    program_.a = a;
    program_.b = b;
    return true;
  }

  // product or if(guard, product, 0) as factors and guards; false where it is neither.
  bool flatten(const Expr& e, std::vector<const Expr*>& factors, std::vector<const Expr*>& guards) {
    if (e.kind == ExprKind::kBinary && e.function == "*")
      return flatten(e.args[0], factors, guards) && flatten(e.args[1], factors, guards);
    if (e.kind == ExprKind::kIf && e.args[2].kind == ExprKind::kNumber && e.args[2].number == 0) {
      guards.push_back(&e.args[0]);
      return flatten(e.args[1], factors, guards);
    }
    factors.push_back(&e);
    return true;
  }

  uint64_t bit_of(int index) const {
    for (size_t d = 0; d < program_.dims.size(); ++d)
      if (program_.dims[d] == index) return program_.ranges[d].size() == 1 ? 0 : uint64_t{1} << d;
    ensure(false, "stage {}: index {} is neither on the left nor reduced", bound_.tensors[stage_.tensor].name,
           bound_.indices[index].name);
    return 0;
  }
  uint64_t dims_of(const Affine& form) const {
    std::vector<int> indices;
    tdl::collect_indices(form, indices);
    uint64_t dims = 0;
    for (int i : indices) dims |= bit_of(i);
    return dims;
  }
  uint64_t dims_of(const Expr& e) const {
    uint64_t dims = e.kind == ExprKind::kIndex ? bit_of(e.index) : 0;
    for (const Affine& s : e.subscripts) dims |= dims_of(s);
    for (const Expr& a : e.args) dims |= dims_of(a);
    return dims;
  }

  int emit(StageInstr instr) {
    for (int a : instr.args) instr.dims |= program_.code[a].dims;
    for (size_t i = 0; i < program_.code.size(); ++i) {  // computed already
      const StageInstr& c = program_.code[i];
      if (c.kind == instr.kind && c.dtype == instr.dtype && c.args == instr.args && c.number == instr.number &&
          c.dim == instr.dim && c.tensor == instr.tensor && c.function == instr.function &&
          c.subscripts == instr.subscripts && c.expr == instr.expr)
        return static_cast<int>(i);
    }
    program_.code.push_back(std::move(instr));
    return static_cast<int>(program_.code.size()) - 1;
  }
  int constant(double number, DType dtype) {
    StageInstr i{Kind::kConst, dtype};
    i.number = number;
    return emit(std::move(i));
  }
  int as(int value, DType dtype) {
    const StageInstr& v = program_.code[value];
    if (v.dtype == dtype) return value;
    if (v.kind == Kind::kConst) return constant(dtype == DType::kBool ? v.number != 0 : v.number, dtype);
    StageInstr i{Kind::kCast, dtype};
    i.args = {value};
    return emit(std::move(i));
  }
  int unary(const std::string& function, int a, DType dtype) {
    StageInstr i{Kind::kUnary, dtype};
    i.function = function;
    i.args = {a};
    return emit(std::move(i));
  }
  int binary(const std::string& function, int a, int b, DType dtype) {
    StageInstr i{Kind::kBinary, dtype};
    i.function = function;
    i.args = {a, b};
    return emit(std::move(i));
  }
  int select(int condition, int a, int b) {
    StageInstr i{Kind::kSelect, program_.code[a].dtype};
    i.args = {condition, a, b};
    return emit(std::move(i));
  }
  int rank(int value) const { return type_rank(program_.code[value].dtype); }
  DType dtype(int rank) const { return dtype_of_rank(rank, real_); }

  int compile(const Expr& e) {
    switch (e.kind) {
      case ExprKind::kNumber:
        return constant(e.number, is_integer(e.number) ? DType::kInt64 : real_);
      case ExprKind::kIndex: {
        if (const auto value = looked_up_.find(e.index); value != looked_up_.end()) return value->second;
        StageInstr i{Kind::kGrid, DType::kInt64};
        i.dim =
            static_cast<int>(std::find(program_.dims.begin(), program_.dims.end(), e.index) - program_.dims.begin());
        i.dims = bit_of(e.index);
        return emit(std::move(i));
      }
      case ExprKind::kRead:
        return read(e);
      case ExprKind::kUnary: {
        const int x = compile(e.args[0]);
        switch (function_of(e)) {
          case Function::kLogic:
            return unary(e.function, as(x, DType::kBool), DType::kBool);
          case Function::kSame:
            return x;
          case Function::kReal:
            return unary(e.function, as(x, real_), real_);
          default:
            break;
        }
        const DType type = dtype(std::max(rank(x), 1));
        if (e.function == "floor" && type == DType::kInt64) return as(x, type);
        return unary(e.function, as(x, type), type);
      }
      case ExprKind::kBinary: {
        const int x = compile(e.args[0]), y = compile(e.args[1]);
        const int widest = std::max(rank(x), rank(y));
        switch (function_of(e)) {
          case Function::kComparison:
            return binary(e.function, as(x, dtype(widest)), as(y, dtype(widest)), DType::kBool);
          case Function::kLogic:
            return binary(e.function, as(x, DType::kBool), as(y, DType::kBool), DType::kBool);
          case Function::kReal:
            return binary(e.function, as(x, real_), as(y, real_), real_);
          case Function::kInteger:
            return binary(e.function, as(x, DType::kInt64), as(y, DType::kInt64), DType::kInt64);
          default:
            break;
        }
        const DType type = dtype(rank_of(e, parts_));
        if (e.function == "^" && e.args[1].kind == ExprKind::kNumber && e.args[1].number == 2)
          return binary("*", as(x, type), as(x, type), type);
        return binary(e.function, as(x, type), as(y, type), type);
      }
      case ExprKind::kIf: {
        const int c = as(compile(e.args[0]), DType::kBool), x = compile(e.args[1]), y = compile(e.args[2]);
        const DType type = dtype(std::max(rank(x), rank(y)));
        return select(c, as(x, type), as(y, type));
      }
      case ExprKind::kRng: {
        StageInstr i{Kind::kRng, real_};
        for (const Expr& a : e.args) i.args.push_back(as(compile(a), DType::kInt64));
        return emit(std::move(i));
      }
      case ExprKind::kOpaque:
        fail("{}: there is no kernel for the opaque function '{}'", bound_.name, e.function);
      case ExprKind::kReduce:
        break;
    }
    ensure(false, "stage {}: a reducer below the root", bound_.tensors[stage_.tensor].name);
    return -1;
  }

  int read(const Expr& e) {
    const std::optional<Part>& part = parts_[e.tensor];
    ensure(part.has_value(), "stage {} reads {}, which the task does not hold", bound_.tensors[stage_.tensor].name,
           bound_.tensors[e.tensor].name);
    const double otherwise = e.has_else ? e.number : 0;
    // An `else` that the tensor's type can't hold widens it.
    const bool holds = is_float(part->dtype) && rounded_to(part->dtype, otherwise) == otherwise;
    const DType type = dtype_of_rank(rank_of(e, parts_), holds ? part->dtype : real_);
    if (is_empty(part->box)) return constant(otherwise, type);
    std::vector<Affine> forms;
    std::vector<bool> from_data;
    bool strided = true;
    for (const Affine& s : e.subscripts) {
      from_data.push_back(std::any_of(looked_up_.begin(), looked_up_.end(),
                                      [&](const auto& l) { return tdl::uses_index(s, l.first); }));
      forms.push_back(from_data.back() ? s : tdl::simplified(s, ranges_));
      strided &= !from_data.back();
      for (const Affine::Term& t : forms.back().terms) strided &= t.atom.kind == Affine::Atom::Kind::kIndex;
    }
    std::vector<bool> inside;
    for (size_t a = 0; a < forms.size(); ++a)
      inside.push_back(!from_data[a] && part->box[a].contains(tdl::range_of(forms[a], ranges_)));
    const bool all_inside = std::all_of(inside.begin(), inside.end(), [](bool b) { return b; });
    if (strided) {
      StageInstr i{Kind::kRead, part->dtype};
      i.tensor = e.tensor;
      i.padded = !all_inside;
      i.subscripts = forms;
      if (i.padded) {
        i.dtype = type;
        i.number = otherwise;
      }
      for (const Affine& f : forms) i.dims |= dims_of(f);
      return emit(std::move(i));
    }
    Affine offset;
    for (size_t a = 0; a < forms.size(); ++a)
      offset = offset + tdl::scaled(forms[a] - tdl::affine_constant(part->box[a].lo), part->strides[a]);
    int place = as(compile(tdl::expr_of(offset)), DType::kInt64), valid = -1;
    for (size_t a = 0; a < forms.size(); ++a) {
      if (inside[a]) continue;
      const int form = compile(tdl::expr_of(forms[a]));
      // What data says may be anything.
      const Interval range = from_data[a] ? Interval{INT64_MIN, INT64_MAX} : tdl::range_of(forms[a], ranges_);
      auto require = [&](const char* comparison, int64_t bound) {
        const int holds = binary(comparison, form, constant(static_cast<double>(bound), DType::kInt64), DType::kBool);
        valid = valid < 0 ? holds : binary("and", valid, holds, DType::kBool);
      };
      if (range.lo < part->box[a].lo) require(">=", part->box[a].lo);
      if (range.hi > part->box[a].hi) require("<", part->box[a].hi);
    }
    if (valid >= 0) place = select(valid, place, constant(0, DType::kInt64));
    StageInstr i{Kind::kGather, part->dtype};
    i.tensor = e.tensor;
    i.args = {place};
    const int value = as(emit(std::move(i)), type);
    return valid < 0 ? value : select(valid, value, constant(otherwise, type));
  }

  // Which values end where, and which instruction can overwrite one that ends there.
  void lifetimes() {
    std::vector<StageInstr>& code = program_.code;
    std::vector<int> last(code.size(), -1);
    for (size_t i = 0; i < code.size(); ++i)
      for (int a : code[i].args) last[a] = static_cast<int>(i);
    for (int end : {program_.a, program_.b, program_.hidden, program_.zero})
      if (end >= 0) last[end] = static_cast<int>(code.size());
    for (size_t i = 0; i < code.size(); ++i) {
      for (int a : code[i].args)
        if (last[a] == static_cast<int>(i) &&
            std::find(code[i].dead.begin(), code[i].dead.end(), a) == code[i].dead.end())
          code[i].dead.push_back(a);
      if (last[i] < 0) code[i].dead.push_back(static_cast<int>(i));
      if (code[i].kind != Kind::kUnary && code[i].kind != Kind::kBinary && code[i].kind != Kind::kSelect) continue;
      for (size_t k = 0; k < code[i].args.size() && !code[i].in_place; ++k) {
        const StageInstr& arg = code[code[i].args[k]];
        const bool owned = arg.kind != Kind::kConst && arg.kind != Kind::kRead;
        if (!owned || last[code[i].args[k]] != static_cast<int>(i) || arg.dims != code[i].dims ||
            arg.dtype != code[i].dtype)
          continue;
        code[i].in_place = true;
        code[i].reuse = code[i].args[k];
      }
    }
  }

  const tdl::Bound& bound_;
  const tdl::Stage& stage_;
  const std::vector<Interval>& ranges_;
  const std::vector<std::optional<Part>>& parts_;
  DType real_;
  StageProgram program_;
  std::map<int, int> looked_up_;  // indices that are read from data, and their values
};

}  // namespace

// ---------------------------------------------------------------- products

ProductDims product_dims(const StageProgram& program) {
  ProductDims result;
  const uint64_t a = program.code[program.a].dims, b = program.code[program.b].dims;
  for (int d = 0; d < static_cast<int>(program.dims.size()); ++d) {
    const bool in_a = a >> d & 1, in_b = b >> d & 1;
    if (!in_a && !in_b) continue;
    if (d >= program.lhs_count) result.summed.push_back(d);
    else if (in_a && in_b) result.batch.push_back(d);
    else if (in_a) result.rows.push_back(d);
    else result.columns.push_back(d);
  }
  return result;
}

namespace {

int64_t extent_of(const Shape& sizes, const std::vector<int>& dims) {
  int64_t n = 1;
  for (int d : dims) n *= sizes[d];
  return n;
}

}  // namespace

std::optional<MatrixStrides> matrix_strides(const Shape& sizes, const Shape& strides, const std::vector<int>& batch,
                                            const std::vector<int>& rows, const std::vector<int>& columns) {
  const auto b = merged_stride(sizes, strides, batch), r = merged_stride(sizes, strides, rows),
             c = merged_stride(sizes, strides, columns);
  if (!b || !r || !c || *b < 0 || *r < 0 || *c < 0) return std::nullopt;
  const int64_t m = extent_of(sizes, rows), n = extent_of(sizes, columns);
  MatrixStrides s{*b, *r, *c};
  // One of the two strides is 1, and the other at least its extent: what a matrix product takes as it is. That of an
  // extent of 1 is free.
  if ((n == 1 || s.columns == 1) && (m == 1 || s.rows >= n)) {
    if (n == 1 && m > 1 && s.rows == 0) return std::nullopt;
    return MatrixStrides{s.batch, m == 1 ? std::max<int64_t>(n, 1) : s.rows, 1};
  }
  if ((m == 1 || s.rows == 1) && (n == 1 || s.columns >= m))
    return MatrixStrides{s.batch, 1, n == 1 ? std::max<int64_t>(m, 1) : s.columns};
  return std::nullopt;
}

// ---------------------------------------------------------------- bytes of a block

namespace {

// Repeats what kernels/generic.cc allocates and frees, in the same order.
class Sizer {
 public:
  Sizer(const tdl::Bound& bound, const StageProgram& program, const std::vector<std::optional<Part>>& parts,
        const Shape& block)
      : program_(program),
        parts_(parts),
        block_(block),
        offsets_(program.code.size(), -1),
        strides_(program.code.size()) {
    for (size_t d = 0; d < block.size(); ++d) at_.push_back({program.ranges[d].lo, program.ranges[d].lo + block[d]});
    const Part& out = *parts[bound.stages[program.stage].tensor];
    StageInstr lhs;
    lhs.subscripts = bound.stages[program.stage].lhs;
    out_strides_ = read_strides(lhs, program.dims, out.strides);
    lhs.dims = wanted_dims();
    flips_out_ = is_flipped(lhs, out_strides_);
    same_dtype_ = out.dtype == program.dtype;
    out_bytes_ = bytes_of(out.dtype);
    for (size_t d = program.lhs_count; d < block.size(); ++d) one_pass_ &= block[d] == program.ranges[d].size();
    accumulates_ = !same_dtype_ && is_float(out.dtype) && is_float(program.dtype) &&
                   (program.finish == Finish::kScatter || (program.finish != Finish::kStore && !one_pass_));
  }

  bool accumulates() const { return accumulates_; }
  bool direct() const {
    if (flips_out_ || !same_dtype_ || !one_pass_) return false;
    switch (program_.finish) {
      case Finish::kStore: {
        const StageInstr& last = program_.code[program_.a];
        return program_.a + 1 == static_cast<int>(program_.code.size()) && last.dims == wanted_dims() &&
               (last.kind == Kind::kUnary || last.kind == Kind::kBinary || last.kind == Kind::kSelect ||
                last.kind == Kind::kCast);
      }
      case Finish::kScatter:
        return false;
      case Finish::kReduce:
        return program_.reducer != tdl::Reducer::kProd &&
               (program_.code[program_.a].dims & lhs_mask()) == wanted_dims();
      case Finish::kProduct: {
        const ProductDims d = product_dims(program_);
        const auto m = matrix_strides(block_, out_strides_, d.batch, d.rows, d.columns);
        return m && m->columns == 1 && (extent_of(block_, d.batch) == 1 || m->batch > 0) &&
               ((program_.code[program_.a].dims | program_.code[program_.b].dims) & lhs_mask()) == wanted_dims();
      }
    }
    return false;
  }

  void place(FirstFit& scratch) {
    scratch_ = &scratch;
    int64_t sum = -1;
    if (accumulates_) {
      int64_t elements = 1;
      for (int d = 0; d < program_.lhs_count; ++d) elements *= block_[d];
      sum = take(elements * bytes_of(program_.dtype));
    }
    for (size_t i = 0; i < program_.code.size(); ++i) {
      evaluate(i);
      for (int d : program_.code[i].dead) drop(offsets_[d]);
    }
    switch (program_.finish) {
      case Finish::kStore:
        if (!program_.direct) store(offsets_[program_.a], volume_of(program_.code[program_.a].dims));
        break;
      case Finish::kReduce:
        reduce();
        break;
      case Finish::kProduct:
        multiply();
        break;
      case Finish::kScatter:
        scatter();
        break;
    }
    for (int64_t& o : offsets_) drop(o);
    drop(sum);
  }

 private:
  void evaluate(size_t i) {
    const StageInstr& instr = program_.code[i];
    const int64_t value = volume_of(instr.dims) * bytes_of(instr.dtype);
    strides_[i] = dense_of(instr.dims);
    switch (instr.kind) {
      case Kind::kConst:
        offsets_[i] = take(bytes_of(instr.dtype));
        break;
      case Kind::kRead: {
        Shape axis_strides = parts_[instr.tensor]->strides;
        if (instr.padded) {
          const Shape hull = extents(read_hull(instr, program_.dims, at_));
          offsets_[i] = take(volume(hull) * bytes_of(instr.dtype));
          axis_strides = dense_strides(hull);
        }
        strides_[i] = read_strides(instr, program_.dims, axis_strides);
        if (!is_flipped(instr, strides_[i])) break;
        int64_t flipped = take(value);
        drop(offsets_[i]);
        offsets_[i] = flipped;
        strides_[i].clear();
        break;
      }
      case Kind::kRng: {
        offsets_[i] = take(value);
        std::vector<int64_t> keys;
        for (size_t a = 0; a < instr.args.size(); ++a) keys.push_back(take(volume_of(instr.dims) * 8));
        for (int64_t& k : keys) drop(k);
        break;
      }
      default:
        if (program_.direct && program_.finish == Finish::kStore && static_cast<int>(i) == program_.a) break;
        if (instr.in_place) std::swap(offsets_[i], offsets_[instr.reuse]);
        else offsets_[i] = take(value);
    }
  }

  uint64_t lhs_mask() const { return (uint64_t{1} << program_.lhs_count) - 1; }
  uint64_t wanted_dims() const {
    uint64_t dims = 0;
    for (int d = 0; d < program_.lhs_count; ++d)
      if (program_.ranges[d].size() != 1) dims |= uint64_t{1} << d;
    return dims;
  }
  int64_t volume_of(uint64_t dims) const {
    int64_t n = 1;
    for (size_t d = 0; d < block_.size(); ++d)
      if (dims >> d & 1) n *= block_[d];
    return n;
  }
  Shape dense_of(uint64_t dims) const {
    Shape strides(block_.size(), 0);
    int64_t stride = 1;
    for (size_t d = block_.size(); d-- > 0;)
      if (dims >> d & 1) {
        strides[d] = stride;
        stride *= block_[d];
      }
    return strides;
  }
  int64_t take(int64_t bytes) { return scratch_->allocate(bytes); }
  void drop(int64_t& offset) {
    if (offset >= 0) scratch_->free(offset);
    offset = -1;
  }

  // A value of the program's type is written into the result, or combined with it.
  void store(int64_t& offset, int64_t elements) {
    auto replace = [&](int64_t bytes) {
      int64_t copy = take(bytes);
      drop(offset);
      offset = copy;
    };
    if (flips_out_) replace(elements * bytes_of(program_.dtype));
    if (!one_pass_ && !same_dtype_ && !accumulates_) replace(elements * out_bytes_);
    drop(offset);
  }

  void reduce() {
    const StageInstr& value = program_.code[program_.a];
    const int64_t element = bytes_of(program_.dtype), elements = volume_of(value.dims & lhs_mask());
    int64_t& offset = offsets_[program_.a];
    auto replace = [&](int64_t bytes) {
      int64_t reduced = take(bytes);
      drop(offset);
      offset = reduced;
    };
    if (program_.lhs_count == static_cast<int>(block_.size())) return store(offset, elements);
    if (program_.direct) return;
    if (program_.reducer == tdl::Reducer::kProd) {  // one dimension after another
      for (size_t d = program_.lhs_count; d < block_.size(); ++d) {
        int64_t left = elements;
        for (size_t later = d + 1; later < block_.size(); ++later) left *= block_[later];
        replace(left * element);
      }
    } else {
      replace(elements * element);
    }
    store(offset, elements);
  }

  // Places, and values as [summed, the rest].
  void scatter() {
    int64_t summed = 1, rest = 1;
    for (size_t d = 0; d < block_.size(); ++d) (static_cast<int>(d) < program_.lhs_count ? rest : summed) *= block_[d];
    int64_t places = take(summed * bytes_of(DType::kInt64));
    for (int d : program_.scattered) rest /= block_[d];
    int64_t values = take(summed * rest * bytes_of(program_.dtype));
    drop(values), drop(places);
  }

  void multiply() {
    const ProductDims d = product_dims(program_);
    const int64_t element = bytes_of(program_.dtype);
    for (const auto& [side, rows, columns] :
         {std::tuple{program_.a, d.rows, d.summed}, std::tuple{program_.b, d.summed, d.columns}}) {
      const uint64_t dims = program_.code[side].dims;
      bool spread = false;  // along summed dimensions that this side lacks
      for (int s : d.summed) spread |= !(dims >> s & 1) && block_[s] > 1;
      if (!spread && !strides_[side].empty() && matrix_strides(block_, strides_[side], d.batch, rows, columns))
        continue;
      int64_t copy = take(extent_of(block_, d.batch) * extent_of(block_, rows) * extent_of(block_, columns) * element);
      drop(offsets_[side]);
      offsets_[side] = copy;
    }
    const int64_t elements = extent_of(block_, d.batch) * extent_of(block_, d.rows) * extent_of(block_, d.columns);
    if (program_.direct) return;
    int64_t result = take(elements * element);
    drop(offsets_[program_.a]);
    drop(offsets_[program_.b]);
    store(result, elements);
  }

  const StageProgram& program_;
  const std::vector<std::optional<Part>>& parts_;
  Shape block_;
  std::vector<Interval> at_;
  Shape out_strides_;
  bool flips_out_ = false, same_dtype_ = true, one_pass_ = true, accumulates_ = false;
  int64_t out_bytes_ = 0;         // of an element of the result's part
  std::vector<int64_t> offsets_;  // of the values that have memory, else -1
  std::vector<Shape> strides_;    // of the values; empty: a flipped copy
  FirstFit* scratch_ = nullptr;
};

}  // namespace

bool is_flipped(const StageInstr& read, const Shape& strides) {
  for (size_t d = 0; d < strides.size(); ++d)
    if (strides[d] < 0 && (read.dims >> d & 1)) return true;
  return false;
}

void place_block(const tdl::Bound& bound, const StageProgram& program, const std::vector<std::optional<Part>>& parts,
                 const Shape& block, FirstFit& scratch) {
  Sizer(bound, program, parts, block).place(scratch);
}

void place_blocks(const tdl::Bound& bound, const StageProgram& program, const std::vector<std::optional<Part>>& parts,
                  FirstFit& scratch) {
  std::vector<Shape> blocks{program.block};
  for (size_t d = 0; d < program.block.size(); ++d) {
    const int64_t rest = program.ranges[d].size() % program.block[d];
    if (rest == 0) continue;
    const size_t n = blocks.size();
    for (size_t i = 0; i < n; ++i) {
      blocks.push_back(blocks[i]);
      blocks.back()[d] = rest;
    }
  }
  for (const Shape& block : blocks) place_block(bound, program, parts, block, scratch);
}

StageProgram compile_stage(const tdl::Bound& bound, int stage, const std::vector<Interval>& ranges,
                           const std::vector<std::optional<Part>>& parts, DType real, int64_t budget_bytes) {
  StageProgram program = Compiler(bound, stage, ranges, parts, real).run();
  Shape block;
  for (size_t d = 0; d < program.ranges.size(); ++d)
    block.push_back(program.single >> d & 1 ? 1 : program.ranges[d].size());
  auto peak_of = [&](const Shape& b) {
    program.direct = Sizer(bound, program, parts, b).direct();
    FirstFit scratch;
    place_block(bound, program, parts, b, scratch);
    return scratch.end();
  };
  int64_t peak = peak_of(block);
  while (peak > budget_bytes) {
    // The first dimension that helps by a tenth; one of the left side before a reduced one, whose blocks must be
    // combined.
    Shape best;
    int64_t best_peak = peak;
    for (size_t d = 0; d < block.size(); ++d) {
      const auto& whole = program.scattered;
      if (block[d] == 1 || std::find(whole.begin(), whole.end(), static_cast<int>(d)) != whole.end()) continue;
      Shape smaller = block;
      smaller[d] = (block[d] + 1) / 2;
      const int64_t p = peak_of(smaller);
      if (p < best_peak) {
        best = smaller;
        best_peak = p;
        if (p * 10 <= peak * 9) break;
      }
    }
    if (best.empty()) break;
    block = best;
    peak = best_peak;
  }
  program.block = block;
  program.direct = Sizer(bound, program, parts, block).direct();
  program.accumulates = Sizer(bound, program, parts, block).accumulates();
  return program;
}

}  // namespace partita
