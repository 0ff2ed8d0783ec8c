// Files that commands read.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace partita {

// The most bytes that are read of a file of each kind. What has more is not of that kind, or has no end.
constexpr int64_t kMostOfFile = int64_t{1} << 30;          // plans, profiles, tables of measurements
constexpr int64_t kMostOfDescription = int64_t{16} << 20;  // clusters, configurations, descriptions of operators
constexpr int64_t kMostOfArrays = int64_t{1} << 50;        // data: as much as memory holds
constexpr int64_t kMostOfPipe = int64_t{4} << 30;          // whatever is expected
constexpr int64_t kMostOfDevice = int64_t{64} << 20;       // character devices, as /dev/zero, too

// All bytes of a regular file, or of a pipe until it ends. Bad input, with the path, if it cannot be read or has more
// than `most` bytes; if its size is known, it is refused before it is read. A folder is named as such, with what was
// expected in its place ("a file", "an ONNX file").
std::string read_file(const std::string& path, std::string_view expected = "a file", int64_t most = kMostOfFile);
// `bytes` bytes from `offset` of a regular file; bad input also if the file does not have them.
std::string read_range(const std::string& path, int64_t offset, int64_t bytes, std::string_view expected = "a file");
// Of a regular file.
int64_t size_of_file(const std::string& path, std::string_view expected = "a file");
// The first bytes of a regular file, at most so many; none if it cannot be read.
std::string beginning_of(const std::string& path, int64_t most);

// What a path leads to. None is true if it leads nowhere or cannot be looked at.
bool leads_somewhere(const std::string& path);
bool is_folder(const std::string& path);
bool is_regular_file(const std::string& path);

// A descriptor to read what is no folder; bad input as of read_file. The caller closes it.
int open_file(const std::string& path, std::string_view expected);

}  // namespace partita
