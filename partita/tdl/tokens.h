// Defines the tokens of a formula's text.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace partita::tdl {

enum class TokenKind { kNumber, kName, kDotted, kGroup, kSign, kEnd };  // kDotted: x.2

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // kDotted: the name; kGroup: without the dots
  double number = 0;
  int axis = 0;
  size_t at = 0;
  bool starts_line = false;  // the first of a line, outside all brackets
};

// Splits the text; the last token is a kEnd. Throws (bad input) if the text has characters that no formula has.
std::vector<Token> tokens_of(const std::string& text);
bool is_keyword(std::string_view name);  // "if", "else", ..

}  // namespace partita::tdl
