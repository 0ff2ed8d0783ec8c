#include "partita/base/dtype.h"

#include "partita/base/error.h"

namespace partita {

namespace {
struct Row {
  DType dtype;
  std::string_view name;
  int64_t bytes;
};
constexpr Row kRows[] = {
    {DType::kFloat32, "float32", 4}, {DType::kFloat64, "float64", 8}, {DType::kInt64, "int64", 8}, {DType::kBool, "bool", 1}};
}  // namespace

int64_t bytes_of(DType dtype) { return kRows[static_cast<int>(dtype)].bytes; }
std::string_view name_of(DType dtype) { return kRows[static_cast<int>(dtype)].name; }

DType parse_dtype(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.dtype;
  fail("unknown dtype '{}'; known are float32, float64, int64, bool", name);
}

}  // namespace partita
