#include "small_zoo.h"

#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/base/testing/patterns.h"
#include "partita/models/models.h"

namespace partita {
namespace {

// By an option's name. Extents are not multiples of all device counts; those that must divide each other do.
const std::map<std::string, std::string> kSmall = {
    {"batch", "6"},     {"layers", "1"},   {"steps", "2"},     {"cells", "1"},      {"blocks", "1"},  {"heads", "2"},
    {"key_heads", "1"}, {"hidden", "12"},  {"inner", "10"},    {"vocabulary", "9"}, {"classes", "5"}, {"width", "8"},
    {"input", "7"},     {"filters", "96"}, {"embedding", "6"}, {"fields", "3"},     {"dense", "4"},   {"experts", "3"},
    {"groups", "2"},    {"channels", "2"}, {"positions", "6"}};

std::string small_reference(const ModelInfo& info) {
  std::string options;
  for (const ModelOption& option : info.options) {
    auto small = kSmall.find(option.name);
    std::string value = small == kSmall.end() ? option.value : small->second;
    if (option.name == "image") {
      const std::vector<std::string> least = first_match(option.meaning, "at least ([0-9]+)");
      value = least.empty() ? "32" : least[1];
    }
    if (value != option.value) options += fmt::format("{}{}={}", options.empty() ? "" : ",", option.name, value);
  }
  return fmt::format("zoo:{}?{}", info.name, options);
}

}  // namespace

SmallModel small_model(const std::string& reference) {
  Request request;
  request.model = reference;
  request.optimizer = {"sgd", 0.01, 0.9, 0.0};
  Runner runner;
  SmallModel small{reference, load_model(request, runner), {}};
  small.training = training_graph(small.model, request, runner);
  return small;
}

std::vector<SmallModel> small_zoo(const std::function<bool(const std::string&)>& wanted) {
  std::vector<SmallModel> models;
  std::set<std::string> seen;
  for (const ModelInfo& info : list_models()) {
    if (wanted && !wanted(info.name)) continue;
    SmallModel small = small_model(small_reference(info));
    Graph nameless = small.training;
    nameless.name = "same";
    if (seen.insert(print(nameless)).second) models.push_back(std::move(small));
  }
  return models;
}

}  // namespace partita
