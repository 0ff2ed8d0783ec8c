// Builds published transformers of text, with the parameter names and layouts of Hugging Face's weights. One builder a
// family, shared by the zoo and Hugging Face's configurations (huggingface.cc).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "partita/models/experts.h"
#include "partita/models/models.h"
#include "partita/models/network.h"

namespace partita {

// The common fields of all families.
struct TextModel {
  std::string name;               // of the graph, and in messages
  std::string tokens = "tokens";  // the input's name
  DType dtype = DType::kFloat32;
  int64_t batch = 1, steps = 1;
  int64_t layers = 1, hidden = 1, heads = 1, inner = 1, vocabulary = 1;
  double eps = 1e-5;             // of the norms
  std::string activation;        // an element-wise operation
  bool tied = true;              // the head is the embedding's table again
  double attention_dropout = 0;  // of the weights
};

// GPT-2 (Radford et al. 2019).
struct Gpt2 : TextModel {
  int64_t positions = 1024;
  double embedding_dropout = 0, residual_dropout = 0;
  bool scaled = true, scaled_by_layer = false;  // scores by 1/sqrt(size), by 1/(layer's number from 1)
};
Model build_gpt2(const Gpt2& model, std::shared_ptr<const OpRegistry> registry);

// BERT (Devlin et al. 2018).
struct Bert : TextModel {
  enum class Head {
    kNone,         // outputs: the pooler's [batch, hidden], the hidden states [batch, steps, hidden]
    kMaskedLm,     // the logits of each token [batch, steps, vocabulary]
    kPretraining,  // the same, and those of two sentences' belonging together [batch, 2], with labels
                   // next_sentence_label
    kClassifier,   // the logits of `classes` [batch, classes]
  } head = Head::kNone;
  std::string types = "types";  // the input's name
  int64_t positions = 512, type_count = 2, classes = 2;
  double dropout = 0, classifier_dropout = 0;
};
Model build_bert(const Bert& model, std::shared_ptr<const OpRegistry> registry);

// Llama (2023, 2024), and families with its layers.
struct Llama : TextModel {
  int64_t key_heads = 1;
  int64_t size = 1;              // of a head
  std::vector<Rotary> rotaries;  // kinds of rotary positions
  // The differences of layers: of each layer, or one for all. None: the defaults.
  struct Kind {
    int64_t window = 0;      // of keys that a query sees, its own the last; 0: all before it
    std::size_t rotary = 0;  // of `rotaries`
    bool turned = true;      // false: queries and keys know no positions
  };
  std::vector<Kind> kinds;
  bool attention_bias = false, output_bias = false, feed_forward_bias = false;  // attention_bias: of q, k and v
  bool fused = false;  // q, k and v are one product, and gate and up are one
  // Norm of queries and keys: each head, or all; or each head that is turned, afterwards and without a scale.
  enum class QueryNorm { kNone, kHead, kAll, kTurned } query_norm = QueryNorm::kNone;
  std::vector<double> query_scales;  // of each step's queries if they are not turned; empty: 1
  bool sinks = false;                // a trained score of each head beside those of its keys
  bool norm_before = true;           // of the inputs of attention and the gated layer
  bool norm_after = false;           // of their results
  bool norm_from_one = false;        // norms scale by 1 + weight
  double embedding_scale = 1;
  double attention_scale = 0;                       // of the scores; 0: 1/sqrt(size)
  double attention_softcap = 0, final_softcap = 0;  // c: scores, and logits, become c tanh(score / c); 0: they stay
  double residual_scale = 1;                        // of the terms that attention and the gated layer add
  double final_divisor = 1;                         // of the logits
  double residual_dropout = 0;                      // of the terms that attention and the gated layer add
  // Replaces the attention and the gated layer: from the normalised [batch, steps, hidden] of layer NAME, its number
  // and its rotary positions to the term that is added. Empty, or giving no tensor: as Llama has it.
  std::function<TensorId(Network& net, TensorId x, const std::string& name, const RotaryTable& rotary)> attention;
  std::function<TensorId(Network& net, TensorId x, const std::string& name, int64_t layer)> feed_forward;
  std::function<void(Network& net)> behind_layers;  // adds what reads several layers, so that layers stay equal
};
Model build_llama(const Llama& model, std::shared_ptr<const OpRegistry> registry);

// Mixtral (2024), and families with Llama's layers and experts of gated layers for their feed-forward parts.
struct Mixtral : Llama {
  Experts experts;           // gated, of the model's activation
  std::vector<bool> dense;   // of each layer: has Llama's gated layer of `inner` all the same; empty: none
  int64_t shared = 0;        // columns inside an expert that all tokens go to; 0: there is none
  std::string shared_name;   // "shared_expert"
  bool shared_gate = false;  // it counts the sigmoid of a product, with weights SHARED_NAME_gate
  bool shared_bias = false;
  double balance = 0;  // weight of the load-balancing loss, summed over layers
  // Uses the loss of transformers instead, which counts all choices of all layers together.
  bool balance_together = false;
};
Model build_mixtral(const Mixtral& model, std::shared_ptr<const OpRegistry> registry);

// DeepSeek-V2 and V3 (2024): latent attention in place of Llama's, and experts. A head of queries and keys has
// `plain_size` numbers, and then `turned_size` that rotary positions turn.
struct DeepSeek : Mixtral {
  int64_t query_rank = 0;  // columns of the latent queries; 0: queries are made of the tokens themselves
  int64_t key_rank = 1;    // of the latent keys and values
  int64_t plain_size = 1, turned_size = 2, value_size = 1;
  // The indexer that chooses the keys that a query sees (V3.2). It matters for long sequences only, which are not
  // supported: here it is weights that nothing reads. 0: there is none.
  int64_t indexer_heads = 0, indexer_size = 0;
};
Model build_deepseek(const DeepSeek& model, std::shared_ptr<const OpRegistry> registry);

// GPT-NeoX (2022), Pythia.
struct GptNeoX : TextModel {
  Rotary rotary;
  bool parallel = true;  // the feed-forward part takes attention's input, not its result
  bool attention_bias = true;
  double dropout = 0;
};
Model build_gpt_neox(const GptNeoX& model, std::shared_ptr<const OpRegistry> registry);

// OPT (2022).
struct Opt : TextModel {
  int64_t positions = 2048;
  int64_t width = 1;        // of the embedding and of the head's input, `hidden` or with products between
  bool norm_before = true;  // norms of the inputs of attention and feed-forward part; else of the sums
  bool final_norm = true;
  bool bias = true;    // of the products in layers
  bool affine = true;  // norms have scale and bias
  double dropout = 0;
};
Model build_opt(const Opt& model, std::shared_ptr<const OpRegistry> registry);

}  // namespace partita
