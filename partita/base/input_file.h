// Files that commands read.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace partita {

// All bytes of a file. Bad input where it cannot be read: path and reason. A folder is named as such, with what was
// expected in its place ("a file", "an ONNX file"), and so is a device without an end.
std::string read_file(const std::string& path, std::string_view expected = "a file");
// `bytes` bytes from `offset`; bad input also where the file does not have them.
std::string read_range(const std::string& path, int64_t offset, int64_t bytes, std::string_view expected = "a file");

}  // namespace partita
