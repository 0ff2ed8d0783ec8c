// Turns the expressions of a stage into instructions.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/kernel_plan/stage_builder.h"
#include "partita/kernel_plan/types.h"
#include "partita/tdl/affine.h"
#include "partita/tdl/typed_expr.h"

namespace partita {

using tdl::Affine;
using tdl::Expr;
using tdl::ExprKind;
using Kind = StageInstr::Kind;

namespace {

int rank(const StageBuilder& b, int value) { return type_rank(b.program.code[value].dtype); }
DType dtype(const StageBuilder& b, int rank) { return dtype_of_rank(rank, b.real); }

int compile_index(StageBuilder& b, const Expr& e) {
  if (const auto value = b.looked_up.find(e.index); value != b.looked_up.end()) return value->second;
  const std::vector<int>& dims = b.program.dims;
  StageInstr i{Kind::kGrid, DType::kInt64};
  i.dim = static_cast<int>(std::find(dims.begin(), dims.end(), e.index) - dims.begin());
  i.dims = dims_of(b, e);
  return emit_instruction(b, std::move(i));
}

int compile_unary(StageBuilder& b, const Expr& e) {
  const int x = compile(b, e.args[0]);
  switch (function_type(e)) {
    case FunctionType::kLogic:
      return emit_unary(b, e.function, emit_cast(b, x, DType::kBool), DType::kBool);
    case FunctionType::kSame:
      return x;
    case FunctionType::kReal:
      return emit_unary(b, e.function, emit_cast(b, x, b.real), b.real);
    default:
      break;
  }
  const DType type = dtype(b, std::max(rank(b, x), kIntegerRank));
  if (e.function == "floor" && type == DType::kInt64) return emit_cast(b, x, type);
  return emit_unary(b, e.function, emit_cast(b, x, type), type);
}

int compile_binary(StageBuilder& b, const Expr& e) {
  const int x = compile(b, e.args[0]), y = compile(b, e.args[1]);
  const auto with = [&](DType arguments, DType result) {
    return emit_binary(b, e.function, emit_cast(b, x, arguments), emit_cast(b, y, arguments), result);
  };
  switch (function_type(e)) {
    case FunctionType::kComparison:
      return with(dtype(b, std::max(rank(b, x), rank(b, y))), DType::kBool);
    case FunctionType::kLogic:
      return with(DType::kBool, DType::kBool);
    case FunctionType::kReal:
      return with(b.real, b.real);
    case FunctionType::kInteger:
      return with(DType::kInt64, DType::kInt64);
    default:
      break;
  }
  const DType type = dtype(b, type_rank(e, b.shards));
  if (e.function == "^" && e.args[1].kind == ExprKind::kNumber && e.args[1].number == 2)
    return emit_binary(b, "*", emit_cast(b, x, type), emit_cast(b, x, type), type);
  return with(type, type);
}

}  // namespace

int compile(StageBuilder& b, const Expr& e) {
  switch (e.kind) {
    case ExprKind::kNumber:
      return emit_constant(b, e.number, tdl::is_integer(e.number) ? DType::kInt64 : b.real);
    case ExprKind::kIndex:
      return compile_index(b, e);
    case ExprKind::kRead:
      return compile_read(b, e);
    case ExprKind::kUnary:
      return compile_unary(b, e);
    case ExprKind::kBinary:
      return compile_binary(b, e);
    case ExprKind::kIf: {
      const int c = emit_cast(b, compile(b, e.args[0]), DType::kBool), x = compile(b, e.args[1]),
                y = compile(b, e.args[2]);
      const DType type = dtype(b, std::max(rank(b, x), rank(b, y)));
      return emit_select(b, c, emit_cast(b, x, type), emit_cast(b, y, type));
    }
    case ExprKind::kRng: {
      StageInstr i{Kind::kRng, b.real};
      for (const Expr& a : e.args) i.args.push_back(emit_cast(b, compile(b, a), DType::kInt64));
      return emit_instruction(b, std::move(i));
    }
    case ExprKind::kOpaque:
      fail("{}: there is no kernel for the opaque function '{}'", b.bound.name, e.function);
    case ExprKind::kReduce:
      break;
  }
  ensure(false, "stage {}: a reducer below the root", b.bound.tensors[b.stage.tensor].name);
  return -1;
}

// ---------------------------------------------------------------- reads

namespace {

// A read's subscripts over the block, one entry an axis.
struct Subscripts {
  std::vector<Affine> forms;
  std::vector<bool> from_data;  // it uses an index whose value is read from data
  std::vector<bool> inside;     // it never leaves the shard's box
  bool strided = true;          // plain indices alone: the elements have one stride a dimension
};

Subscripts subscripts_of(const StageBuilder& b, const Expr& read, const Box& box) {
  Subscripts s;
  for (const Affine& form : read.subscripts) {
    s.from_data.push_back(std::any_of(b.looked_up.begin(), b.looked_up.end(),
                                      [&](const auto& l) { return tdl::uses_index(form, l.first); }));
    s.forms.push_back(s.from_data.back() ? form : tdl::simplified(form, b.ranges));
    s.strided &= !s.from_data.back();
    for (const Affine::Term& t : s.forms.back().terms) s.strided &= t.atom.kind == Affine::Atom::Kind::kIndex;
  }
  for (size_t a = 0; a < s.forms.size(); ++a)
    s.inside.push_back(!s.from_data[a] && box[a].contains(tdl::range_of(s.forms[a], b.ranges)));
  return s;
}

// Reads elements at computed offsets; `otherwise` if a subscript leaves the box.
int compile_gather(StageBuilder& b, const Expr& read, const Subscripts& s, double otherwise, DType type) {
  const TensorShard& shard = *b.shards[read.tensor];
  Affine offset;
  for (size_t a = 0; a < s.forms.size(); ++a)
    offset = offset + tdl::scaled(s.forms[a] - tdl::affine_constant(shard.box[a].lo), shard.strides[a]);
  int place = emit_cast(b, compile(b, tdl::expr_of(offset)), DType::kInt64), valid = -1;
  for (size_t a = 0; a < s.forms.size(); ++a) {
    if (s.inside[a]) continue;
    const int form = compile(b, tdl::expr_of(s.forms[a]));
    // Subscripts from data may be anything.
    const Interval range = s.from_data[a] ? Interval{INT64_MIN, INT64_MAX} : tdl::range_of(s.forms[a], b.ranges);
    if (range.lo < shard.box[a].lo)
      add_condition(b, valid, emit_binary(b, ">=", form, emit_integer(b, shard.box[a].lo), DType::kBool));
    if (range.hi > shard.box[a].hi)
      add_condition(b, valid, emit_binary(b, "<", form, emit_integer(b, shard.box[a].hi), DType::kBool));
  }
  if (valid >= 0) place = emit_select(b, valid, place, emit_integer(b, 0));
  StageInstr i{Kind::kGather, shard.dtype};
  i.tensor = read.tensor;
  i.args = {place};
  const int value = emit_cast(b, emit_instruction(b, std::move(i)), type);
  return valid < 0 ? value : emit_select(b, valid, value, emit_constant(b, otherwise, type));
}

}  // namespace

int compile_read(StageBuilder& b, const Expr& read) {
  const std::optional<TensorShard>& shard = b.shards[read.tensor];
  ensure(shard.has_value(), "stage {} reads {}, which the task does not hold", b.bound.tensors[b.stage.tensor].name,
         b.bound.tensors[read.tensor].name);
  const double otherwise = read.has_else ? read.number : 0;
  // An `else` that the tensor's type can't hold widens it.
  const bool holds = is_float(shard->dtype) && rounded_to(shard->dtype, otherwise) == otherwise;
  const DType type = dtype_of_rank(type_rank(read, b.shards), holds ? shard->dtype : b.real);
  if (is_empty(shard->box)) return emit_constant(b, otherwise, type);
  Subscripts s = subscripts_of(b, read, shard->box);
  if (!s.strided) return compile_gather(b, read, s, otherwise, type);
  StageInstr i{Kind::kRead, shard->dtype};
  i.tensor = read.tensor;
  i.padded = !std::all_of(s.inside.begin(), s.inside.end(), [](bool inside) { return inside; });
  if (i.padded) {
    i.dtype = type;
    i.number = otherwise;
  }
  for (const Affine& form : s.forms) i.dims |= dims_of(b, form);
  i.subscripts = std::move(s.forms);
  return emit_instruction(b, std::move(i));
}

}  // namespace partita
