// Derives the layouts and the SBP signature of an op under a strategy (OneFlow section 3).
#include "partita/base/error.h"
#include "partita/sharding/check_mesh.h"
#include "partita/sharding/layout.h"

namespace partita {

OpLayouts layouts_of(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh) {
  ensure(mesh.extents == derived.mesh, "layouts of '{}': derived for mesh {}, asked for {}", bound.name,
         fmt::join(derived.mesh, "x"), fmt::join(mesh.extents, "x"));
  check_mesh(mesh);
  auto layout = [&](int tensor, const std::vector<std::vector<tdl::Kind>>& kinds) {
    Layout l{mesh, bound.tensors[tensor].radices, derived.boxes[tensor], {}};
    for (size_t a = 0; a < mesh.extents.size(); ++a) l.kinds.push_back(kinds[a][tensor]);
    return l;
  };
  OpLayouts all;
  for (int t = 0; t < bound.operand_count; ++t) all.operands.push_back(layout(t, derived.kinds));
  for (int t : bound.results) all.results.push_back(layout(t, derived.final_kinds));
  return all;
}

std::optional<Signature> signature_of(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh) {
  OpLayouts layouts = layouts_of(bound, derived, mesh);
  Signature signature;
  for (auto [from, to] :
       {std::pair(&layouts.operands, &signature.operands), std::pair(&layouts.results, &signature.results)})
    for (const Layout& l : *from) {
      auto name = name_of(l);
      if (!name) return std::nullopt;
      to->push_back(*name);
    }
  return signature;
}

std::string to_string(const Signature& signature) {
  auto list = [](const std::vector<NdSbp>& all) {
    std::string text;
    for (const NdSbp& sbp : all) {
      std::vector<std::string> parts;
      for (const Sbp& s : sbp) parts.push_back(to_string(s));
      text += text.empty() ? "" : ", ";
      text += parts.size() == 1 ? parts[0] : fmt::format("[{}]", fmt::join(parts, ","));
    }
    return text;
  };
  return list(signature.operands) + " -> " + list(signature.results);
}

}  // namespace partita
