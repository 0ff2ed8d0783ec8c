// Adds instructions to a stage program, each computation once.
#include "partita/kernel_plan/stage_builder.h"

#include <utility>

#include "partita/base/error.h"
#include "partita/tdl/affine.h"

namespace partita {

using Kind = StageInstr::Kind;

int emit_instruction(StageBuilder& b, StageInstr instr) {
  std::vector<StageInstr>& code = b.program.code;
  for (int a : instr.args) instr.dims |= code[a].dims;
  for (size_t i = 0; i < code.size(); ++i) {  // computed already
    const StageInstr& c = code[i];
    if (c.kind == instr.kind && c.dtype == instr.dtype && c.args == instr.args && c.number == instr.number &&
        c.dim == instr.dim && c.tensor == instr.tensor && c.function == instr.function &&
        c.subscripts == instr.subscripts)
      return static_cast<int>(i);
  }
  code.push_back(std::move(instr));
  return static_cast<int>(code.size()) - 1;
}

int emit_constant(StageBuilder& b, double number, DType dtype) {
  StageInstr i{Kind::kConst, dtype};
  i.number = number;
  return emit_instruction(b, std::move(i));
}

int emit_integer(StageBuilder& b, int64_t value) { return emit_constant(b, static_cast<double>(value), DType::kInt64); }

int emit_cast(StageBuilder& b, int value, DType dtype) {
  const StageInstr& v = b.program.code[value];
  if (v.dtype == dtype) return value;
  if (v.kind == Kind::kConst) return emit_constant(b, dtype == DType::kBool ? v.number != 0 : v.number, dtype);
  StageInstr i{Kind::kCast, dtype};
  i.args = {value};
  return emit_instruction(b, std::move(i));
}

int emit_unary(StageBuilder& b, const std::string& function, int x, DType dtype) {
  StageInstr i{Kind::kUnary, dtype};
  i.function = function;
  i.args = {x};
  return emit_instruction(b, std::move(i));
}

int emit_binary(StageBuilder& b, const std::string& function, int x, int y, DType dtype) {
  StageInstr i{Kind::kBinary, dtype};
  i.function = function;
  i.args = {x, y};
  return emit_instruction(b, std::move(i));
}

int emit_select(StageBuilder& b, int condition, int x, int y) {
  StageInstr i{Kind::kSelect, b.program.code[x].dtype};
  i.args = {condition, x, y};
  return emit_instruction(b, std::move(i));
}

void add_condition(StageBuilder& b, int& condition, int more) {
  condition = condition < 0 ? more : emit_binary(b, "and", condition, more, DType::kBool);
}

namespace {

uint64_t bit_of(const StageBuilder& b, int index) {
  for (size_t d = 0; d < b.program.dims.size(); ++d)
    if (b.program.dims[d] == index) return b.program.ranges[d].size() == 1 ? 0 : uint64_t{1} << d;
  ensure(false, "stage {}: index {} is neither on the left nor reduced", b.bound.tensors[b.stage.tensor].name,
         b.bound.indices[index].name);
  return 0;
}

}  // namespace

uint64_t dims_of(const StageBuilder& b, const tdl::Affine& form) {
  std::vector<int> indices;
  tdl::collect_indices(form, indices);
  uint64_t dims = 0;
  for (int i : indices) dims |= bit_of(b, i);
  return dims;
}

uint64_t dims_of(const StageBuilder& b, const tdl::Expr& e) {
  uint64_t dims = e.kind == tdl::ExprKind::kIndex ? bit_of(b, e.index) : 0;
  for (const tdl::Affine& s : e.subscripts) dims |= dims_of(b, s);
  for (const tdl::Expr& a : e.args) dims |= dims_of(b, a);
  return dims;
}

}  // namespace partita
