// Lists the element types.
#include "partita/base/dtype.h"

#include <cmath>

#include "partita/base/error.h"

namespace partita {

namespace {
struct Row {
  DType dtype;
  std::string_view name;
  int64_t bytes;
  int digits = 0;          // of the significand in base 2, for floating types
  int least_exponent = 0;  // of a normal number, 1.xx times 2 to this
  double largest = 0;
};
constexpr Row kRows[] = {{DType::kFloat32, "float32", 4, 24, -126, 0x1.fffffep127},
                         {DType::kFloat64, "float64", 8, 53, -1022, 0x1.fffffffffffffp1023},
                         {DType::kInt64, "int64", 8},
                         {DType::kBool, "bool", 1},
                         {DType::kFloat16, "float16", 2, 11, -14, 65504},
                         {DType::kBFloat16, "bfloat16", 2, 8, -126, 0x1.fep127}};
const Row& row_of(DType dtype) { return kRows[static_cast<int>(dtype)]; }
}  // namespace

int64_t bytes_of(DType dtype) { return row_of(dtype).bytes; }
std::string_view name_of(DType dtype) { return row_of(dtype).name; }

DType parse_dtype(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.dtype;
  fail("unknown dtype '{}'; known are float32, float64, int64, bool, float16, bfloat16", name);
}

double rounded_to(DType dtype, double value) {
  const Row& row = row_of(dtype);
  if (dtype == DType::kFloat64 || value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), row.least_exponent);
  const double unit = std::ldexp(1.0, exponent - (row.digits - 1));
  const double nearest = std::nearbyint(value / unit) * unit;  // both exact
  return std::abs(nearest) > row.largest ? std::copysign(INFINITY, value) : nearest;
}

double epsilon_of(DType dtype) { return std::ldexp(1.0, 1 - row_of(dtype).digits); }

}  // namespace partita
