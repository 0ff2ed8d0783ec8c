// Builds GPT-2, as Hugging Face has it.
#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/models/family.h"
#include "partita/models/transformers.h"

namespace partita {

Model build_gpt2(const Gpt2& m, std::shared_ptr<const OpRegistry> registry) {
  Network net(m.name, m.dtype, std::move(registry));
  GraphBuilder& b = net.b;
  const TensorId tokens = b.input(m.tokens, {m.batch, m.steps}, DType::kInt64);
  const TensorId words = net.table("transformer.wte.weight", {m.vocabulary, m.hidden});
  TensorId x = b.op("gather", {words, tokens}, {{"axis", 0}}, "transformer.wte");
  const TensorId positions = net.table("transformer.wpe.weight", {m.positions, m.hidden});
  x = net.add(x, net.first_rows(positions, m.steps, "transformer.wpe"), "transformer.embedding");
  x = net.layers.dropout(x, "transformer.drop", m.embedding_dropout);
  for (int64_t i = 0; i < m.layers; ++i) {
    const std::string name = fmt::format("transformer.h.{}", i);
    AttentionOptions attention{.causal = true, .dropout = m.attention_dropout};
    if (!m.scaled) attention.scale = 1;
    const int64_t head_size = m.hidden / m.heads;
    if (m.scaled_by_layer)
      attention.scale = (m.scaled ? 1 / std::sqrt(static_cast<double>(head_size)) : 1) / static_cast<double>(i + 1);
    TensorId y = net.conv1d(net.norm(x, name + ".ln_1", m.eps), name + ".attn.c_attn", 3 * m.hidden);
    y = net.conv1d(net.packed_attention(y, name + ".attn", m.heads, attention), name + ".attn.c_proj", m.hidden);
    x = net.add(x, net.layers.dropout(y, name + ".attn.resid_dropout", m.residual_dropout), name + ".attn.add");
    y = net.conv1d(net.norm(x, name + ".ln_2", m.eps), name + ".mlp.c_fc", m.inner);
    y = net.conv1d(b.op(m.activation, {y}, {}, name + ".mlp.act"), name + ".mlp.c_proj", m.hidden);
    x = net.add(x, net.layers.dropout(y, name + ".mlp.dropout", m.residual_dropout), name + ".mlp.add");
  }
  x = net.norm(x, "transformer.ln_f", m.eps);
  return {b.finish({net.head(x, m.tied ? words : TensorId(), "lm_head", m.vocabulary)}), Loss{.kind = "cross_entropy"}};
}

namespace {

Model build(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  Gpt2 model;
  model.name = options.model();
  model.dtype = options.dtype();
  model.batch = options.integer("batch"), model.steps = options.integer("steps"),
  model.layers = options.integer("layers");
  model.hidden = options.integer("hidden"), model.heads = options.integer("heads"), model.inner = 4 * model.hidden;
  model.vocabulary = options.integer("vocabulary");
  model.positions = options.integer_or_auto("positions", std::max<int64_t>(1024, model.steps));
  model.activation = "gelu_tanh";
  model.embedding_dropout = model.residual_dropout = options.number("dropout", 0, 1);
  return build_gpt2(model, std::move(registry));
}

ModelFamily family(const char* name, int64_t layers, int64_t hidden, int64_t heads) {
  return {{name,
           fmt::format("GPT-2: {} layers of {}, the head tied to the embedding", layers, hidden),
           {{"batch", "8", "sequences a step"},
            {"steps", "1024", "tokens a sequence"},
            {"layers", std::to_string(layers), "transformer layers"},
            {"hidden", std::to_string(hidden), "columns of the residual stream"},
            {"heads", std::to_string(heads), "attention heads"},
            {"vocabulary", "50257", "different tokens"},
            {"positions", "auto", "rows of the position table; auto: 1024, or steps where these are more"},
            {"dropout", "0", "probability"}}},
          build};
}

}  // namespace

std::vector<ModelFamily> gpt2_families() {
  return {family("gpt2", 12, 768, 12), family("gpt2-medium", 24, 1024, 16), family("gpt2-large", 36, 1280, 20),
          family("gpt2-xl", 48, 1600, 25)};
}

}  // namespace partita
