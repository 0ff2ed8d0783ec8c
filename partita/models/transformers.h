// Transformers of text as they are published, with the parameter names and layouts of Hugging Face's weights. One
// builder a family, which the zoo and Hugging Face's configurations (huggingface.cc) have in common.
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

// What all of them have.
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

// Llama (2023, 2024), and what has its layers.
struct Llama : TextModel {
  int64_t key_heads = 1;
  int64_t size = 1;                 // of a head
  std::vector<double> frequencies;  // of the rotary positions: radians a step, size/2 of them
  int64_t window = 0;               // of keys that a query sees, its own the last; 0: all before it
  bool attention_bias = false, feed_forward_bias = false;
  // In place of the gated layer: from the normalised [batch, steps, hidden] of layer NAME to what is added. Empty: the
  // gated layer.
  std::function<TensorId(Network& net, TensorId x, const std::string& name)> feed_forward;
};
Model build_llama(const Llama& model, std::shared_ptr<const OpRegistry> registry);

// Mixtral (2024): Llama with experts of gated layers for its feed-forward parts.
struct Mixtral : Llama {
  Experts experts;     // `inner` is the model's
  double balance = 0;  // weight of the load-balancing loss, summed over layers
  // In its place the one that transformers computes, which counts all choices of all layers together.
  bool balance_together = false;
};
Model build_mixtral(const Mixtral& model, std::shared_ptr<const OpRegistry> registry);

// theta^(-2 d/size) for d < size/2.
std::vector<double> rotary_frequencies(double theta, int64_t size);

}  // namespace partita
