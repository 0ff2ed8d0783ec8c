// Reads one line of a PhysicalGraph's text as tokens, from left to right, for the parser. An error is bad input that
// names the line.
//
// Example: of `read "h1@0" fresh box [0,4)x[2,3)`, take().text is "read", take().text is "h1@0", take_if("fresh") is
// true, expect("box") passes, and box() is [0,4)x[2,3).
#pragma once
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "partita/base/box.h"
#include "partita/base/enum_words.h"
#include "partita/base/error.h"

namespace partita::text {

struct Token {
  std::string text;
  bool quoted = false;
  int firing = -1;  // of NAME#FIRING
};

// One line's tokens, read from left to right.
class Line {
 public:
  Line(std::string_view text, int number);

  bool done() const { return next_ == tokens_.size(); }
  const Token& peek() const {
    if (done()) error("ends too early");
    return tokens_[next_];
  }
  const Token& take() {
    const Token& token = peek();
    ++next_;
    return token;
  }
  bool take_if(std::string_view word) {
    if (done() || tokens_[next_].quoted || tokens_[next_].text != word) return false;
    ++next_;
    return true;
  }
  void expect(std::string_view word) {
    if (!take_if(word)) error("expected '{}'{}", word, done() ? std::string() : " before '" + peek().text + "'");
  }
  void finish() const {
    if (!done()) error("does not expect '{}' here", peek().text);
  }

  template <typename T = int64_t>
  T integer() {
    const std::string& text = take().text;
    T value{};
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || end != text.data() + text.size()) error("'{}' is not a whole number", text);
    return value;
  }
  double real() { return real(take().text); }
  double real(const std::string& text) const;
  int natural(std::string_view what);
  template <auto last>
  decltype(last) one_of(const EnumWords<last>& words, std::string_view what) {
    const std::string& text = take().text;
    if (const auto value = words.find(text)) return *value;
    error("'{}' is no {}", text, what);
  }
  Shape shape();  // [4,6]
  bool at_box() const { return !done() && !tokens_[next_].quoted && tokens_[next_].text[0] == '['; }
  Box box();                 // [0,4)x[2,3)
  std::vector<Box> boxes();  // one at least

  template <typename... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    fail("physical graph, line {}: {}", number_, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  Token read(std::string_view text, std::size_t& at) const;  // the token that begins at `at`, which then is its end
  int64_t number_in(const std::string& part, const std::string& whole) const;

  int number_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
};

}  // namespace partita::text
