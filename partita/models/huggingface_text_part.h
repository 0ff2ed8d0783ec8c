// Takes the text part of a model of text and images.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace partita::huggingface {

// Makes a configuration of text and images (gemma3, llama4, qwen2_5_vl, ..) that of its text part: the fields of
// `text_config` with the family of that, or, if an older file has them beside those of images, the same fields. Returns
// the parts left out, for a note; empty: it is no such configuration, and stays as it is.
std::string take_text_part(nlohmann::json& config);

}  // namespace partita::huggingface
