// Between Partita's memory and ATen's tensors. Only for the files of kernels/.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>

#include "partita/base/box.h"
#include "partita/base/dtype.h"
#include "partita/physical/stage_program.h"

namespace partita {

at::ScalarType scalar_type(DType dtype);
// An ATen tensor over memory that stays its owner's; strides in elements, none negative.
at::Tensor tensor_over(std::byte* data, DType dtype, const Shape& sizes, const Shape& strides);
at::Tensor new_tensor(DType dtype, const Shape& sizes);
at::Tensor constant_tensor(DType dtype, double number);  // without axes

// A part of a tensor and where its elements are.
struct Held {
  Part part;
  std::byte* data = nullptr;

  bool exists() const { return data != nullptr || is_empty(part.box); }
  // The elements of `box`, which lies within part.box.
  at::Tensor tensor(const Box& box) const;
  at::Tensor tensor() const { return tensor(part.box); }
};

// Calls each function once, before threads do. MKL's vector mathematics finds out at its first call which processor it
// runs on, without a lock: mkl_vml_serv_cpu_detect writes its variable twice, first in another numbering. A thread that
// reads it in between takes the table entry of another accuracy (row of mode + column of processor: 6 + 9 is in the row
// of the mode "enhanced performance", half the digits).
void set_up_functions();
// out = function(a), element by element; out has the result's shape and type.
void unary_into(at::Tensor& out, const std::string& function, const at::Tensor& a);
void binary_into(at::Tensor& out, const std::string& function, const at::Tensor& a, const at::Tensor& b);
void power_into(at::Tensor& out, const at::Tensor& a, double exponent);
void select_into(at::Tensor& out, const at::Tensor& condition, const at::Tensor& a, const at::Tensor& b);
// Over dimensions of `a`, which stay with extent 1.
void reduce_into(at::Tensor& out, tdl::Reducer reducer, const at::Tensor& a, const std::vector<int64_t>& dims);
// out = out reducer a
void combine_into(at::Tensor& out, tdl::Reducer reducer, const at::Tensor& a);
void fill_identity(at::Tensor& out, tdl::Reducer reducer);
// out[b] = x[b] y[b], matrices [batch, rows, columns]; out may be strided. add: out += x y
void multiply_into(at::Tensor& out, const at::Tensor& x, const at::Tensor& y);

}  // namespace partita
