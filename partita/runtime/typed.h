// Calls a function with the C++ type of a dtype.
#pragma once
#include <cstdint>

#include "partita/base/dtype.h"
#include "partita/base/float16.h"

namespace partita {

// f(zero of the type)
template <typename F>
void with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(float{});
    case DType::kFloat64:
      return f(double{});
    case DType::kInt64:
      return f(int64_t{});
    case DType::kBool:
      return f(uint8_t{});
    case DType::kFloat16:
      return f(Float16{});
    case DType::kBFloat16:
      return f(BFloat16{});
  }
}

}  // namespace partita
