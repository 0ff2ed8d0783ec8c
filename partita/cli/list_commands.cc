// show, models, clusters, searches, ops, tdl.
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/cli/commands.h"
#include "partita/graph/repeats.h"
#include "partita/models/models.h"
#include "partita/onnx/onnx.h"
#include "partita/ops/ops.h"
#include "partita/sharding/layout.h"

namespace partita {

using Json = nlohmann::ordered_json;

int show_command(const Arguments& a) {
  Runner runner;
  if (a.nodes) {
    if (!a.request.model.ends_with(".onnx"))
      fail("--nodes lists the nodes of an .onnx file; '{}' is none", a.request.model);
    for (const OnnxNode& node : describe_onnx(a.request.model, onnx_options(a.request), registry_for(a.request)))
      fmt::print("{:<12} {:<24} {}{}{}{}\n", name_of(node.fate), node.operation, node.name,
                 node.source.module.empty() ? "" : " in " + node.source.module,
                 node.source.location.empty() ? "" : " from " + node.source.location,
                 node.why.empty() ? "" : ": " + node.why);
    return 0;
  }
  LoadedModel model = load_model(a.request, runner);
  const auto [training, why_not_trained] = step_graph(model, a.request, runner);
  Json inputs = Json::object(), outputs = Json::object();
  auto describe = [](const Tensor& t) {
    Json json{{"shape", t.shape}, {"dtype", std::string(name_of(t.dtype))}};
    if (t.sample_axis >= 0) json["sample_axis"] = t.sample_axis;
    return json;
  };
  for (TensorId id : model.forward.inputs) inputs[model.forward.tensor(id).name] = describe(model.forward.tensor(id));
  for (TensorId id : model.forward.outputs) outputs[model.forward.tensor(id).name] = describe(model.forward.tensor(id));
  int64_t parameters = 0, parameter_bytes = 0, activation_bytes = 0;
  for (const Tensor& t : model.forward.tensors) {
    if (t.role == Role::kParameter) parameters += volume(t.shape), parameter_bytes += t.bytes();
    if (t.producer.valid()) activation_bytes += t.bytes();
  }
  double flops = 0;
  std::map<std::pair<std::string, const tdl::Bound*>, double> known;  // equal ops share one
  for (const Op& op : training.ops) {
    const auto [found, fresh] = known.emplace(std::pair(op.definition, op.bound.get()), 0);
    if (fresh) found->second = op_flops(training.registry->find(op.definition), *op.bound);
    flops += found->second;
  }
  const std::vector<Repeat> repeats = repeated_layers(model.forward);
  if (a.json) {
    Json layers = Json::array();
    for (const Repeat& r : repeats) layers.push_back({{"name", r.name}, {"copies", r.copies}, {"ops", r.ops}});
    Json json = {{"name", model.forward.name},
                 {"inputs", inputs},
                 {"outputs", outputs},
                 {"parameters", parameters},
                 {"parameter_bytes", parameter_bytes},
                 {"repeats", layers},
                 {"ops", training.ops.size()},
                 {"ops_forward", model.forward.ops.size()},
                 {"flops_per_step", flops},
                 {"activation_bytes", activation_bytes},
                 {"tied", model.findings.tied},
                 {"untrained", model.findings.untrained},
                 {"with_normalization", model.findings.with_normalization},
                 {"perhaps_buffers", model.findings.perhaps_buffers}};
    if (!why_not_trained.empty()) json["why_not_trained"] = why_not_trained;
    print_json(std::move(json));
    return 0;
  }
  fmt::print("{}: {} parameters ({}), {} ops forward, {}\n", model.forward.name, parameters,
             megabytes(static_cast<double>(parameter_bytes)), model.forward.ops.size(),
             why_not_trained.empty() ? fmt::format("{} in a training step", training.ops.size()) : "no training step");
  if (!why_not_trained.empty()) fmt::print("  cannot be trained: {}\n", why_not_trained);
  fmt::print("  {:.4g} FLOPs a step, {} of activations\n", flops, megabytes(static_cast<double>(activation_bytes)));
  const auto print_tensor = [](const char* kind, const std::string& name, const Json& what) {
    const int axis = what.value("sample_axis", 0);
    fmt::print("  {} {} {} {}{}\n", kind, name, what["dtype"].get<std::string>(), what["shape"].dump(),
               axis > 0 ? fmt::format(", samples on axis {}", axis) : "");
  };
  for (auto& [name, what] : inputs.items()) print_tensor("input ", name, what);
  for (auto& [name, what] : outputs.items()) print_tensor("output", name, what);
  for (const std::string& tie : model.findings.tied) fmt::print("  tied   {}\n", tie);
  print_training_notes(model.findings);
  for (const Repeat& r : repeats)
    if (20 * (r.copies - 1) * r.ops >= static_cast<int>(model.forward.ops.size()))
      fmt::print("  {} times {} ({} ops each)\n", r.copies, r.name, r.ops);
  print_timings(runner, a);
  return 0;
}

int models_command(const Arguments& a) {
  Json list = Json::array();
  for (const ModelInfo& m : list_models()) {
    Json options = Json::object();
    if (!a.json) fmt::print("zoo:{:<14} {}\n", m.name, m.summary);
    for (const ModelOption& o : m.options) {
      options[o.name] = o.value;
      if (!a.json) fmt::print("    {:<12} {} (default {})\n", o.name, o.meaning, o.value);
    }
    list.push_back({{"name", "zoo:" + m.name}, {"summary", m.summary}, {"options", options}});
  }
  if (a.json) print_json({{"models", list}});
  return 0;
}

int clusters_command(const Arguments& a) {
  Json list = Json::array();
  for (const ClusterPreset& c : cluster_presets()) {
    if (!a.json) fmt::print("{:<14} {}\n", c.name, c.summary);
    list.push_back({{"name", c.name}, {"summary", c.summary}});
  }
  if (a.json) print_json({{"clusters", list}});
  return 0;
}

int searches_command(const Arguments& a) {
  Json list = Json::array();
  for (const SearchEntry& s : searches()) {
    if (!a.json)
      fmt::print("{:<16} {:<22} {}{}{}\n", s.name, s.source, s.summary,
                 s.warm ? "; can begin with a plan (--from)" : "",
                 s.estimates ? "; evaluated by the simulator, cannot be run" : "");
    for (const auto& [name, values] : s.options)
      if (!a.json) fmt::print("    ?{}={}\n", name, fmt::join(values, "|"));
    list.push_back({{"name", s.name},
                    {"source", s.source},
                    {"summary", s.summary},
                    {"options", s.options},
                    {"warm", s.warm},
                    {"estimates", s.estimates}});
  }
  for (const auto& [alias, whole] : search_aliases())
    if (!a.json) fmt::print("{:<16} is {}\n", alias, whole);
  if (a.json) print_json({{"searches", list}, {"aliases", search_aliases()}});
  return 0;
}

namespace {

struct Analysis {
  std::string strategy, text, signature;
  double flops = 0;                               // of the position that has most
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
  for (const tdl::Index& i : bound.indices)
    fmt::print("  index {:<8} extent {}{}\n", i.name, i.extent, i.splittable ? "" : ", can't be split");
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
  for (const std::string& lint : tdl::lints(bound)) fmt::print("note: {}\n", lint);
}

Json analysis_json(const tdl::Bound& bound, const OpDefinition* definition, int workers) {
  Json indices = Json::object(), strategies = Json::array();
  for (const tdl::Index& i : bound.indices) indices[i.name] = i.extent;
  for (const Analysis& a : analyse(bound, definition, workers)) {
    Json row = {{"strategy", a.strategy}, {"text", a.text}, {"flops", a.flops}};
    row["regions"] = a.regions;
    if (!a.signature.empty()) row["signature"] = a.signature;
    strategies.push_back(row);
  }
  return {{"formula", tdl::to_text(bound)},
          {"indices", indices},
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
