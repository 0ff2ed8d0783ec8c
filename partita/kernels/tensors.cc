// Makes ATen tensors over Partita's memory, and multiplies matrices.
#include "partita/kernels/tensors.h"

#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/scalar_tensor.h>

#include "partita/base/error.h"

namespace partita {

at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return at::kFloat;
    case DType::kFloat64:
      return at::kDouble;
    case DType::kInt64:
      return at::kLong;
    case DType::kBool:
      return at::kBool;
    case DType::kFloat16:
      return at::kHalf;
    case DType::kBFloat16:
      return at::kBFloat16;
  }
  return at::kFloat;
}

at::Tensor tensor_over(std::byte* data, DType dtype, const Shape& sizes, const Shape& strides) {
  return at::from_blob(data, sizes, strides, at::TensorOptions().dtype(scalar_type(dtype)));
}

at::Tensor new_tensor(DType dtype, const Shape& sizes) {
  return at::empty(sizes, at::TensorOptions().dtype(scalar_type(dtype)));
}

at::Tensor constant_tensor(DType dtype, double number) {
  const auto options = at::TensorOptions().dtype(scalar_type(dtype));
  if (is_float(dtype)) return at::scalar_tensor(number, options);
  return at::scalar_tensor(static_cast<int64_t>(number), options);
}

at::Tensor ShardMemory::tensor(const Box& box) const {
  int64_t offset = 0;
  for (size_t a = 0; a < box.size(); ++a) offset += (box[a].lo - shard.box[a].lo) * shard.strides[a];
  return tensor_over(data + offset * bytes_of(shard.dtype), shard.dtype, extents(box), shard.strides);
}

void multiply_into(at::Tensor& out, const at::Tensor& x, const at::Tensor& y) {
  if (out.size(0) == 1) {
    at::Tensor matrix = out.select(0, 0);
    at::mm_out(matrix, x.select(0, 0), y.select(0, 0));
  } else {
    at::bmm_out(out, x, y);
  }
}

}  // namespace partita
