// Chooses how a stage's reduction is finished: as a lookup, a scatter, a matrix product, or a plain reduction.
#include <algorithm>
#include <utility>

#include "partita/kernel_plan/block.h"
#include "partita/kernel_plan/stage_builder.h"
#include "partita/kernel_plan/types.h"
#include "partita/tdl/affine.h"

namespace partita {

using tdl::Affine;
using tdl::Expr;
using tdl::ExprKind;
using Kind = StageInstr::Kind;
using Finish = StageProgram::Finish;

namespace {

// ---------------------------------------------------------------- questions about expressions

bool uses(const Expr& e, int index) {
  if (e.kind == ExprKind::kIndex && e.index == index) return true;
  return std::any_of(e.subscripts.begin(), e.subscripts.end(),
                     [&](const Affine& s) { return tdl::uses_index(s, index); }) ||
         std::any_of(e.args.begin(), e.args.end(), [&](const Expr& a) { return uses(a, index); });
}

// Tells whether subscripts use the index by itself, or not at all.
bool only_plain(const Expr& e, int index) {
  return std::all_of(e.subscripts.begin(), e.subscripts.end(),
                     [&](const Affine& s) { return !tdl::uses_index(s, index) || s.plain_index() == index; }) &&
         std::all_of(e.args.begin(), e.args.end(), [&](const Expr& a) { return only_plain(a, index); });
}

bool is_zero(const Expr& e) { return e.kind == ExprKind::kNumber && e.number == 0; }
// sum(..) if(condition, body, 0)
bool is_guarded_sum(const Expr& reduce) {
  return reduce.reducer == tdl::Reducer::kSum && reduce.args[0].kind == ExprKind::kIf &&
         is_zero(reduce.args[0].args[2]);
}

// c1 and c2 and ..
std::vector<const Expr*> conjuncts(const Expr& e) {
  if (e.kind != ExprKind::kBinary || e.function != "and") return {&e};
  std::vector<const Expr*> all = conjuncts(e.args[0]), more = conjuncts(e.args[1]);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// index == value, or value == index, if the value is an integer.
struct Equality {
  int index;
  const Expr* value;
};
std::optional<Equality> equality(const Expr& e, const TensorShards& shards) {
  if (e.kind != ExprKind::kBinary || e.function != "==") return std::nullopt;
  for (int side : {0, 1})
    if (e.args[side].kind == ExprKind::kIndex && type_rank(e.args[1 - side], shards) == kIntegerRank)
      return Equality{e.args[side].index, &e.args[1 - side]};
  return std::nullopt;
}

// ---------------------------------------------------------------- lookups

// Removes the equalities that are lookups of reduced indices from `conditions`.
std::vector<Equality> take_lookups(const StageBuilder& b, const Expr& reduce, std::vector<const Expr*>& conditions) {
  const Expr& body = reduce.args[0];
  std::vector<Equality> found;
  std::erase_if(conditions, [&](const Expr* c) {
    const auto e = equality(*c, b.shards);
    const bool reduced = e && std::find(reduce.reduced.begin(), reduce.reduced.end(), e->index) != reduce.reduced.end();
    if (!reduced || uses(*e->value, e->index) || !only_plain(body, e->index)) return false;
    for (const Equality& other : found)
      if (other.index == e->index || uses(*e->value, other.index) || uses(*other.value, e->index)) return false;
    found.push_back(*e);
    return true;
  });
  return found;
}

// sum(v) if(v == e, body, 0), where e does not depend on v: the body at v = e, if that is in v's range. So an embedding
// reads the rows that it needs, and no others. The same holds for several such indices, none of whose values depends on
// another.
bool as_lookup(StageBuilder& b, const Expr& reduce) {
  if (!is_guarded_sum(reduce)) return false;
  const Expr& body = reduce.args[0];
  std::vector<const Expr*> conditions = conjuncts(body.args[0]);
  const std::vector<Equality> found = take_lookups(b, reduce, conditions);
  if (found.empty()) return false;
  StageProgram& program = b.program;
  std::vector<Interval> ranges;
  for (const Equality& e : found) {
    const auto d = std::find(program.dims.begin(), program.dims.end(), e.index) - program.dims.begin();
    ranges.push_back(program.ranges[static_cast<size_t>(d)]);
    program.dims.erase(program.dims.begin() + d);
    program.ranges.erase(program.ranges.begin() + d);
  }
  int valid = -1;
  for (size_t i = 0; i < found.size(); ++i) {
    const int value = emit_cast(b, compile(b, *found[i].value), DType::kInt64);
    b.looked_up[found[i].index] = value;
    add_condition(b, valid, emit_binary(b, ">=", value, emit_integer(b, ranges[i].lo), DType::kBool));
    add_condition(b, valid, emit_binary(b, "<", value, emit_integer(b, ranges[i].hi), DType::kBool));
  }
  for (const Expr* c : conditions) add_condition(b, valid, emit_cast(b, compile(b, *c), DType::kBool));
  const int inside = emit_cast(b, compile(b, body.args[1]), program.dtype);
  program.a = emit_select(b, valid, inside, emit_constant(b, 0, program.dtype));
  program.finish = reduce.reduced.size() == found.size() ? Finish::kStore : Finish::kReduce;
  return true;
}

// ---------------------------------------------------------------- scatters

// A dimension of the left side along which one of the conditions scatters values to `value`.
struct Place {
  int dim;
  size_t condition;
  const Expr* value;
};

// The places that the conditions give, in the result's order, the most significant first; if they do not lie as one,
// only the first.
std::vector<Place> scatter_places(const StageBuilder& b, const Expr& body, const std::vector<const Expr*>& conditions) {
  const StageProgram& program = b.program;
  const auto begin = program.dims.begin(), end = begin + program.lhs_count;
  std::vector<Place> places;
  for (size_t i = 0; i < conditions.size(); ++i) {
    const auto e = equality(*conditions[i], b.shards);
    if (!e) continue;
    const auto at = std::find(begin, end, e->index);
    if (at == end || uses(body.args[1], e->index) || uses(*e->value, e->index)) continue;
    bool alone = true;
    for (size_t k = 0; k < conditions.size(); ++k) alone = alone && (k == i || !uses(*conditions[k], e->index));
    if (alone) places.push_back({static_cast<int>(at - begin), i, e->value});
  }
  if (places.empty()) return places;
  StageInstr lhs;
  lhs.subscripts = b.stage.lhs;
  const Shape strides = read_strides(lhs, program.dims, b.shards[b.stage.tensor]->strides);
  std::stable_sort(places.begin(), places.end(),
                   [&](const Place& p, const Place& q) { return strides[p.dim] > strides[q.dim]; });
  std::vector<int> dims;
  for (const Place& p : places) dims.push_back(p.dim);
  if (!merged_stride(extents(program.ranges), strides, dims)) places.erase(places.begin() + 1, places.end());
  return places;
}

// sum(b) if(e == v, body, 0) for an index v of the left side that neither e nor the body depends on: each body is added
// at its place. The gradient of an embedding touches each row of it once, not every row of the table. The same holds
// for several such indices that lie as one in the result. If an e depends on other indices of the left side, a block
// has one value of each.
bool as_scatter(StageBuilder& b, const Expr& reduce) {
  StageProgram& program = b.program;
  if (!is_guarded_sum(reduce) || program.dtype != b.real || !is_float(b.shards[b.stage.tensor]->dtype)) return false;
  for (const Affine& form : b.stage.lhs)
    if (form.terms.size() > 1 || (form.terms.size() == 1 && (form.plain_index() < 0))) return false;
  const Expr& body = reduce.args[0];
  const std::vector<const Expr*> conditions = conjuncts(body.args[0]);
  const std::vector<Place> places = scatter_places(b, body, conditions);
  if (places.empty()) return false;
  int counts = -1;
  for (const Place& p : places) {
    const Interval range = program.ranges[p.dim];
    const int value = emit_cast(b, compile(b, *p.value), DType::kInt64);
    program.single |= program.code[value].dims & lhs_mask(program);
    add_condition(b, counts, emit_binary(b, ">=", value, emit_integer(b, range.lo), DType::kBool));
    add_condition(b, counts, emit_binary(b, "<", value, emit_integer(b, range.hi), DType::kBool));
    const int offset = emit_binary(b, "-", value, emit_integer(b, range.lo), DType::kInt64);
    program.b = program.b < 0
                    ? offset
                    : emit_binary(b, "+", emit_binary(b, "*", program.b, emit_integer(b, range.size()), DType::kInt64),
                                  offset, DType::kInt64);
    program.scattered.push_back(p.dim);
  }
  program.b = emit_select(b, counts, program.b, emit_integer(b, 0));
  for (size_t k = 0; k < conditions.size(); ++k)
    if (std::none_of(places.begin(), places.end(), [&](const Place& p) { return p.condition == k; }))
      add_condition(b, counts, emit_cast(b, compile(b, *conditions[k]), DType::kBool));
  program.a = emit_select(b, counts, emit_cast(b, compile(b, body.args[1]), b.real), emit_constant(b, 0, b.real));
  program.finish = Finish::kScatter;
  return true;
}

// ---------------------------------------------------------------- matrix products

// f1 * f2 * .., perhaps under guards: if(g, f1 * .., 0).
void flatten_product(const Expr& e, std::vector<const Expr*>& factors, std::vector<const Expr*>& guards) {
  if (e.kind == ExprKind::kBinary && e.function == "*") {
    flatten_product(e.args[0], factors, guards);
    flatten_product(e.args[1], factors, guards);
  } else if (e.kind == ExprKind::kIf && is_zero(e.args[2])) {
    guards.push_back(&e.args[0]);
    flatten_product(e.args[1], factors, guards);
  } else {
    factors.push_back(&e);
  }
}

// A product's two sides: the factors and guards of each, and the dimensions it depends on.
struct Sides {
  std::vector<const Expr*> factors, guards;
  std::vector<bool> in_second, guard_second;  // per factor and guard: it belongs to the second side
  std::vector<const Expr*> after;             // guards that are applied after the product
  uint64_t first = 0, second = 0, all = 0;    // dimensions
};

// The last factor makes the second side, with all factors that depend on no more dimensions; the others make the first
// side. A guard that depends on no summed dimension, and on both sides' own, is applied after the product.
Sides sides_of(const StageBuilder& b, std::vector<const Expr*> factors, std::vector<const Expr*> guards) {
  Sides s;
  std::vector<uint64_t> dims;
  for (const Expr* f : factors) dims.push_back(dims_of(b, *f));
  s.second = dims.back();
  s.in_second.resize(factors.size());
  for (size_t i = 0; i < factors.size(); ++i) {
    s.in_second[i] = i + 1 == factors.size() || (i > 0 && (dims[i] & ~s.second) == 0);
    if (!s.in_second[i]) s.first |= dims[i];
    s.all |= dims[i];
  }
  std::erase_if(guards, [&](const Expr* g) {
    const uint64_t d = dims_of(b, *g), kept = (s.first | s.second) & lhs_mask(b.program);
    const bool both = (d & ~s.first) != 0 && (d & ~s.second) != 0 && (d & ~kept) == 0;
    if (both) s.after.push_back(g);
    return both;
  });
  for (const Expr* g : guards) {
    const uint64_t d = dims_of(b, *g);
    s.all |= d;
    const bool fits_second = (d & ~s.second) == 0;
    if ((d & ~s.first) != 0 && !fits_second) s.first |= d;
    s.guard_second.push_back(fits_second && (d & ~s.first) != 0);
  }
  s.factors = std::move(factors);
  s.guards = std::move(guards);
  return s;
}

// Tells whether the two sides share a summed dimension and are matrices, not only vectors.
bool are_matrices(const StageProgram& program, const Sides& s) {
  uint64_t reduced = 0;
  int64_t rows = 1, columns = 1, batch = 1;
  for (size_t d = 0; d < program.dims.size(); ++d) {
    const uint64_t bit = uint64_t{1} << d;
    const int64_t n = program.ranges[d].size();
    if (static_cast<int>(d) >= program.lhs_count) {
      reduced |= bit;
      if ((s.all & bit) == 0 && n != 1) return false;
    } else if ((s.first & bit) && (s.second & bit)) batch *= n;
    else if (s.first & bit) rows *= n;
    else if (s.second & bit) columns *= n;
  }
  if ((s.first & s.second & reduced) == 0) return false;
  if (rows == 1 || columns == 1) return batch == 1 && (rows != 1 || columns != 1);
  return true;
}

// Compiles a sum of products, perhaps under guards, to a matrix product if neither side depends on all indices.
bool as_product(StageBuilder& b, const Expr& reduce) {
  StageProgram& program = b.program;
  if (reduce.reducer != tdl::Reducer::kSum || program.dtype != b.real) return false;
  std::vector<const Expr*> factors, guards;
  flatten_product(reduce.args[0], factors, guards);
  if (factors.size() < 2) return false;
  const Sides s = sides_of(b, std::move(factors), std::move(guards));
  if (!are_matrices(program, s)) return false;
  int sides[2] = {-1, -1};
  for (size_t i = 0; i < s.factors.size(); ++i) {
    int& side = sides[s.in_second[i]];
    const int value = emit_cast(b, compile(b, *s.factors[i]), b.real);
    side = side < 0 ? value : emit_binary(b, "*", side, value, b.real);
  }
  for (size_t i = 0; i < s.guards.size(); ++i) {
    int& side = sides[s.guard_second[i]];
    side = emit_select(b, emit_cast(b, compile(b, *s.guards[i]), DType::kBool), side, emit_constant(b, 0, b.real));
  }
  for (const Expr* g : s.after) {
    const int guard = emit_cast(b, compile(b, *g), DType::kBool);
    const uint64_t either = program.code[sides[0]].dims | program.code[sides[1]].dims;
    if ((program.code[guard].dims & ~either) != 0) {  // a side holds nothing here
      sides[0] = emit_select(b, guard, sides[0], emit_constant(b, 0, b.real));
      continue;
    }
    const int hidden = emit_unary(b, "not", guard, DType::kBool);
    program.hidden = program.hidden < 0 ? hidden : emit_binary(b, "or", program.hidden, hidden, DType::kBool);
  }
  if (program.hidden >= 0) {  // a value of its own: a side that is the constant 0 ends with the product
    program.zero = static_cast<int>(program.code.size());
    program.code.push_back({Kind::kConst, b.real});
  }
  program.finish = Finish::kProduct;
  program.a = sides[0];
  program.b = sides[1];
  return true;
}

}  // namespace

void compile_reduction(StageBuilder& b, const Expr& reduce) {
  b.program.reducer = reduce.reducer;
  if (as_lookup(b, reduce) || as_scatter(b, reduce) || as_product(b, reduce)) return;
  b.program.finish = Finish::kReduce;
  b.program.a = emit_cast(b, compile(b, reduce.args[0]), b.program.dtype);
}

}  // namespace partita
