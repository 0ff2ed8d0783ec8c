// ops, tdl: print an operation's description, and all that is derived from it.
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/cli/commands.h"
#include "partita/ops/ops.h"
#include "partita/search/soap/op_configurations.h"
#include "partita/sharding/layout.h"

namespace partita {

using Json = nlohmann::ordered_json;

namespace {

struct Analysis {
  std::string strategy, text, signature;
  double flops = 0;                               // of the position with the most
  std::vector<std::vector<std::string>> regions;  // [position][operand]
};

// definition: whose instance this is, if any.
std::vector<Analysis> analyse(const tdl::Bound& bound, const OpDefinition* definition, int workers) {
  std::vector<Analysis> out;
  Mesh mesh{{workers}, {}};
  for (int d = 0; d < workers; ++d) mesh.devices.push_back(DeviceId(static_cast<size_t>(d)));
  for (const tdl::AxisStrategy& s : tdl::strategies(bound, workers)) {
    auto derived = tdl::derive(bound, {workers}, {s});
    if (!derived) continue;
    Analysis a{tdl::to_string(s), tdl::to_string(bound, *derived), "", 0, {}};
    if (auto signature = signature_of(bound, *derived, mesh)) a.signature = to_string(*signature);
    for (const std::vector<Interval> ranges : derived->ranges)
      a.flops = std::max(a.flops, op_flops(definition, bound, ranges));
    for (int w = 0; w < derived->positions(); ++w) {
      a.regions.emplace_back();
      for (int k = 0; k < bound.operand_count; ++k) {
        const Box box = derived->boxes[k][w];
        a.regions.back().push_back(is_empty(box) ? "nothing" : tdl::closed_text(box));
      }
    }
    out.push_back(std::move(a));
  }
  return out;
}

void print_analysis(const tdl::Bound& bound, const OpDefinition* definition, int workers, bool with_regions) {
  fmt::print("{}\n", tdl::to_text(bound));
  const std::vector<SoapDimension> soap = soap_dimensions(bound);
  for (size_t i = 0; i < soap.size(); ++i)
    fmt::print("  index {:<8} extent {:<5} {}\n", bound.indices[i].name, bound.indices[i].extent, name_of(soap[i]));
  fmt::print("  FLOPs {:.6g}{}\n", op_flops(definition, bound), tdl::is_elementwise(bound) ? ", element-wise" : "");
  fmt::print("strategies on {} workers\n", workers);
  for (const Analysis& a : analyse(bound, definition, workers)) {
    fmt::print("  {}\n", a.text);
    if (!with_regions) continue;
    for (int k = 0; k < bound.operand_count; ++k) {
      std::vector<std::string> parts;
      for (const auto& position : a.regions) parts.push_back(position[k]);
      fmt::print("      reads {} {}\n", bound.tensors[k].name, fmt::join(parts, " | "));
    }
    fmt::print("      FLOPs {:.6g} on the worker that has most\n", a.flops);
  }
  for (const std::string& lint : tdl::lint_warnings(bound)) fmt::print("note: {}\n", lint);
}

Json analysis_json(const tdl::Bound& bound, const OpDefinition* definition, int workers) {
  Json indices = Json::object(), soap = Json::object(), strategies = Json::array();
  for (const tdl::Index& i : bound.indices) indices[i.name] = i.extent;
  const std::vector<SoapDimension> dimensions = soap_dimensions(bound);
  for (size_t i = 0; i < dimensions.size(); ++i) soap[bound.indices[i].name] = name_of(dimensions[i]);
  for (const Analysis& a : analyse(bound, definition, workers)) {
    Json row = {{"strategy", a.strategy}, {"text", a.text}, {"flops", a.flops}};
    row["regions"] = a.regions;
    if (!a.signature.empty()) row["signature"] = a.signature;
    strategies.push_back(row);
  }
  return {{"formula", tdl::to_text(bound)},
          {"indices", indices},
          {"soap", soap},
          {"flops", op_flops(definition, bound)},
          {"elementwise", tdl::is_elementwise(bound)},
          {"workers", workers},
          {"strategies", strategies}};
}

Shape parse_shape(const std::string& text) {
  Shape shape;
  size_t from = 0;
  while (from < text.size()) {
    size_t comma = std::min(text.find(',', from), text.size());
    try {
      shape.push_back(std::stoll(text.substr(from, comma - from)));
    } catch (const std::exception&) {
      throw Error(ExitCode::kUsage, fmt::format("--shape: '{}' is no list of extents", text));
    }
    from = comma + 1;
  }
  return shape;
}

}  // namespace

int ops_command(const Arguments& a) {
  auto registry = standard_ops();
  if (a.target.empty()) {
    Json list = Json::array();
    for (const OpDefinition* d : registry->all()) {
      if (!a.json) fmt::print("{:<26} {}\n", d->name, d->summary);
      list.push_back({{"name", d->name}, {"summary", d->summary}});
    }
    if (a.json) print_json({{"ops", list}});
    return 0;
  }
  const OpDefinition& d = registry->get(a.target);
  Json list = Json::array();
  for (const OpDefinition::Example& example : d.examples) {
    tdl::Attributes attributes = example.attributes;
    std::vector<DType> dtypes =
        example.dtypes.empty() ? std::vector(example.shapes.size(), DType::kFloat32) : example.dtypes;
    auto bound = bind_instance(d, attributes, example.shapes, dtypes);
    if (a.json) list.push_back(analysis_json(*bound, &d, a.workers));
    else print_analysis(*bound, &d, a.workers, false);
  }
  if (a.json) print_json({{"name", d.name}, {"summary", d.summary}, {"instances", list}});
  return 0;
}

int tdl_command(const Arguments& a) {
  auto definition = tdl::parse(a.target);
  std::map<std::string, Shape> given;
  for (const std::string& s : a.shapes) {
    size_t equals = s.find('=');
    if (equals == std::string::npos)
      throw Error(ExitCode::kUsage, fmt::format("--shape takes OPERAND=n,n,.. , not '{}'", s));
    given[s.substr(0, equals)] = parse_shape(s.substr(equals + 1));
  }
  tdl::Attributes attributes;
  for (const std::string& s : a.attributes) {
    size_t equals = s.find('=');
    if (equals == std::string::npos)
      throw Error(ExitCode::kUsage, fmt::format("--attribute takes NAME=VALUE, not '{}'", s));
    attributes[s.substr(0, equals)] = std::stod(s.substr(equals + 1));
  }
  std::vector<Shape> shapes = tdl::example_shapes(*definition, given);
  tdl::Bound bound = tdl::bind(definition, shapes, attributes);
  if (a.json) print_json(analysis_json(bound, nullptr, a.workers));
  else {
    print_analysis(bound, nullptr, a.workers, true);
    fmt::print("canonical form\n  {}\n", tdl::canonical(bound));
    for (int k = 0; k < bound.operand_count; ++k) {
      try {
        auto gradient = tdl::gradient(bound, k);
        fmt::print("gradient of {}\n  {}\n", bound.tensors[k].name, gradient ? gradient->text : "zero");
      } catch (const Error& e) {
        fmt::print("gradient of {}: {}\n", bound.tensors[k].name, e.what());
      }
    }
  }
  return 0;
}

}  // namespace partita
