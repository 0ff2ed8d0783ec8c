// Transformers as they are published, with the parameter names and layouts of their weights: GPT-2 (Radford et al. 2019), BERT (Devlin
// et al. 2018) and Llama 3 (2024) as Hugging Face has them, ViT-B/16 (Dosovitskiy et al. 2020) as torchvision has it.
#include <cmath>

#include "partita/models/family.h"
#include "partita/models/layers.h"

namespace partita {
namespace {

const double kBound = 0.02 * std::sqrt(3.0);  // a uniform distribution of deviation 0.02

class Network {
 public:
  Network(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry)
      : options(options), b(options.model(), std::move(registry)), layers(b, options.dtype()) {}

  int64_t size(const char* option) const { return options.integer(option); }
  TensorId tokens(const char* name) { return b.input(name, {size("batch"), size("steps")}, DType::kInt64); }
  TensorId add(TensorId x, TensorId y, const std::string& name) { return b.op("add", {x, y}, {}, name); }
  TensorId norm(TensorId x, const std::string& name, double eps) {
    const int64_t n = b.shape(x).back();
    b.set_source({name, ""});
    return b.op("layer_norm", {x, layers.parameter(name + ".weight", {n}, 0, 1), layers.parameter(name + ".bias", {n}, 0)},
                {{"eps", eps}}, name);
  }
  TensorId rms_norm(TensorId x, const std::string& name, double eps) {
    b.set_source({name, ""});
    return b.op("rms_norm", {x, layers.parameter(name + ".weight", {b.shape(x).back()}, 0, 1)}, {{"eps", eps}}, name);
  }
  // Weights [inputs, outputs], as GPT-2's.
  TensorId conv1d(TensorId x, const std::string& name, int64_t outputs) {
    b.set_source({name, ""});
    const TensorId w = layers.parameter(name + ".weight", {b.shape(x).back(), outputs}, kBound);
    return b.op("linear", {x, w, layers.parameter(name + ".bias", {outputs}, 0)}, {}, name);
  }
  // Self-attention of one product's q, k and v.
  TensorId packed_attention(TensorId qkv, const std::string& name, int64_t heads, bool causal) {
    const double third = static_cast<double>(b.shape(qkv).back() / 3);
    b.set_source({name, ""});
    const std::vector<TensorId> parts =
        b.ops("split", {qkv}, {{"axis", 2}, {"sizes.0", third}, {"sizes.1", third}, {"sizes.2", third}}, name + ".split");
    return attention(parts[0], parts[1], parts[2], name, heads, heads, causal);
  }
  TensorId attention(TensorId q, TensorId k, TensorId v, const std::string& name, int64_t heads, int64_t key_heads,
                     bool causal) {
    q = layers.split_heads(q, name + ".q", heads);
    k = layers.split_heads(k, name + ".k", key_heads);
    v = layers.split_heads(v, name + ".v", key_heads);
    return attend(q, k, v, name, causal);
  }
  // Of q, k, v by heads.
  TensorId attend(TensorId q, TensorId k, TensorId v, const std::string& name, bool causal) {
    return layers.merge_heads(b.op("attention", {q, k, v}, {{"causal", causal}}, name), name);
  }
  // A trained tensor [1, steps, width], or [steps, width].
  TensorId positions(const std::string& name, Shape shape) {
    b.set_source({name, ""});
    return layers.parameter(name, std::move(shape), kBound);
  }
  // The first `steps` of a table's rows.
  TensorId first_rows(TensorId table, int64_t steps, const std::string& name) {
    const Shape shape = b.shape(table);
    if (steps > shape[0]) fail("zoo:{}: steps={}, there are {} positions", options.model(), steps, shape[0]);
    if (steps == shape[0]) return table;
    return b.op("slice", {table}, {{"starts.0", 0}, {"starts.1", 0}, {"sizes.0", static_cast<double>(steps)}, {"sizes.1", static_cast<double>(shape[1])}}, name);
  }

  const ModelOptions& options;
  GraphBuilder b;
  Layers layers;
};

// ---------------------------------------------------------------- GPT-2

// The head is the embedding's table again.
Model build_gpt2(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  Network net(options, std::move(registry));
  GraphBuilder& b = net.b;
  const int64_t hidden = net.size("hidden"), heads = net.size("heads"), steps = net.size("steps"), count = net.size("layers");
  const double dropout = options.number("dropout", 0, 1);
  const TensorId tokens = net.tokens("tokens");
  b.set_source({"transformer.wte", ""});
  const TensorId words = net.layers.parameter("transformer.wte.weight", {net.size("vocabulary"), hidden}, kBound);
  TensorId x = b.op("gather", {words, tokens}, {{"axis", 0}}, "transformer.wte");
  const TensorId positions = net.positions("transformer.wpe.weight", {net.size("positions"), hidden});
  x = net.add(x, net.first_rows(positions, steps, "transformer.wpe"), "transformer.embedding");
  x = net.layers.dropout(x, "transformer.drop", dropout);
  for (int64_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("transformer.h.{}", i);
    TensorId y = net.conv1d(net.norm(x, name + ".ln_1", 1e-5), name + ".attn.c_attn", 3 * hidden);
    y = net.conv1d(net.packed_attention(y, name + ".attn", heads, true), name + ".attn.c_proj", hidden);
    x = net.add(x, net.layers.dropout(y, name + ".attn.resid_dropout", dropout), name + ".attn.add");
    y = net.conv1d(net.norm(x, name + ".ln_2", 1e-5), name + ".mlp.c_fc", 4 * hidden);
    y = net.conv1d(b.op("gelu_tanh", {y}, {}, name + ".mlp.act"), name + ".mlp.c_proj", hidden);
    x = net.add(x, net.layers.dropout(y, name + ".mlp.dropout", dropout), name + ".mlp.add");
  }
  x = net.norm(x, "transformer.ln_f", 1e-5);
  b.set_source({"lm_head", ""});
  return {b.finish({b.op("matmul_nt", {x, words}, {}, "lm_head")}), Loss{.kind = "cross_entropy"}};
}

ModelFamily gpt2_family(const char* name, int64_t layers, int64_t hidden, int64_t heads) {
  return {{name,
           fmt::format("GPT-2: {} layers of {}, the head tied to the embedding", layers, hidden),
           {{"batch", "8", "sequences a step"},
            {"steps", "1024", "tokens a sequence"},
            {"layers", std::to_string(layers), "transformer layers"},
            {"hidden", std::to_string(hidden), "columns of the residual stream"},
            {"heads", std::to_string(heads), "attention heads"},
            {"vocabulary", "50257", "different tokens"},
            {"positions", "1024", "rows of the position table"},
            {"dropout", "0", "probability"}}},
          build_gpt2};
}

// ---------------------------------------------------------------- BERT

// Encoder and pooler, no head: the first output is the pooler's.
Model build_bert(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  Network net(options, std::move(registry));
  GraphBuilder& b = net.b;
  const int64_t hidden = net.size("hidden"), heads = net.size("heads"), steps = net.size("steps"), count = net.size("layers");
  const double dropout = options.number("dropout", 0, 1);
  const TensorId tokens = net.tokens("tokens"), types = net.tokens("types");
  TensorId x = net.layers.embedding(tokens, "embeddings.word_embeddings", net.size("vocabulary"), hidden);
  const TensorId positions = net.positions("embeddings.position_embeddings.weight", {net.size("positions"), hidden});
  x = net.add(x, net.first_rows(positions, steps, "embeddings.position_embeddings"), "embeddings.positions");
  x = net.add(x, net.layers.embedding(types, "embeddings.token_type_embeddings", 2, hidden), "embeddings.types");
  x = net.layers.dropout(net.norm(x, "embeddings.LayerNorm", 1e-12), "embeddings.dropout", dropout);
  for (int64_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("encoder.layer.{}", i), self = name + ".attention.self";
    auto part = [&](const char* which) { return net.layers.linear(x, fmt::format("{}.{}", self, which), hidden); };
    const TensorId q = part("query"), k = part("key"), v = part("value");
    TensorId y = net.layers.linear(net.attention(q, k, v, self, heads, heads, false), name + ".attention.output.dense", hidden);
    y = net.layers.dropout(y, name + ".attention.output.dropout", dropout);
    x = net.norm(net.add(y, x, name + ".attention.add"), name + ".attention.output.LayerNorm", 1e-12);
    y = net.layers.linear(x, name + ".intermediate.dense", 4 * hidden);
    y = net.layers.linear(b.op("gelu", {y}, {}, name + ".intermediate.gelu"), name + ".output.dense", hidden);
    y = net.layers.dropout(y, name + ".output.dropout", dropout);
    x = net.norm(net.add(y, x, name + ".add"), name + ".output.LayerNorm", 1e-12);
  }
  const TensorId first = b.op("select", {x}, {{"axis", 1}, {"index", 0}}, "pooler.first");
  const TensorId pooled = b.op("tanh", {net.layers.linear(first, "pooler.dense", hidden)}, {}, "pooler");
  return {b.finish({pooled, x}), Loss{.kind = "elementwise"}};
}

ModelFamily bert_family(const char* name, int64_t layers, int64_t hidden, int64_t heads) {
  return {{name,
           fmt::format("BERT: {} layers of {}, with pooler, without heads", layers, hidden),
           {{"batch", "32", "sequences a step"},
            {"steps", "128", "tokens a sequence"},
            {"layers", std::to_string(layers), "transformer layers"},
            {"hidden", std::to_string(hidden), "columns of the residual stream"},
            {"heads", std::to_string(heads), "attention heads"},
            {"vocabulary", "30522", "different tokens"},
            {"positions", "512", "rows of the position table"},
            {"dropout", "0", "probability"}}},
          build_bert};
}

// ---------------------------------------------------------------- Llama 3

// Cosines and sines of rotary embeddings, [steps, size/2].
std::pair<TensorId, TensorId> rotation(Network& net, int64_t steps, int64_t size, double theta) {
  Values cosines{.dtype = net.layers.dtype, .shape = {steps, size / 2}}, sines = cosines;
  for (int64_t t = 0; t < steps; ++t)
    for (int64_t d = 0; d < size / 2; ++d) {
      const double angle = static_cast<double>(t) * std::pow(theta, -2.0 * static_cast<double>(d) / static_cast<double>(size));
      cosines.real.push_back(std::cos(angle)), sines.real.push_back(std::sin(angle));
    }
  return {net.b.constant("rotary.cosines", std::move(cosines)), net.b.constant("rotary.sines", std::move(sines))};
}

Model build_llama(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  Network net(options, std::move(registry));
  GraphBuilder& b = net.b;
  const int64_t hidden = net.size("hidden"), heads = net.size("heads"), key_heads = net.size("key_heads"),
                inner = net.size("inner"), words = net.size("vocabulary"), count = net.size("layers");
  if (hidden % heads || heads % key_heads)
    fail("zoo:{}: hidden={}, heads={}, key_heads={}: each must be a multiple of the next", options.model(), hidden, heads, key_heads);
  const int64_t size = hidden / heads;
  const auto [cosines, sines] = rotation(net, net.size("steps"), size, 500000);
  auto linear = [&](TensorId x, const std::string& name, int64_t outputs) { return net.layers.linear(x, name, outputs, false); };
  auto turned = [&, cosines = cosines, sines = sines](TensorId x, const std::string& name) {
    return b.op("rotary", {x, cosines, sines}, {}, name + ".rotary");
  };
  TensorId x = net.layers.embedding(net.tokens("tokens"), "model.embed_tokens", words, hidden);
  for (int64_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("model.layers.{}", i), self = name + ".self_attn", mlp = name + ".mlp";
    const TensorId z = net.rms_norm(x, name + ".input_layernorm", 1e-5);
    const TensorId q = net.layers.split_heads(linear(z, self + ".q_proj", hidden), self + ".q", heads),
                   k = net.layers.split_heads(linear(z, self + ".k_proj", key_heads * size), self + ".k", key_heads),
                   v = net.layers.split_heads(linear(z, self + ".v_proj", key_heads * size), self + ".v", key_heads);
    const TensorId a = net.attend(turned(q, self + ".q"), turned(k, self + ".k"), v, self, true);
    x = net.add(x, linear(a, self + ".o_proj", hidden), self + ".add");
    const TensorId y = net.rms_norm(x, name + ".post_attention_layernorm", 1e-5);
    const TensorId gate = b.op("silu", {linear(y, mlp + ".gate_proj", inner)}, {}, mlp + ".silu");
    const TensorId gated = b.op("mul", {gate, linear(y, mlp + ".up_proj", inner)}, {}, mlp + ".gated");
    x = net.add(x, linear(gated, mlp + ".down_proj", hidden), mlp + ".add");
  }
  return {b.finish({linear(net.rms_norm(x, "model.norm", 1e-5), "lm_head", words)}), Loss{.kind = "cross_entropy"}};
}

ModelFamily llama_family(const char* name, int64_t layers, int64_t hidden, int64_t heads, int64_t inner) {
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
          build_llama};
}

// ---------------------------------------------------------------- ViT-B/16

Model build_vit(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  constexpr int64_t kPatch = 16;
  Network net(options, std::move(registry));
  GraphBuilder& b = net.b;
  const int64_t hidden = net.size("hidden"), heads = net.size("heads"), image = options.integer("image", kPatch),
                batch = net.size("batch"), count = net.size("layers");
  const double dropout = options.number("dropout", 0, 1);
  TensorId x = b.input("x", {batch, 3, image, image}, options.dtype());
  x = net.layers.convolution(x, "conv_proj", {.outputs = hidden, .kernel = kPatch, .stride = kPatch, .bias = true});
  const int64_t patches = b.shape(x)[2] * b.shape(x)[3];
  auto extents = [](const Shape& shape) {
    tdl::Attributes attributes;
    for (size_t a = 0; a < shape.size(); ++a) attributes[fmt::format("shape.{}", a)] = static_cast<double>(shape[a]);
    return attributes;
  };
  x = b.op("reshape", {x}, extents({batch, hidden, patches}), "patches.flat");
  x = b.op("transpose", {x}, {{"perm.0", 0}, {"perm.1", 2}, {"perm.2", 1}}, "patches");
  const TensorId token = b.op("expand", {net.positions("class_token", {1, 1, hidden})}, extents({batch, 1, hidden}), "class_token.expand");
  x = net.layers.concat({token, x}, "tokens");
  x = net.add(x, net.positions("encoder.pos_embedding", {1, patches + 1, hidden}), "encoder.positions");
  x = net.layers.dropout(x, "encoder.dropout", dropout);
  for (int64_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("encoder.layers.encoder_layer_{}", i), self = name + ".self_attention";
    TensorId y = net.layers.linear(net.norm(x, name + ".ln_1", 1e-6), self + ".in_proj", 3 * hidden);
    y = net.layers.linear(net.packed_attention(y, self, heads, false), self + ".out_proj", hidden);
    x = net.add(x, net.layers.dropout(y, name + ".dropout", dropout), name + ".add1");
    y = net.layers.linear(net.norm(x, name + ".ln_2", 1e-6), name + ".mlp.0", 4 * hidden);
    y = net.layers.linear(b.op("gelu", {y}, {}, name + ".mlp.1"), name + ".mlp.3", hidden);
    x = net.add(x, net.layers.dropout(y, name + ".mlp.4", dropout), name + ".add2");
  }
  x = b.op("select", {net.norm(x, "encoder.ln", 1e-6)}, {{"axis", 1}, {"index", 0}}, "class");
  return {b.finish({net.layers.linear(x, "heads.head", net.size("classes"))}), Loss{.kind = "cross_entropy"}};
}

ModelFamily vit_family() {
  return {{"vit-b16",
           "ViT-B/16: patches of 16 x 16 pixels through an encoder",
           {{"batch", "32", "samples a step"},
            {"image", "224", "rows and columns"},
            {"layers", "12", "encoder layers"},
            {"hidden", "768", "columns of the residual stream"},
            {"heads", "12", "attention heads"},
            {"classes", "1000", "columns of the output"},
            {"dropout", "0", "probability"}}},
          build_vit};
}

}  // namespace

std::vector<ModelFamily> pretrained_families() {
  return {gpt2_family("gpt2", 12, 768, 12),
          gpt2_family("gpt2-medium", 24, 1024, 16),
          gpt2_family("gpt2-large", 36, 1280, 20),
          gpt2_family("gpt2-xl", 48, 1600, 25),
          bert_family("bert-base", 12, 768, 12),
          bert_family("bert-large", 24, 1024, 16),
          llama_family("llama-3-8b", 32, 4096, 32, 14336),
          llama_family("llama-3-70b", 80, 8192, 64, 28672),
          llama_family("llama-3-405b", 126, 16384, 128, 53248),
          vit_family()};
}

}  // namespace partita
