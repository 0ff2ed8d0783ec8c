// A model as a request names it: from a file, a configuration or the zoo to a forward graph.
#include "partita/load_model.h"

#include <filesystem>

#include "partita/base/error.h"
#include "partita/base/input_file.h"
#include "partita/models/huggingface.h"
#include "partita/ops/ops.h"

namespace partita {

namespace {

// The config.json that a model's reference means, itself or its folder; empty: another kind of reference.
std::string config_file(const std::string& model) {
  if (model.starts_with("zoo:")) return "";
  if (model.ends_with(".json")) return model;
  if (!is_folder(model)) return "";
  const std::string file = (std::filesystem::path(model) / "config.json").string();
  if (!leads_somewhere(file)) fail("{}: the folder has no config.json", model);
  return file;
}

// A note where images come out and no loss is given. Nobody has said where the classes lie: PyTorch has them on axis 1,
// cross_entropy here on the last.
std::string assumed_loss(const Graph& forward, const std::string& loss) {
  if (loss != "cross_entropy" || forward.outputs.empty() || forward.tensor(forward.outputs[0]).shape.size() < 4)
    return "";
  const Tensor& output = forward.tensor(forward.outputs[0]);
  return fmt::format(
      "the loss is cross_entropy, since none is given: the last axis of '{}' [{}] has the classes; if they lie on "
      "another, transpose the output, or give --loss",
      output.name, fmt::join(output.shape, ", "));
}

// Bad input where the reference is a file of no kind that is known. A name of the zoo may do without "zoo:".
void expect_model_file(const std::string& model) {
  if (model.starts_with("zoo:") || !leads_somewhere(model)) return;
  for (const ModelInfo& known : list_models())
    if (known.name == model) return;
  fail(
      "{}: is not a model file; a model is an .onnx file, a Hugging Face config.json (any name that ends with .json) "
      "or "
      "its folder, or zoo:NAME (`partita models` lists them)",
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
  const std::string config = config_file(request.model);
  if (config.empty()) expect_model_file(request.model);
  Model built = config.empty()
                    ? build_model(request.model, request.bindings, std::move(registry))
                    : build_huggingface(config, read_file(config, "a model's configuration", kMostOfDescription),
                                        request.bindings, std::move(registry));
  LoadedModel model{std::move(built.graph), built.loss, std::move(built.weight_names), std::nullopt, {}};
  model.findings.notes = std::move(built.notes);
  return model;
}

}  // namespace

LoadedModel read_model(const Request& request) {
  Registry registry = registry_for(request);
  LoadedModel model =
      request.model.ends_with(".onnx") ? read_onnx(request, std::move(registry)) : build(request, std::move(registry));
  if (request.loss) model.loss.kind = *request.loss;
  model.loss.scale = request.loss_scale.value_or(default_loss_scale(request.dtype));
  return model;
}

namespace {

// The model with another forward graph of the same names.
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
