// Reads files, whole or in part, into memory.
#include "partita/base/input_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "partita/base/error.h"

namespace partita {
namespace {

constexpr size_t kMostOfDevice = 64 << 20;  // as /dev/zero, which has no end

std::ifstream opened(const std::string& path, std::string_view expected) {
  if (std::filesystem::is_directory(path)) fail("{}: is a folder, not {}", path, expected);
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("{}: cannot be read: {}", path, std::strerror(errno));
  return in;
}

}  // namespace

std::string read_file(const std::string& path, std::string_view expected) {
  std::ifstream in = opened(path, expected);
  std::error_code error;
  const bool device = std::filesystem::is_character_file(path, error);
  std::string bytes;
  std::vector<char> piece(1 << 20);
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0) {
    bytes.append(piece.data(), static_cast<size_t>(in.gcount()));
    if (device && bytes.size() > kMostOfDevice) fail("{}: is a device that does not end, not {}", path, expected);
  }
  if (in.bad()) fail("{}: reading it failed after {} bytes", path, bytes.size());
  return bytes;
}

std::string read_range(const std::string& path, int64_t offset, int64_t bytes, std::string_view expected) {
  std::ifstream in = opened(path, expected);
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  if (offset < 0 || offset > size || bytes > size - offset)
    fail("{}: has {} bytes; bytes {} to {} are wanted", path, size, offset, offset + bytes);
  std::string data(static_cast<std::size_t>(bytes), '\0');
  in.seekg(offset);
  in.read(data.data(), bytes);
  if (!in) fail("{}: reading bytes {} to {} failed", path, offset, offset + bytes);
  return data;
}

}  // namespace partita
