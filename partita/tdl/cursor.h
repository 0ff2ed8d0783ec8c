// Walks over a formula's tokens, for the parser.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "partita/tdl/syntax.h"
#include "partita/tdl/tokens.h"

namespace partita::tdl {

// Tells whether a token is this sign or word.
bool is_token(const Token& t, std::string_view sign);

struct Cursor {
  explicit Cursor(std::string_view formula) : text(formula), tokens(tokens_of(text)) {}

  std::string text;
  std::vector<Token> tokens;
  size_t position = 0;
  std::string name;                   // of the definition, for messages; empty before it is known
  std::vector<std::string> operands;  // those that are known
  bool in_body = false;               // then a new line outside brackets ends an expression

  const Token& here() const { return tokens[position]; }
  const Token& ahead(size_t n) const;
  bool peek(std::string_view sign) const { return is_token(here(), sign); }
  bool continues() const { return !(in_body && here().starts_line); }
  bool is_operand(const std::string& name) const;

  // These consume tokens; bad input if another token stands there.
  const Token& next();
  void take(std::string_view sign);
  std::string take_name(std::string_view what);  // `what` for the message: "an operand's name"
  std::string take_index();                      // a name, or an index of a group, b.0

  [[noreturn]] void error(size_t at, const std::string& message) const { fail_at(name, text, at, message); }
  std::string found() const;  // the token here, for messages
};

// Parses comma-separated subscripts up to `close`, which it consumes. `data`: a read, which may have `:` and `v =
// expr`.
std::vector<Syntax> parse_items(Cursor& c, std::string_view close, bool data);
Syntax parse_sum(Cursor& c);  // without comparisons and logic
Syntax parse_expression(Cursor& c);

}  // namespace partita::tdl
