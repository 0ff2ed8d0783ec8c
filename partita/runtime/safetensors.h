// Weights as safetensors: the header's length (8 bytes, little-endian), a JSON header, the arrays' bytes.
// Format: github.com/huggingface/safetensors, README, "Format".
#pragma once
#include <string>
#include <string_view>

#include "partita/runtime/array_file.h"

namespace partita {

// Element types F32, F64, the integers to I64, and BOOL. Bad input names the file and the array.
Arrays read_safetensors(const std::string& path);
// The same of a file's bytes; `path` is for messages.
Arrays parse_safetensors(const std::string& path, std::string_view bytes);

void write_safetensors(const std::string& path, const Arrays& arrays);

}  // namespace partita
