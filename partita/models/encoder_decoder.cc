// Builds the transformer for translation (Vaswani et al. 2017): an encoder of self-attention and feed-forward parts, a
// decoder with attention to the encoder's result between the two; norms behind each sum (section 3.1), positions as
// sinusoids (section 3.5), one table for both languages and the output (section 3.4). Pesto trains it too.
#include <cmath>

#include "partita/base/error.h"
#include "partita/models/family.h"
#include "partita/models/transformer_layers.h"

namespace partita {
namespace {

class Network {
 public:
  Network(GraphBuilder& b, const ModelOptions& options)
      : b_(b),
        layer_(b, options.dtype(), options.integer("heads"), options.flag("fine")),
        batch_(options.integer("batch")),
        steps_(options.integer("steps")),
        hidden_(options.integer("hidden")),
        inner_(options.text("inner").empty() ? 4 * hidden_ : options.integer("inner")),
        vocabulary_(options.integer("vocabulary", 2)),
        dropout_(options.number("dropout", 0, 1)),
        tied_(options.flag("tied")) {
    if (hidden_ % options.integer("heads"))
      fail("zoo:{}: hidden={} is not a multiple of heads={}", options.model(), hidden_, options.integer("heads"));
  }

  // Words of the input `language`, sqrt(hidden) times their rows of the table, and positions.
  TensorId words(const std::string& language, const std::string& part) {
    const TensorId ids = b_.input(language, {batch_, steps_}, DType::kInt64);
    const std::string name = part + ".embedding";
    TensorId x = b_.op("gather", {table(name), ids}, {{"axis", 0}}, name);
    x = b_.op("mul", {x, b_.scalar(name + ".scale", std::sqrt(static_cast<double>(hidden_)), layer_.layers.dtype)}, {},
              name + ".scaled");
    x = b_.op("add", {x, positions()}, {}, part + ".positions");
    return layer_.layers.dropout(x, part + ".dropout", dropout_);
  }

  TensorId encoder_layer(TensorId x, const std::string& name) {
    x = joined(x, layer_.attention(x, x, name + ".attention", false, false), name, 1);
    return joined(x, layer_.feed_forward(x, name + ".feed_forward", inner_, "relu"), name, 2);
  }

  TensorId decoder_layer(TensorId x, TensorId memory, const std::string& name) {
    x = joined(x, layer_.attention(x, x, name + ".attention", true, false), name, 1);
    x = joined(x, layer_.attention(x, memory, name + ".cross_attention", false, false), name, 2);
    return joined(x, layer_.feed_forward(x, name + ".feed_forward", inner_, "relu"), name, 3);
  }

  TensorId head(TensorId x) {
    const TensorId rows = table("head");
    return b_.op("matmul_nt", {x, rows}, {}, "head");
  }

 private:
  // The one table if it is `tied`, else the weight of `owner`, which names the layer of the ops that follow.
  TensorId table(const std::string& owner) {
    b_.set_source({owner, ""});
    TensorId& known = tables_[tied_ ? "embedding" : owner];
    if (!known.valid())
      known = layer_.layers.parameter((tied_ ? "embedding" : owner) + ".weight", {vocabulary_, hidden_},
                                      std::sqrt(3.0 / static_cast<double>(hidden_)));
    return known;
  }

  // norm(x + y) with the dropout of the part that made y (section 5.4).
  TensorId joined(TensorId x, TensorId y, const std::string& name, int number) {
    y = layer_.layers.dropout(y, fmt::format("{}.dropout{}", name, number), dropout_);
    return layer_.norm(b_.op("add", {x, y}, {}, fmt::format("{}.add{}", name, number)),
                       fmt::format("{}.norm{}", name, number));
  }

  // [steps, hidden]: sines in even columns, cosines in odd ones, wavelengths from 2 pi to 20,000 pi.
  TensorId positions() {
    if (positions_.valid()) return positions_;
    Values values{.dtype = layer_.layers.dtype, .shape = {steps_, hidden_}};
    for (int64_t t = 0; t < steps_; ++t)
      for (int64_t c = 0; c < hidden_; ++c) {
        const double angle =
            static_cast<double>(t) / std::pow(10'000, static_cast<double>(c - c % 2) / static_cast<double>(hidden_));
        values.real.push_back(c % 2 ? std::cos(angle) : std::sin(angle));
      }
    return positions_ = b_.constant("positions", std::move(values));
  }

  GraphBuilder& b_;
  TransformerLayers layer_;
  int64_t batch_, steps_, hidden_, inner_, vocabulary_;
  double dropout_;
  bool tied_;
  std::map<std::string, TensorId> tables_;
  TensorId positions_;
};

Model build(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  GraphBuilder b(options.model(), std::move(registry));
  Network network(b, options);
  const int64_t layers = options.integer("layers");
  TensorId memory = network.words("source", "encoder");
  for (int64_t i = 0; i < layers; ++i) memory = network.encoder_layer(memory, fmt::format("encoder.layers.{}", i));
  TensorId x = network.words("target", "decoder");
  for (int64_t i = 0; i < layers; ++i) x = network.decoder_layer(x, memory, fmt::format("decoder.layers.{}", i));
  return {b.finish({network.head(x)}), Loss{.kind = "cross_entropy"}};
}

}  // namespace

ModelFamily encoder_decoder_family() {
  return {{"encoder-decoder",
           "transformer for translation: encoder and decoder (Attention Is All You Need, Pesto)",
           {{"layers", "6", "of the encoder, and of the decoder"},
            {"heads", "8", "attention heads"},
            {"hidden", "512", "columns of the residual stream"},
            {"inner", "", "columns inside the feed-forward part; empty: 4 hidden"},
            {"batch", "32", "pairs of sentences a step"},
            {"steps", "64", "tokens a sentence, of each language"},
            {"vocabulary", "37000", "different tokens, of both languages together"},
            {"tied", "1", "0: both languages and the output have a table each"},
            {"dropout", "0.1", "probability"},
            {"fine", "false", "true: attention and norms in elementary operations"}}},
          build};
}

}  // namespace partita
