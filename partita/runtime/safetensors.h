// Reads and writes weights as safetensors: the header's length (8 bytes, little-endian), a JSON header, the arrays'
// bytes. Format: github.com/huggingface/safetensors, README, "Format".
#pragma once
#include <string>
#include <string_view>

#include "partita/runtime/array_file.h"

namespace partita {

// Returns the arrays; element types F32, F64, the integers to I64, and BOOL. Bad input names the file and the array.
Arrays read_safetensors(const std::string& path);
// The same for the bytes of a file; `path` is for messages.
Arrays parse_safetensors(const std::string& path, std::string_view bytes);

// The place of an array's bytes in a file.
struct StoredArray {
  std::string file;
  StoredType type = StoredType::kFloat32;
  Shape shape;
  int64_t offset = 0, bytes = 0;
};
using StoredArrays = std::map<std::string, StoredArray>;
// Lists a file's arrays, reading its header only; and reads one of them.
StoredArrays list_safetensors(const std::string& path);
Values read_array(const StoredArray& array);

void write_safetensors(const std::string& path, const Arrays& arrays);

}  // namespace partita
