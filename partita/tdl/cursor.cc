// Moves over a formula's tokens.
#include "partita/tdl/cursor.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita::tdl {

bool is_token(const Token& t, std::string_view sign) {
  return (t.kind == TokenKind::kSign || t.kind == TokenKind::kName) && t.text == sign;
}

const Token& Cursor::ahead(size_t n) const { return tokens[std::min(position + n, tokens.size() - 1)]; }

bool Cursor::is_operand(const std::string& n) const {
  return std::find(operands.begin(), operands.end(), n) != operands.end();
}

const Token& Cursor::next() { return tokens[position + 1 < tokens.size() ? position++ : position]; }

void Cursor::take(std::string_view sign) {
  if (!peek(sign)) error(here().at, fmt::format("expected '{}', found {}", sign, found()));
  next();
}

std::string Cursor::take_name(std::string_view what) {
  if (here().kind != TokenKind::kName || is_keyword(here().text))
    error(here().at, fmt::format("expected {}, found {}", what, found()));
  return next().text;
}

std::string Cursor::take_index() {
  if (here().kind == TokenKind::kDotted && !is_operand(here().text) && here().axis >= 0) {
    const Token& t = next();
    return fmt::format("{}.{}", t.text, t.axis);
  }
  return take_name("an index");
}

std::string Cursor::found() const {
  if (here().kind == TokenKind::kEnd) return "the end";
  if (here().kind == TokenKind::kGroup) return fmt::format("'..{}'", here().text);
  return fmt::format("'{}'", here().text);
}

}  // namespace partita::tdl
