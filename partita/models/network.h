// Builds the parts of transformers beyond single layers (layers.h).
#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "partita/graph/builder.h"
#include "partita/models/layers.h"

namespace partita {

extern const double kNormalBound;  // of a uniform distribution of deviation 0.02

// How queries look at keys.
struct AttentionOptions {
  bool causal = false;
  int64_t window = 0;  // of so many keys, the query's own the last; 0: all
  double scale = 0;    // of the products; 0: 1/sqrt(size of a head)
  double softcap = 0;  // c: scores become c tanh(score / c); 0: they stay
  double dropout = 0;  // of the weights; they are then elementary operations, else one operation
  TensorId sinks;      // [heads], a score beside those of a query's keys; without dropout
};

// Rotary positions: the angle of each pair of numbers from a position to the next.
struct Rotary {
  std::vector<double> frequencies;  // radians a step; for as many pairs as are turned, the first of a head
  double scale = 1;                 // of the turned numbers
  bool interleaved = false;         // pairs are neighbours; else they are half of the turned numbers apart
};
// The same for all steps, as constants [steps, pairs].
struct RotaryTable {
  TensorId cosines, sines;
  bool interleaved = false;
};
// theta^(-2 d/size) for 2 d < size.
std::vector<double> rotary_frequencies(double theta, int64_t size);

class Network {
 public:
  Network(const std::string& name, DType dtype, std::shared_ptr<const OpRegistry> registry)
      : b(name, std::move(registry)), layers(b, dtype) {}

  TensorId add(TensorId x, TensorId y, const std::string& name) { return b.op("add", {x, y}, {}, name); }
  TensorId norm(TensorId x, const std::string& name, double eps);
  // Layer norm, without scale and bias if not `affine`.
  TensorId layer_norm(TensorId x, const std::string& name, double eps, bool affine);
  // `from_one`: the scale is 1 + NAME.weight.
  TensorId rms_norm(TensorId x, const std::string& name, double eps, bool from_one = false);
  // Weights [inputs, outputs], as GPT-2's.
  TensorId conv1d(TensorId x, const std::string& name, int64_t outputs);
  // q, k, v [batch, heads, steps, size], k and v perhaps with fewer heads, to [batch, steps, heads size].
  TensorId attention(TensorId q, TensorId k, TensorId v, const std::string& name, const AttentionOptions& options);
  // The same for one product's q, k and v, [batch, steps, 3 heads size].
  TensorId packed_attention(TensorId qkv, const std::string& name, int64_t heads, const AttentionOptions& options);
  // x [.., width] to the logits [.., words] of a vocabulary: times a table's rows, or, without a table, NAME.weight
  // [words, width].
  TensorId head(TensorId x, TensorId table, const std::string& name, int64_t words);
  // x [batch, heads, steps, size] turned by its positions; numbers beyond the turned pairs stay.
  RotaryTable rotary_table(const Rotary& rotary, int64_t steps, const std::string& name);
  TensorId apply_rotary(TensorId x, const RotaryTable& table, const std::string& name);
  // down(activation(gate(x)) up(x)) with `inner` columns inside; weights NAME.gate_proj, .up_proj and .down_proj.
  TensorId gated(TensorId x, const std::string& name, int64_t inner, const std::string& activation, bool bias);
  // cap tanh(x / cap)
  TensorId capped(TensorId x, const std::string& name, double cap);
  // Parts of an axis, by their extents.
  std::vector<TensorId> split(TensorId x, int64_t axis, const std::vector<int64_t>& sizes, const std::string& name);
  // A trained tensor without a layer: a table of positions, a class token.
  TensorId table(const std::string& name, Shape shape);
  // `steps` of a table's rows, from `first` on. Bad input if it has fewer.
  TensorId first_rows(TensorId table, int64_t steps, const std::string& name, int64_t first = 0);

  GraphBuilder b;
  Layers layers;

 private:
  TensorId elementary_attention(TensorId q, TensorId k, TensorId v, const std::string& name,
                                const AttentionOptions& options);
  // By whether it is causal, and its window; one for all layers: 0 if a query sees a key, else -inf.
  std::map<std::pair<bool, int64_t>, TensorId> masks_;
};

}  // namespace partita
