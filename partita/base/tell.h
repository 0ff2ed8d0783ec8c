// Lines for a person on standard error.
#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace partita {

// A text as a person can read it: of a word over 1,000 characters the beginning, of a text over 8,000 the beginning
// and the end, each with the length it had. Control characters other than tab and line feed are spelled out (\x1b):
// a name from a file must not act on a terminal.
std::string readable(std::string_view text);

// Writes to standard error as it is. What cannot be written is lost, and the work goes on: the disk is full, the reader
// has gone, the descriptor is closed.
void tell_raw(std::string_view text);

// A line, readable.
template <typename... Args>
void tell(fmt::format_string<Args...> format, Args&&... args) {
  tell_raw(readable(fmt::format(format, std::forward<Args>(args)...)) + "\n");
}

}  // namespace partita
