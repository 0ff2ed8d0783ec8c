// Reads the fields of Hugging Face's configurations that all families have.
#include "partita/models/huggingface_fields.h"

namespace partita::huggingface {
namespace {

constexpr int64_t kMostLayers = 10'000;
constexpr int64_t kMostSteps =
    8192;  // unless `steps` is given: a sequence may have as many positions as the model, and no more than this

// Families whose published configurations name code that transformers' own class has replaced, with the beginning of
// the code's class names.
const std::map<std::string, std::string> kAdoptedCode{
    {"phi3", "Phi3"}, {"deepseek_v2", "DeepseekV2"}, {"deepseek_v3", "DeepseekV3"}, {"deepseek_v32", "DeepseekV32"}};

// Tells whether `auto_map` names the adopted code's classes only: {"AutoModel": "modeling_phi3.Phi3Model"}. A tokenizer
// is no part of the model.
bool is_adopted(const std::string& family, const json& auto_map) {
  const auto prefix = kAdoptedCode.find(family);
  if (prefix == kAdoptedCode.end() || !auto_map.is_object()) return false;
  const auto entries = auto_map.items();
  return std::all_of(entries.begin(), entries.end(), [&](const auto& entry) {
    if (entry.key() == "AutoTokenizer") return true;
    if (!entry.value().is_string()) return false;
    const std::string text = entry.value();
    return text.substr(text.rfind('.') + 1).starts_with(prefix->second);
  });
}

}  // namespace

// transformers' name of an activation -> an operation.
const std::map<std::string, std::string, std::less<>> kActivations{{"gelu", "gelu"},
                                                                   {"gelu_python", "gelu"},
                                                                   {"gelu_new", "gelu_tanh"},
                                                                   {"gelu_pytorch_tanh", "gelu_tanh"},
                                                                   {"gelu_fast", "gelu_tanh"},
                                                                   {"gelu_accurate", "gelu_tanh"},
                                                                   {"gelu_python_tanh", "gelu_tanh"},
                                                                   {"relu", "relu"},
                                                                   {"silu", "silu"},
                                                                   {"swish", "silu"},
                                                                   {"tanh", "tanh"},
                                                                   {"sigmoid", "sigmoid"},
                                                                   {"mish", "mish"}};

const CommonFields kUsualFields{"hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"};

void read_common(TextModel& m, Reading& in, const CommonFields& names, const CommonDefaults& defaults) {
  Fields& f = in.f;
  m.name = in.family;
  m.tokens = "input_ids";
  m.batch = in.options.batch.value_or(1);
  m.hidden = f.integer(names.hidden, defaults.hidden);
  m.layers = f.integer(names.layers, defaults.layers, kMostLayers);
  m.heads = f.integer(names.heads, defaults.heads);
  m.steps = in.options.steps.value_or(std::min(f.integer(names.positions, defaults.positions), kMostSteps));
  f.absent("quantization_config",
           "quantized weights are not supported; take the configuration of the model as it was before, or leave the "
           "field out with --bind quantization_config=null");
  if (!f.has("auto_map") || !is_adopted(in.family, *f.find("auto_map")))
    f.absent(
        "auto_map",
        "the model has code of its own, which is not looked at; remove the field, as with --bind auto_map=null, if "
        "it is as transformers' class");
  f.absent("per_layer_config", "layers that differ are not supported");
  f.only("is_encoder_decoder", false, "a model with encoder and decoder");
}

void check_steps(Fields& f, const TextModel& m, const char* field, int64_t positions) {
  if (m.steps > positions)
    f.problem("steps={}, and the model has {}={} positions; use --bind steps=N", m.steps, field, positions);
}

namespace {

// A list with an entry a layer; if the number of layers is bound, its beginning.
void check_count(Reading& in, const json& list, const char* field, int64_t layers) {
  const auto& bound = in.options.fields;
  const bool fewer = std::find(bound.begin(), bound.end(), "num_hidden_layers") != bound.end();
  const auto listed = static_cast<int64_t>(list.size());
  if (fewer ? listed < layers : listed != layers)
    in.f.problem("{} has {} layers, and the model has num_hidden_layers={}", field, listed, layers);
}

}  // namespace

std::vector<bool> read_turned_layers(Reading& in, int64_t layers) {
  const int64_t interval = in.f.integer("no_rope_layer_interval", 4);
  std::vector<bool> turned;
  const json* listed = in.f.find("no_rope_layers");
  if (listed && !listed->empty()) {
    const bool right = listed->is_array() && std::all_of(listed->begin(), listed->end(),
                                                         [](const json& layer) { return layer == 0 || layer == 1; });
    if (!right) in.f.problem("{} is not a list of 0 and 1", in.f.shown("no_rope_layers"));
    else check_count(in, *listed, "no_rope_layers", layers);
    if (right)
      for (const json& layer : *listed) turned.push_back(layer == 1);
  } else {
    for (int64_t i = 0; i < layers; ++i) turned.push_back((i + 1) % interval != 0);
  }
  turned.resize(static_cast<std::size_t>(layers));
  return turned;
}

std::vector<bool> read_local_layers(Reading& in, int64_t layers, const std::function<bool(int64_t)>& is_local) {
  std::vector<bool> local;
  const json* types = in.f.find("layer_types");
  if (!types || !types->is_array()) {
    if (types) in.f.problem("{} is not a list of layers' kinds", in.f.shown("layer_types"));
    for (int64_t i = 0; i < layers; ++i) local.push_back(is_local(i));
    return local;
  }
  check_count(in, *types, "layer_types", layers);
  for (const json& type : *types) {
    if (type != "full_attention" && type != "sliding_attention")
      in.f.problem("layer_types: {} is not supported; there are full_attention and sliding_attention",
                   type.dump(-1, ' ', false, json::error_handler_t::replace));
    local.push_back(type == "sliding_attention");
  }
  local.resize(static_cast<std::size_t>(layers));
  return local;
}

}  // namespace partita::huggingface
