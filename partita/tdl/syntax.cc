// Lists a parsed formula's names, and locates errors in its text.
#include "partita/tdl/syntax.h"

#include <algorithm>
#include <set>

#include "partita/base/error.h"

namespace partita::tdl {

constexpr size_t kShownBefore = 100;  // characters of the line that an error shows before the place

void fail_at(std::string_view name, std::string_view text, size_t at, const std::string& message) {
  at = std::min(at, text.size());
  const size_t before = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  const size_t begin = before == std::string_view::npos ? 0 : before + 1;
  const size_t end = std::min(text.find('\n', at), text.size());
  const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(begin), '\n') + 1;
  // Shows only the surroundings of the place in a long line.
  const size_t from = at - begin > kShownBefore + 20 ? at - kShownBefore : begin;
  std::string shown(text.substr(from, std::min(end - from, 2 * kShownBefore)));
  std::replace(shown.begin(), shown.end(), '\t', ' ');
  const std::string_view cut = from > begin ? ".." : "";
  fail("{}, line {}, column {}: {}\n    {}{}\n    {:>{}}", name.empty() ? "formula" : name, line, at - begin + 1,
       message, cut, shown, '^', at - from + cut.size() + 1);
}

const std::string& name_of(const Definition& definition) { return definition.name; }

namespace {

// Collects all names, and those that must be indices: written at plainly, reduced, bounded, read from data, or read at
// plainly.
void collect_names(const Syntax& s, std::set<std::string>& names, std::set<std::string>& indices) {
  if (s.kind == Syntax::Kind::kName) names.insert(s.name);
  if (s.kind == Syntax::Kind::kNamed) indices.insert(s.name);
  if (s.kind == Syntax::Kind::kReduce)
    for (const Syntax& index : s.names) indices.insert(index.name);
  if (s.kind == Syntax::Kind::kAccess || s.kind == Syntax::Kind::kCall)
    for (const Syntax& subscript : s.args)
      if (subscript.kind == Syntax::Kind::kName &&
          (s.kind == Syntax::Kind::kAccess || s.name == "ext" || s.name == "lin"))
        indices.insert(subscript.name);
  for (const Syntax& arg : s.args) collect_names(arg, names, indices);
  for (const Syntax& name : s.names)
    if (s.kind != Syntax::Kind::kReduce) collect_names(name, names, indices);
}

}  // namespace

std::vector<std::string> attribute_names(const Definition& definition) {
  std::set<std::string> names, indices;
  for (const Definition::Extent& extent : definition.where) {
    indices.insert(extent.index);
    collect_names(extent.value, names, indices);
  }
  for (const Definition::StageText& stage : definition.stages) {
    for (const Syntax& s : stage.lhs) {
      if (s.kind == Syntax::Kind::kName) indices.insert(s.name);
      collect_names(s, names, indices);
    }
    collect_names(stage.body, names, indices);
  }
  std::vector<std::string> attributes;
  for (const std::string& name : names)
    if (!indices.contains(name) && name != "inf" && name.find('.') == std::string::npos) attributes.push_back(name);
  return attributes;
}

}  // namespace partita::tdl
