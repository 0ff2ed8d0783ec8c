// Takes the text part of a configuration of text and images.
#include "partita/models/huggingface_text_part.h"

#include <map>

#include "partita/base/error.h"

namespace partita::huggingface {

using nlohmann::json;

namespace {

// A family of text and images -> that of its text part.
const std::map<std::string, std::string, std::less<>> kTextParts{
    {"gemma3", "gemma3_text"},         {"llama4", "llama4_text"},     {"qwen2_vl", "qwen2_vl_text"},
    {"qwen2_5_vl", "qwen2_5_vl_text"}, {"qwen3_vl", "qwen3_vl_text"}, {"qwen3_vl_moe", "qwen3_vl_moe_text"}};
// Fields of the whole that concern its text part.
constexpr const char* kOfTheWhole[] = {"tie_word_embeddings", "quantization_config", "auto_map", "architectures"};

}  // namespace

std::string take_text_part(json& config) {
  const json type = config.value("model_type", json());
  const auto part = type.is_string() ? kTextParts.find(type.get<std::string>()) : kTextParts.end();
  if (part == kTextParts.end()) return "";
  json text = config.contains("text_config") && config["text_config"].is_object() ? config["text_config"] : config;
  // transformers ties the head if either says so.
  const bool tied = text.value("tie_word_embeddings", json()) == true;
  for (const char* field : kOfTheWhole)
    if (config.contains(field)) text[field] = config[field];
  if (tied) text["tie_word_embeddings"] = true;
  text["model_type"] = part->second;
  config = std::move(text);
  return fmt::format("model_type='{}': this is its text part; images, video and what joins them to the text stay out",
                     part->first);
}

}  // namespace partita::huggingface
