// Lists the functions of one real number that a formula may call. Parser, reference evaluator, gradients and region
// analysis know them by their row here alone; kernels/unary.cc has a kernel for each.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace partita::tdl {

struct RealFunction {
  std::string_view name;
  double (*value)(double x);
  double (*slope)(double x);    // |derivative|, which bounds the rounding error that comes through
  std::string_view derivative;  // in x, as a formula writes it
  // f(max(x, y)) = max(f(x), f(y)) on all of the reals, so that a partial maximum stays one (TDL.md rule 13).
  bool monotone = false;
};

std::span<const RealFunction> real_functions();
const RealFunction* find_real_function(std::string_view name);  // null if there is none
// Tells whether f(max(x, y)) = max(f(x), f(y)) on all of the reals. log and sqrt are not monotone so: a part may lie
// outside their domain though the whole does not.
bool is_monotone(std::string_view function);

// Functions of two integers: int64 in, int64 out.
struct IntegerFunction {
  std::string_view name;
  int64_t (*value)(int64_t a, int64_t b);
};
std::span<const IntegerFunction> integer_functions();
const IntegerFunction* find_integer_function(std::string_view name);
// Tells whether it is max, min or a function of two integers: a formula writes f(a, b).
bool is_call_of_two(std::string_view function);

}  // namespace partita::tdl
