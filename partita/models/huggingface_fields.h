// Shared by the readers of Hugging Face's configurations (huggingface.h): a JSON object's fields with their faults, the
// fields that all families have, rotary positions.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/models/transformers.h"

namespace partita::huggingface {

using nlohmann::json;

// transformers' name of an activation -> an operation.
extern const std::map<std::string, std::string, std::less<>> kActivations;

// One JSON object's fields, with their faults. A field that is null is absent.
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
  // Tells whether it is written as null, which in some fields means none while absence means a default.
  bool is_null(const std::string& name) const { return object_.contains(name) && !has(name); }
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
  // The same, or 0.
  int64_t count(const std::string& name, int64_t otherwise, int64_t most = INT32_MAX) {
    const json* value = find(name);
    return value && *value == 0 ? 0 : integer(name, otherwise, most);
  }
  // In [lo, hi).
  double number(const std::string& name, double otherwise, double lo, double hi) {
    const json* value = find(name);
    if (!value) return otherwise;
    if (value->is_number() && value->get<double>() >= lo && value->get<double>() < hi) return value->get<double>();
    problem("{} is not a number in [{}, {})", shown(name), lo, hi);
    return otherwise;
  }
  // A positive number, or 0 if the field is null, or absent and `otherwise` is 0.
  double positive_or_none(const std::string& name, double otherwise) {
    return is_null(name) ? 0 : otherwise == 0 && !has(name) ? 0 : positive(name, otherwise);
  }
  int64_t integer_or_none(const std::string& name, int64_t otherwise) {
    return is_null(name) ? 0 : integer(name, otherwise);
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
  // A field with one supported value only.
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

// One configuration on its way to a model.
struct Reading {
  std::string family;  // model_type
  const json& config;
  Fields& f;
  const Options& options;
  std::vector<std::string>& problems;
  std::function<void()> stop;  // ends with all problems before a graph is built of fields that are wrong
  std::shared_ptr<const OpRegistry> registry;
};

// The fields that all families read alike. For sizes: transformers' names; GPT-2 has its own.
struct CommonFields {
  const char *hidden, *layers, *heads, *positions;
};
extern const CommonFields kUsualFields;
struct CommonDefaults {
  int64_t hidden, layers, heads, positions;
};
void read_common(TextModel& m, Reading& in, const CommonFields& names, const CommonDefaults& defaults);
void check_steps(Fields& f, const TextModel& m, const char* field, int64_t positions);

// The facts that rotary positions depend on besides their own fields.
struct RotaryDefaults {
  int64_t size, positions;  // numbers that are turned (of a head, if whole), positions
  double theta, part = 1;   // part: of a head's numbers
  bool partial = false;     // the model can turn a part of each head
  bool sections = false;    // parts of a head have positions of time, height and width, which are one for text
  const char *theta_field = "rope_theta", *part_field = "partial_rotary_factor";
  std::optional<int64_t> original_positions;   // of the class, if it has that field
  std::map<std::string, std::string> renamed;  // old names of types
};
// Reads rope_theta and, if there is one, rope_scaling (rope_parameters: both, as transformers writes them since 5.0).
Rotary read_rotary(Reading& in, const RotaryDefaults& defaults, int64_t steps);
std::pair<const json*, std::string> rotary_object(Reading& in);  // the object, and its name
// The same for one object, as for a kind of layers (rope_parameters.full_attention).
Rotary read_rotary(Reading& in, const json& object, const std::string& path, const RotaryDefaults& defaults,
                   int64_t steps);

// Returns by layer whether it sees only the last `sliding_window` keys: `layer_types` (full_attention,
// sliding_attention), or else `is_local` of each layer's number.
std::vector<bool> read_local_layers(Reading& in, int64_t layers, const std::function<bool(int64_t)>& is_local);

// Returns by layer whether it turns queries and keys by their positions. `no_rope_layers` says so with 1 for a layer
// that does. Without it, all do but every `no_rope_layer_interval`th.
std::vector<bool> read_turned_layers(Reading& in, int64_t layers);

// One a family. They end with in.stop() before they build.
Model read_llama(Reading& in);
Model read_mistral(Reading& in);
Model read_qwen2(Reading& in);
Model read_qwen3(Reading& in);
Model read_phi3(Reading& in);
Model read_olmo2(Reading& in);
Model read_olmo3(Reading& in);
Model read_smollm3(Reading& in);
Model read_granite(Reading& in);
Model read_qwen2_vl(Reading& in);
Model read_qwen3_vl(Reading& in);
Model read_qwen3_vl_moe(Reading& in);
Model read_gemma(Reading& in);
Model read_gemma2(Reading& in);
Model read_gemma3(Reading& in);
Model read_mixtral(Reading& in);
Model read_glm4_moe(Reading& in);
Model read_gpt_oss(Reading& in);
Model read_llama4(Reading& in);
Model read_qwen2_moe(Reading& in);
Model read_qwen3_moe(Reading& in);
Model read_deepseek_v2(Reading& in);
Model read_deepseek_v3(Reading& in);
Model read_deepseek_v32(Reading& in);
Model read_gpt2(Reading& in);
Model read_gpt_neox(Reading& in);
Model read_opt(Reading& in);
Model read_bert(Reading& in);

// Llama's fields, which many families have.
struct LlamaDefaults {
  CommonDefaults sizes{4096, 32, 32, 2048};
  int64_t vocabulary = 32000, inner = 11008;
  int64_t key_heads = 0;  // 0: as many as heads
  int64_t size = 0;       // of a head; 0: hidden / heads
  double eps = 1e-6, theta = 10000;
  const char* activation = "silu";
  const char* activation_field = "hidden_act";
  bool tied = false;
};
void read_llama_fields(Llama& m, Reading& in, const LlamaDefaults& defaults);
// Rotary positions of all layers, after read_llama_fields.
void read_llama_rotary(Llama& m, Reading& in, RotaryDefaults defaults);
void name_llama_weights(const Llama& m, WeightNames& names);
// Builds the model that was read.
Model finish_llama(const Llama& m, Reading& in);
// Reads separate rotary positions for layers that see the last keys only, and which layers these are. `rope_parameters`
// has an object of either kind, full_attention and sliding_attention; older files have rope_scaling for the first.
void read_two_rotaries(Llama& m, Reading& in, const RotaryDefaults& all, const RotaryDefaults& local);
void read_layer_kinds(Llama& m, Reading& in, const std::function<bool(int64_t)>& is_local);
// Returns `sliding_window` of a family that has `use_sliding_window`, without which the field means nothing; 0: no
// window.
int64_t used_window(Reading& in, int64_t otherwise);
// Reads use_sliding_window, sliding_window, max_window_layers and layer_types, as Qwen2 has them.
void read_qwen_window(Llama& m, Reading& in, const std::function<bool(int64_t layer, int64_t most)>& is_local,
                      int64_t most_layers = 28);

// Reads experts, with `inner` columns inside, and their weights' names in files: OWN.experts.NUMBER.PART.weight of each
// layer.
void read_experts(Mixtral& m, Reading& in, const char* count_field, int64_t count, int64_t choices, int64_t inner);
// The first layers have no experts: `first_k_dense_replace` of them.
void read_first_dense_layers(Mixtral& m, Reading& in, int64_t usual);
// Reads layers that predict further tokens, which transformers leaves out as well, and their weights.
int64_t read_mtp_layers(Reading& in);
void name_mtp_layers(const Mixtral& m, int64_t more, WeightNames& names);
// transformers adds the load-balancing loss if the router's logits are requested.
void read_balance_loss(Mixtral& m, Reading& in);
// Reads V3's routing, after read_experts: sigmoids, the corrected ones of which choose, among groups of experts.
void read_v3_routing(Mixtral& m, Reading& in, int64_t parts, int64_t chosen_parts);
void name_experts(const Mixtral& m, WeightNames& names, const std::string& own,
                  const std::map<std::string, std::string>& parts);
extern const std::map<std::string, std::string> kExpertParts;  // ours -> theirs

}  // namespace partita::huggingface
