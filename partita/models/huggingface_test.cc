// Tests the models of Hugging Face's configurations, and refused configurations.
#include "partita/models/huggingface.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/graph/reference.h"
#include "partita/models/transformers.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

using nlohmann::json;
using Bindings = std::map<std::string, std::string>;

// tests/data/huggingface/NAME/config.json
std::string config(const std::string& name) {
  std::ifstream file(fmt::format("{}/tests/data/huggingface/{}/config.json", PARTITA_SOURCE_DIR, name));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
std::string changed(const std::string& name, const json& changes) {
  json fields = json::parse(config(name));
  fields.update(changes);
  return fields.dump();
}
Model build(const std::string& text, const Bindings& bindings = {}) {
  static const auto registry = standard_ops();
  return build_huggingface("config.json", text, bindings, registry);
}
std::string error_of(const std::string& text, const Bindings& bindings = {}) {
  try {
    build(text, bindings);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "no error";
}
int64_t parameters(const Graph& graph) {
  int64_t count = 0;
  for (const Tensor& t : graph.tensors)
    if (t.role == Role::kParameter) count += volume(t.shape);
  return count;
}
int count(const Graph& graph, std::string_view definition) {
  int n = 0;
  for (const Op& op : graph.ops) n += op.definition == definition;
  return n;
}

const std::string kFamilies =
    "bert, deepseek_v2, deepseek_v3, deepseek_v32, gemma, gemma2, gemma3_text, glm4_moe, gpt2, gpt_neox, gpt_oss, "
    "granite, llama, llama4_text, mistral, mixtral, olmo2, olmo3, opt, phi3, qwen2, qwen2_5_vl_text, qwen2_moe, "
    "qwen2_vl_text, qwen3, qwen3_moe, qwen3_vl_moe_text, qwen3_vl_text, smollm3";

// The counts of the models that the configurations are published with, as transformers counts them
// (tests/data/make_huggingface.py --counts); they equal the published ones.
TEST(Huggingface, ParameterCounts) {
  std::ifstream file(PARTITA_SOURCE_DIR "/tests/data/huggingface/parameters.json");
  const json counts = json::parse(file);
  EXPECT_EQ(counts.at("mistral-7b-v0.1"), 7'241'732'096);
  EXPECT_EQ(counts.at("phi-3-mini"), 3'821'079'552);
  EXPECT_EQ(counts.at("qwen3-coder-30b-a3b"), 30'532'122'624);
  EXPECT_EQ(counts.at("gpt-oss-20b"), 20'914'757'184);
  EXPECT_EQ(counts.size(), 39u);
  for (const auto& [name, expected] : counts.items())
    EXPECT_EQ(parameters(build(config(name), {{"steps", "16"}}).graph), expected) << name;
  EXPECT_EQ(parameters(build(config("bert-base-uncased"), {{"architecture", "BertModel"}, {"steps", "16"}}).graph),
            109'482'240);
  EXPECT_EQ(
      parameters(build(config("bert-base-uncased"), {{"architecture", "BertForPreTraining"}, {"steps", "16"}}).graph),
      110'106'428);
  EXPECT_EQ(parameters(build(config("bert-base-uncased"),
                             {{"architecture", "BertForSequenceClassification"}, {"num_labels", "5"}})
                           .graph),
            109'482'240 + 5 * 769);
}

// transformers' defaults are those of Llama-2-7B, GPT-2 and BERT base.
TEST(Huggingface, DefaultsAreTransformersOwn) {
  EXPECT_EQ(parameters(build(R"({"model_type": "llama"})").graph), 6'738'415'616);
  EXPECT_EQ(parameters(build(R"({"model_type": "gpt2"})").graph), 124'439'808);
  EXPECT_EQ(parameters(build(R"({"model_type": "mixtral"})", {{"steps", "16"}}).graph), 46'702'792'704);
  EXPECT_EQ(parameters(build(R"({"architectures": ["BertForMaskedLM"]})").graph), 109'514'298);
  EXPECT_EQ(parameters(build(R"({"model_type": "gpt2", "tie_word_embeddings": false, "n_inner": null})").graph),
            124'439'808 + 50257 * 768);
}

TEST(Huggingface, OptionsAndReplacedFields) {
  const Model model =
      build(config("gpt2"), {{"batch", "4"}, {"steps", "32"}, {"num_hidden_layers", "2"}, {"dropout", "0"}});
  const Graph& graph = model.graph;
  EXPECT_EQ(graph.tensor(graph.inputs[0]).name, "input_ids");
  EXPECT_EQ(graph.tensor(graph.inputs[0]).shape, (Shape{4, 32}));
  EXPECT_EQ(count(graph, "attention"), 2);
  EXPECT_EQ(count(graph, "dropout"), 0);
  const Graph long_one = build(config("llama-3.1-405b"), {{"num_hidden_layers", "1"}}).graph;
  EXPECT_EQ(long_one.tensor(long_one.inputs[0]).shape, (Shape{1, 8192}));
  EXPECT_EQ(build(config("bert-base-uncased"),
                  {{"architecture", "BertForSequenceClassification"}, {"problem_type", "multi_label_classification"}})
                .loss.kind,
            "bce_with_logits");
  EXPECT_EQ(build(config("bert-base-uncased"), {{"architecture", "BertForSequenceClassification"}, {"num_labels", "1"}})
                .loss.kind,
            "mse");
}

// GPT-2's and BERT's configurations have dropout of the attention's weights, which one operation has not.
TEST(Huggingface, DropoutIsTheConfigurations) {
  const Graph graph = build(config("gpt2"), {{"steps", "8"}}).graph;
  EXPECT_EQ(count(graph, "dropout"), 1 + 12 * 3);
  EXPECT_EQ(count(graph, "attention"), 0);
  EXPECT_EQ(count(graph, "softmax"), 12);
}

// Without its dropout, attention of elementary operations is attention: with a window, with heads that share keys.
TEST(Huggingface, ElementaryAttentionIsAttention) {
  const auto registry = standard_ops();
  for (const int64_t window : {0, 3}) {
    std::vector<std::vector<double>> results;
    for (const double dropout : {0.0, 0.25}) {
      Llama m;
      m.name = "llama", m.activation = "silu", m.dtype = DType::kFloat64;
      m.batch = 2, m.steps = 5, m.hidden = 8, m.heads = 4, m.key_heads = 2, m.size = 4, m.inner = 6, m.vocabulary = 7;
      m.rotaries = {{.frequencies = rotary_frequencies(100, 4)}};
      m.kinds = {{.window = window}}, m.attention_dropout = dropout;
      const Model model = build_llama(m, registry);
      EXPECT_EQ(count(model.graph, "attention"), dropout == 0 ? 1 : 0);
      const Graph graph = evaluation_graph(model.graph);
      std::map<TensorId, tdl::Array> values;
      Rng rng(7);
      for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
        const Tensor& t = graph.tensors[i];
        if (t.role == Role::kInput) {
          std::vector<int64_t> ids;
          for (int64_t n = 0; n < volume(t.shape); ++n) ids.push_back(n * 3 % 7);
          values[TensorId(i)] = tdl::int_array(t.shape, ids);
        } else if (t.role == Role::kParameter) {
          std::vector<double> numbers;
          for (int64_t n = 0; n < volume(t.shape); ++n) numbers.push_back(rng.normal());
          values[TensorId(i)] = tdl::real_array(t.shape, numbers);
        }
      }
      reference_run(graph, values);
      results.push_back(values.at(graph.outputs[0]).reals);
    }
    ASSERT_EQ(results[0].size(), results[1].size());
    for (std::size_t i = 0; i < results[0].size(); ++i) EXPECT_NEAR(results[0][i], results[1][i], 1e-12);
  }
}

TEST(Huggingface, ErrorsNameTheFieldAndTheRemedy) {
  EXPECT_EQ(error_of("{"), "config.json: not JSON");
  EXPECT_EQ(error_of("[1]"), "config.json: not a model's configuration: a JSON object is needed");
  EXPECT_EQ(error_of("{}"), "config.json: model_type is missing; there are: " + kFamilies);
  EXPECT_EQ(
      error_of(
          R"({"hidden_size": 8, "type_vocab_size": 2, "pooler_type": "first_token_transform", "num_hidden_layers": 1})"),
      "config.json: model_type is missing; it looks like BERT, as Google published it (type_vocab_size, pooler_type, "
      "hidden_size); pass --bind architecture=BertForMaskedLM");
  EXPECT_NE(error_of(R"({"dim": 4096, "n_layers": 32, "n_heads": 32})").find("it looks like Llama's params.json"),
            std::string::npos);
  EXPECT_EQ(error_of(R"({"model_type": "t5"})"),
            "config.json: model_type='t5' is not supported; there are: " + kFamilies);
  EXPECT_EQ(error_of(R"({"schema_version": 1})"),
            "config.json: a plan, not a model; simulate, check, train and run take it");
  EXPECT_EQ(error_of(changed("llama-3-8b", {{"architectures", {"LlamaForTokenClassification"}}})),
            "config.json: architectures: 'LlamaForTokenClassification' is not supported for model_type='llama'; "
            "there are: LlamaForCausalLM; choose one with --bind architecture=NAME");
  EXPECT_EQ(error_of(config("gpt2"), {{"architecture", "BertModel"}}),
            "config.json: architecture 'BertModel' is not supported for model_type='gpt2'; there are: GPT2LMHeadModel");
  EXPECT_EQ(error_of(changed("llama-3-8b", {{"rope_scaling", {{"rope_type", "su"}, {"factor", 4.0}}}})),
            "config.json: rope_scaling.rope_type=\"su\" is not supported; there are default, linear, dynamic, llama3, "
            "yarn and longrope; without the field the model has the positions that it was first trained with");
  EXPECT_EQ(error_of(changed("llama-3-8b", {{"hidden_size", 4098}})),
            "config.json: hidden_size=4098 is not a multiple of num_attention_heads=32; give head_dim if it is meant");
  EXPECT_EQ(error_of(changed("gpt2", {{"n_embd", 100}})), "config.json: n_embd=100 is not a multiple of n_head=12");
  EXPECT_EQ(error_of(config("gpt2"), {{"steps", "2048"}}),
            "config.json: steps=2048, and the model has n_positions=1024 positions; use --bind steps=N");
  EXPECT_EQ(error_of(config("gpt2"), {{"batch", "0"}}), "config.json: batch=0 is not a positive integer");
  EXPECT_EQ(error_of(config("gpt2"), {{"depth", "3"}}),
            "config.json: there is no option 'depth', and no field of that name that a gpt2 model has; options are "
            "batch, steps, dropout and architecture");
}

TEST(Huggingface, AllThatIsWrongIsInOneError) {
  const std::string message = error_of(changed("llama-3-8b", {{"hidden_size", "large"},
                                                              {"num_hidden_layers", -1},
                                                              {"num_attention_heads", 32.5},
                                                              {"num_key_value_heads", 5},
                                                              {"hidden_act", "step"},
                                                              {"rms_norm_eps", 0},
                                                              {"attention_bias", "no"},
                                                              {"rope_scaling", {{"type", "llama3"}, {"factor", 8.0}}},
                                                              {"quantization_config", {{"quant_method", "gptq"}}}}));
  for (const char* part : {"10 fields", "hidden_size=\"large\"", "num_hidden_layers=-1", "num_attention_heads=32.5",
                           "num_key_value_heads=5", "hidden_act=\"step\"", "rms_norm_eps=0", "attention_bias=\"no\"",
                           "low_freq_factor is missing", "high_freq_factor is missing", "quantization_config"})
    EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
  const std::string bert = error_of(changed("bert-base-uncased", {{"is_decoder", true},
                                                                  {"add_cross_attention", true},
                                                                  {"position_embedding_type", "relative_key"},
                                                                  {"pruned_heads", {{"0", {1}}}},
                                                                  {"auto_map", {{"AutoModel", "m.M"}}}}));
  for (const char* part : {"5 fields", "is_decoder=true", "add_cross_attention=true", "position_embedding_type",
                           "pruned_heads", "auto_map"})
    EXPECT_NE(bert.find(part), std::string::npos) << part << " is not in: " << bert;
  // Fields that change nothing are not read.
  EXPECT_EQ(error_of(changed(
                "bert-base-uncased",
                {{"use_cache", "x"}, {"torch_dtype", 3}, {"pruned_heads", json::object()}, {"my_own_field", 1}})),
            "no error");
}

// transformers adds the load-balancing loss if the router's logits are requested.
TEST(Huggingface, MixtralsBalanceIsAsked) {
  const Bindings small{{"steps", "16"}, {"num_hidden_layers", "2"}};
  EXPECT_TRUE(build(config("mixtral-8x7b"), small).loss.penalties.empty());
  const Model model = build(changed("mixtral-8x7b", {{"output_router_logits", true}, {"sliding_window", 4}}), small);
  ASSERT_EQ(model.loss.penalties.size(), 1u);
  EXPECT_EQ(model.loss.penalties[0].second, 0.02);
  for (const Op& op : model.graph.ops)
    if (op.definition == "attention") {
      EXPECT_EQ(op.attributes.at("window"), 4);
    }
  EXPECT_EQ(error_of(changed("mixtral-8x7b", {{"num_experts_per_tok", 9}})),
            "config.json: num_experts_per_tok=9 is more than num_local_experts=8");
}

// A field of any kind and size is read, or is one error of bad input.
TEST(Huggingface, AnyValueOfAnyField) {
  const std::vector<json> values{nullptr,
                                 true,
                                 "",
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
                                 {{"factor", "x"}, {"type", "linear"}}};
  int built = 0, refused = 0;
  for (const char* name : {"tiny-llama", "tiny-gpt2", "tiny-bert-classifier", "tiny-mixtral"}) {
    const json fields = json::parse(config(name));
    for (const auto& [field, given] : fields.items())
      for (const json& value : values) {
        json other = fields;
        other[field] = value;
        (error_of(other.dump(), {{"steps", "2"}}) == "no error" ? built : refused) += 1;
      }
  }
  EXPECT_GT(built, 300);
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace partita
