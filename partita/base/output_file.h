// Files that commands write.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace partita {

// Writes the pieces, one after another. A regular file is always whole: a file beside it is written and renamed onto
// it, and keeps its permissions. A link is followed, and its target is what is written. What is no regular file (a
// device, a FIFO) is written through, and so is what standard output or standard error already writes to (/dev/stdout).
// Bad input where it cannot be done: path and reason.
void write_file(const std::string& path, std::span<const std::string_view> pieces);
void write_file(const std::string& path, std::string_view bytes);

// Bad input where write_file(path, ..) would fail, as far as can be told before there is anything to write. An empty
// path is none.
void expect_writable(const std::string& path);

}  // namespace partita
