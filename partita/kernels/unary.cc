// Computes functions of one number, element by element.
#include <ATen/ops/abs.h>
#include <ATen/ops/acos.h>
#include <ATen/ops/acosh.h>
#include <ATen/ops/asin.h>
#include <ATen/ops/asinh.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/atanh.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/cosh.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/log.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sinh.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tanh.h>

#include <map>
#include <string>

#include "partita/base/error.h"
#include "partita/kernels/tensors.h"

namespace partita {
namespace {

const std::map<std::string, UnaryFunction>& functions() {
  static const std::map<std::string, UnaryFunction> kFunctions = {
      {"neg", at::neg_out},     {"not", at::logical_not_out}, {"exp", at::exp_out},         {"log", at::log_out},
      {"sqrt", at::sqrt_out},   {"tanh", at::tanh_out},       {"sigmoid", at::sigmoid_out}, {"erf", at::erf_out},
      {"sin", at::sin_out},     {"cos", at::cos_out},         {"abs", at::abs_out},         {"sign", at::sign_out},
      {"floor", at::floor_out}, {"asin", at::asin_out},       {"acos", at::acos_out},       {"atan", at::atan_out},
      {"sinh", at::sinh_out},   {"cosh", at::cosh_out},       {"asinh", at::asinh_out},     {"acosh", at::acosh_out},
      {"atanh", at::atanh_out}};
  return kFunctions;
}

}  // namespace

void set_up_functions() {
  constexpr int64_t kElements = 32;  // more than a vector register holds
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    at::Tensor a = new_tensor(dtype, {kElements}), out = new_tensor(dtype, {kElements});
    a.fill_(0.5);
    for (const auto& [name, into] : functions())
      if (name != "not") into(out, a);
  }
}

UnaryFunction unary_function(const std::string& name) {
  const auto found = functions().find(name);
  ensure(found != functions().end(), "there is no kernel for the function '{}'", name);
  return found->second;
}

}  // namespace partita
