// Makes shapes to try a definition on.
#include <functional>

#include "partita/base/error.h"
#include "partita/tdl/syntax.h"

namespace partita::tdl {

namespace {

constexpr int64_t kFirstExtent = 6, kExtentStep = 2, kOtherExtent = 12;

void for_each_access(const Syntax& s, const std::function<void(const Syntax&)>& f) {
  if (s.kind == Syntax::Kind::kAccess) f(s);
  for (const Syntax& arg : s.args) for_each_access(arg, f);
  for (const Syntax& name : s.names) for_each_access(name, f);
}

}  // namespace

std::vector<Shape> example_shapes(const Definition& definition, const std::map<std::string, Shape>& given) {
  for (const auto& [name, shape] : given)
    if (std::find(definition.operands.begin(), definition.operands.end(), name) == definition.operands.end())
      fail("{}: no operand '{}'; it has: {}", definition.name, name, fmt::join(definition.operands, ", "));
  std::map<std::string, int64_t> extent;  // by index name
  // Extents from the given shapes come first.
  auto visit = [&](const std::function<void(const Syntax&)>& f) {
    for (const Definition::StageText& stage : definition.stages) for_each_access(stage.body, f);
  };
  visit([&](const Syntax& access) {
    auto known = given.find(access.name);
    if (known == given.end() || known->second.size() != access.args.size()) return;
    for (size_t a = 0; a < access.args.size(); ++a)
      if (access.args[a].kind == Syntax::Kind::kName) extent.emplace(access.args[a].name, known->second[a]);
  });
  std::map<std::string, Shape> shapes = given;
  int64_t next = kFirstExtent;
  visit([&](const Syntax& access) {
    if (std::find(definition.operands.begin(), definition.operands.end(), access.name) == definition.operands.end() ||
        given.contains(access.name))
      return;
    Shape& shape = shapes[access.name];
    if (shape.empty()) shape.assign(access.args.size(), 0);
    if (shape.size() != access.args.size()) return;  // bind() reports the error
    for (size_t a = 0; a < access.args.size(); ++a) {
      const Syntax& subscript = access.args[a];
      bool plain = subscript.kind == Syntax::Kind::kName || subscript.kind == Syntax::Kind::kGroup ||
                   subscript.kind == Syntax::Kind::kNamed;
      if (!plain) continue;
      auto [found, fresh] = extent.try_emplace(subscript.name, next);
      if (fresh) next += kExtentStep;
      shape[a] = found->second;
    }
  });
  std::vector<Shape> out;
  for (const std::string& operand : definition.operands) {
    Shape shape = shapes.contains(operand) ? shapes[operand] : Shape{};
    for (int64_t& e : shape)
      if (e == 0) e = kOtherExtent;
    out.push_back(shape);
  }
  return out;
}

}  // namespace partita::tdl
