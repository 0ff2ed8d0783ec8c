// Builds a stage program: adds instructions, and turns expressions into them.
#pragma once
#include <map>
#include <string>

#include "partita/kernel_plan/stage_program.h"

namespace partita {

struct StageBuilder {
  const tdl::Bound& bound;
  const tdl::Stage& stage;
  const std::vector<Interval>& ranges;
  const TensorShards& shards;
  DType real;
  StageProgram program;
  std::map<int, int> looked_up;  // indices whose values are read from data, and those values
};

// Adds an instruction, or finds the one that computes the same. Returns its number, as all functions below do.
int emit_instruction(StageBuilder& b, StageInstr instr);
int emit_constant(StageBuilder& b, double number, DType dtype);
int emit_integer(StageBuilder& b, int64_t value);
int emit_cast(StageBuilder& b, int value, DType dtype);
int emit_unary(StageBuilder& b, const std::string& function, int x, DType dtype);
int emit_binary(StageBuilder& b, const std::string& function, int x, int y, DType dtype);
int emit_select(StageBuilder& b, int condition, int x, int y);
// condition := condition and `more`; -1 stands for a condition that always holds.
void add_condition(StageBuilder& b, int& condition, int more);

// Compiles the value of an expression without reducers.
int compile(StageBuilder& b, const tdl::Expr& e);
// Compiles the value of a read (kRead).
int compile_read(StageBuilder& b, const tdl::Expr& read);

// The dimensions with more than one element on which an expression or an index form depends.
uint64_t dims_of(const StageBuilder& b, const tdl::Affine& form);
uint64_t dims_of(const StageBuilder& b, const tdl::Expr& e);

// Ends a program whose stage is a reduction: chooses StageProgram::finish and emits the instructions that it needs.
void compile_reduction(StageBuilder& b, const tdl::Expr& reduce);

}  // namespace partita
