// Reads and writes values as files store them: little-endian bytes of some element type.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "partita/graph/graph.h"

namespace partita {

// An element type as it is stored. Wider types of ours hold some: int8 to int32 become int64.
enum class StoredType {
  kFloat32,
  kFloat64,
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kBool,
  kFloat16,
  kBFloat16
};
int64_t bytes_of(StoredType type);
StoredType stored_type(DType dtype);
DType dtype_of(StoredType type);

// Number of bytes; empty if an extent is negative or the number does not fit.
std::optional<int64_t> stored_bytes(const Shape& shape, StoredType type);
// Reads values. `bytes` has exactly stored_bytes(shape, type). A boolean is anything but 0.
Values from_bytes(const Shape& shape, StoredType type, std::string_view bytes);
std::string to_bytes(const Values& values);

}  // namespace partita
