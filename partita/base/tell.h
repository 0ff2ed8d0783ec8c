// Writes lines for a person to standard error.
#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace partita {

// Makes a text readable. It keeps the beginning of a word over 1,000 characters, and the beginning and end of a text
// over 8,000, each with its former length. Control characters other than tab and line feed are spelled out (\x1b): a
// name from a file must not act on a terminal.
std::string readable(std::string_view text);

// Writes to standard error without change. Text that cannot be written is lost, and the work goes on: the disk is full,
// the reader has gone, the descriptor is closed.
void tell_raw(std::string_view text);

// Writes a line, readable.
template <typename... Args>
void tell(fmt::format_string<Args...> format, Args&&... args) {
  tell_raw(readable(fmt::format(format, std::forward<Args>(args)...)) + "\n");
}

}  // namespace partita
