// Reads operators that a user describes in a file of formulas.
#include <string>
#include <vector>

#include "partita/base/error.h"
#include "partita/ops/declare.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

struct Description {
  int line = 0;  // the first line of the description, from 1
  std::string text;
};

std::string without_comment(std::string_view line) { return std::string(line.substr(0, line.find('#'))); }

bool is_blank(const std::string& line) { return line.find_first_not_of(" \t\r") == std::string::npos; }

std::vector<Description> descriptions_of(std::string_view text) {
  std::vector<Description> found;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = without_comment(text.substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (is_blank(line)) continue;
    if (line[0] != ' ' && line[0] != '\t') {
      found.push_back({number, line});
      continue;
    }
    if (found.empty()) fail("line {}: a description begins at the start of a line", number);
    found.back().text += '\n' + line;
  }
  return found;
}

}  // namespace

std::shared_ptr<const OpRegistry> ops_with(std::string_view text) {
  auto registry = std::make_shared<OpRegistry>(*standard_ops());
  for (const Description& description : descriptions_of(text)) {
    tdl::DefinitionPtr definition;
    try {
      definition = tdl::parse(description.text);
    } catch (const Error& error) {
      if (error.code() != ExitCode::kBadInput) throw;
      fail("the description in line {}: {}", description.line, error.what());
    }
    const std::string& name = tdl::name_of(*definition);
    if (const OpDefinition* known = registry->find(name))
      fail("line {}: {} '{}'; give yours another name", description.line,
           known->described ? "there is already a description of" : "Partita has an operation", name);
    OpDefinition op;
    op.name = name;
    op.summary = "described by the user";
    op.described = true;
    op.formula = [written = description.text](const OpInstance&) { return written; };
    op.required = tdl::attribute_names(*definition);
    op.examples.push_back({});
    registry->add(std::move(op));
  }
  return registry;
}

}  // namespace partita
