// Reads files for commands.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace partita {

// The most bytes that are read from each kind of file. A file with more is not of that kind, or has no end.
constexpr int64_t kMostOfFile = int64_t{1} << 30;          // plans, profiles, tables of measurements
constexpr int64_t kMostOfDescription = int64_t{16} << 20;  // clusters, configurations, descriptions of operators
constexpr int64_t kMostOfArrays = int64_t{1} << 50;        // data: as much as memory holds
constexpr int64_t kMostOfPipe = int64_t{4} << 30;          // of whatever kind
constexpr int64_t kMostOfDevice = int64_t{64} << 20;       // character devices, as /dev/zero, too

// Reads all bytes of a regular file, or of a pipe until it ends. Bad input, with the path, if it cannot be read or has
// more than `most` bytes; if its size is known, it is refused before it is read. The message for a folder says so, with
// the expected kind ("a file", "an ONNX file").
std::string read_file(const std::string& path, std::string_view expected = "a file", int64_t most = kMostOfFile);
// Reads `bytes` bytes from `offset` of a regular file; bad input also if the file is shorter.
std::string read_range(const std::string& path, int64_t offset, int64_t bytes, std::string_view expected = "a file");
// The size of a regular file in bytes.
int64_t size_of_file(const std::string& path, std::string_view expected = "a file");
// Reads the first bytes of a regular file, at most `most`; none if it cannot be read.
std::string beginning_of(const std::string& path, int64_t most);

// The kind of file at a path. All are false if nothing is there or it cannot be looked at.
bool leads_somewhere(const std::string& path);
bool is_folder(const std::string& path);
bool is_regular_file(const std::string& path);

// Opens anything but a folder for reading; bad input as for read_file. The caller closes the descriptor.
int open_file(const std::string& path, std::string_view expected);

}  // namespace partita
