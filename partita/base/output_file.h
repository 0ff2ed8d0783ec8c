// Writes files for commands.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace partita {

// Writes the pieces, one after another. A regular file is always whole: a file beside it is written and renamed onto
// it, and keeps its permissions. A link is followed to its target. A file that is not regular (a device, a FIFO) is
// written through, and so is one that standard output or standard error already writes to (/dev/stdout). Bad input if
// it cannot be done: path and reason. A signal waits until a regular file is whole. One that comes while a FIFO waits
// for its reader ends that wait: exit code 130.
void write_file(const std::string& path, std::span<const std::string_view> pieces);
void write_file(const std::string& path, std::string_view bytes);

// Writes all to a descriptor; returns 0, or the error. A pipe's reader that has gone is an error like any other.
int write_all(int descriptor, std::span<const std::string_view> pieces);

// Tells whether write_file(path, ..) replaces a whole file; one that is written through has nothing to read before.
bool is_replaced(const std::string& path);

// While one lives, no other program holds one for a file in the same folder, so that a file can be read, changed and
// written. On a file system without locks it does nothing.
class WriteLock {
 public:
  explicit WriteLock(const std::string& path);
  ~WriteLock();
  WriteLock(const WriteLock&) = delete;
  WriteLock& operator=(const WriteLock&) = delete;

 private:
  int folder_ = -1;
};

// Bad input if write_file(path, ..) would fail, as far as can be told before there is anything to write. An empty path
// is skipped.
void validate_writable(const std::string& path);

}  // namespace partita
