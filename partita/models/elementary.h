// Builds one operation from a framework's elementary ones, for `fine` models: products, sums, functions of single
// values, reductions. Results and gradients equal those of the one operation but for rounding.
#pragma once
#include <string>
#include <vector>

#include "partita/graph/builder.h"

namespace partita {

// Softmax along the last axis; NAME.weights.
TensorId elementary_softmax(GraphBuilder& b, TensorId x, const std::string& name);
// Norm over the last axis.
TensorId elementary_layer_norm(GraphBuilder& b, TensorId x, TensorId weight, TensorId bias, double eps,
                               const std::string& name);

// A cell from gates z [n, 4 hidden] and cell c [n, hidden] as lstm_cell's (input, forget, candidate, output).
struct LstmState {
  TensorId hidden, cell;
};
LstmState elementary_lstm_cell(GraphBuilder& b, TensorId z, TensorId c, const std::string& name);
// A cell from gates of the input and of the hidden [n, 3 hidden] and h [n, hidden] as gru_cell's (reset, update, new).
TensorId elementary_gru_cell(GraphBuilder& b, TensorId zx, TensorId zh, TensorId h, const std::string& name);

}  // namespace partita
