// Llama, as Hugging Face has it: grouped queries, rotary positions, SwiGLU.
#include <cmath>

#include "partita/base/error.h"
#include "partita/models/family.h"
#include "partita/models/transformers.h"

namespace partita {

std::vector<double> rotary_frequencies(double theta, int64_t size) {
  std::vector<double> frequencies;
  for (int64_t d = 0; d < size / 2; ++d)
    frequencies.push_back(std::pow(theta, -2.0 * static_cast<double>(d) / static_cast<double>(size)));
  return frequencies;
}

namespace {

// Cosines and sines of rotary positions, [steps, size/2].
std::pair<TensorId, TensorId> rotation(Network& net, int64_t steps, const std::vector<double>& frequencies) {
  Values cosines{.dtype = net.layers.dtype, .shape = {steps, static_cast<int64_t>(frequencies.size())}},
      sines = cosines;
  for (int64_t t = 0; t < steps; ++t)
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(t) * frequency;
      cosines.real.push_back(std::cos(angle)), sines.real.push_back(std::sin(angle));
    }
  return {net.b.constant("rotary.cosines", std::move(cosines)), net.b.constant("rotary.sines", std::move(sines))};
}

TensorId gated(Network& net, TensorId x, const std::string& mlp, const Llama& m) {
  const TensorId gate = net.b.op(m.activation, {net.layers.linear(x, mlp + ".gate_proj", m.inner, m.feed_forward_bias)},
                                 {}, mlp + ".silu");
  const TensorId up = net.layers.linear(x, mlp + ".up_proj", m.inner, m.feed_forward_bias);
  return net.layers.linear(net.b.op("mul", {gate, up}, {}, mlp + ".gated"), mlp + ".down_proj", m.hidden,
                           m.feed_forward_bias);
}

}  // namespace

Model build_llama(const Llama& m, std::shared_ptr<const OpRegistry> registry) {
  if (m.key_heads < 1 || m.heads % m.key_heads)
    fail("{}: {} heads of queries are not equal groups for {} of keys", m.name, m.heads, m.key_heads);
  Network net(m.name, m.dtype, std::move(registry));
  GraphBuilder& b = net.b;
  const auto [cosines, sines] = rotation(net, m.steps, m.frequencies);
  const TensorId tokens = b.input(m.tokens, {m.batch, m.steps}, DType::kInt64);
  b.set_source({"model.embed_tokens", ""});
  const TensorId words = net.table("model.embed_tokens.weight", {m.vocabulary, m.hidden});
  TensorId x = b.op("gather", {words, tokens}, {{"axis", 0}}, "model.embed_tokens");
  const AttentionOptions attention{.causal = true, .window = m.window, .dropout = m.attention_dropout};
  for (int64_t i = 0; i < m.layers; ++i) {
    const std::string name = fmt::format("model.layers.{}", i), self = name + ".self_attn";
    const TensorId z = net.rms_norm(x, name + ".input_layernorm", m.eps);
    auto heads = [&](const char* part, int64_t count) {
      const TensorId y = net.layers.linear(z, fmt::format("{}.{}_proj", self, part), count * m.size, m.attention_bias);
      return net.layers.split_heads(y, fmt::format("{}.{}", self, part), count);
    };
    auto turned = [&, cosines = cosines, sines = sines](TensorId y, const char* part) {
      return b.op("rotary", {y, cosines, sines}, {}, fmt::format("{}.{}.rotary", self, part));
    };
    const TensorId q = heads("q", m.heads), k = heads("k", m.key_heads), v = heads("v", m.key_heads);
    const TensorId a = net.attention(turned(q, "q"), turned(k, "k"), v, self, attention);
    x = net.add(x, net.layers.linear(a, self + ".o_proj", m.hidden, m.attention_bias), self + ".add");
    const TensorId y = net.rms_norm(x, name + ".post_attention_layernorm", m.eps);
    x = net.add(x, m.feed_forward ? m.feed_forward(net, y, name) : gated(net, y, name + ".mlp", m), name + ".mlp.add");
  }
  x = net.rms_norm(x, "model.norm", m.eps);
  return {b.finish({net.head(x, m.tied ? words : TensorId(), "lm_head", m.vocabulary)}), Loss{.kind = "cross_entropy"}};
}

namespace {

Model build(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  Llama model;
  model.name = options.model();
  model.dtype = options.dtype();
  model.batch = options.integer("batch"), model.steps = options.integer("steps"),
  model.layers = options.integer("layers");
  model.hidden = options.integer("hidden"), model.heads = options.integer("heads"),
  model.inner = options.integer("inner");
  model.key_heads = options.integer("key_heads"), model.vocabulary = options.integer("vocabulary");
  model.activation = "silu";
  model.tied = false;
  if (model.hidden % model.heads || model.heads % model.key_heads)
    fail("zoo:{}: hidden={}, heads={}, key_heads={}: each must be a multiple of the next", model.name, model.hidden,
         model.heads, model.key_heads);
  model.size = model.hidden / model.heads;
  model.frequencies = rotary_frequencies(500000, model.size);
  return build_llama(model, std::move(registry));
}

ModelFamily family(const char* name, int64_t layers, int64_t hidden, int64_t heads, int64_t inner) {
  return {{name,
           fmt::format("Llama 3: {} layers of {}, grouped queries, rotary positions, SwiGLU", layers, hidden),
           {{"batch", "1", "sequences a step"},
            {"steps", "8192", "tokens a sequence"},
            {"layers", std::to_string(layers), "transformer layers"},
            {"hidden", std::to_string(hidden), "columns of the residual stream"},
            {"heads", std::to_string(heads), "heads of the queries"},
            {"key_heads", "8", "heads of keys and values"},
            {"inner", std::to_string(inner), "columns inside the feed-forward part"},
            {"vocabulary", "128256", "different tokens"}}},
          build};
}

}  // namespace

std::vector<ModelFamily> llama_families() {
  return {family("llama-3-8b", 32, 4096, 32, 14336), family("llama-3-70b", 80, 8192, 64, 28672),
          family("llama-3-405b", 126, 16384, 128, 53248)};
}

}  // namespace partita
