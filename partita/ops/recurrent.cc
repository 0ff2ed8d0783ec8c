// Declares recurrent cells, unrolled: one op a time step. The gates have an axis of their own, so that a split of the
// hidden dimension splits each gate. Packed weights [gates, hidden, inputs] lie in memory as PyTorch's [gates*hidden,
// inputs].
#include "partita/base/error.h"
#include "partita/ops/declare.h"

namespace partita {
namespace {

std::string gate_linear(const OpInstance& op) {
  const char* const formula = "[..n, g, j] = sum(k) (x[..n, k] * w[g, j, k])";
  return op.shapes.size() == 2 ? fmt::format("gate_linear(x, w){}", formula)
                               : fmt::format("gate_linear(x, w, b){} + b[g, j]", formula);
}

}  // namespace

void declare_recurrent(OpRegistry& registry) {
  declare(registry, "gate_linear",
          "x w + b for each gate: x [.., k], w [gates, hidden, k], the bias [gates, hidden] where there is one")
      .low_precision()
      .formula(gate_linear)
      .example({{5, 7}, {4, 6, 7}, {4, 6}})
      .example({{5, 7}, {3, 5, 7}});
  declare(registry, "lstm_cell",
          "gates z [.., 4, hidden] (input, forget, candidate, output, as PyTorch) and cell c -> hidden, cell")
      .low_precision()
      .formula(
          "lstm_cell(z, c) -> h, cn =\n"
          "cn[..n, j] = sigmoid(z[..n, 1, j]) * c[..n, j] + sigmoid(z[..n, 0, j]) * tanh(z[..n, 2, j])\n"
          "h[..n, j] = sigmoid(z[..n, 3, j]) * tanh(cn[..n, j])")
      .example({{5, 4, 7}, {5, 7}});
  declare(registry, "gru_cell",
          "gates of the input zx and of the hidden zh [.., 3, hidden] (reset, update, new, as PyTorch) and h -> hidden")
      .low_precision()
      .formula(
          "gru_cell(zx, zh, h) -> hn =\n"
          "u[..n, j] = sigmoid(zx[..n, 1, j] + zh[..n, 1, j])\n"
          "c[..n, j] = tanh(zx[..n, 2, j] + sigmoid(zx[..n, 0, j] + zh[..n, 0, j]) * zh[..n, 2, j])\n"
          "hn[..n, j] = (1 - u[..n, j]) * c[..n, j] + u[..n, j] * h[..n, j]")
      .example({{5, 3, 7}, {5, 3, 7}, {5, 7}});
}

}  // namespace partita
