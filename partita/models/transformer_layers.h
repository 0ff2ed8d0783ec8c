// Builds the parts of a transformer's layers (Vaswani et al., 2017), each one operation or, `fine`, made of elementary
// ones.
#pragma once
#include <map>
#include <string>

#include "partita/models/layers.h"

namespace partita {

class TransformerLayers {
 public:
  TransformerLayers(GraphBuilder& builder, DType dtype, int64_t heads, bool fine)
      : layers(builder, dtype), b_(builder), heads_(heads), fine_(fine) {}

  // Layer norm over the last axis; NAME.weight, NAME.bias.
  TensorId norm(TensorId x, const std::string& name);
  // x [batch, steps, hidden] looks at `memory` [batch, keys, hidden], with NAME.q, .k, .v and .out. `causal`: at keys
  // that are not later than the query.
  TensorId attention(TensorId x, TensorId memory, const std::string& name, bool causal, bool bias = true);
  // down(activation(up(x))) with `inner` columns inside.
  TensorId feed_forward(TensorId x, const std::string& name, int64_t inner, const std::string& activation);

  Layers layers;

 private:
  TensorId elementary_attention(TensorId q, TensorId k, TensorId v, const std::string& name, bool causal);
  TensorId causal_mask(int64_t steps);

  GraphBuilder& b_;
  int64_t heads_;
  bool fine_;
  std::map<int64_t, TensorId> masks_;  // by steps; one for all layers
};

}  // namespace partita
