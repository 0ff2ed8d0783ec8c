// Looks up definitions of ops, fills in their attributes and binds their formulas.
#include "partita/graph/registry.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/nearest.h"
#include "partita/graph/kept_gradients.h"

namespace partita {
namespace {

bool is_one_of(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void fill_in(const OpDefinition& definition, tdl::Attributes& attributes) {
  for (const auto& [name, value] : attributes) {
    const std::string base = name.substr(0, name.find('.'));
    if (definition.defaults.contains(name) || is_one_of(definition.required, name) || is_one_of(definition.lists, base))
      continue;
    if (definition.update && name == kKeptGradient) continue;
    std::vector<std::string> known = definition.required;
    for (const auto& [key, unused] : definition.defaults) known.push_back(key);
    for (const std::string& list : definition.lists) known.push_back(list + ".0..");
    fail("{}: unknown attribute '{}'; it has: {}", definition.name, name,
         known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
  }
  for (const std::string& name : definition.required)
    if (!attributes.contains(name)) fail("{}: attribute '{}' is missing", definition.name, name);
  attributes.insert(definition.defaults.begin(), definition.defaults.end());
}

}  // namespace

int64_t OpInstance::integer(std::string_view attribute) const {
  auto found = attributes.find(std::string(attribute));
  if (found == attributes.end()) fail("attribute '{}' is missing", attribute);
  return static_cast<int64_t>(found->second);
}

std::vector<int64_t> OpInstance::list(std::string_view name) const {
  std::vector<int64_t> values;
  for (;;) {
    auto found = attributes.find(fmt::format("{}.{}", name, values.size()));
    if (found == attributes.end()) return values;
    values.push_back(static_cast<int64_t>(found->second));
  }
}

std::shared_ptr<const tdl::Bound> bind_instance(const OpDefinition& definition, tdl::Attributes& attributes,
                                                const std::vector<Shape>& shapes, const std::vector<DType>& dtypes) {
  fill_in(definition, attributes);
  const std::string text = definition.formula(OpInstance{attributes, shapes, dtypes});
  tdl::Attributes scalars;  // a list has gone into the text
  for (const auto& [name, value] : attributes)
    if (name.find('.') == std::string::npos) scalars.emplace(name, value);
  return std::make_shared<const tdl::Bound>(tdl::bind(text, shapes, scalars));
}

double op_flops(const OpDefinition* definition, const tdl::Bound& bound, const std::vector<Interval>& ranges) {
  return definition && definition->flops ? definition->flops(bound, ranges) : tdl::flops(bound, ranges);
}
double op_flops(const OpDefinition* definition, const tdl::Bound& bound) {
  return op_flops(definition, bound, tdl::full_ranges(bound));
}

void OpRegistry::add(OpDefinition definition) {
  ensure(!definition.examples.empty(), "op definition '{}' has no example", definition.name);
  const std::string name = definition.name;
  const bool added = definitions_.emplace(name, std::move(definition)).second;
  ensure(added, "op definition '{}' is declared twice", name);
}

const OpDefinition* OpRegistry::find(std::string_view name) const {
  auto found = definitions_.find(name);
  return found == definitions_.end() ? nullptr : &found->second;
}

const OpDefinition& OpRegistry::get(std::string_view name) const {
  if (const OpDefinition* definition = find(name)) return *definition;
  std::vector<std::string> known;
  for (const auto& [definition, unused] : definitions_) known.push_back(definition);
  fail("unknown operation '{}'; nearest: {}", name, fmt::join(nearest_names(name, known), ", "));
}

std::vector<const OpDefinition*> OpRegistry::all() const {
  std::vector<const OpDefinition*> result;
  for (const auto& [name, definition] : definitions_) result.push_back(&definition);
  return result;
}

}  // namespace partita
