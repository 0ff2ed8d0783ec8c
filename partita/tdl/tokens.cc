// Splits a formula's text into words (docs/inside/TDL.md, section 1).
#include "partita/tdl/tokens.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "partita/base/error.h"
#include "partita/tdl/syntax.h"

namespace partita::tdl {
namespace {

constexpr std::array<std::string_view, 7> kKeywords = {"if", "else", "and", "or", "not", "inf", "opaque"};
constexpr std::array<std::string_view, 21> kSigns = {"//", "->", "<=", ">=", "==", "!=", "-", "+", "*", "/", "%",
                                                     "(",  ")",  "[",  "]",  ",",  "<",  ">", "=", ":", "^"};

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }

char at(const std::string& text, size_t i) { return i < text.size() ? text[i] : '\0'; }
size_t digits_end(const std::string& text, size_t i) {
  while (is_digit(at(text, i))) ++i;
  return i;
}
size_t name_end(const std::string& text, size_t i) {
  while (in_name(at(text, i))) ++i;
  return i;
}

// Each of these reads the token that begins at `i` and returns where it ends.

size_t read_number(const std::string& text, size_t i, Token& token) {
  size_t end = digits_end(text, i);
  if (at(text, end) == '.' && is_digit(at(text, end + 1))) end = digits_end(text, end + 1);
  if (at(text, end) == 'e' || at(text, end) == 'E') {
    size_t exponent = end + 1;
    if (at(text, exponent) == '+' || at(text, exponent) == '-') ++exponent;
    if (is_digit(at(text, exponent))) end = digits_end(text, exponent);
  }
  token.kind = TokenKind::kNumber;
  token.text = text.substr(i, end - i);
  token.number = std::strtod(token.text.c_str(), nullptr);
  if (!std::isfinite(token.number)) fail_at("", text, i, "the number is too large");
  return end;
}

size_t read_name(const std::string& text, size_t i, Token& token) {
  const size_t end = name_end(text, i);
  token.kind = TokenKind::kName;
  token.text = text.substr(i, end - i);
  const bool negative = at(text, end) == '.' && at(text, end + 1) == '-' && is_digit(at(text, end + 2));
  if (!negative && !(at(text, end) == '.' && is_digit(at(text, end + 1)))) return end;
  const size_t last = digits_end(text, end + (negative ? 2 : 1));
  if (last - end > 5) fail_at("", text, i, "no tensor has that axis");
  token.kind = TokenKind::kDotted;
  token.axis = std::atoi(text.substr(end + 1, last - end - 1).c_str());
  return last;
}

size_t read_group(const std::string& text, size_t i, Token& token) {
  const size_t end = name_end(text, i + 2);
  token.kind = TokenKind::kGroup;
  token.text = text.substr(i + 2, end - i - 2);
  return end;
}

size_t read_sign(const std::string& text, size_t i, Token& token) {
  const std::string_view rest = std::string_view(text).substr(i);
  auto sign = std::find_if(kSigns.begin(), kSigns.end(), [&](std::string_view s) { return rest.starts_with(s); });
  if (sign == kSigns.end()) fail_at("", text, i, fmt::format("no formula has the character '{}'", text[i]));
  token.kind = TokenKind::kSign;
  token.text = *sign;
  return i + sign->size();
}

}  // namespace

bool is_keyword(std::string_view name) {
  return std::find(kKeywords.begin(), kKeywords.end(), name) != kKeywords.end();
}

std::vector<Token> tokens_of(const std::string& text) {
  std::vector<Token> tokens;
  size_t i = 0;
  int depth = 0;  // of brackets
  bool new_line = false;
  while (i < text.size()) {
    const char c = text[i];
    if (c == '\n' || c == ';') {
      if (c == ';' && depth > 0) fail_at("", text, i, "a ';' inside brackets");
      new_line |= depth == 0;
      ++i;
      continue;
    }
    if (std::isspace(static_cast<unsigned char>(c))) {
      ++i;
      continue;
    }
    if (c == '#') {
      while (i < text.size() && text[i] != '\n') ++i;
      continue;
    }
    Token token;
    token.at = i;
    token.starts_line = new_line;
    new_line = false;
    if (is_digit(c)) i = read_number(text, i, token);
    else if (starts_name(c)) i = read_name(text, i, token);
    else if (c == '.' && at(text, i + 1) == '.' && starts_name(at(text, i + 2))) i = read_group(text, i, token);
    else i = read_sign(text, i, token);
    if (token.kind == TokenKind::kSign) {
      if (token.text == "(" || token.text == "[") ++depth;
      if (token.text == ")" || token.text == "]") depth = std::max(0, depth - 1);
    }
    tokens.push_back(std::move(token));
  }
  Token end;
  end.at = text.find_last_not_of(" \t\r\n;") + 1;
  end.starts_line = true;
  tokens.push_back(end);
  return tokens;
}

}  // namespace partita::tdl
