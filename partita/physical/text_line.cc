// Cuts a line into tokens, and reads numbers, shapes and boxes from them.
#include "partita/physical/text_line.h"

#include <algorithm>
#include <cstdlib>

namespace partita::text {

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator) parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

}  // namespace

Line::Line(std::string_view text, int number) : number_(number) {
  for (std::size_t at = 0;;) {
    at = text.find_first_not_of(" \t\r", at);
    if (at == std::string_view::npos) break;
    tokens_.push_back(read(text, at));
  }
}

Token Line::read(std::string_view text, std::size_t& at) const {
  Token token;
  if (text[at] == '"') {
    token.quoted = true;
    for (++at;; ++at) {
      if (at >= text.size()) error("a name in quotes does not end");
      if (text[at] == '"') break;
      if (text[at] == '\\' && at + 1 < text.size()) {
        ++at;
        token.text += text[at] == 'n' ? '\n' : text[at];
      } else {
        token.text += text[at];
      }
    }
    ++at;
  }
  const std::size_t end = std::min(text.find_first_of(" \t\r", at), text.size());
  std::string rest(text.substr(at, end - at));
  at = end;
  const std::size_t hash = rest.rfind('#');
  if (hash != std::string::npos) {
    const std::string firing = rest.substr(hash + 1);
    if (firing.empty() || firing.size() > 8 || firing.find_first_not_of("0123456789") != std::string::npos)
      error("'{}' is not an act", rest);
    token.firing = std::stoi(firing);
    rest.resize(hash);
  }
  token.text += rest;
  return token;
}

int Line::natural(std::string_view what) {
  const int64_t value = integer();
  if (value < 0 || value > 1'000'000'000) error("{} {} is out of range", what, value);
  return static_cast<int>(value);
}

double Line::real(const std::string& text) const {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end) error("'{}' is not a number", text);
  return value;
}

int64_t Line::number_in(const std::string& part, const std::string& whole) const {
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (problem != std::errc() || end != part.data() + part.size())
    error("'{}' in '{}' is not a whole number", part, whole);
  return value;
}

Shape Line::shape() {
  const std::string text = take().text;
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') error("'{}' is not a shape like [4,6]", text);
  Shape shape;
  for (const std::string& part : split(text.substr(1, text.size() - 2), ','))
    if (!part.empty()) shape.push_back(number_in(part, text));
  return shape;
}

Box Line::box() {
  const std::string text = take().text;
  Box box;
  if (text == "[]") return box;
  for (const std::string& part : split(text, 'x')) {
    const std::size_t comma = part.find(',');
    if (part.size() < 5 || part.front() != '[' || part.back() != ')' || comma == std::string::npos)
      error("'{}' is not a box like [0,4)x[2,3)", text);
    box.push_back(
        {number_in(part.substr(1, comma - 1), text), number_in(part.substr(comma + 1, part.size() - comma - 2), text)});
  }
  return box;
}

std::vector<Box> Line::boxes() {
  std::vector<Box> result;
  while (at_box()) result.push_back(box());
  if (result.empty()) error("expected a box like [0,4)x[2,3)");
  return result;
}

}  // namespace partita::text
