// Which model a configuration of Hugging Face is, and the options that it is built with.
#include "partita/models/huggingface.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <vector>

#include "partita/base/json_nesting.h"
#include "partita/models/huggingface_fields.h"
#include "partita/models/huggingface_guess.h"

namespace partita {

using namespace huggingface;

namespace {

struct Architecture {
  const char *family, *name;  // model_type, and transformers' class
  Model (*read)(Reading& in);
};
// The first of a family is meant where a configuration names none.
constexpr Architecture kArchitectures[] = {{"bert", "BertForMaskedLM", read_bert},
                                           {"bert", "BertForPreTraining", read_bert},
                                           {"bert", "BertForSequenceClassification", read_bert},
                                           {"bert", "BertModel", read_bert},
                                           {"deepseek_v2", "DeepseekV2ForCausalLM", read_deepseek_v2},
                                           {"deepseek_v3", "DeepseekV3ForCausalLM", read_deepseek_v3},
                                           {"gemma", "GemmaForCausalLM", read_gemma},
                                           {"gemma2", "Gemma2ForCausalLM", read_gemma2},
                                           {"gemma3_text", "Gemma3ForCausalLM", read_gemma3},
                                           {"gpt2", "GPT2LMHeadModel", read_gpt2},
                                           {"gpt_neox", "GPTNeoXForCausalLM", read_gpt_neox},
                                           {"llama", "LlamaForCausalLM", read_llama},
                                           {"mistral", "MistralForCausalLM", read_mistral},
                                           {"mixtral", "MixtralForCausalLM", read_mixtral},
                                           {"olmo2", "Olmo2ForCausalLM", read_olmo2},
                                           {"opt", "OPTForCausalLM", read_opt},
                                           {"phi3", "Phi3ForCausalLM", read_phi3},
                                           {"qwen2", "Qwen2ForCausalLM", read_qwen2},
                                           {"qwen2_moe", "Qwen2MoeForCausalLM", read_qwen2_moe},
                                           {"qwen3", "Qwen3ForCausalLM", read_qwen3},
                                           {"qwen3_moe", "Qwen3MoeForCausalLM", read_qwen3_moe}};

// Families of which a part is supported, and how to have it.
const std::map<std::string, std::string> kParts{
    {"gemma3",
     "a model of text and images, which is not supported; its text part is: write text_config's fields into a "
     "config.json of its own, with model_type gemma3_text"}};

// Fields that say something in one family and nothing in transformers' class of another, with what they may say there.
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

// The family, with the architecture written into `options`.
std::string family_of(const std::string& path, const json& config, Options& options) {
  const json* type =
      config.contains("model_type") && config["model_type"].is_string() ? &config["model_type"] : nullptr;
  const json* classes =
      config.contains("architectures") && config["architectures"].is_array() ? &config["architectures"] : nullptr;
  std::string family = type ? type->get<std::string>() : "";
  std::set<std::string> families;
  for (const Architecture& a : kArchitectures) families.insert(a.family);
  const bool chosen = !options.architecture.empty();
  if (!chosen && classes && !classes->empty() && classes->front().is_string()) options.architecture = classes->front();
  if (!type) {
    for (const Architecture& a : kArchitectures)
      if (a.name == options.architecture) family = a.family;
    if (family.empty()) {
      const std::string look = looks_like(keys_of(config));
      fail("{}: model_type is missing; {}", path,
           look.empty() ? fmt::format("there are: {}", fmt::join(families, ", ")) : look);
    }
  }
  if (const auto part = kParts.find(family); part != kParts.end())
    fail("{}: model_type='{}': {}", path, family, part->second);
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
  expect_shallow_json(text, path);
  json config = json::parse(text, nullptr, false);
  if (config.is_discarded()) fail("{}: not JSON", path);
  if (!config.is_object()) fail("{}: not a model's configuration: a JSON object is needed", path);
  if (config.contains("schema_version")) fail("{}: a plan, not a model; simulate, check, train and run take it", path);
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
  return chosen->read(in);
}

}  // namespace partita
