// Element types of tensors.
#pragma once
#include <cstdint>
#include <string_view>

namespace partita {

enum class DType { kFloat32, kFloat64, kInt64, kBool };

int64_t bytes_of(DType dtype);
std::string_view name_of(DType dtype);         // "float32"
DType parse_dtype(std::string_view name);      // bad input if unknown
inline bool is_float(DType d) { return d == DType::kFloat32 || d == DType::kFloat64; }

}  // namespace partita
