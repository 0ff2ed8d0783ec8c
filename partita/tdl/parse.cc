// Parses definitions: the head of a formula, then its stages (docs/inside/TDL.md, section 1).
#include <algorithm>

#include "partita/base/error.h"
#include "partita/tdl/cursor.h"

namespace partita::tdl {
namespace {

// The left side of a formula with one result without a name: matmul(a, b)[i, j].
struct SingleResult {
  std::vector<Syntax> lhs;
  size_t at = 0;
};

// name [ .. ] = , and not ==
bool starts_stage(const Cursor& c) {
  if (c.here().kind != TokenKind::kName || !is_token(c.ahead(1), "[")) return false;
  int depth = 0;
  for (size_t i = c.position + 1; i < c.tokens.size(); ++i) {
    if (is_token(c.tokens[i], "[") || is_token(c.tokens[i], "(")) ++depth;
    if ((is_token(c.tokens[i], "]") || is_token(c.tokens[i], ")")) && --depth == 0)
      return is_token(c.tokens[std::min(i + 1, c.tokens.size() - 1)], "=");
  }
  return false;
}

void parse_operands(Cursor& c, Definition& d) {
  c.take("(");
  while (!c.peek(")")) {
    const size_t at = c.here().at;
    d.operands.push_back(c.take_name("an operand's name"));
    if (std::count(d.operands.begin(), d.operands.end(), d.operands.back()) > 1)
      c.error(at, fmt::format("two operands are named {}", d.operands.back()));
    if (!c.peek(")")) c.take(",");
  }
  c.take(")");
  c.operands = d.operands;
}

SingleResult parse_single_result(Cursor& c, Definition& d) {
  SingleResult single;
  single.at = c.here().at;
  c.next();
  single.lhs = parse_items(c, "]", false);
  const bool taken = std::count(d.operands.begin(), d.operands.end(), "out") > 0;
  d.results = {taken ? "result" : "out"};
  d.results_at = {single.at};
  return single;
}

void parse_named_results(Cursor& c, Definition& d) {
  if (!c.peek("->")) c.error(c.here().at, fmt::format("expected '[' or '->', found {}", c.found()));
  do {
    c.next();
    d.results_at.push_back(c.here().at);
    d.results.push_back(c.take_name("a result's name"));
    if (std::count(d.results.begin(), d.results.end(), d.results.back()) > 1)
      c.error(d.results_at.back(), fmt::format("two results are named {}", d.results.back()));
  } while (c.peek(","));
}

void parse_where(Cursor& c, Definition& d) {
  do {
    c.next();
    Definition::Extent extent;
    extent.at = c.here().at;
    extent.index = c.take_index();
    c.take("<");
    extent.value = parse_sum(c);
    d.where.push_back(std::move(extent));
  } while (c.peek(","));
}

Definition::StageText parse_stage(Cursor& c, const Definition& d, const std::optional<SingleResult>& single) {
  Definition::StageText stage;
  stage.at = c.here().at;
  if (starts_stage(c)) {
    stage.name = c.take_name("a stage's name");
    c.take("[");
    stage.lhs = parse_items(c, "]", false);
    c.take("=");
    stage.body = parse_expression(c);
  } else {
    if (!single) c.error(c.here().at, "expected `stage[..] = ..`: with named results every line defines a stage");
    stage.name = d.results[0];
    stage.at = single->at;
    stage.lhs = single->lhs;
    stage.body = parse_expression(c);
    if (c.here().kind != TokenKind::kEnd)
      c.error(c.here().at, fmt::format("expected the end of the formula after its result, found {}", c.found()));
  }
  for (const Definition::StageText& other : d.stages)
    if (other.name == stage.name) c.error(stage.at, fmt::format("two stages are named {}", stage.name));
  if (std::count(d.operands.begin(), d.operands.end(), stage.name))
    c.error(stage.at, fmt::format("the stage {} has an operand's name", stage.name));
  return stage;
}

Definition parse_definition(Cursor c) {
  Definition d;
  d.text = c.text;
  d.name = c.name = c.take_name("a name");
  parse_operands(c, d);
  std::optional<SingleResult> single;
  if (c.peek("[")) single = parse_single_result(c, d);
  else parse_named_results(c, d);
  if (c.peek("where")) parse_where(c, d);
  c.take("=");
  c.in_body = true;
  while (c.here().kind != TokenKind::kEnd) {
    if (!d.stages.empty() && !c.here().starts_line)
      c.error(c.here().at, fmt::format("expected an operator or a new line, found {}", c.found()));
    d.stages.push_back(parse_stage(c, d, single));
  }
  if (d.stages.empty()) c.error(c.here().at, "expected an expression after '='");
  for (size_t i = 0; i < d.results.size(); ++i) {
    const bool defined =
        std::any_of(d.stages.begin(), d.stages.end(), [&](const auto& s) { return s.name == d.results[i]; });
    if (!defined)
      c.error(d.results_at[i],
              single ? "no line gives the result" : fmt::format("no stage defines the result {}", d.results[i]));
  }
  return d;
}

}  // namespace

DefinitionPtr parse(std::string_view text) {
  return std::make_shared<const Definition>(parse_definition(Cursor(text)));
}

}  // namespace partita::tdl
