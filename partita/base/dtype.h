// Defines the element types of tensors.
#pragma once
#include <cstdint>
#include <string_view>

namespace partita {

// Graphs store these numbers (`cast`'s attribute `to`), so they must not change.
enum class DType { kFloat32, kFloat64, kInt64, kBool, kFloat16, kBFloat16 };

int64_t bytes_of(DType dtype);
std::string_view name_of(DType dtype);     // "float32"
DType parse_dtype(std::string_view name);  // bad input if unknown
// Tells whether the type is float16 or bfloat16: tensors are stored in these, but never computed in them.
inline bool is_low(DType d) { return d == DType::kFloat16 || d == DType::kBFloat16; }
inline bool is_float(DType d) { return d == DType::kFloat32 || d == DType::kFloat64 || is_low(d); }
// The type in which operations on values of a floating type compute; a result is rounded once, when it is stored.
inline DType compute_dtype(DType d) { return is_low(d) ? DType::kFloat32 : d; }

// The nearest value of a floating type, ties to even; beyond its largest, infinity.
double rounded_to(DType dtype, double value);
// The distance from 1 to the next larger value of a floating type: 2^-7 for bfloat16, 2^-10 for float16.
double epsilon_of(DType dtype);

}  // namespace partita
