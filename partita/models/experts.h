// Builds a layer of experts in place of a feed-forward part.
#pragma once
#include <string>

#include "partita/models/layers.h"

namespace partita {

struct Experts {
  int64_t count = 8;
  int64_t choices = 2;  // experts a token goes to
  int64_t inner = 0;    // columns inside an expert
  int64_t groups = 1;   // of tokens, each routed by itself; they divide batch * steps
  // Places of an expert in a group, in units of its even share, choices * tokens / experts; tokens without one are
  // dropped. 0: none is dropped, and a plan counts on `imbalance` even shares.
  double capacity = 0;
  double imbalance = 1;  // the largest share over the even one
  bool gated = false;    // down(activation(gate(x)) * up(x)); else down(activation(up(x)))
  // gate and up are one product, gate first: weights NAME.experts.gate_up_proj [experts, hidden, 2 inner] and
  // NAME.experts.down_proj [experts, inner, hidden].
  bool fused = false;
  bool interleaved = false;  // if fused, gate and up lie beside each other, column by column
  bool bias = false;         // if fused: NAME.experts.gate_up_proj_bias and .down_proj_bias
  bool router_bias = false;
  // If fused, in place of the activation and the product: with g no more than the limit and u within it, (u + 1) g
  // sigmoid(alpha g) (gpt-oss). 0: none of this.
  double limit = 0, alpha = 0;
  bool scored_inputs = false;       // a token's only choice scales its expert's input, not its result
  std::string activation = "gelu";  // an element-wise operation
  bool normalize_single = false;    // a token's only choice counts 1, not its probability
  bool unnormalized = false;        // choices count their scores, which are not divided by their sum
  double scale = 1;                 // of the choices' weights
  bool sigmoid = false;             // scores are sigmoids of the logits, not their softmax
  bool corrected = false;           // a number of each expert, NAME.gate.e_score_correction_bias, is added to choose by
  // Equal parts of the experts, of which a token's choices are in the best `chosen_parts`; a part is as good as the sum
  // of its `part_best` best.
  int64_t parts = 1, chosen_parts = 1, part_best = 1;
};

struct ExpertsResult {
  TensorId y;              // of x's shape
  TensorId balance;        // the load-balancing loss, one number
  TensorId probabilities;  // [groups, tokens, experts]: the scores
  TensorId chosen;         // [groups, tokens, choices]: numbers of experts
};

// Adds the layer. x [batch, steps, hidden]. Weights NAME.gate.weight [experts, hidden] and, of all experts together,
// NAME.experts.up_proj (and .gate_proj) [experts, inner, hidden] and NAME.experts.down_proj [experts, hidden, inner]. A
// token's result is the sum of its choices' results, weighted by their scores. Several scores are divided by their sum
// (GShard, algorithm 1), and so is a single one with `normalize_single`; with `unnormalized` none is.
ExpertsResult experts(Layers& layers, TensorId x, const std::string& name, const Experts& options);

}  // namespace partita
