// Fits groups of axes to operands, and reports errors, while a definition is bound.
#include "partita/tdl/binding.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita::tdl {

std::string axes_text(size_t n) { return n == 1 ? "1 axis" : fmt::format("{} axes", n); }

std::vector<std::string> groups_of(const Syntax& access) {
  std::vector<std::string> groups;
  for (const Syntax& s : access.args)
    if (s.kind == Syntax::Kind::kGroup) groups.push_back(s.name);
  return groups;
}

bool reads_data(const Syntax& s) {
  return s.kind == Syntax::Kind::kAccess || s.kind == Syntax::Kind::kReduce || s.kind == Syntax::Kind::kOpaque ||
         std::any_of(s.args.begin(), s.args.end(), reads_data);
}

void Binding::error(size_t at, const std::string& message) const {
  fail_at(definition.name, definition.text, at, message);
}

int Binding::index(const std::string& name) const {
  for (size_t i = places.size(); i < bound.indices.size(); ++i) places.try_emplace(bound.indices[i].name, i);
  const auto found = places.find(name);
  return found == places.end() ? -1 : found->second;
}

int Binding::operand(const std::string& name) const {
  auto it = std::find(definition.operands.begin(), definition.operands.end(), name);
  return it == definition.operands.end() ? -1 : static_cast<int>(it - definition.operands.begin());
}

std::vector<int> Binding::group_widths(const Syntax& access, const Shape& shape) const {
  const std::vector<std::string> groups = groups_of(access);
  const int free = static_cast<int>(shape.size()) - static_cast<int>(access.args.size() - groups.size());
  std::vector<int> widths;
  int total = 0;
  for (const std::string& g : groups) {
    widths.push_back(groups.size() == 1 ? free : ranks.at(g));
    total += widths.back();
  }
  if (total != free || free < 0 || (groups.size() == 1 && ranks.contains(groups[0]) && free > ranks.at(groups[0])))
    error(access.at, fmt::format("{} has {}, and is read with {}", access.name, axes_text(shape.size()),
                                 static_cast<int>(access.args.size() - groups.size()) +
                                     (groups.size() == 1 && ranks.contains(groups[0]) ? ranks.at(groups[0]) : total)));
  return widths;
}

}  // namespace partita::tdl
