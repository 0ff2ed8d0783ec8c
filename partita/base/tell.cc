// Shortens texts for a person, and writes them to standard error as far as possible.
#include "partita/base/tell.h"

#include <unistd.h>

#include <algorithm>

#include "partita/base/output_file.h"

namespace partita {
namespace {

constexpr size_t kLongestWord = 1000, kKeptOfWord = 100;  // longer than any path that is in use
constexpr size_t kLongestText = 8000, kKeptBegin = 6000, kKeptEnd = 1000;

// Moves back so that no character of UTF-8 is cut.
size_t character_before(std::string_view text, size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

std::string with_long_words_cut(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t word = std::min(text.find_first_of(" \n"), text.size());
    if (word <= kLongestWord) out += text.substr(0, word);
    else out += fmt::format("{}..({} characters)", text.substr(0, character_before(text, kKeptOfWord)), word);
    text.remove_prefix(word);
    const size_t space = std::min(text.find_first_not_of(" \n"), text.size());
    out += text.substr(0, space);
    text.remove_prefix(space);
  }
  return out;
}

bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == '\x7f'; }

}  // namespace

std::string readable(std::string_view text) {
  std::string out = with_long_words_cut(text);
  if (out.size() > kLongestText) {
    const size_t end = character_before(out, out.size() - kKeptEnd);
    out = fmt::format("{} ..({} characters in all).. {}", out.substr(0, character_before(out, kKeptBegin)), text.size(),
                      out.substr(end));
  }
  if (std::none_of(out.begin(), out.end(), is_control)) return out;
  std::string spelled;
  for (const char c : out)
    if (is_control(c)) spelled += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else spelled += c;
  return spelled;
}

void tell_raw(std::string_view text) { write_all(STDERR_FILENO, std::span(&text, 1)); }

}  // namespace partita
