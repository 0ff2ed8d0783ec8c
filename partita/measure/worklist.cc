// Prints formulas as trees, and kernels over parts of them.
#include "partita/measure/worklist.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

namespace partita {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

// JSON has no infinity: it is a string.
Json number_json(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  return x;
}

// [constant, [coefficient, atom]..]; an atom is an index, or ["//" or "%", form, divisor].
Json affine_json(const tdl::Affine& form) {
  Json json = Json::array({form.constant});
  for (const tdl::Affine::Term& term : form.terms) {
    using Kind = tdl::Affine::Atom::Kind;
    const tdl::Affine::Atom& atom = term.atom;
    Json of = atom.index;
    if (atom.kind != Kind::kIndex)
      of = Json::array({atom.kind == Kind::kFloorDiv ? "//" : "%", affine_json(*atom.inner), atom.divisor});
    json.push_back(Json::array({term.coefficient, of}));
  }
  return json;
}

Json list_json(const std::vector<tdl::Affine>& forms) {
  Json json = Json::array();
  for (const tdl::Affine& form : forms) json.push_back(affine_json(form));
  return json;
}

Json expr_json(const tdl::Expr& e) {
  Json args = Json::array();
  for (const tdl::Expr& arg : e.args) args.push_back(expr_json(arg));
  switch (e.kind) {
    case tdl::ExprKind::kNumber:
      return {{"number", number_json(e.number)}};
    case tdl::ExprKind::kIndex:
      return {{"index", e.index}};
    case tdl::ExprKind::kRead: {
      Json json = {{"read", e.tensor}, {"at", list_json(e.subscripts)}};
      if (e.has_else) json["else"] = number_json(e.number);
      if (!e.whole.empty()) json["whole"] = e.whole;
      return json;
    }
    case tdl::ExprKind::kUnary:
      return {{"unary", e.function}, {"of", args}};
    case tdl::ExprKind::kBinary:
      return {{"binary", e.function}, {"of", args}};
    case tdl::ExprKind::kIf:
      return {{"if", args}};
    case tdl::ExprKind::kReduce:
      return {{"reduce", std::string(tdl::name_of(e.reducer))}, {"over", e.reduced}, {"of", args}};
    case tdl::ExprKind::kRng:
      return {{"rng", args}};
    case tdl::ExprKind::kOpaque:
      return {{"opaque", e.function}, {"at", list_json(e.subscripts)}, {"of", args}};
  }
  return nullptr;
}

Json formula_json(const tdl::Bound& bound) {
  Json indices = Json::array(), tensors = Json::array(), stages = Json::array();
  for (const tdl::Index& index : bound.indices) indices.push_back({index.name, index.extent});
  for (const tdl::BoundTensor& tensor : bound.tensors) tensors.push_back({tensor.name, tensor.factored});
  for (const tdl::Stage& stage : bound.stages)
    stages.push_back({{"tensor", stage.tensor}, {"at", list_json(stage.lhs)}, {"is", expr_json(stage.body)}});
  return {{"name", bound.name}, {"indices", indices}, {"tensors", tensors}, {"stages", stages}};
}

Json box_json(const Box& box) {
  Json json = Json::array();
  for (const Interval& side : box) json.push_back({side.lo, side.hi});
  return json;
}

Json parts_json(const std::vector<PlacedShard>& shards) {
  Json json = Json::array();
  for (const PlacedShard& placed : shards)
    json.push_back({placed.tensor, std::string(name_of(placed.shard.dtype)), box_json(placed.shard.box)});
  return json;
}

// Formulas by number; equal ones have one.
class Formulas {
 public:
  int of(const std::shared_ptr<const tdl::Bound>& bound) {
    const auto [found, fresh] = numbers_.try_emplace(bound, 0);
    if (fresh) {
      std::string text = formula_json(*bound).dump();
      const auto [same, is_new] = by_text_.try_emplace(text, static_cast<int>(texts.size()));
      if (is_new) texts.push_back(std::move(text));
      found->second = same->second;
    }
    return found->second;
  }
  std::vector<std::string> texts;

 private:
  std::map<std::shared_ptr<const tdl::Bound>, int> numbers_;
  std::map<std::string, int> by_text_;
};

std::string lines(const char* name, const std::vector<std::string>& entries) {
  return fmt::format(",\n  \"{}\": [{}{}\n  ]", name, entries.empty() ? "" : "\n    ", fmt::join(entries, ",\n    "));
}

}  // namespace

std::string print_worklist(const KernelsToTime& kernels, const std::string& device, DeviceKind kind) {
  Formulas formulas;
  std::vector<std::string> entries;
  for (const auto& [key, kernel] : kernels) {
    Json json = kernel_json(kernel.kernel);
    json["formula"] = formulas.of(kernel.work.bound);
    json["ranges"] = box_json(kernel.work.ranges.front());
    json["reads"] = parts_json(kernel.reads);
    json["writes"] = parts_json(kernel.writes);
    entries.push_back(json.dump());
  }
  return fmt::format(
             "{{\n  \"schema_version\": {},\n  \"kind\": \"worklist\",\n  \"device\": {},\n  \"device_kind\": \"{}\"",
             kSchemaVersion, Json(device).dump(), kind == DeviceKind::kGpu ? "gpu" : "cpu") +
         lines("formulas", formulas.texts) + lines("kernels", entries) + "\n}\n";
}

}  // namespace partita
