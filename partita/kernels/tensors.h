// Converts between Partita's memory and ATen's tensors, for the files of kernels/ alone.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

#include "partita/base/box.h"
#include "partita/base/dtype.h"
#include "partita/kernel_plan/request.h"
#include "partita/runtime/kernel.h"

namespace partita {

at::ScalarType scalar_type(DType dtype);
// An ATen tensor over memory that stays its owner's; strides in elements, none negative.
at::Tensor tensor_over(std::byte* data, DType dtype, const Shape& sizes, const Shape& strides);
at::Tensor new_tensor(DType dtype, const Shape& sizes);
at::Tensor constant_tensor(DType dtype, double number);  // without axes

// A shard of a tensor and the address of its elements.
struct ShardMemory {
  TensorShard shard;
  std::byte* data = nullptr;

  // The elements of `box`, which lies within shard.box.
  at::Tensor tensor(const Box& box) const;
};

// The arguments of a running kernel.
struct KernelMemory {
  std::vector<ShardMemory> held;  // per tensor of the formula
  const KernelCall& call;
};

// ---------------------------------------------------------------- functions, element by element

// Writes the function of its arguments into `out`, which has the result's shape and type.
using UnaryFunction = at::Tensor& (*)(at::Tensor& out, const at::Tensor& a);
using BinaryFunction = at::Tensor& (*)(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);
// Finds a function by its name in a formula; our bug if there is none.
UnaryFunction unary_function(const std::string& name);
BinaryFunction binary_function(const std::string& name);
void power_into(at::Tensor& out, const at::Tensor& a, double exponent);
void select_into(at::Tensor& out, const at::Tensor& condition, const at::Tensor& a, const at::Tensor& b);

// Calls each function once, before threads do. MKL's vector mathematics finds out at its first call which processor it
// runs on, without a lock. Its mkl_vml_serv_cpu_detect writes its variable twice, first in another numbering. A thread
// that reads it in between takes the table entry of another accuracy. (The row is that of the mode plus the column of
// the processor: 6 + 9 is in the row of "enhanced performance", which has half the digits.)
void set_up_functions();

// ---------------------------------------------------------------- reducers and products

// Reduces over dimensions of `a`, which stay with extent 1.
void reduce_into(at::Tensor& out, tdl::Reducer reducer, const at::Tensor& a, const std::vector<int64_t>& dims);
// out = out reducer a
void combine_into(at::Tensor& out, tdl::Reducer reducer, const at::Tensor& a);
void fill_identity(at::Tensor& out, tdl::Reducer reducer);
// out[b] = x[b] y[b], matrices [batch, rows, columns]; out may be strided.
void multiply_into(at::Tensor& out, const at::Tensor& x, const at::Tensor& y);

}  // namespace partita
