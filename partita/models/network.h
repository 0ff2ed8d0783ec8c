// What transformers are built of beyond single layers (layers.h).
#pragma once
#include <memory>
#include <string>

#include "partita/graph/builder.h"
#include "partita/models/layers.h"

namespace partita {

extern const double kNormalBound;  // of a uniform distribution of deviation 0.02

// How queries look at keys.
struct AttentionOptions {
  bool causal = false;
  int64_t window = 0;  // of so many keys, the query's own the last; 0: all
  double scale = 0;    // of the products; 0: 1/sqrt(size of a head)
  double dropout = 0;  // of the weights; they are then elementary operations, else one operation
};

class Network {
 public:
  Network(const std::string& name, DType dtype, std::shared_ptr<const OpRegistry> registry)
      : b(name, std::move(registry)), layers(b, dtype) {}

  TensorId add(TensorId x, TensorId y, const std::string& name) { return b.op("add", {x, y}, {}, name); }
  TensorId norm(TensorId x, const std::string& name, double eps);
  TensorId rms_norm(TensorId x, const std::string& name, double eps);
  // Weights [inputs, outputs], as GPT-2's.
  TensorId conv1d(TensorId x, const std::string& name, int64_t outputs);
  // q, k, v [batch, heads, steps, size], k and v perhaps with fewer heads, to [batch, steps, heads size].
  TensorId attention(TensorId q, TensorId k, TensorId v, const std::string& name, const AttentionOptions& options);
  // The same of one product's q, k and v, [batch, steps, 3 heads size].
  TensorId packed_attention(TensorId qkv, const std::string& name, int64_t heads, const AttentionOptions& options);
  // x [.., width] to the logits [.., words] of a vocabulary: times a table's rows, or, without a table, NAME.weight
  // [words, width].
  TensorId head(TensorId x, TensorId table, const std::string& name, int64_t words);
  // A trained tensor without a layer: a table of positions, a class token.
  TensorId table(const std::string& name, Shape shape);
  // The first `steps` of a table's rows. Bad input if it has fewer.
  TensorId first_rows(TensorId table, int64_t steps, const std::string& name);

  GraphBuilder b;
  Layers layers;

 private:
  TensorId elementary_attention(TensorId q, TensorId k, TensorId v, const std::string& name,
                                const AttentionOptions& options);
  TensorId mask_;  // one for all layers: 0 where a query sees a key, else -inf
};

}  // namespace partita
