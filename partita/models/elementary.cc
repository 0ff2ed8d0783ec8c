// Builds softmax, norms and recurrent cells from elementary operations.
#include "partita/models/elementary.h"

#include <fmt/format.h>

namespace partita {
namespace {

const tdl::Attributes kLast{{"axes.0", -1}, {"keepdims", 1}};

// z [n, gates hidden] as `gates` tensors [n, hidden]. A split of the hidden dimension splits each alike.
std::vector<TensorId> gates_of(GraphBuilder& b, TensorId z, int gates, const std::string& name) {
  tdl::Attributes attributes{{"axis", 1}, {"together", 1}};
  const int64_t hidden = b.shape(z)[1] / gates;
  for (int g = 0; g < gates; ++g) attributes[fmt::format("sizes.{}", g)] = static_cast<double>(hidden);
  return b.ops("split", {z}, attributes, name);
}

}  // namespace

TensorId elementary_softmax(GraphBuilder& b, TensorId x, const std::string& name) {
  const TensorId largest = b.op("reduce_max", {x}, kLast, name + ".largest");
  const TensorId e = b.op("exp", {b.op("sub", {x, largest}, {}, name + ".shifted")}, {}, name + ".exp");
  return b.op("div", {e, b.op("reduce_sum", {e}, kLast, name + ".sum")}, {}, name + ".weights");
}

TensorId elementary_layer_norm(GraphBuilder& b, TensorId x, TensorId weight, TensorId bias, double eps,
                               const std::string& name) {
  const DType dtype = b.graph().tensor(x).dtype;
  const TensorId centred = b.op("sub", {x, b.op("reduce_mean", {x}, kLast, name + ".mean")}, {}, name + ".centred");
  const TensorId square = b.op("square", {centred}, {}, name + ".square");
  const TensorId variance = b.op("reduce_mean", {square}, kLast, name + ".variance");
  const TensorId positive = b.op("add", {variance, b.scalar(name + ".eps", eps, dtype)}, {}, name + ".positive");
  const TensorId deviation = b.op("sqrt", {positive}, {}, name + ".deviation");
  const TensorId z = b.op("div", {centred, deviation}, {}, name + ".normal");
  return b.op("add", {b.op("mul", {z, weight}, {}, name + ".scaled"), bias}, {}, name);
}

LstmState elementary_lstm_cell(GraphBuilder& b, TensorId z, TensorId c, const std::string& name) {
  const std::vector<TensorId> gates = gates_of(b, z, 4, name + ".split");
  const TensorId input = b.op("sigmoid", {gates[0]}, {}, name + ".input_gate"),
                 forget = b.op("sigmoid", {gates[1]}, {}, name + ".forget_gate"),
                 candidate = b.op("tanh", {gates[2]}, {}, name + ".candidate"),
                 output = b.op("sigmoid", {gates[3]}, {}, name + ".output_gate");
  const TensorId kept = b.op("mul", {forget, c}, {}, name + ".kept"),
                 added = b.op("mul", {input, candidate}, {}, name + ".added");
  const TensorId cell = b.op("add", {kept, added}, {}, name + ".cell");
  return {b.op("mul", {output, b.op("tanh", {cell}, {}, name + ".tanh")}, {}, name), cell};
}

TensorId elementary_gru_cell(GraphBuilder& b, TensorId zx, TensorId zh, TensorId h, const std::string& name) {
  const std::vector<TensorId> x = gates_of(b, zx, 3, name + ".input.split"),
                              y = gates_of(b, zh, 3, name + ".hidden.split");
  auto gate = [&](size_t g, const std::string& gate_name) {
    return b.op("sigmoid", {b.op("add", {x[g], y[g]}, {}, name + "." + gate_name + "_sum")}, {},
                name + "." + gate_name + "_gate");
  };
  const TensorId reset = gate(0, "reset"), update = gate(1, "update");
  const TensorId remembered = b.op("mul", {reset, y[2]}, {}, name + ".remembered");
  const TensorId fresh = b.op("tanh", {b.op("add", {x[2], remembered}, {}, name + ".new_sum")}, {}, name + ".new");
  const TensorId one = b.scalar(name + ".one", 1, b.graph().tensor(h).dtype);
  const TensorId rest = b.op("sub", {one, update}, {}, name + ".rest");
  const TensorId added = b.op("mul", {rest, fresh}, {}, name + ".added"),
                 kept = b.op("mul", {update, h}, {}, name + ".kept");
  return b.op("add", {added, kept}, {}, name);
}

}  // namespace partita
