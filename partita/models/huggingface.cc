#include "partita/models/huggingface.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <set>
#include <vector>

#include "partita/base/error.h"
#include "partita/models/transformers.h"

namespace partita {
namespace {

using nlohmann::json;

constexpr int64_t kMostLayers = 10'000;
constexpr int64_t kMostSteps =
    8192;  // unless `steps` is given: a sequence may have as many positions as the model, and no more than this

struct Architecture {
  const char *family, *name;  // model_type, and transformers' class
};
// The first of a family is meant where a configuration names none.
constexpr Architecture kArchitectures[] = {{"llama", "LlamaForCausalLM"},
                                           {"gpt2", "GPT2LMHeadModel"},
                                           {"bert", "BertForMaskedLM"},
                                           {"bert", "BertForPreTraining"},
                                           {"bert", "BertForSequenceClassification"},
                                           {"bert", "BertModel"},
                                           {"mixtral", "MixtralForCausalLM"}};

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

// One JSON object's fields, with what is wrong with them. A field that is null is absent.
class Fields {
 public:
  Fields(const json& object, std::string prefix, std::vector<std::string>& problems)
      : object_(object), prefix_(std::move(prefix)), problems_(problems) {}

  const json* find(const std::string& name) const {
    asked_.insert(name);
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  bool has(const std::string& name) const { return find(name) != nullptr; }
  bool asked(const std::string& name) const { return asked_.contains(name); }

  template <typename... Args>
  void problem(fmt::format_string<Args...> format, Args&&... args) {
    const std::string text = fmt::format(format, std::forward<Args>(args)...);
    if (std::find(problems_.begin(), problems_.end(), text) == problems_.end()) problems_.push_back(text);
  }
  std::string shown(const std::string& name) const {
    const json* value = find(name);
    return fmt::format("{}{}={}", prefix_, name,
                       value ? value->dump(-1, ' ', false, json::error_handler_t::replace) : "null");
  }

  int64_t integer(const std::string& name, int64_t otherwise, int64_t most = INT32_MAX) {
    const json* value = find(name);
    if (!value) return otherwise;
    if (value->is_number_integer() && *value >= 1 && *value <= most) return value->get<int64_t>();
    problem("{} is not an integer of 1 to {}", shown(name), most);
    return otherwise;
  }
  // In [lo, hi).
  double number(const std::string& name, double otherwise, double lo, double hi) {
    const json* value = find(name);
    if (!value) return otherwise;
    if (value->is_number() && value->get<double>() >= lo && value->get<double>() < hi) return value->get<double>();
    problem("{} is not a number in [{}, {})", shown(name), lo, hi);
    return otherwise;
  }
  double probability(const std::string& name, double otherwise) { return number(name, otherwise, 0, 1); }
  double positive(const std::string& name, double otherwise) { return number(name, otherwise, 1e-300, 1e300); }
  bool flag(const std::string& name, bool otherwise) {
    const json* value = find(name);
    if (!value) return otherwise;
    if (!value->is_boolean()) problem("{} is neither true nor false", shown(name));
    return value->is_boolean() ? value->get<bool>() : otherwise;
  }
  std::string text(const std::string& name, const std::string& otherwise) {
    const json* value = find(name);
    if (!value) return otherwise;
    if (!value->is_string()) problem("{} is not a text", shown(name));
    return value->is_string() ? value->get<std::string>() : otherwise;
  }
  std::string activation(const std::string& name, const std::string& otherwise) {
    const std::string kind = text(name, otherwise);
    const auto found = kActivations.find(kind);
    if (found != kActivations.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [theirs, ours] : kActivations) names.push_back(theirs);
    problem("{} is not supported; there are: {}", shown(name), fmt::join(names, ", "));
    return "identity";
  }
  // A field of which only one value is supported.
  void only(const std::string& name, const json& value, const char* why) {
    const json* given = find(name);
    if (given && *given != value) problem("{}: {}; only {} is supported", shown(name), why, value.dump());
  }
  // A field that must be empty, null or absent.
  void absent(const std::string& name, const char* why) {
    const json* given = find(name);
    if (given && !given->empty()) problem("{}: {}", shown(name), why);
  }

 private:
  const json& object_;
  std::string prefix_;  // "rope_scaling."
  std::vector<std::string>& problems_;
  mutable std::set<std::string> asked_;
};

struct Options {
  std::string architecture;
  std::optional<int64_t> batch, steps;
  std::optional<double> dropout;
  std::vector<std::string> fields;  // that replace the configuration's
};

// What all families read alike. The fields of sizes: transformers' names, GPT-2 has its own.
struct CommonFields {
  const char *hidden, *layers, *heads, *positions;
};

void read_common(TextModel& m, Fields& f, const Options& options, const std::string& family, const CommonFields& names,
                 int64_t hidden, int64_t layers, int64_t heads, int64_t positions) {
  m.name = family;
  m.tokens = "input_ids";
  m.batch = options.batch.value_or(1);
  m.hidden = f.integer(names.hidden, hidden);
  m.layers = f.integer(names.layers, layers, kMostLayers);
  m.heads = f.integer(names.heads, heads);
  m.steps = options.steps.value_or(std::min(f.integer(names.positions, positions), kMostSteps));
  f.absent("quantization_config",
           "quantized weights are not supported; take the configuration of the model as it was before");
  f.absent("auto_map",
           "the model has code of its own, which is not looked at; remove the field if it is as transformers' class");
  f.absent("per_layer_config", "layers that differ are not supported");
  f.only("is_encoder_decoder", false, "a model with encoder and decoder");
}

void check_steps(Fields& f, const TextModel& m, const char* field, int64_t positions) {
  if (m.steps > positions)
    f.problem("steps={}, and the model has {}={} positions; use --bind steps=N", m.steps, field, positions);
}

// ---------------------------------------------------------------- Llama

// The radians a step, of rope_theta and, where there is one, rope_scaling (rope_parameters: both, as transformers
// writes them since 5.0).
std::vector<double> read_rotary(Fields& f, const json& config, int64_t size, int64_t positions, double default_theta,
                                std::vector<std::string>& problems) {
  const char* field = f.has("rope_scaling") && !f.find("rope_scaling")->empty() ? "rope_scaling" : "rope_parameters";
  const json* given = f.find(field);
  if (given && !given->is_object()) {
    f.problem("{} is not an object", f.shown(field));
    given = nullptr;
  }
  static const json kNothing = json::object();
  Fields r(given ? *given : kNothing, fmt::format("{}.", field), problems);
  const double theta =
      r.has("rope_theta") ? r.positive("rope_theta", default_theta) : f.positive("rope_theta", default_theta);
  r.only("partial_rotary_factor", 1.0, "positions of a part of each head");
  if (!r.has("partial_rotary_factor")) f.only("partial_rotary_factor", 1.0, "positions of a part of each head");
  std::vector<double> frequencies = rotary_frequencies(theta, size);
  const std::string name = r.has("rope_type") ? "rope_type" : "type", type = r.text(name, "default");
  auto needed = [&](const char* factor) {
    if (!r.has(factor)) r.problem("{}.{} is missing, which {} '{}' needs", field, factor, name, type);
    return r.positive(factor, 1);
  };
  if (type == "default") return frequencies;
  if (type == "linear") {
    const double factor = needed("factor");
    for (double& frequency : frequencies) frequency /= factor;
  } else if (type == "llama3") {
    // Long waves are stretched by `factor`, short ones stay, those between are blended (Llama 3.1).
    const double factor = needed("factor"), low = needed("low_freq_factor"), high = needed("high_freq_factor");
    const double length = static_cast<double>(config.contains("original_max_position_embeddings")
                                                  ? f.integer("original_max_position_embeddings", positions)
                                                  : r.integer("original_max_position_embeddings", positions));
    if (r.has("low_freq_factor") && r.has("high_freq_factor") && !(low < high))
      r.problem("{}: low_freq_factor={} must be less than high_freq_factor={}", field, low, high);
    for (double& frequency : frequencies) {
      const double turns = length * frequency / (2 * std::numbers::pi);  // in the original length
      if (turns < low)
        frequency /= factor;
      else if (turns <= high)
        frequency *= (1 - (turns - low) / (high - low)) / factor + (turns - low) / (high - low);
    }
  } else {
    r.problem(
        "{} is not supported; there are default, linear and llama3; without the field the model has the positions that "
        "it was first trained with",
        r.shown(name));
  }
  return frequencies;
}

struct LlamaDefaults {
  int64_t inner, key_heads, positions;  // key_heads: 0 for as many as heads
  double eps, theta;
};

void read_llama(Llama& m, const json& config, Fields& f, const Options& options, std::vector<std::string>& problems,
                const std::string& family, const LlamaDefaults& defaults) {
  read_common(m, f, options, family,
              {"hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"}, 4096, 32, 32,
              defaults.positions);
  m.vocabulary = f.integer("vocab_size", 32000);
  m.inner = f.integer("intermediate_size", defaults.inner);
  const bool stated = config.contains("num_key_value_heads");  // null: one for each of the queries' heads
  m.key_heads = f.integer("num_key_value_heads", stated || defaults.key_heads == 0 ? m.heads : defaults.key_heads);
  m.size = f.integer("head_dim", std::max<int64_t>(m.hidden / m.heads, 1));
  m.eps = f.positive("rms_norm_eps", defaults.eps);
  m.activation = f.activation("hidden_act", "silu");
  m.tied = f.flag("tie_word_embeddings", false);
  m.attention_dropout = f.probability("attention_dropout", 0);
  if (options.dropout) m.attention_dropout = *options.dropout;
  if (!f.has("head_dim") && m.hidden % m.heads)
    f.problem("hidden_size={} is not a multiple of num_attention_heads={}; give head_dim if it is meant", m.hidden,
              m.heads);
  if (m.heads % m.key_heads)
    f.problem("num_attention_heads={} is not a multiple of num_key_value_heads={}", m.heads, m.key_heads);
  if (m.size % 2) f.problem("heads of {} numbers: rotary positions need an even number", m.size);
  const int64_t positions = f.integer("max_position_embeddings", defaults.positions);
  m.frequencies = read_rotary(f, config, m.size, positions, defaults.theta, problems);
}

void name_llama_weights(const Llama& m, WeightNames& names) {
  if (m.tied) names.same["lm_head.weight"] = "model.embed_tokens.weight";
  names.unused = {".rotary_emb.inv_freq"};
}

Model llama(const json& config, Fields& f, const Options& options, std::vector<std::string>& problems,
            const std::function<void()>& stop, std::shared_ptr<const OpRegistry> registry) {
  Llama m;
  read_llama(m, config, f, options, problems, "llama", {11008, 0, 2048, 1e-6, 10000});
  m.attention_bias = f.flag("attention_bias", false);
  m.feed_forward_bias = f.flag("mlp_bias", false);
  stop();
  Model model = build_llama(m, std::move(registry));
  name_llama_weights(m, model.weight_names);
  return model;
}

Model mixtral(const json& config, Fields& f, const Options& options, std::vector<std::string>& problems,
              const std::function<void()>& stop, std::shared_ptr<const OpRegistry> registry) {
  Mixtral m;
  read_llama(m, config, f, options, problems, "mixtral", {14336, 8, 131072, 1e-5, 1e6});
  m.window = f.integer("sliding_window", 0);
  const char* experts = f.has("num_experts") ? "num_experts" : "num_local_experts";  // either is taken
  m.experts.count = f.integer(experts, 8, 4096);
  m.experts.choices = f.integer("num_experts_per_tok", 2);
  m.experts.groups = m.batch;
  m.experts.one_is_all = true;
  f.only("router_jitter_noise", 0.0, "noise on what the router sees");
  const double balance = f.number("router_aux_loss_coef", 0.001, 0, 1e300);
  if (f.flag("output_router_logits", false)) m.balance = balance;  // transformers adds the loss then only
  m.balance_together = true;
  if (m.experts.choices > m.experts.count)
    f.problem("num_experts_per_tok={} is more than {}={}", m.experts.choices, experts, m.experts.count);
  stop();
  Model model = build_mixtral(m, std::move(registry));
  name_llama_weights(m, model.weight_names);
  for (int64_t i = 0; i < m.layers; ++i) {
    const std::string ours = fmt::format("model.layers.{}.mlp", i),
                      theirs = fmt::format("model.layers.{}.block_sparse_moe", i);
    model.weight_names.renamed[ours + ".gate.weight"] = theirs + ".gate.weight";
    for (const auto& [part, number] : {std::pair{"gate_proj", 1}, {"down_proj", 2}, {"up_proj", 3}})
      for (int64_t e = 0; e < m.experts.count; ++e)
        model.weight_names.parts[fmt::format("{}.experts.{}", ours, part)].push_back(
            fmt::format("{}.experts.{}.w{}.weight", theirs, e, number));
  }
  return model;
}

// ---------------------------------------------------------------- GPT-2

Model gpt2(const json&, Fields& f, const Options& options, std::vector<std::string>&, const std::function<void()>& stop,
           std::shared_ptr<const OpRegistry> registry) {
  auto name = [&](const char* own, const char* common) { return f.has(common) ? common : own; };  // either is taken
  const CommonFields names{name("n_embd", "hidden_size"), name("n_layer", "num_hidden_layers"),
                           name("n_head", "num_attention_heads"), name("n_positions", "max_position_embeddings")};
  Gpt2 m;
  read_common(m, f, options, "gpt2", names, 768, 12, 12, 1024);
  m.vocabulary = f.integer("vocab_size", 50257);
  m.positions = f.integer(names.positions, 1024);
  m.inner = f.integer("n_inner", 4 * m.hidden);
  m.eps = f.positive("layer_norm_epsilon", 1e-5);
  m.activation = f.activation("activation_function", "gelu_new");
  m.tied = f.flag("tie_word_embeddings", true);
  m.scaled = f.flag("scale_attn_weights", true);
  m.scaled_by_layer = f.flag("scale_attn_by_inverse_layer_idx", false);
  m.embedding_dropout = f.probability("embd_pdrop", 0.1);
  m.residual_dropout = f.probability("resid_pdrop", 0.1);
  m.attention_dropout = f.probability("attn_pdrop", 0.1);
  if (options.dropout) m.embedding_dropout = m.residual_dropout = m.attention_dropout = *options.dropout;
  f.only("add_cross_attention", false, "attention to another model's states");
  if (m.hidden % m.heads) f.problem("{}={} is not a multiple of {}={}", names.hidden, m.hidden, names.heads, m.heads);
  check_steps(f, m, names.positions, m.positions);
  stop();
  Model model = build_gpt2(m, std::move(registry));
  if (m.tied) model.weight_names.same["lm_head.weight"] = "transformer.wte.weight";
  model.weight_names.prefix = "transformer.";
  model.weight_names.unused = {".attn.bias", ".attn.masked_bias"};
  return model;
}

// ---------------------------------------------------------------- BERT

Model bert(const json&, Fields& f, const Options& options, std::vector<std::string>&, const std::function<void()>& stop,
           std::shared_ptr<const OpRegistry> registry) {
  Bert m;
  read_common(m, f, options, "bert",
              {"hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"}, 768, 12, 12, 512);
  m.types = "token_type_ids";
  m.vocabulary = f.integer("vocab_size", 30522);
  m.positions = f.integer("max_position_embeddings", 512);
  m.type_count = f.integer("type_vocab_size", 2);
  m.inner = f.integer("intermediate_size", 3072);
  m.eps = f.positive("layer_norm_eps", 1e-12);
  m.activation = f.activation("hidden_act", "gelu");
  m.tied = f.flag("tie_word_embeddings", true);
  m.dropout = f.probability("hidden_dropout_prob", 0.1);
  m.attention_dropout = f.probability("attention_probs_dropout_prob", 0.1);
  m.classifier_dropout = f.probability("classifier_dropout", m.dropout);
  if (options.dropout) m.dropout = m.attention_dropout = m.classifier_dropout = *options.dropout;
  f.only("is_decoder", false, "BERT as a decoder");
  f.only("add_cross_attention", false, "attention to another model's states");
  f.only("position_embedding_type", "absolute", "positions relative to the key");
  f.absent("pruned_heads", "layers with fewer heads are not supported");
  if (m.hidden % m.heads) f.problem("hidden_size={} is not a multiple of num_attention_heads={}", m.hidden, m.heads);
  check_steps(f, m, "max_position_embeddings", m.positions);
  std::string loss;
  if (options.architecture == "BertForMaskedLM") m.head = Bert::Head::kMaskedLm;
  if (options.architecture == "BertForPreTraining") m.head = Bert::Head::kPretraining;
  if (options.architecture == "BertForSequenceClassification") {
    m.head = Bert::Head::kClassifier;
    const json* labels = f.find("id2label");
    m.classes = f.integer("num_labels", labels ? static_cast<int64_t>(labels->size()) : 2);
    if (labels && static_cast<int64_t>(labels->size()) != m.classes)
      f.problem("num_labels={}, and id2label has {} labels", m.classes, labels->size());
    const std::string problem = f.text("problem_type", m.classes == 1 ? "regression" : "single_label_classification");
    if (problem == "regression")
      loss = "mse";
    else if (problem == "multi_label_classification")
      loss = "bce_with_logits";
    else if (problem != "single_label_classification")
      f.problem("{}; there are regression, single_label_classification, multi_label_classification",
                f.shown("problem_type"));
    else if (m.classes == 1)
      f.problem("{} needs at least two labels, num_labels is 1", f.shown("problem_type"));
  }
  stop();
  Model model = build_bert(m, std::move(registry));
  if (!loss.empty()) model.loss.kind = loss;
  model.weight_names.prefix = "bert.";
  model.weight_names.endings = {{".LayerNorm.gamma", ".LayerNorm.weight"}, {".LayerNorm.beta", ".LayerNorm.bias"}};
  model.weight_names.unused = {"embeddings.position_ids"};
  model.weight_names.heads = {"cls.", "classifier.", "pooler."};
  if (m.tied) model.weight_names.same["cls.predictions.decoder.weight"] = "bert.embeddings.word_embeddings.weight";
  model.weight_names.same["cls.predictions.decoder.bias"] = "cls.predictions.bias";
  return model;
}

// ---------------------------------------------------------------- which model it is

std::vector<std::string> architectures_of(const std::string& family) {
  std::vector<std::string> names;
  for (const Architecture& a : kArchitectures)
    if (family.empty() || a.family == family) names.push_back(a.name);
  return names;
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
    if (family.empty()) fail("{}: model_type is missing; there are: {}", path, fmt::join(families, ", "));
  }
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
         (config.contains("model_type") || config.contains("architectures"));
}

Model build_huggingface(const std::string& path, std::string_view text,
                        const std::map<std::string, std::string>& bindings,
                        std::shared_ptr<const OpRegistry> registry) {
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
  const auto build = family == "llama" ? llama : family == "mixtral" ? mixtral : family == "gpt2" ? gpt2 : bert;
  return build(config, fields, options, problems, stop, std::move(registry));
}

}  // namespace partita
