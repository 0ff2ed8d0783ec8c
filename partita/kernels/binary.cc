// Computes functions of two numbers, element by element.
#include <ATen/ops/add.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_left_shift.h>
#include <ATen/ops/bitwise_or.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/le.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>

#include <map>
#include <string>

#include "partita/base/error.h"
#include "partita/kernels/tensors.h"

namespace partita {
namespace {

// Rounds down; for real numbers without the correction of ATen's floor_divide, which rounds the exact quotient.
at::Tensor& floor_quotient(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  if (!out.is_floating_point()) return at::floor_divide_out(out, a, b);
  at::div_out(out, a, b);
  return out.floor_();
}
at::Tensor& add(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) { return at::add_out(out, a, b); }
at::Tensor& subtract(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) { return at::sub_out(out, a, b); }

const std::map<std::string, BinaryFunction>& functions() {
  static const std::map<std::string, BinaryFunction> kFunctions = {{"+", add},
                                                                   {"-", subtract},
                                                                   {"*", at::mul_out},
                                                                   {"/", at::div_out},
                                                                   {"//", floor_quotient},
                                                                   {"%", at::remainder_out},
                                                                   {"^", at::pow_out},
                                                                   {"<", at::lt_out},
                                                                   {"<=", at::le_out},
                                                                   {"==", at::eq_out},
                                                                   {"!=", at::ne_out},
                                                                   {">=", at::ge_out},
                                                                   {">", at::gt_out},
                                                                   {"and", at::logical_and_out},
                                                                   {"or", at::logical_or_out},
                                                                   {"max", at::maximum_out},
                                                                   {"min", at::minimum_out},
                                                                   {"bit_and", at::bitwise_and_out},
                                                                   {"bit_or", at::bitwise_or_out},
                                                                   {"bit_xor", at::bitwise_xor_out},
                                                                   {"shift_left", at::bitwise_left_shift_out},
                                                                   {"shift_right", at::bitwise_right_shift_out}};
  return kFunctions;
}

}  // namespace

BinaryFunction binary_function(const std::string& name) {
  const auto found = functions().find(name);
  ensure(found != functions().end(), "there is no kernel for the function '{}'", name);
  return found->second;
}

void power_into(at::Tensor& out, const at::Tensor& a, double exponent) {
  if (a.is_floating_point()) at::pow_out(out, a, exponent);
  else at::pow_out(out, a, static_cast<int64_t>(exponent));
}

void select_into(at::Tensor& out, const at::Tensor& condition, const at::Tensor& a, const at::Tensor& b) {
  at::where_out(out, condition, a, b);
}

void combine_into(at::Tensor& out, tdl::Reducer reducer, const at::Tensor& a) {
  switch (reducer) {
    case tdl::Reducer::kSum:
      out.add_(a);
      break;
    case tdl::Reducer::kProd:
      out.mul_(a);
      break;
    case tdl::Reducer::kMax:
      at::maximum_out(out, out, a);
      break;
    case tdl::Reducer::kMin:
      at::minimum_out(out, out, a);
      break;
  }
}

}  // namespace partita
