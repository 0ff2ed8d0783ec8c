// Finds the model of a Hugging Face configuration, and the options that it is built with.
#include "partita/models/huggingface.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <vector>

#include "partita/base/json_nesting.h"
#include "partita/models/huggingface_fields.h"
#include "partita/models/huggingface_guess.h"
#include "partita/models/huggingface_text_part.h"

namespace partita {

using namespace huggingface;

namespace {

struct Architecture {
  const char *family, *name;  // model_type, and transformers' class
  Model (*read)(Reading& in);
};
// The first of a family is meant if a configuration names none.
constexpr Architecture kArchitectures[] = {
    {"bert", "BertForMaskedLM", read_bert},
    {"bert", "BertForPreTraining", read_bert},
    {"bert", "BertForSequenceClassification", read_bert},
    {"bert", "BertModel", read_bert},
    {"deepseek_v2", "DeepseekV2ForCausalLM", read_deepseek_v2},
    {"deepseek_v3", "DeepseekV3ForCausalLM", read_deepseek_v3},
    {"deepseek_v32", "DeepseekV32ForCausalLM", read_deepseek_v32},
    {"gemma", "GemmaForCausalLM", read_gemma},
    {"gemma2", "Gemma2ForCausalLM", read_gemma2},
    {"gemma3_text", "Gemma3ForCausalLM", read_gemma3},
    {"gemma3_text", "Gemma3ForConditionalGeneration", read_gemma3},
    {"glm4_moe", "Glm4MoeForCausalLM", read_glm4_moe},
    {"gpt2", "GPT2LMHeadModel", read_gpt2},
    {"gpt_neox", "GPTNeoXForCausalLM", read_gpt_neox},
    {"gpt_oss", "GptOssForCausalLM", read_gpt_oss},
    {"granite", "GraniteForCausalLM", read_granite},
    {"llama", "LlamaForCausalLM", read_llama},
    {"llama4_text", "Llama4ForCausalLM", read_llama4},
    {"llama4_text", "Llama4ForConditionalGeneration", read_llama4},
    {"mistral", "MistralForCausalLM", read_mistral},
    {"mixtral", "MixtralForCausalLM", read_mixtral},
    {"olmo2", "Olmo2ForCausalLM", read_olmo2},
    {"olmo3", "Olmo3ForCausalLM", read_olmo3},
    {"opt", "OPTForCausalLM", read_opt},
    {"phi3", "Phi3ForCausalLM", read_phi3},
    {"qwen2", "Qwen2ForCausalLM", read_qwen2},
    {"qwen2_vl_text", "Qwen2VLForConditionalGeneration", read_qwen2_vl},
    {"qwen2_5_vl_text", "Qwen2_5_VLForConditionalGeneration", read_qwen2_vl},
    {"qwen2_moe", "Qwen2MoeForCausalLM", read_qwen2_moe},
    {"qwen3", "Qwen3ForCausalLM", read_qwen3},
    {"qwen3_moe", "Qwen3MoeForCausalLM", read_qwen3_moe},
    {"qwen3_vl_text", "Qwen3VLForConditionalGeneration", read_qwen3_vl},
    {"qwen3_vl_moe_text", "Qwen3VLMoeForConditionalGeneration", read_qwen3_vl_moe},
    {"smollm3", "SmolLM3ForCausalLM", read_smollm3}};

// Fields with a meaning in one family and none in transformers' class of another, with their allowed values there.
const std::map<std::string, std::vector<json>> kOfOthers{{"attention_bias", {false}},
                                                         {"qkv_bias", {false}},
                                                         {"mlp_bias", {false}},
                                                         {"use_bias", {false}},
                                                         {"head_dim", {}},
                                                         {"sliding_window", {}},
                                                         {"layer_types", {}},
                                                         {"use_sliding_window", {false}},
                                                         {"partial_rotary_factor", {1, 1.0}},
                                                         {"rotary_pct", {1, 1.0}},
                                                         {"use_mrope", {false}},
                                                         {"no_rope_layers", {}},
                                                         {"logit_scale", {1, 1.0}},
                                                         {"logits_scaling", {1, 1.0}},
                                                         {"residual_multiplier", {1, 1.0}},
                                                         {"embedding_multiplier", {1, 1.0}},
                                                         {"attention_multiplier", {}},
                                                         {"final_logit_softcapping", {}},
                                                         {"attn_logit_softcapping", {}},
                                                         {"query_pre_attn_scalar", {}},
                                                         {"use_qk_norm", {false}},
                                                         {"qk_layernorm", {false}},
                                                         {"clip_qkv", {}},
                                                         {"alibi", {false}},
                                                         {"parallel_attn", {false}},
                                                         {"use_parallel_residual", {false}},
                                                         {"use_bidirectional_attention", {false}},
                                                         {"num_experts", {0, 1}},
                                                         {"num_local_experts", {0, 1}},
                                                         {"n_routed_experts", {0}},
                                                         {"n_shared_experts", {0}},
                                                         {"moe_intermediate_size", {}},
                                                         {"shared_expert_intermediate_size", {0}},
                                                         {"kv_lora_rank", {}},
                                                         {"q_lora_rank", {}},
                                                         {"word_embed_proj_dim", {}},
                                                         {"add_cross_attention", {false}},
                                                         {"text_config", {}}};

void check_fields_of_others(const std::string& family, const json& config, Fields& fields) {
  for (const auto& [field, harmless] : kOfOthers) {
    if (fields.asked(field) || !fields.has(field) || fields.find(field)->empty()) continue;
    if (std::find(harmless.begin(), harmless.end(), config[field]) == harmless.end())
      fields.problem(
          "{} says nothing in a {} model of transformers, and something in others; "
          "remove it, or correct model_type",
          fields.shown(field), family);
  }
}

std::vector<std::string> architectures_of(const std::string& family) {
  std::vector<std::string> names;
  for (const Architecture& a : kArchitectures)
    if (family.empty() || a.family == family) names.push_back(a.name);
  return names;
}

std::vector<std::string> keys_of(const json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

// The class that a configuration names: the first of `architectures`, or else that of its code; empty: none.
std::string class_of(const json& config) {
  const json classes = config.value("architectures", json());
  if (classes.is_array() && !classes.empty() && classes.front().is_string()) return classes.front();
  const json code = config.value("auto_map", json());
  const json model = code.is_object() ? code.value("AutoModelForCausalLM", json()) : json();
  if (!model.is_string()) return "";
  const std::string name = model;  // "modeling_deepseek.DeepseekV3ForCausalLM"
  return name.substr(name.rfind('.') + 1);
}

// The family, with the architecture written into `options`.
std::string family_of(const std::string& path, const json& config, Options& options) {
  const json* type =
      config.contains("model_type") && config["model_type"].is_string() ? &config["model_type"] : nullptr;
  std::string family = type ? type->get<std::string>() : "";
  std::set<std::string> families;
  for (const Architecture& a : kArchitectures) families.insert(a.family);
  const bool chosen = !options.architecture.empty();
  if (!chosen) options.architecture = class_of(config);
  if (!type) {
    for (const Architecture& a : kArchitectures)
      if (a.name == options.architecture) family = a.family;
    if (family.empty()) {
      const std::string look = looks_like(keys_of(config));
      fail("{}: model_type is missing; {}", path,
           look.empty() ? fmt::format("there are: {}", fmt::join(families, ", ")) : look);
    }
  }
  // A family of its own name, as kimi_k2, may have the class of one that is known.
  const auto named = std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                                  [&](const Architecture& a) { return a.name == options.architecture; });
  if (!families.contains(family) && named != std::end(kArchitectures)) family = named->family;
  if (!families.contains(family))
    fail("{}: model_type='{}' is not supported; there are: {}", path, family, fmt::join(families, ", "));
  const std::vector<std::string> names = architectures_of(family);
  if (options.architecture.empty()) options.architecture = names.front();
  if (std::find(names.begin(), names.end(), options.architecture) == names.end())
    fail("{}: {} '{}' is not supported for model_type='{}'; there are: {}{}", path,
         chosen ? "architecture" : "architectures:", options.architecture, family, fmt::join(names, ", "),
         chosen ? "" : "; choose one with --bind architecture=NAME");
  return family;
}

// Options, and fields that take the place of the configuration's.
Options take_bindings(const std::string& path, json& config, const std::map<std::string, std::string>& bindings) {
  Options options;
  for (const auto& [name, value] : bindings) {
    int64_t integer = 0;
    double number = 0;
    const char *begin = value.data(), *end = begin + value.size();
    if (name == "batch" || name == "steps") {
      const auto [last, error] = std::from_chars(begin, end, integer);
      if (error != std::errc() || last != end || integer < 1 || integer > INT32_MAX)
        fail("{}: {}={} is not a positive integer", path, name, value);
      (name == "batch" ? options.batch : options.steps) = integer;
    } else if (name == "dropout") {
      const auto [last, error] = std::from_chars(begin, end, number);
      if (error != std::errc() || last != end || !(number >= 0 && number < 1))
        fail("{}: dropout={} is not in [0, 1)", path, value);
      options.dropout = number;
    } else if (name == "architecture") {
      options.architecture = value;
    } else {
      const json given = json::parse(value, nullptr, false);
      config[name] = given.is_discarded() ? json(value) : given;
      options.fields.push_back(name);
    }
  }
  return options;
}

}  // namespace

bool is_huggingface_config(std::string_view text) {
  const json config = json::parse(text, nullptr, false);
  return config.is_object() && !config.contains("schema_version") &&
         (config.contains("model_type") || config.contains("architectures") || !looks_like(keys_of(config)).empty());
}

Model build_huggingface(const std::string& path, std::string_view text,
                        const std::map<std::string, std::string>& bindings,
                        std::shared_ptr<const OpRegistry> registry) {
  validate_json_depth(text, path);
  json config = json::parse(text, nullptr, false);
  if (config.is_discarded()) fail("{}: not JSON", path);
  if (!config.is_object()) fail("{}: not a model's configuration: a JSON object is needed", path);
  if (config.contains("schema_version")) fail("{}: a plan, not a model; simulate, check, train and run take it", path);
  const std::string left_out = take_text_part(config);
  Options options = take_bindings(path, config, bindings);
  const std::string family = family_of(path, config, options);
  std::vector<std::string> problems;
  Fields fields(config, "", problems);
  // Ends with all problems before a graph is built of fields that are wrong.
  const std::function<void()> stop = [&] {
    check_fields_of_others(family, config, fields);
    for (const std::string& field : options.fields)
      if (!fields.asked(field))
        fields.problem(
            "there is no option '{}', and no field of that name that a {} model has; options are batch, steps, dropout "
            "and architecture",
            field, family);
    if (problems.size() == 1) fail("{}: {}", path, problems[0]);
    if (!problems.empty())
      fail("{}: {} fields are wrong or not supported:\n  {}", path, problems.size(), fmt::join(problems, "\n  "));
  };
  const auto chosen = std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                                   [&](const Architecture& a) { return a.name == options.architecture; });
  Reading in{family, config, fields, options, problems, stop, std::move(registry)};
  Model model = chosen->read(in);
  if (!left_out.empty()) model.notes.push_back(left_out);
  return model;
}

}  // namespace partita
