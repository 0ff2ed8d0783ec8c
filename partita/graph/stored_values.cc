// Converts stored values to ours, and ours to bytes.
#include "partita/graph/stored_values.h"

#include <bit>
#include <cstring>

#include "partita/base/error.h"
#include "partita/base/float16.h"
#include "partita/base/machine_memory.h"

namespace partita {

static_assert(std::endian::native == std::endian::little, "arrays are copied as they lie in memory");

int64_t bytes_of(StoredType type) {
  switch (type) {
    case StoredType::kInt8:
    case StoredType::kUint8:
    case StoredType::kBool:
      return 1;
    case StoredType::kInt16:
    case StoredType::kUint16:
    case StoredType::kFloat16:
    case StoredType::kBFloat16:
      return 2;
    case StoredType::kFloat32:
    case StoredType::kInt32:
    case StoredType::kUint32:
      return 4;
    case StoredType::kFloat64:
    case StoredType::kInt64:
      return 8;
  }
  return 0;
}

StoredType stored_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return StoredType::kFloat32;
    case DType::kFloat64:
      return StoredType::kFloat64;
    case DType::kInt64:
      return StoredType::kInt64;
    case DType::kBool:
      return StoredType::kBool;
    case DType::kFloat16:
      return StoredType::kFloat16;
    case DType::kBFloat16:
      return StoredType::kBFloat16;
  }
  ensure(false, "a dtype that no file can hold");
  return {};
}

DType dtype_of(StoredType type) {
  switch (type) {
    case StoredType::kFloat32:
      return DType::kFloat32;
    case StoredType::kFloat64:
      return DType::kFloat64;
    case StoredType::kBool:
      return DType::kBool;
    case StoredType::kFloat16:
      return DType::kFloat16;
    case StoredType::kBFloat16:
      return DType::kBFloat16;
    default:
      return DType::kInt64;
  }
}

std::optional<int64_t> stored_bytes(const Shape& shape, StoredType type) {
  int64_t bytes = bytes_of(type);
  bool empty = false;
  for (int64_t extent : shape) {
    if (extent < 0) return {};
    if (extent == 0) empty = true;
    else if (__builtin_mul_overflow(bytes, extent, &bytes)) return {};
  }
  return empty ? 0 : bytes;
}

namespace {

template <typename Stored, typename Ours>
void widen(std::string_view bytes, std::vector<Ours>& values) {
  values.resize(bytes.size() / sizeof(Stored));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored value;
    std::memcpy(&value, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    values[i] = static_cast<Ours>(value);  // NOLINT(bugprone-signed-char-misuse): int8 is a number here
  }
}

template <typename Stored, typename Ours>
std::string narrow_values(const std::vector<Ours>& values) {
  std::string bytes(values.size() * sizeof(Stored), '\0');
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored value;
    if constexpr (sizeof(Stored) == 2) value = Stored(static_cast<float>(values[i]));
    else value = static_cast<Stored>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(Stored), &value, sizeof(Stored));
  }
  return bytes;
}

}  // namespace

Values from_bytes(const Shape& shape, StoredType type, std::string_view bytes) {
  ensure(stored_bytes(shape, type) == static_cast<int64_t>(bytes.size()), "{} bytes for an array [{}]", bytes.size(),
         fmt::join(shape, "x"));
  require_memory(static_cast<int64_t>(bytes.size() / static_cast<size_t>(bytes_of(type)) * sizeof(double)),
                 "an array of a file");
  Values values{.dtype = dtype_of(type), .shape = shape};
  switch (type) {
    case StoredType::kFloat32:
      widen<float>(bytes, values.real);
      break;
    case StoredType::kFloat64:
      widen<double>(bytes, values.real);
      break;
    case StoredType::kFloat16:
      widen<Float16>(bytes, values.real);
      break;
    case StoredType::kBFloat16:
      widen<BFloat16>(bytes, values.real);
      break;
    case StoredType::kInt8:
      widen<int8_t>(bytes, values.integer);
      break;
    case StoredType::kUint8:
      widen<uint8_t>(bytes, values.integer);
      break;
    case StoredType::kInt16:
      widen<int16_t>(bytes, values.integer);
      break;
    case StoredType::kUint16:
      widen<uint16_t>(bytes, values.integer);
      break;
    case StoredType::kInt32:
      widen<int32_t>(bytes, values.integer);
      break;
    case StoredType::kUint32:
      widen<uint32_t>(bytes, values.integer);
      break;
    case StoredType::kInt64:
      widen<int64_t>(bytes, values.integer);
      break;
    case StoredType::kBool:
      widen<uint8_t>(bytes, values.integer);
      for (int64_t& v : values.integer) v = v != 0;
      break;
  }
  return values;
}

std::string to_bytes(const Values& values) {
  switch (values.dtype) {
    case DType::kFloat32:
      return narrow_values<float>(values.real);
    case DType::kFloat64:
      return narrow_values<double>(values.real);
    case DType::kInt64:
      return narrow_values<int64_t>(values.integer);
    case DType::kBool:
      return narrow_values<uint8_t>(values.integer);
    case DType::kFloat16:
      return narrow_values<Float16>(values.real);
    case DType::kBFloat16:
      return narrow_values<BFloat16>(values.real);
  }
  return {};
}

}  // namespace partita
