#include "partita/models/network.h"

#include <cmath>
#include <limits>

#include "partita/base/error.h"

namespace partita {

const double kNormalBound = 0.02 * std::sqrt(3.0);

namespace {

tdl::Attributes shaped(const Shape& shape) {
  tdl::Attributes attributes;
  for (size_t a = 0; a < shape.size(); ++a) attributes[fmt::format("shape.{}", a)] = static_cast<double>(shape[a]);
  return attributes;
}

}  // namespace

TensorId Network::norm(TensorId x, const std::string& name, double eps) {
  const int64_t n = b.shape(x).back();
  b.set_source({name, ""});
  return b.op("layer_norm",
              {x, layers.parameter(name + ".weight", {n}, 0, 1), layers.parameter(name + ".bias", {n}, 0)},
              {{"eps", eps}}, name);
}

TensorId Network::rms_norm(TensorId x, const std::string& name, double eps) {
  b.set_source({name, ""});
  return b.op("rms_norm", {x, layers.parameter(name + ".weight", {b.shape(x).back()}, 0, 1)}, {{"eps", eps}}, name);
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
  if (options.window > 0) attributes["window"] = static_cast<double>(options.window);
  if (options.scale > 0) attributes["scale"] = options.scale;
  return layers.merge_heads(b.op("attention", {q, k, v}, attributes, name), name);
}

TensorId Network::elementary_attention(TensorId q, TensorId k, TensorId v, const std::string& name,
                                       const AttentionOptions& options) {
  const Shape queries = b.shape(q), keys = b.shape(k);
  const DType dtype = layers.dtype;
  // Heads that several queries' heads share, once for each.
  auto repeated = [&](TensorId x, const std::string& part) {
    if (keys[1] == queries[1]) return x;
    const Shape shape = b.shape(x);
    x = b.op("reshape", {x}, shaped({shape[0], shape[1], 1, shape[2], shape[3]}), part + ".shared");
    x = b.op("expand", {x}, shaped({shape[0], shape[1], queries[1] / keys[1], shape[2], shape[3]}), part + ".expand");
    return b.op("reshape", {x}, shaped({shape[0], queries[1], shape[2], shape[3]}), part + ".repeated");
  };
  const double scale = options.scale > 0 ? options.scale : 1 / std::sqrt(static_cast<double>(queries[3]));
  TensorId scores = b.op("matmul_nt", {q, repeated(k, name + ".k")}, {}, name + ".product");
  scores = b.op("mul", {scores, b.scalar(name + ".scale", scale, dtype)}, {}, name + ".scores");
  if (options.causal || options.window > 0) {
    if (!mask_.valid()) {
      Values values{.dtype = dtype, .shape = {queries[2], keys[2]}};
      for (int64_t i = 0; i < queries[2]; ++i)
        for (int64_t j = 0; j < keys[2]; ++j) {
          const bool seen = (!options.causal || j <= i) && (options.window == 0 || i < j + options.window);
          values.real.push_back(seen ? 0 : -std::numeric_limits<double>::infinity());
        }
      mask_ = b.constant("attention_mask", std::move(values));
    }
    scores = b.op("add", {scores, mask_}, {}, name + ".masked");
  }
  const TensorId weights = b.op("softmax", {scores}, {{"axis", -1}}, name + ".weights");
  return b.op("matmul", {layers.dropout(weights, name + ".dropout", options.dropout), repeated(v, name + ".v")}, {},
              name);
}

TensorId Network::packed_attention(TensorId qkv, const std::string& name, int64_t heads,
                                   const AttentionOptions& options) {
  const double third = static_cast<double>(b.shape(qkv).back() / 3);
  b.set_source({name, ""});
  const std::vector<TensorId> parts =
      b.ops("split", {qkv}, {{"axis", 2}, {"sizes.0", third}, {"sizes.1", third}, {"sizes.2", third}}, name + ".split");
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

TensorId Network::first_rows(TensorId table, int64_t steps, const std::string& name) {
  const Shape shape = b.shape(table);
  if (steps > shape[0]) fail("{}: steps={}, there are {} positions", b.graph().name, steps, shape[0]);
  if (steps == shape[0]) return table;
  return b.op("slice", {table},
              {{"starts.0", 0},
               {"starts.1", 0},
               {"sizes.0", static_cast<double>(steps)},
               {"sizes.1", static_cast<double>(shape[1])}},
              name);
}

}  // namespace partita
