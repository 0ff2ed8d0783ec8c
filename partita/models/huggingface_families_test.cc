// Tests the differences of families of Hugging Face's configurations: layers that differ, and fields refused by name.
// tests/e2e/huggingface_test.cc tests that they compute the same as transformers.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "partita/base/error.h"
#include "partita/models/huggingface.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

using nlohmann::json;
using Bindings = std::map<std::string, std::string>;

json config(const std::string& name) {
  std::ifstream file(fmt::format("{}/tests/data/huggingface/{}/config.json", PARTITA_SOURCE_DIR, name));
  return json::parse(file);
}
json changed(const std::string& name, const json& changes) {
  json fields = config(name);
  fields.update(changes);
  return fields;
}
Model build(const json& fields, const Bindings& bindings = {}) {
  static const auto registry = standard_ops();
  return build_huggingface("config.json", fields.dump(), bindings, registry);
}
std::string error_of(const json& fields, const Bindings& bindings = {}) {
  try {
    build(fields, bindings);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "no error";
}
void expect_error(const json& fields, const std::string& part, const Bindings& bindings = {}) {
  const std::string message = error_of(fields, bindings);
  EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
}
// The windows of the layers' attention, 0 if a query sees all before it.
std::vector<double> windows(const Graph& graph) {
  std::vector<double> found;
  for (const Op& op : graph.ops)
    if (op.definition.starts_with("attention")) found.push_back(op.attributes.at("window"));
  return found;
}
int count(const Graph& graph, std::string_view definition) {
  int n = 0;
  for (const Op& op : graph.ops) n += op.definition == definition;
  return n;
}

TEST(HuggingfaceFamilies, LayersThatSeeLess) {
  const Bindings four{{"num_hidden_layers", "4"}, {"steps", "16"}},
      short_one{{"num_hidden_layers", "2"}, {"steps", "3"}};
  auto of = [&](const std::string& name, const json& changes, const Bindings& bindings) {
    return windows(build(changed(name, changes), bindings).graph);
  };
  using List = std::vector<double>;
  EXPECT_EQ(of("mistral-7b-v0.1", {{"sliding_window", 5}}, four), (List{5, 5, 5, 5}));
  EXPECT_EQ(of("mistral-7b-v0.1", {{"sliding_window", nullptr}}, four), (List{0, 0, 0, 0}));
  EXPECT_EQ(of("mistral-7b-v0.1", {{"sliding_window", 5}}, short_one), (List{0, 0}));  // it sees the whole sequence
  EXPECT_EQ(of("qwen2-7b", {{"sliding_window", 5}}, four), (List{0, 0, 0, 0}));
  EXPECT_EQ(of("qwen2-7b", {{"sliding_window", 5}, {"use_sliding_window", true}, {"max_window_layers", 3}}, four),
            (List{0, 0, 0, 5}));
  EXPECT_EQ(
      of("qwen1.5-moe-a2.7b", {{"sliding_window", 5}, {"use_sliding_window", true}, {"max_window_layers", 3}}, four),
      (List{5, 0, 5, 0}));
  EXPECT_EQ(of("gemma-2-9b", {{"sliding_window", 5}}, four), (List{5, 0, 5, 0}));
  EXPECT_EQ(of("gemma-3-1b", {{"sliding_window", 5}, {"sliding_window_pattern", 3}}, four), (List{5, 5, 0, 5}));
  json kinds = json::array();
  for (int i = 0; i < 42; ++i) kinds.push_back(i == 1 ? "sliding_attention" : "full_attention");
  EXPECT_EQ(of("gemma-2-9b", {{"sliding_window", 5}, {"layer_types", kinds}}, four), (List{0, 5, 0, 0}));
  expect_error(changed("gemma-2-9b", {{"sliding_window", nullptr}}), "sliding_window=null");
  expect_error(changed("gemma-3-1b", {{"sliding_window", nullptr}}), "sliding_window=null");
  kinds.erase(0);
  expect_error(changed("gemma-2-9b", {{"layer_types", kinds}}),
               "layer_types has 41 layers, and the model has num_hidden_layers=42");
  kinds.push_back("chunked_attention");
  expect_error(changed("gemma-2-9b", {{"layer_types", kinds}}), "layer_types: \"chunked_attention\" is not supported");
}

TEST(HuggingfaceFamilies, WhichLayersHaveExperts) {
  const Bindings small{{"num_hidden_layers", "4"}, {"steps", "2"}, {"vocab_size", "8"}};
  auto layers = [&](const std::string& name, const json& changes) {
    return count(build(changed(name, changes), small).graph, "expert_dispatch");
  };
  EXPECT_EQ(layers("qwen3-30b-a3b", json::object()), 4);
  EXPECT_EQ(layers("qwen3-30b-a3b", {{"decoder_sparse_step", 2}}), 2);
  EXPECT_EQ(layers("qwen3-30b-a3b", {{"decoder_sparse_step", 2}, {"mlp_only_layers", {3, 7}}}), 1);
  EXPECT_EQ(layers("deepseek-v2-lite", json::object()), 3);
  EXPECT_EQ(layers("deepseek-v3", {{"first_k_dense_replace", 0}}), 4);
  // If tokens may be dropped, experts have places for their share: 16 tokens, each to 8 of 128 experts.
  const Graph graph =
      build(config("qwen3-30b-a3b"), {{"num_hidden_layers", "1"}, {"steps", "16"}, {"capacity", "2"}}).graph;
  for (const Op& op : graph.ops)
    if (op.definition == "expert_dispatch") {
      EXPECT_EQ(op.attributes.at("capacity"), 2);
    }
}

// Layers whose queries and keys are turned by positions.
TEST(HuggingfaceFamilies, LayersWithoutPositions) {
  const Bindings four{{"num_hidden_layers", "4"}, {"steps", "4"}, {"vocab_size", "8"}};
  EXPECT_EQ(count(build(config("smollm3-3b"), four).graph, "rotary"), 3 * 2);
  EXPECT_EQ(count(build(config("llama-4-scout"), four).graph, "rotary"), 3 * 2);
  EXPECT_EQ(
      count(build(changed("smollm3-3b", {{"no_rope_layers", nullptr}, {"no_rope_layer_interval", 2}}), four).graph,
            "rotary"),
      2 * 2);
  expect_error(changed("smollm3-3b", {{"no_rope_layers", {1, 0, 2}}}), "is not a list of 0 and 1");
  expect_error(changed("smollm3-3b", {{"no_rope_layers", {1, 0}}}), "no_rope_layers has 2 layers");
  EXPECT_EQ(windows(build(config("olmo-3-7b"), {{"num_hidden_layers", "4"}, {"steps", "5000"}}).graph),
            (std::vector<double>{4096, 4096, 4096, 0}));
  EXPECT_EQ(windows(build(config("gpt-oss-20b"), {{"num_hidden_layers", "2"}, {"steps", "200"}}).graph),
            (std::vector<double>{128, 0}));
  expect_error(changed("olmo-3-7b", {{"rope_theta", 10000}}), "layers of full_attention alone");
}

// A query that sees a limited number of positions, by chunks or by an indexer, sees all of a sequence that is no
// longer.
TEST(HuggingfaceFamilies, AsLongAsAQuerySees) {
  const auto steps = [](const std::string& name) {
    const Graph graph = build(config(name), {{"num_hidden_layers", "4"}}).graph;
    return graph.tensor(graph.inputs[0]).shape[1];
  };
  EXPECT_EQ(steps("llama-4-scout"), 8192);
  EXPECT_EQ(steps("deepseek-v3.2"), 2048);
  expect_error(config("deepseek-v3.2"),
               "use --bind steps=2048, or, for attention to all keys as DeepSeek-V3's, --bind index_topk=4096",
               {{"steps", "4096"}});
  const json text = {{"model_type", "llama4"},
                     {"text_config", {{"attention_chunk_size", 100}, {"num_hidden_layers", 4}}}};
  expect_error(text, "attention_chunk_size=100: attention in chunks of a sequence of steps=101", {{"steps", "101"}});
  EXPECT_EQ(error_of(text, {{"steps", "101"}, {"attention_chunk_size", "101"}}), "no error");
}

// A family of another name with the class of a known one, by architectures or by the code that is named.
TEST(HuggingfaceFamilies, ByTheClassThatIsNamed) {
  const Bindings one{{"num_hidden_layers", "1"}, {"steps", "4"}};
  EXPECT_EQ(build(config("kimi-k2"), one).graph.name, "deepseek_v3");
  EXPECT_EQ(build(changed("kimi-k2", {{"architectures", nullptr}}), one).graph.name, "deepseek_v3");
  EXPECT_EQ(build(changed("kimi-k2", {{"architectures", nullptr}, {"model_type", nullptr}}), one).graph.name,
            "deepseek_v3");
  expect_error(changed("kimi-k2", {{"auto_map", {{"AutoModelForCausalLM", "modeling_kimi.KimiForCausalLM"}}}}),
               "auto_map");
  expect_error(changed("kimi-k2", {{"architectures", {"KimiForCausalLM"}}, {"auto_map", nullptr}}),
               "model_type='kimi_k2' is not supported");
  expect_error(changed("llama-3-8b", {{"architectures", {"MistralForCausalLM"}}}), "MistralForCausalLM");
}

// The text part of a model of text and images, with a note.
TEST(HuggingfaceFamilies, TextParts) {
  const Bindings one{{"num_hidden_layers", "1"}, {"steps", "4"}};
  for (const char* name : {"gemma-3-4b", "llama-4-scout", "qwen2.5-vl-7b", "qwen3-vl-8b", "qwen3-vl-30b-a3b"}) {
    const Model model = build(config(name), one);
    ASSERT_EQ(model.notes.size(), 1u) << name;
    EXPECT_NE(model.notes[0].find("images"), std::string::npos);
    EXPECT_NE(error_of(changed(name, {{"quantization_config", {{"bits", 4}}}}), one).find("quantized"),
              std::string::npos);
  }
  EXPECT_TRUE(build(config("qwen3-8b"), one).notes.empty());
}

TEST(HuggingfaceFamilies, Dropout) {
  const Bindings half{{"steps", "3"}, {"dropout", "0.5"}};
  auto dropouts = [&](const char* name) { return count(build(config(name), half).graph, "dropout"); };
  for (const char* name :
       {"tiny-mistral", "tiny-qwen2", "tiny-gemma2", "tiny-gemma3", "tiny-olmo2", "tiny-deepseek-v3"})
    EXPECT_EQ(dropouts(name), 2) << name;  // of the attention's weights in two layers
  EXPECT_EQ(dropouts("tiny-phi3"), 2 * 3);
  EXPECT_EQ(dropouts("tiny-neox"), 1 + 2 * 3);
  EXPECT_EQ(dropouts("tiny-opt"), 2 * 3);
}

// As transformers itself writes them.
TEST(HuggingfaceFamilies, FieldsThatSayNothingMayHaveAnyValue) {
  const Bindings one{{"num_hidden_layers", "1"}, {"steps", "3"}};
  for (const char* name : {"qwen2-7b", "qwen3-8b", "qwen1.5-moe-a2.7b", "qwen3-30b-a3b"})
    EXPECT_EQ(
        error_of(changed(name, {{"use_sliding_window", false}, {"sliding_window", 0}, {"max_window_layers", 0}}), one),
        "no error")
        << name;
  const json half = {{"rope_type", "default"}, {"rope_theta", 10000.0}, {"partial_rotary_factor", 0.5}};
  EXPECT_EQ(error_of(changed("phi-3-mini", {{"rope_parameters", half}, {"partial_rotary_factor", 0.5}}), one),
            "no error");
  EXPECT_NE(error_of(changed("phi-3-mini", {{"rope_parameters", half}, {"partial_rotary_factor", 0.25}}), one)
                .find("leave one of them out"),
            std::string::npos);
}

TEST(HuggingfaceFamilies, WhatIsNotSupportedIsNamed) {
  expect_error(changed("mistral-7b-v0.1", {{"layer_types", {"sliding_attention"}}}), "layer_types");
  expect_error(changed("mistral-7b-v0.1", {{"attention_bias", true}}),
               "attention_bias=true says nothing in a mistral model");
  expect_error(changed("llama-3-8b", {{"sliding_window", 4096}}), "sliding_window=4096 says nothing in a llama model");
  expect_error(changed("llama-3-8b", {{"num_local_experts", 8}}), "num_local_experts=8 says nothing in a llama model");
  expect_error(changed("llama-3-8b", {{"logits_scaling", 16}}), "logits_scaling=16");
  expect_error(changed("llama-3-8b", {{"partial_rotary_factor", 0.5}}), "positions of a part of each head");
  expect_error(changed("qwen2-7b", {{"rope_scaling", {{"type", "mrope"}, {"mrope_section", {16, 24, 24}}}}}),
               "rope_scaling.mrope_section");
  expect_error(changed("qwen2-7b", {{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}}),
               "rope_parameters.full_attention");
  expect_error(changed("gemma-2b", {{"use_bidirectional_attention", true}}), "use_bidirectional_attention=true");
  expect_error(changed("gemma-3-1b", {{"attn_logit_softcapping", 30.0}}), "attn_logit_softcapping");
  expect_error(changed("phi-3-mini", {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}),
               "a phi3 model has longrope or nothing");
  expect_error(
      changed("phi-3-mini", {{"rope_scaling", {{"type", "su"}, {"short_factor", {1.0}}, {"long_factor", {1.0}}}}}),
      "short_factor is not a list of 48 positive numbers");
  expect_error(changed("phi-3-mini", {{"auto_map", {{"AutoModelForCausalLM", "modeling_other.OtherForCausalLM"}}}}),
               "auto_map");
  expect_error(changed("gpt-neox-20b", {{"rotary_pct", 1.5}}), "rotary_pct=1.5");
  expect_error(changed("opt-125m", {{"layerdrop", 0.1}}), "layers left out at random");
  expect_error(config("opt-125m"), "steps=4096", {{"steps", "4096"}});
  expect_error(changed("deepseek-v2-lite", {{"norm_topk_prob", true}}), "norm_topk_prob=true");
  expect_error(changed("deepseek-v2-lite", {{"topk_method", "noaux_tc"}}), "greedy and group_limited_greedy");
  expect_error(changed("deepseek-v2-lite", {{"num_key_value_heads", 4}}), "latent attention");
  expect_error(changed("deepseek-v3", {{"n_group", 7}}), "256 experts are not n_group=7 equal groups");
  expect_error(changed("deepseek-v3", {{"topk_group", 9}}), "topk_group=9 is more than n_group=8");
  expect_error(changed("deepseek-v3", {{"scoring_func", "softmax"}}), "scoring_func");
  expect_error(changed("deepseek-v3", {{"moe_layer_freq", 2}}), "moe_layer_freq=2");
  expect_error(changed("qwen3-coder-30b-a3b", {{"use_qk_norm", false}}), "use_qk_norm=false");
  expect_error(changed("qwen3-8b", {{"use_qk_norm", false}}), "use_qk_norm=false");
  expect_error(changed("qwen2-7b", {{"attention_bias", false}}), "always has biases");
  EXPECT_EQ(error_of(changed("qwen2-7b", {{"attention_bias", true}}), {{"num_hidden_layers", "1"}, {"steps", "2"}}),
            "no error");
  expect_error(changed("llama-3-8b", {{"use_qk_norm", true}}), "use_qk_norm=true says nothing in a llama model");
  expect_error(changed("qwen3-30b-a3b", {{"imbalance", 0.5}}), "imbalance=0.5");
  expect_error(config("qwen3-30b-a3b"), "leave out one of the two", {{"imbalance", "1.5"}, {"capacity", "1.5"}});
  expect_error(changed("deepseek-v3", {{"quantization_config", {{"quant_method", "fp8"}}}}),
               "--bind quantization_config=null");
  EXPECT_EQ(error_of(changed("deepseek-v3", {{"quantization_config", {{"quant_method", "fp8"}}}}),
                     {{"quantization_config", "null"}, {"num_hidden_layers", "1"}, {"steps", "2"}}),
            "no error");
}

// A field of any kind and size is read, or is one error of bad input.
TEST(ManyHuggingfaceFamilies, AnyValueOfAnyField) {
  const std::vector<json> values{nullptr,
                                 true,
                                 "x",
                                 -1,
                                 0,
                                 1,
                                 3,
                                 0.5,
                                 1e30,
                                 INT64_MAX,
                                 json::array(),
                                 json::object(),
                                 {{"rope_type", 1}},
                                 {1, 2},
                                 {{"factor", 2.0}, {"type", "yarn"}}};
  int built = 0, refused = 0;
  for (const char* name :
       {"tiny-mistral", "tiny-qwen3", "tiny-gemma3", "tiny-phi3-long", "tiny-neox", "tiny-opt-after", "tiny-qwen2-moe",
        "tiny-deepseek-v2-groups", "tiny-deepseek-v3", "tiny-deepseek-v3.2", "tiny-olmo3", "tiny-smollm3",
        "tiny-granite", "tiny-glm4-moe", "tiny-gpt-oss", "tiny-llama4"}) {
    const json fields = config(name);
    for (const auto& [field, given] : fields.items())
      for (const json& value : values) {
        json other = fields;
        other[field] = value;
        (error_of(other, {{"steps", "2"}}) == "no error" ? built : refused) += 1;
      }
  }
  EXPECT_GT(built, 1000);
  EXPECT_GT(refused, 800);
}

}  // namespace
}  // namespace partita
