// show: describes a model, and with --nodes the fate of every node of its file.
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/json_append.h"
#include "partita/cli/commands.h"
#include "partita/graph/places.h"
#include "partita/graph/repeats.h"
#include "partita/onnx/onnx.h"

namespace partita {

using Json = nlohmann::ordered_json;

namespace {

// The counts of a model.
struct Figures {
  int64_t parameters = 0, active_parameters = 0, parameter_bytes = 0, activation_bytes = 0;
  double flops = 0;  // of a step
};

Figures figures_of(const Graph& forward, const Graph& training) {
  Figures f;
  f.active_parameters = active_parameters(forward);
  for (const Tensor& t : forward.tensors) {
    if (t.role == Role::kParameter) f.parameters += volume(t.shape), f.parameter_bytes += t.bytes();
    if (t.producer.valid()) f.activation_bytes += t.bytes();
  }
  std::map<std::pair<std::string, const tdl::Bound*>, double> known;  // equal ops share one
  for (const Op& op : training.ops) {
    const auto [found, fresh] = known.emplace(std::pair(op.definition, op.bound.get()), 0);
    if (fresh) found->second = op_flops(training.registry->find(op.definition), *op.bound);
    f.flops += found->second;
  }
  return f;
}

void print_nodes(const Request& request) {
  if (!request.model.ends_with(".onnx")) fail("--nodes lists the nodes of an .onnx file; '{}' is none", request.model);
  for (const OnnxNode& node : describe_onnx(request.model, onnx_options(request), registry_for(request)))
    fmt::print("{:<12} {:<24} {}{}{}{}\n", name_of(node.fate), node.operation, node.name,
               node.source.module.empty() ? "" : " in " + node.source.module,
               node.source.location.empty() ? "" : " from " + node.source.location,
               node.why.empty() ? "" : ": " + node.why);
}

Json tensors_json(const Graph& graph, const std::vector<TensorId>& ids) {
  Json json = Json::object();
  for (TensorId id : ids) {
    const Tensor& t = graph.tensor(id);
    Json entry = {{"shape", t.shape}, {"dtype", std::string(name_of(t.dtype))}};
    if (t.sample_axis >= 0) entry["sample_axis"] = t.sample_axis;
    append(json, t.name, std::move(entry));
  }
  return json;
}

Json show_json(const LoadedModel& model, const StepGraph& step, const Figures& f) {
  Json layers = Json::array();
  for (const Repeat& r : repeated_layers(model.forward))
    layers.push_back({{"name", r.name}, {"copies", r.copies}, {"ops", r.ops}});
  Json json = {{"name", model.forward.name},
               {"inputs", tensors_json(model.forward, model.forward.inputs)},
               {"outputs", tensors_json(model.forward, model.forward.outputs)},
               {"parameters", f.parameters},
               {"active_parameters", f.active_parameters},
               {"parameter_bytes", f.parameter_bytes},
               {"repeats", layers},
               {"ops", step.graph.ops.size()},
               {"ops_forward", model.forward.ops.size()},
               {"flops_per_step", f.flops},
               {"activation_bytes", f.activation_bytes},
               {"tied", model.findings.tied},
               {"untrained", model.findings.untrained},
               {"with_normalization", model.findings.with_normalization},
               {"perhaps_buffers", model.findings.perhaps_buffers},
               {"other_shapes", model.findings.other_shapes},
               {"rounded", model.findings.rounded}};
  if (!step.why_not_trained.empty()) json["why_not_trained"] = step.why_not_trained;
  return json;
}

void print_tensors(const char* kind, const Graph& graph, const std::vector<TensorId>& ids) {
  const Json tensors = tensors_json(graph, ids);
  for (const auto& [name, what] : tensors.items()) {
    const int axis = what.value("sample_axis", 0);
    fmt::print("  {} {} {} {}{}\n", kind, name, what["dtype"].get<std::string>(), what["shape"].dump(),
               axis > 0 ? fmt::format(", samples on axis {}", axis) : "");
  }
}

void print_show(const LoadedModel& model, const StepGraph& step, const Figures& f) {
  const Graph& forward = model.forward;
  fmt::print(
      "{}: {} parameters ({}), {} ops forward, {}\n", forward.name, f.parameters,
      megabytes(static_cast<double>(f.parameter_bytes)), forward.ops.size(),
      step.why_not_trained.empty() ? fmt::format("{} in a training step", step.graph.ops.size()) : "no training step");
  if (!step.why_not_trained.empty()) fmt::print("  cannot be trained: {}\n", step.why_not_trained);
  if (f.active_parameters < f.parameters) fmt::print("  {} parameters meet a token\n", f.active_parameters);
  fmt::print("  {:.4g} FLOPs a step, {} of activations\n", f.flops, megabytes(static_cast<double>(f.activation_bytes)));
  print_tensors("input ", forward, forward.inputs);
  print_tensors("output", forward, forward.outputs);
  for (const std::string& tie : model.findings.tied) fmt::print("  tied   {}\n", tie);
  print_training_notes(model.findings);
  for (const Repeat& r : repeated_layers(forward))
    if (20 * (r.copies - 1) * r.ops >= static_cast<int>(forward.ops.size()))
      fmt::print("  {} times {} ({} ops each)\n", r.copies, r.name, r.ops);
}

}  // namespace

int show_command(const Arguments& a) {
  if (a.nodes) {
    print_nodes(a.request);
    return 0;
  }
  Runner runner;
  const LoadedModel model = load_model(a.request, runner);
  const StepGraph step = step_graph(model, a.request, runner);
  const Figures figures = figures_of(model.forward, step.graph);
  if (a.json) {
    print_json(show_json(model, step, figures));
    return 0;
  }
  print_show(model, step, figures);
  print_timings(runner, a);
  return 0;
}

}  // namespace partita
