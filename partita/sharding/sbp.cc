// Reads and writes Sbp and NdSbp as text: "S(0)", "S(0.1)", "B", "P(sum)", "[S(0), B]".
#include <charconv>

#include "partita/base/error.h"
#include "partita/sharding/layout.h"

namespace partita {

namespace {

constexpr tdl::Reducer kReducers[] = {tdl::Reducer::kSum, tdl::Reducer::kMax, tdl::Reducer::kMin, tdl::Reducer::kProd};

}  // namespace

std::string to_string(const Sbp& sbp) {
  if (sbp.kind == Sbp::Kind::kBroadcast) return "B";
  if (sbp.kind == Sbp::Kind::kPartial) return fmt::format("P({})", tdl::name_of(sbp.reducer));
  return sbp.sub_axis ? fmt::format("S({}.{})", sbp.axis, sbp.sub_axis) : fmt::format("S({})", sbp.axis);
}

Sbp parse_sbp(std::string_view text) {
  if (text == "B") return Sbp::broadcast();
  auto bad = [&]() {
    fail("'{}' is not a part; write S(axis), S(axis.sub), B, or P(sum), P(max), P(min), P(prod)", text);
  };
  if (text.size() < 4 || text[1] != '(' || text.back() != ')') bad();
  std::string_view inside = text.substr(2, text.size() - 3);
  if (text[0] == 'P') {
    for (tdl::Reducer r : kReducers)
      if (tdl::name_of(r) == inside) return Sbp::partial(r);
    bad();
  }
  if (text[0] != 'S') bad();
  auto number = [&](std::string_view digits) {
    int value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0) bad();
    return value;
  };
  size_t dot = inside.find('.');
  return Sbp::split(number(inside.substr(0, dot)), dot == inside.npos ? 0 : number(inside.substr(dot + 1)));
}

std::string to_string(const NdSbp& sbp) {
  std::string text;
  for (const Sbp& s : sbp) text += (text.empty() ? "" : ", ") + to_string(s);
  return "[" + text + "]";
}

NdSbp parse_nd_sbp(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']')
    fail("'{}' is not a list of parts; write for example [S(0), B]", text);
  std::string_view rest = text.substr(1, text.size() - 2);
  NdSbp sbp;
  while (!rest.empty()) {
    size_t comma = rest.find(',');
    std::string_view part = rest.substr(0, comma);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    sbp.push_back(parse_sbp(part));
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
    if (rest.empty()) fail("'{}' ends in a comma; write for example [S(0), B]", text);
  }
  return sbp;
}

}  // namespace partita
