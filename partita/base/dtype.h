// Element types of tensors.
#pragma once
#include <cstdint>
#include <string_view>

namespace partita {

// The numbers are written into graphs (`cast`'s attribute `to`) and stay.
enum class DType { kFloat32, kFloat64, kInt64, kBool, kFloat16, kBFloat16 };

int64_t bytes_of(DType dtype);
std::string_view name_of(DType dtype);     // "float32"
DType parse_dtype(std::string_view name);  // bad input if unknown
// float16 and bfloat16: what tensors are stored in, never what is computed in.
inline bool is_low(DType d) { return d == DType::kFloat16 || d == DType::kBFloat16; }
inline bool is_float(DType d) { return d == DType::kFloat32 || d == DType::kFloat64 || is_low(d); }
// What an operation on values of a floating type is computed in: its result is rounded once, when it is stored.
inline DType computed_in(DType d) { return is_low(d) ? DType::kFloat32 : d; }

// The nearest value of a floating type, ties to even; beyond its largest, infinity.
double rounded_to(DType dtype, double value);
// The distance from 1 to the next larger value of a floating type: 2^-7 for bfloat16, 2^-10 for float16.
double epsilon_of(DType dtype);

}  // namespace partita
