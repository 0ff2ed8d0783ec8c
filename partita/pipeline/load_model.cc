// Loads the model that a request names, from a file, a configuration or the zoo, as a forward graph.
#include "partita/pipeline/load_model.h"

#include <algorithm>
#include <filesystem>

#include "partita/base/error.h"
#include "partita/base/input_file.h"
#include "partita/base/nearest.h"
#include "partita/models/huggingface.h"
#include "partita/ops/ops.h"

namespace partita {

namespace {

// Returns the path of the configuration that a file or folder stands for, for messages too.
std::string config_path(const std::string& model) {
  return model.ends_with(".json") ? model : (std::filesystem::path(model) / "config.json").string();
}

// Returns the config.json that a model's reference means, itself or its folder; empty: another kind of reference.
std::string config_file(const std::string& model) {
  if (model.starts_with("zoo:")) return "";
  if (model.ends_with(".json")) return model;
  if (!is_folder(model)) return "";
  if (!leads_somewhere(config_path(model))) fail("{}: the folder has no config.json", model);
  return config_path(model);
}

// Returns a note if images come out and no loss is given. Nothing says where the classes lie: PyTorch has them on axis
// 1, cross_entropy here on the last.
std::string assumed_loss(const Graph& forward, const std::string& loss) {
  if (loss != "cross_entropy" || forward.outputs.empty() || forward.tensor(forward.outputs[0]).shape.size() < 4)
    return "";
  const Tensor& output = forward.tensor(forward.outputs[0]);
  return fmt::format(
      "the loss is cross_entropy, since none is given: the last axis of '{}' [{}] has the classes; if they lie on "
      "another, transpose the output, or give --loss",
      output.name, fmt::join(output.shape, ", "));
}

// Throws bad input if the reference is neither a model of the zoo, whose name may lack "zoo:", nor a file of a known
// kind.
void validate_model_name(const std::string& model) {
  if (model.starts_with("zoo:")) return;
  std::vector<std::string> names;
  for (const ModelInfo& known : list_models()) names.push_back(known.name);
  const bool is_there = leads_somewhere(model);
  if (std::find(names.begin(), names.end(), is_there ? model : model.substr(0, model.find('?'))) != names.end()) return;
  if (!is_there)
    fail("{}: there is no such file or folder, and no such model in the zoo; nearest: {} (`partita models` lists all)",
         model, fmt::join(nearest_names(model, names), ", "));
  fail(
      "{}: is not a model file; a model is an .onnx file, a Hugging Face config.json (any name that ends with .json) "
      "or its folder, or zoo:NAME (`partita models` lists them)",
      model);
}

using Registry = std::shared_ptr<const OpRegistry>;

LoadedModel read_onnx(const Request& request, Registry registry) {
  LoadedModel model;
  std::optional<Graph> own;
  model.forward = import_onnx(request.model, onnx_options(request), std::move(registry), &own, &model.findings);
  if (own) model.other_batch = {std::move(*own), model.forward};
  if (!request.loss) model.findings.assumed_loss = assumed_loss(model.forward, model.loss.kind);
  return model;
}

LoadedModel build(const Request& request, Registry registry) {
  const Request with = with_config(request);
  if (with.config.empty()) validate_model_name(request.model);
  Model built = with.config.empty()
                    ? build_model(request.model, request.bindings, std::move(registry))
                    : build_huggingface(config_path(request.model), with.config, request.bindings, std::move(registry));
  LoadedModel model{std::move(built.graph), built.loss, std::move(built.weight_names), std::nullopt, {}};
  model.findings.notes = std::move(built.notes);
  return model;
}

}  // namespace

Request with_config(Request request) {
  if (!request.config.empty() || request.model.ends_with(".onnx")) return request;
  if (const std::string file = config_file(request.model); !file.empty())
    request.config = read_file(file, "a model's configuration", kMostOfDescription);
  return request;
}

LoadedModel read_model(const Request& request) {
  Registry registry = registry_for(request);
  LoadedModel model =
      request.model.ends_with(".onnx") ? read_onnx(request, std::move(registry)) : build(request, std::move(registry));
  if (request.loss) model.loss.kind = *request.loss;
  model.loss.scale = request.loss_scale.value_or(default_loss_scale(request.dtype));
  return model;
}

namespace {

// Returns the model with another forward graph of the same names.
LoadedModel with_forward(const LoadedModel& model, Graph forward) {
  LoadedModel result = model;
  result.forward = std::move(forward);
  auto same_name = [&](TensorId id) {
    return id.valid() ? result.forward.find_tensor(model.forward.tensor(id).name) : id;
  };
  result.loss.output = same_name(model.loss.output);
  for (Loss::Auxiliary& further : result.loss.auxiliary) further.output = same_name(further.output);
  for (auto& [penalty, weight] : result.loss.penalties) penalty = same_name(penalty);
  return result;
}

}  // namespace

LoadedModel in_batch_norm_groups(const LoadedModel& model, int64_t groups) {
  return with_forward(model, with_batch_norm_groups(model.forward, groups));
}

LoadedModel in_dtype(const LoadedModel& model, DType dtype) {
  if (is_low(dtype)) return with_forward(model, mixed_precision(model.forward, dtype));
  LoadedModel result = model;
  result.forward = with_dtype(model.forward, dtype);
  return result;
}

void verify(const LoadedModel& model) { verify(model.forward); }

}  // namespace partita
