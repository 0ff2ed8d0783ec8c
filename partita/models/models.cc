// Lists the built-in models, and reads references to them.
#include "partita/models/models.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "partita/base/nearest.h"
#include "partita/models/family.h"

namespace partita {
namespace {

std::vector<ModelFamily> families() {
  std::vector<ModelFamily> all{mlp_family(), cnn_family(), lenet_family(), inception_family(), wide_deep_family()};
  for (const auto& several : {transformer_families(), alexnet_families(), resnet_families(), nasnet_families(),
                              recurrent_families(), gpt2_families(), bert_families(), llama_families()})
    all.insert(all.end(), several.begin(), several.end());
  all.push_back(mixtral_family());
  all.push_back(encoder_decoder_family());
  all.push_back(vit_family());
  for (ModelFamily& family : all)
    family.info.options.push_back(
        {"dtype", "float32", "of parameters and activations: float32|float64|float16|bfloat16"});
  return all;
}

std::string option_list(const ModelInfo& info) {
  std::vector<std::string> names;
  for (const ModelOption& option : info.options) names.push_back(fmt::format("{}={}", option.name, option.value));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

int64_t ModelOptions::integer(const std::string& name, int64_t least) const {
  const std::string& value = text(name);
  int64_t result = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
  if (error != std::errc() || end != value.data() + value.size())
    fail("zoo:{}: {}={} is not an integer", model_, name, value);
  if (result < least) fail("zoo:{}: {}={} must be at least {}", model_, name, value, least);
  return result;
}

int64_t ModelOptions::integer_or_auto(const std::string& name, int64_t chosen) const {
  return text(name) == "auto" ? chosen : integer(name);
}

double ModelOptions::number(const std::string& name, double lo, double hi) const {
  const std::string& value = text(name);
  double result = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
  if (error != std::errc() || end != value.data() + value.size())
    fail("zoo:{}: {}={} is not a number", model_, name, value);
  if (!(result >= lo && result < hi)) fail("zoo:{}: {}={} is not in [{}, {})", model_, name, value, lo, hi);
  return result;
}

bool ModelOptions::flag(const std::string& name) const {
  const std::string& value = choice(name, {"0", "1", "false", "true"});
  return value == "1" || value == "true";
}

const std::string& ModelOptions::choice(const std::string& name, const std::vector<std::string>& allowed) const {
  const std::string& value = text(name);
  if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
    fail("zoo:{}: {}={} is none of {}", model_, name, value, fmt::join(allowed, ", "));
  return value;
}

std::vector<ModelInfo> list_models() {
  std::vector<ModelInfo> infos;
  for (const ModelFamily& family : families()) infos.push_back(family.info);
  return infos;
}

Model build_model(std::string_view reference, const std::map<std::string, std::string>& bindings,
                  std::shared_ptr<const OpRegistry> registry) {
  std::string_view name = reference;
  if (name.starts_with("zoo:")) name.remove_prefix(4);
  std::string_view given;
  if (const std::size_t question = name.find('?'); question != std::string_view::npos) {
    given = name.substr(question + 1);
    name = name.substr(0, question);
  }
  const std::vector<ModelFamily> all = families();
  const auto family = std::find_if(all.begin(), all.end(), [&](const ModelFamily& f) { return f.info.name == name; });
  if (family == all.end()) {
    std::vector<std::string> names;
    for (const ModelFamily& f : all) names.push_back("zoo:" + f.info.name);
    fail("unknown model '{}'; nearest: {} (`partita models` lists all)", reference,
         fmt::join(nearest_names(fmt::format("zoo:{}", name), names), ", "));
  }
  std::map<std::string, std::string> values;
  for (const ModelOption& option : family->info.options) values[option.name] = option.value;
  auto set = [&](const std::string& key, const std::string& value) {
    if (!values.contains(key)) fail("zoo:{} has no option '{}'; it has: {}", name, key, option_list(family->info));
    values[key] = value;
  };
  std::set<std::string> seen;
  while (!given.empty()) {
    const std::size_t comma = std::min(given.find(','), given.size());
    const std::string_view item = given.substr(0, comma);
    given.remove_prefix(std::min(comma + 1, given.size()));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) fail("{}: '{}' is not option=value", reference, item);
    const std::string key(item.substr(0, equals));
    if (!seen.insert(key).second)
      throw Error(ExitCode::kUsage, fmt::format("{}: option '{}' is given twice", reference, key));
    set(key, std::string(item.substr(equals + 1)));
  }
  for (const auto& [key, value] : bindings) set(key, value);
  return family->build(ModelOptions(std::string(name), std::move(values)), std::move(registry));
}

}  // namespace partita
