// Recognizes by its fields a configuration that does not name its model.
#include "partita/models/huggingface_guess.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita {
namespace {

struct Look {
  std::vector<std::string> needed;  // all of them are there
  const char *what, *remedy;
};

// The first that fits is meant.
const std::vector<Look>& looks() {
  static const std::vector<Look> all{
      {{"type_vocab_size", "pooler_type", "hidden_size"},
       "BERT, as Google published it",
       "pass --bind architecture=BertForMaskedLM"},
      {{"type_vocab_size", "num_hidden_layers", "hidden_size"},
       "BERT, or one of its kin",
       "if it is BERT, pass --bind architecture=BertForMaskedLM"},
      {{"num_local_experts", "num_experts_per_tok"},
       "Mixtral",
       "if it is, pass --bind architecture=MixtralForCausalLM"},
      {{"n_embd", "n_layer", "n_head"}, "GPT-2", "if it is, pass --bind architecture=GPT2LMHeadModel"},
      {{"rms_norm_eps", "num_hidden_layers", "hidden_size"},
       "Llama, or one of its kin",
       "if it is Llama, pass --bind architecture=LlamaForCausalLM"},
      {{"dim", "n_layers", "n_heads"},
       "Llama's params.json, as Meta published it",
       "its names are others; take the config.json of the transformers package, or convert it "
       "(convert_llama_weights_to_hf.py)"},
      {{"ir_version"}, "an ONNX model as JSON", "pass the .onnx file"},
      {{"weight_map"}, "an index of weights", "pass the config.json, and this file as --weights"},
  };
  return all;
}

}  // namespace

std::string looks_like(const std::vector<std::string>& keys) {
  const auto has = [&](const std::string& key) { return std::find(keys.begin(), keys.end(), key) != keys.end(); };
  for (const Look& look : looks())
    if (std::all_of(look.needed.begin(), look.needed.end(), has))
      return fmt::format("it looks like {} ({}); {}", look.what, fmt::join(look.needed, ", "), look.remedy);
  return "";
}

}  // namespace partita
