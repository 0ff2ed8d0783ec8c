// Builds attention, norms and feed-forward parts, in one operation each or in elementary ones.
#include "partita/models/transformer_layers.h"

#include <cmath>
#include <limits>

#include "partita/models/elementary.h"

namespace partita {

TensorId TransformerLayers::norm(TensorId x, const std::string& name) {
  const int64_t n = b_.shape(x).back();
  b_.set_source({name, ""});
  const TensorId w = layers.parameter(name + ".weight", {n}, 0, 1), bias = layers.parameter(name + ".bias", {n}, 0);
  return fine_ ? elementary_layer_norm(b_, x, w, bias, 1e-5, name) : b_.op("layer_norm", {x, w, bias}, {}, name);
}

TensorId TransformerLayers::attention(TensorId x, TensorId memory, const std::string& name, bool causal, bool bias) {
  const int64_t hidden = b_.shape(x)[2];
  auto heads = [&](TensorId from, const std::string& part) {
    return layers.split_heads(layers.linear(from, part, hidden, bias), part, heads_);
  };
  const TensorId q = heads(x, name + ".q"), k = heads(memory, name + ".k"), v = heads(memory, name + ".v");
  b_.set_source({name, ""});
  const TensorId o =
      fine_ ? elementary_attention(q, k, v, name, causal) : b_.op("attention", {q, k, v}, {{"causal", causal}}, name);
  const TensorId merged = layers.merge_heads(o, name);
  return layers.linear(merged, name + ".out", hidden, bias);
}

TensorId TransformerLayers::feed_forward(TensorId x, const std::string& name, int64_t inner,
                                         const std::string& activation) {
  const int64_t hidden = b_.shape(x)[2];
  const TensorId up = layers.linear(x, name + ".up", inner);
  return layers.linear(b_.op(activation, {up}, {}, name + "." + activation), name + ".down", hidden);
}

TensorId TransformerLayers::elementary_attention(TensorId q, TensorId k, TensorId v, const std::string& name,
                                                 bool causal) {
  const int64_t steps = b_.shape(q)[2];
  const double size = static_cast<double>(b_.shape(q)[3]);
  TensorId scores = b_.op("matmul_nt", {q, k}, {}, name + ".product");
  scores = b_.op("mul", {scores, b_.scalar(name + ".scale", 1 / std::sqrt(size), layers.dtype)}, {}, name + ".scores");
  if (causal) scores = b_.op("add", {scores, causal_mask(steps)}, {}, name + ".masked");
  return b_.op("matmul", {elementary_softmax(b_, scores, name), v}, {}, name);
}

// -inf if a key is later than the query.
TensorId TransformerLayers::causal_mask(int64_t steps) {
  TensorId& mask = masks_[steps];
  if (mask.valid()) return mask;
  Values values{.dtype = layers.dtype, .shape = {steps, steps}};
  for (int64_t i = 0; i < steps; ++i)
    for (int64_t j = 0; j < steps; ++j) values.real.push_back(j <= i ? 0 : -std::numeric_limits<double>::infinity());
  return mask = b_.constant("causal_mask", std::move(values));
}

}  // namespace partita
