// Builds Llama, as Hugging Face has it: grouped queries, rotary positions, SwiGLU; and models with changes in its
// layers.
#include "partita/base/error.h"
#include "partita/models/family.h"
#include "partita/models/transformers.h"

namespace partita {

namespace {

struct Layer {
  const Llama& m;
  Network& net;
  std::string name;  // "model.layers.0"
  Llama::Kind kind;
  const RotaryTable& rotary;
};

// q, k or v [batch, heads, steps, size] of x [batch, steps, hidden], or of the parts of one product.
TensorId heads(const Layer& l, TensorId x, const std::vector<TensorId>& parts, const char* name) {
  const Llama& m = l.m;
  const bool is_query = name[0] == 'q', is_value = name[0] == 'v';
  const int64_t count = is_query ? m.heads : m.key_heads;
  const std::string own = fmt::format("{}.self_attn.{}", l.name, name);
  TensorId y = m.fused ? parts[is_query   ? 0
                               : is_value ? 2
                                          : 1]
                       : l.net.layers.linear(x, own + "_proj", count * m.size, m.attention_bias);
  if (!is_value && m.query_norm == Llama::QueryNorm::kAll) y = l.net.rms_norm(y, own + "_norm", m.eps, m.norm_from_one);
  y = l.net.layers.split_heads(y, own, count);
  if (!is_value && m.query_norm == Llama::QueryNorm::kHead)
    y = l.net.rms_norm(y, own + "_norm", m.eps, m.norm_from_one);
  return y;
}

// Queries or keys as attention takes them.
TensorId placed(const Layer& l, TensorId x, const std::string& name, bool is_query) {
  const Llama& m = l.m;
  GraphBuilder& b = l.net.b;
  if (!l.kind.turned) {
    if (!is_query || m.query_scales.empty()) return x;
    Values scales{.dtype = m.dtype, .shape = {m.steps, 1}, .real = m.query_scales, .integer = {}};
    return b.op("mul", {x, b.constant(name + ".scales", std::move(scales))}, {}, name + ".scaled");
  }
  x = l.net.apply_rotary(x, l.rotary, name + ".rotary");
  if (m.query_norm != Llama::QueryNorm::kTurned) return x;
  return b.op("rms_norm", {x}, {{"eps", m.eps}}, name + ".norm");
}

TensorId attention(const Layer& l, TensorId x) {
  const Llama& m = l.m;
  Network& net = l.net;
  const std::string self = l.name + ".self_attn";
  const int64_t queries = m.heads * m.size, keys = m.key_heads * m.size;
  std::vector<TensorId> parts;
  if (m.fused)
    parts = net.split(net.layers.linear(x, self + ".qkv_proj", queries + 2 * keys, m.attention_bias), 2,
                      {queries, keys, keys}, self + ".split");
  const TensorId q = heads(l, x, parts, "q"), k = heads(l, x, parts, "k"), v = heads(l, x, parts, "v");
  const TensorId placed_q = placed(l, q, self + ".q", true), placed_k = placed(l, k, self + ".k", false);
  const TensorId a =
      net.attention(placed_q, placed_k, v, self,
                    {.causal = true,
                     .window = l.kind.window,
                     .scale = m.attention_scale,
                     .softcap = m.attention_softcap,
                     .dropout = m.attention_dropout,
                     .sinks = m.sinks ? net.layers.parameter(self + ".sinks", {m.heads}, kNormalBound) : TensorId()});
  return net.layers.linear(a, self + ".o_proj", m.hidden, m.output_bias);
}

TensorId feed_forward(const Layer& l, TensorId x) {
  const Llama& m = l.m;
  Network& net = l.net;
  const std::string mlp = l.name + ".mlp";
  if (!m.fused) return net.gated(x, mlp, m.inner, m.activation, m.feed_forward_bias);
  const TensorId both = net.layers.linear(x, mlp + ".gate_up_proj", 2 * m.inner, m.feed_forward_bias);
  const std::vector<TensorId> parts = net.split(both, 2, {m.inner, m.inner}, mlp + ".split");
  const TensorId gate = net.b.op(m.activation, {parts[0]}, {}, mlp + ".silu");
  return net.layers.linear(net.b.op("mul", {parts[1], gate}, {}, mlp + ".gated"), mlp + ".down_proj", m.hidden,
                           m.feed_forward_bias);
}

TensorId layer(const Layer& l, TensorId x, int64_t number) {
  const Llama& m = l.m;
  Network& net = l.net;
  auto norm = [&](TensorId y, const char* which) { return net.rms_norm(y, l.name + which, m.eps, m.norm_from_one); };
  auto added = [&](TensorId y, const std::string& part) {
    if (m.residual_scale != 1)
      y = net.b.op("mul", {y, net.b.scalar(part + ".scale", m.residual_scale, m.dtype)}, {}, part + ".scaled");
    return net.add(x, net.layers.dropout(y, part + ".resid_dropout", m.residual_dropout), part + ".add");
  };
  const TensorId z = m.norm_before ? norm(x, ".input_layernorm") : x;
  TensorId y = m.attention ? m.attention(net, z, l.name, l.rotary) : attention(l, z);
  if (m.norm_after) y = norm(y, ".post_attention_layernorm");
  x = added(y, l.name + ".self_attn");
  y = m.norm_before ? norm(x, m.norm_after ? ".pre_feedforward_layernorm" : ".post_attention_layernorm") : x;
  const TensorId own = m.feed_forward ? m.feed_forward(net, y, l.name, number) : TensorId();
  y = own.valid() ? own : feed_forward(l, y);
  if (m.norm_after) y = norm(y, ".post_feedforward_layernorm");
  return added(y, l.name + ".mlp");
}

}  // namespace

Model build_llama(const Llama& m, std::shared_ptr<const OpRegistry> registry) {
  if (m.key_heads < 1 || m.heads % m.key_heads)
    fail("{}: {} heads of queries are not equal groups for {} of keys", m.name, m.heads, m.key_heads);
  Network net(m.name, m.dtype, std::move(registry));
  GraphBuilder& b = net.b;
  std::vector<RotaryTable> tables;
  for (std::size_t k = 0; k < m.rotaries.size(); ++k)
    tables.push_back(net.rotary_table(m.rotaries[k], m.steps, k == 0 ? "rotary" : fmt::format("rotary.{}", k)));
  const TensorId tokens = b.input(m.tokens, {m.batch, m.steps}, DType::kInt64);
  b.set_source({"model.embed_tokens", ""});
  const TensorId words = net.table("model.embed_tokens.weight", {m.vocabulary, m.hidden});
  TensorId x = b.op("gather", {words, tokens}, {{"axis", 0}}, "model.embed_tokens");
  if (m.embedding_scale != 1)
    x = b.op("mul", {x, b.scalar("model.embed_scale", m.embedding_scale, m.dtype)}, {}, "model.embed_tokens.scaled");
  for (int64_t i = 0; i < m.layers; ++i) {
    const Llama::Kind kind =
        m.kinds.empty() ? Llama::Kind() : m.kinds[m.kinds.size() == 1 ? 0 : static_cast<std::size_t>(i)];
    x = layer({m, net, fmt::format("model.layers.{}", i), kind, tables.at(kind.rotary)}, x, i);
  }
  if (m.behind_layers) m.behind_layers(net);
  x = net.rms_norm(x, "model.norm", m.eps, m.norm_from_one);
  x = net.head(x, m.tied ? words : TensorId(), "lm_head", m.vocabulary);
  if (m.final_divisor != 1)
    x = b.op("div", {x, b.scalar("lm_head.divisor", m.final_divisor, m.dtype)}, {}, "lm_head.divided");
  if (m.final_softcap > 0) x = net.capped(x, "lm_head.capped", m.final_softcap);
  return {b.finish({x}), Loss{.kind = "cross_entropy"}};
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
  model.rotaries = {{.frequencies = rotary_frequencies(500000, model.size)}};
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
