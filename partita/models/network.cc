// Builds parts of transformers: rotary tables, norms, attention, gated layers and output heads.
#include "partita/models/network.h"

#include <cmath>
#include <limits>

#include "partita/base/error.h"
#include "partita/graph/attributes.h"

namespace partita {

const double kNormalBound = 0.02 * std::sqrt(3.0);

std::vector<double> rotary_frequencies(double theta, int64_t size) {
  std::vector<double> frequencies;
  for (int64_t d = 0; 2 * d < size; ++d)
    frequencies.push_back(std::pow(theta, -2.0 * static_cast<double>(d) / static_cast<double>(size)));
  return frequencies;
}

RotaryTable Network::rotary_table(const Rotary& rotary, int64_t steps, const std::string& name) {
  const auto pairs = static_cast<int64_t>(rotary.frequencies.size());
  Values cosines{.dtype = layers.dtype, .shape = {steps, pairs}}, sines = cosines;
  for (int64_t t = 0; t < steps; ++t)
    for (const double frequency : rotary.frequencies) {
      const double angle = static_cast<double>(t) * frequency;
      cosines.real.push_back(rotary.scale * std::cos(angle)), sines.real.push_back(rotary.scale * std::sin(angle));
    }
  const TensorId c = b.constant(name + ".cosines", std::move(cosines));
  return {c, b.constant(name + ".sines", std::move(sines)), rotary.interleaved};
}

TensorId Network::apply_rotary(TensorId x, const RotaryTable& table, const std::string& name) {
  const int64_t size = b.shape(x).back(), part = 2 * b.shape(table.cosines).back();
  tdl::Attributes attributes;
  if (table.interleaved) attributes["interleaved"] = 1;
  if (part == size) return b.op("rotary", {x, table.cosines, table.sines}, attributes, name);
  const std::vector<TensorId> parts = split(x, 3, {part, size - part}, name + ".split");
  const TensorId first = b.op("rotary", {parts[0], table.cosines, table.sines}, attributes, name);
  return layers.concat({first, parts[1]}, name + ".concat", 3);
}

TensorId Network::gated(TensorId x, const std::string& name, int64_t inner, const std::string& activation, bool bias) {
  const int64_t outputs = b.shape(x).back();
  const TensorId gate = b.op(activation, {layers.linear(x, name + ".gate_proj", inner, bias)}, {}, name + ".silu");
  const TensorId up = layers.linear(x, name + ".up_proj", inner, bias);
  return layers.linear(b.op("mul", {gate, up}, {}, name + ".gated"), name + ".down_proj", outputs, bias);
}

TensorId Network::capped(TensorId x, const std::string& name, double cap) {
  const TensorId limit = b.scalar(name + ".cap", cap, layers.dtype);
  x = b.op("tanh", {b.op("div", {x, limit}, {}, name + ".in_caps")}, {}, name + ".tanh");
  return b.op("mul", {x, limit}, {}, name);
}

std::vector<TensorId> Network::split(TensorId x, int64_t axis, const std::vector<int64_t>& sizes,
                                     const std::string& name) {
  tdl::Attributes attributes{{"axis", static_cast<double>(axis)}};
  for (size_t i = 0; i < sizes.size(); ++i) attributes[fmt::format("sizes.{}", i)] = static_cast<double>(sizes[i]);
  return b.ops("split", {x}, attributes, name);
}

TensorId Network::norm(TensorId x, const std::string& name, double eps) { return layer_norm(x, name, eps, true); }

TensorId Network::layer_norm(TensorId x, const std::string& name, double eps, bool affine) {
  if (!affine) return b.op("layer_norm", {x}, {{"eps", eps}}, name);
  const int64_t n = b.shape(x).back();
  b.set_source({name, ""});
  return b.op("layer_norm",
              {x, layers.parameter(name + ".weight", {n}, 0, 1), layers.parameter(name + ".bias", {n}, 0)},
              {{"eps", eps}}, name);
}

TensorId Network::rms_norm(TensorId x, const std::string& name, double eps, bool from_one) {
  b.set_source({name, ""});
  TensorId scale = layers.parameter(name + ".weight", {b.shape(x).back()}, 0, from_one ? 0 : 1);
  if (from_one) scale = add(scale, b.scalar(name + ".one", 1, layers.dtype), name + ".scale");
  return b.op("rms_norm", {x, scale}, {{"eps", eps}}, name);
}

TensorId Network::conv1d(TensorId x, const std::string& name, int64_t outputs) {
  b.set_source({name, ""});
  const TensorId w = layers.parameter(name + ".weight", {b.shape(x).back(), outputs}, kNormalBound);
  return b.op("linear", {x, w, layers.parameter(name + ".bias", {outputs}, 0)}, {}, name);
}

TensorId Network::attention(TensorId q, TensorId k, TensorId v, const std::string& name,
                            const AttentionOptions& options) {
  b.set_source({name, ""});
  if (options.dropout > 0) return layers.merge_heads(elementary_attention(q, k, v, name, options), name);
  tdl::Attributes attributes{{"causal", options.causal}};
  if (options.window > 0 && options.window < b.shape(k)[2]) attributes["window"] = static_cast<double>(options.window);
  if (options.scale > 0) attributes["scale"] = options.scale;
  if (options.softcap > 0) attributes["softcap"] = options.softcap;
  const TensorId y = options.sinks.valid() ? b.op("attention_sinks", {q, k, v, options.sinks}, attributes, name)
                                           : b.op("attention", {q, k, v}, attributes, name);
  return layers.merge_heads(y, name);
}

TensorId Network::elementary_attention(TensorId q, TensorId k, TensorId v, const std::string& name,
                                       const AttentionOptions& options) {
  const Shape queries = b.shape(q), keys = b.shape(k);
  const DType dtype = layers.dtype;
  // Repeats heads that several queries' heads share, once for each.
  auto repeated = [&](TensorId x, const std::string& part) {
    if (keys[1] == queries[1]) return x;
    const Shape shape = b.shape(x);
    x = b.op("reshape", {x}, list_attributes("shape", {shape[0], shape[1], 1, shape[2], shape[3]}), part + ".shared");
    x = b.op("expand", {x}, list_attributes("shape", {shape[0], shape[1], queries[1] / keys[1], shape[2], shape[3]}),
             part + ".expand");
    return b.op("reshape", {x}, list_attributes("shape", {shape[0], queries[1], shape[2], shape[3]}),
                part + ".repeated");
  };
  const double scale = options.scale > 0 ? options.scale : 1 / std::sqrt(static_cast<double>(queries[3]));
  TensorId scores = b.op("matmul_nt", {q, repeated(k, name + ".k")}, {}, name + ".product");
  scores = b.op("mul", {scores, b.scalar(name + ".scale", scale, dtype)}, {}, name + ".scores");
  if (options.softcap > 0) scores = capped(scores, name + ".capped", options.softcap);
  if (options.causal || options.window > 0) {
    TensorId& mask = masks_[{options.causal, options.window}];
    if (!mask.valid()) {
      Values values{.dtype = dtype, .shape = {queries[2], keys[2]}};
      for (int64_t i = 0; i < queries[2]; ++i)
        for (int64_t j = 0; j < keys[2]; ++j) {
          const bool seen = (!options.causal || j <= i) && (options.window == 0 || i < j + options.window);
          values.real.push_back(seen ? 0 : -std::numeric_limits<double>::infinity());
        }
      mask = b.constant(masks_.size() == 1 ? "attention_mask" : fmt::format("attention_mask.{}", masks_.size()),
                        std::move(values));
    }
    scores = b.op("add", {scores, mask}, {}, name + ".masked");
  }
  const TensorId weights = b.op("softmax", {scores}, {{"axis", -1}}, name + ".weights");
  return b.op("matmul", {layers.dropout(weights, name + ".dropout", options.dropout), repeated(v, name + ".v")}, {},
              name);
}

TensorId Network::packed_attention(TensorId qkv, const std::string& name, int64_t heads,
                                   const AttentionOptions& options) {
  const int64_t third = b.shape(qkv).back() / 3;
  b.set_source({name, ""});
  const std::vector<TensorId> parts = split(qkv, 2, {third, third, third}, name + ".split");
  const TensorId q = layers.split_heads(parts[0], name + ".q", heads),
                 k = layers.split_heads(parts[1], name + ".k", heads),
                 v = layers.split_heads(parts[2], name + ".v", heads);
  return attention(q, k, v, name, options);
}

TensorId Network::head(TensorId x, TensorId table, const std::string& name, int64_t words) {
  if (!table.valid()) return layers.linear(x, name, words, false);
  b.set_source({name, ""});
  return b.op("matmul_nt", {x, table}, {}, name);
}

TensorId Network::table(const std::string& name, Shape shape) {
  b.set_source({name, ""});
  return layers.parameter(name, std::move(shape), kNormalBound);
}

TensorId Network::first_rows(TensorId table, int64_t steps, const std::string& name, int64_t first) {
  const Shape shape = b.shape(table);
  if (first + steps > shape[0]) fail("{}: steps={}, there are {} positions", b.graph().name, steps, shape[0] - first);
  if (steps == shape[0]) return table;
  return b.op("slice", {table},
              {{"starts.0", static_cast<double>(first)},
               {"starts.1", 0},
               {"sizes.0", static_cast<double>(steps)},
               {"sizes.1", static_cast<double>(shape[1])}},
              name);
}

}  // namespace partita
