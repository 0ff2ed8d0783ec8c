// Builds BERT, as Hugging Face has it.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/models/family.h"
#include "partita/models/transformers.h"

namespace partita {

// A layer of the encoder: attention, then the feed-forward part, each with its norm behind the sum.
static TensorId layer(Network& net, const Bert& m, TensorId x, const std::string& name) {
  const std::string self = name + ".attention.self";
  auto part = [&](const char* which, const char* heads) {
    return net.layers.split_heads(net.layers.linear(x, fmt::format("{}.{}", self, which), m.hidden), self + heads,
                                  m.heads);
  };
  const TensorId q = part("query", ".q"), k = part("key", ".k"), v = part("value", ".v");
  TensorId y = net.layers.linear(net.attention(q, k, v, self, {.dropout = m.attention_dropout}),
                                 name + ".attention.output.dense", m.hidden);
  y = net.layers.dropout(y, name + ".attention.output.dropout", m.dropout);
  x = net.norm(net.add(y, x, name + ".attention.add"), name + ".attention.output.LayerNorm", m.eps);
  y = net.layers.linear(x, name + ".intermediate.dense", m.inner);
  y = net.layers.linear(net.b.op(m.activation, {y}, {}, name + ".intermediate.gelu"), name + ".output.dense", m.hidden);
  y = net.layers.dropout(y, name + ".output.dropout", m.dropout);
  return net.norm(net.add(y, x, name + ".add"), name + ".output.LayerNorm", m.eps);
}

Model build_bert(const Bert& m, std::shared_ptr<const OpRegistry> registry) {
  Network net(m.name, m.dtype, std::move(registry));
  GraphBuilder& b = net.b;
  const std::string prefix = m.head == Bert::Head::kNone ? "" : "bert.", embeddings = prefix + "embeddings.";
  const TensorId tokens = b.input(m.tokens, {m.batch, m.steps}, DType::kInt64),
                 types = b.input(m.types, {m.batch, m.steps}, DType::kInt64);
  const TensorId words = net.table(embeddings + "word_embeddings.weight", {m.vocabulary, m.hidden});
  TensorId x = b.op("gather", {words, tokens}, {{"axis", 0}}, embeddings + "word_embeddings");
  const TensorId positions = net.table(embeddings + "position_embeddings.weight", {m.positions, m.hidden});
  x = net.add(x, net.first_rows(positions, m.steps, embeddings + "position_embeddings"), embeddings + "positions");
  x = net.add(x, net.layers.embedding(types, embeddings + "token_type_embeddings", m.type_count, m.hidden),
              embeddings + "types");
  x = net.layers.dropout(net.norm(x, embeddings + "LayerNorm", m.eps), embeddings + "dropout", m.dropout);
  for (int64_t i = 0; i < m.layers; ++i) x = layer(net, m, x, fmt::format("{}encoder.layer.{}", prefix, i));
  auto pooled = [&] {
    const TensorId first = b.op("select", {x}, {{"axis", 1}, {"index", 0}}, prefix + "pooler.first");
    return b.op("tanh", {net.layers.linear(first, prefix + "pooler.dense", m.hidden)}, {}, prefix + "pooler");
  };
  auto words_of = [&] {  // the logits of each token
    const std::string cls = "cls.predictions", transform = cls + ".transform";
    TensorId y =
        b.op(m.activation, {net.layers.linear(x, transform + ".dense", m.hidden)}, {}, transform + ".activation");
    y = net.norm(y, transform + ".LayerNorm", m.eps);
    b.set_source({cls, ""});
    const TensorId table = m.tied ? words : net.table(cls + ".decoder.weight", {m.vocabulary, m.hidden});
    const TensorId bias = net.layers.parameter(cls + ".bias", {m.vocabulary}, 0);
    return b.op("linear", {y, table, bias}, {{"transposed", 1}}, cls);
  };
  Loss loss{.kind = "cross_entropy"};
  switch (m.head) {
    case Bert::Head::kMaskedLm:
      return {b.finish({words_of()}), loss};
    case Bert::Head::kPretraining: {
      const TensorId logits = words_of(), next = net.layers.linear(pooled(), "cls.seq_relationship", 2);
      loss.auxiliary.push_back({next, 1, "next_sentence_label"});
      return {b.finish({logits, next}), loss};
    }
    case Bert::Head::kClassifier: {
      const TensorId y = net.layers.dropout(pooled(), "dropout", m.classifier_dropout);
      return {b.finish({net.layers.linear(y, "classifier", m.classes)}), loss};
    }
    case Bert::Head::kNone:
      break;
  }
  loss.kind = "elementwise";
  return {b.finish({pooled(), x}), loss};
}

namespace {

Model build(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  Bert model;
  model.name = options.model();
  model.dtype = options.dtype();
  model.batch = options.integer("batch"), model.steps = options.integer("steps"),
  model.layers = options.integer("layers");
  model.hidden = options.integer("hidden"), model.heads = options.integer("heads"), model.inner = 4 * model.hidden;
  model.vocabulary = options.integer("vocabulary");
  model.positions = options.integer_or_auto("positions", std::max<int64_t>(512, model.steps));
  model.activation = "gelu";
  model.eps = 1e-12;
  model.dropout = options.number("dropout", 0, 1);
  return build_bert(model, std::move(registry));
}

ModelFamily family(const char* name, int64_t layers, int64_t hidden, int64_t heads) {
  return {{name,
           fmt::format("BERT: {} layers of {}, with pooler, without heads", layers, hidden),
           {{"batch", "32", "sequences a step"},
            {"steps", "128", "tokens a sequence"},
            {"layers", std::to_string(layers), "transformer layers"},
            {"hidden", std::to_string(hidden), "columns of the residual stream"},
            {"heads", std::to_string(heads), "attention heads"},
            {"vocabulary", "30522", "different tokens"},
            {"positions", "auto", "rows of the position table; auto: 512, or steps where these are more"},
            {"dropout", "0", "probability"}}},
          build};
}

}  // namespace

std::vector<ModelFamily> bert_families() {
  return {family("bert-base", 12, 768, 12), family("bert-large", 24, 1024, 16)};
}

}  // namespace partita
