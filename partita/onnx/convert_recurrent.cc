// Converts LSTM, GRU and RNN, unrolled: one cell a time step, as the zoo's recurrent networks have them. Weights are
// brought from ONNX's order of gates to the cells' once, before the steps.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/onnx/converter.h"

namespace partita::onnx_model {
namespace {

double d(int64_t v) { return static_cast<double>(v); }

constexpr int64_t kMostSteps = 10000;

struct Kind {
  int64_t gates;
  std::vector<int64_t> order;  // of ONNX's gates, for the cell's
  std::vector<const char*> activations;
  bool cell = false;  // beside the hidden value
};

// Operands: X, W, R, B, sequence_lens, initial_h; for LSTM also initial_c and the peepholes P.
class Recurrence {
 public:
  Recurrence(NodeContext& n, const Kind& kind) : n_(n), kind_(kind), batch_first_(n.integer("layout", 0) != 0) {
    if (n.rank(0) != 3 || n.rank(1) != 3 || n.rank(2) != 3)
      fail("operands {}, {} and {}", shape_text(n.shape(0)), shape_text(n.shape(1)), shape_text(n.shape(2)));
    steps_ = n.shape(0)[batch_first_ ? 1 : 0], batch_ = n.shape(0)[batch_first_ ? 0 : 1];
    directions_ = n.shape(1)[0], hidden_ = n.shape(2)[2];
    check();
  }

  Results run() {
    const std::string direction = n_.text("direction", "forward");
    for (int64_t k = 0; k < directions_; ++k) run_direction(k, direction == "reverse" || k == 1);
    Results results{stacked(outputs_)};
    results.push_back(joined(last_hidden_));
    if (kind_.cell) results.push_back(joined(last_cell_));
    return results;
  }

 private:
  struct Gates {
    TensorId weight, bias;  // [gates, hidden, ..] and [gates, hidden], or none
  };

  void check() const {
    if (steps_ < 1 || steps_ > kMostSteps) fail("{} steps: between 1 and {} are unrolled", steps_, kMostSteps);
    const std::string direction = n_.text("direction", "forward");
    if (directions_ != (direction == "bidirectional" ? 2 : 1))
      fail("direction '{}', and weights of {} directions", direction, directions_);
    if (n_.shape(1)[1] != kind_.gates * hidden_ || n_.shape(2)[1] != kind_.gates * hidden_)
      fail("weights {} and {} for {} gates of {}", shape_text(n_.shape(1)), shape_text(n_.shape(2)), kind_.gates,
           hidden_);
    if (n_.present(4)) {
      const Values* lengths = n_.constant(4, "sequence_lens");
      for (int64_t length : lengths->integer)
        if (length != steps_) fail("sequence_lens: a sequence of {} steps among {}; all must be whole", length, steps_);
    }
    if (kind_.cell && n_.present(7) && !n_.is_filled_with(7, 0)) fail("peepholes are not supported");
    if (n_.real("clip", 0) != 0) fail("attribute 'clip' is not supported");
    if (n_.integer("input_forget", 0) != 0) fail("attribute 'input_forget' is not supported");
    for (const char* attribute : {"activation_alpha", "activation_beta"})
      if (n_.node.attributes.contains(attribute)) fail("attribute '{}' is not supported", attribute);
    const std::string given = n_.text("activations", activations(kind_.activations).c_str());
    if (given != activations(kind_.activations) && !(kind_.gates == 1 && given == activations({"Relu"})))
      fail("activations {} are not supported: those of PyTorch are", given);
  }

  // The activations of all directions, with commas between.
  std::string activations(const std::vector<const char*>& of_one) const {
    std::vector<const char*> all;
    for (int64_t k = 0; k < directions_; ++k) all.insert(all.end(), of_one.begin(), of_one.end());
    return fmt::format("{}", fmt::join(all, ","));
  }

  TensorId selected(TensorId x, std::size_t axis, int64_t index) {
    return n_.before("select", {x}, {{"axis", d(static_cast<int64_t>(axis))}, {"index", d(index)}});
  }

  // [gates, hidden, ..] of one direction, the gates in the cell's order.
  TensorId gates_of(TensorId packed, int64_t direction, int64_t first, int64_t columns) {
    TensorId one = selected(packed, 0, direction);
    if (columns == 0) {
      tdl::Attributes part = list_attributes("starts", {first * kind_.gates * hidden_});
      part.merge(list_attributes("sizes", {kind_.gates * hidden_}));
      one = n_.reshaped_before(n_.before("slice", {one}, part), {kind_.gates, hidden_});
    } else {
      one = n_.reshaped_before(one, {kind_.gates, hidden_, columns});
    }
    if (std::is_sorted(kind_.order.begin(), kind_.order.end())) return one;
    const TensorId order = n_.constant_tensor(
        {.dtype = DType::kInt64, .shape = {kind_.gates}, .real = {}, .integer = kind_.order}, "gates");
    return n_.before("gather", {one, order}, {{"axis", 0}});
  }

  // The state before the first step [batch, hidden]: zeros if none is given.
  TensorId start(std::size_t operand, int64_t direction) {
    if (n_.present(operand)) return selected(n_.tensor(operand), batch_first_ ? 1 : 0, direction);
    const DType dtype = n_.dtype(0);
    return n_.before("expand", {n_.scalar(0, dtype)}, list_attributes("shape", {batch_, hidden_}));
  }

  void run_direction(int64_t k, bool backwards) {
    const int64_t inputs = n_.shape(0)[2];
    const TensorId w = gates_of(n_.tensor(1), k, 0, inputs), r = gates_of(n_.tensor(2), k, 0, hidden_);
    TensorId wb, rb;
    if (n_.present(3)) wb = gates_of(n_.tensor(3), k, 0, 0), rb = gates_of(n_.tensor(3), k, 1, 0);
    TensorId h = start(5, k), c = kind_.cell ? start(6, k) : TensorId();
    const bool reset_first = kind_.gates == 3 && n_.integer("linear_before_reset", 0) == 0;
    Gates rates, candidate;  // of `r`, if the reset comes before the product
    if (reset_first) rates = part({r, rb}, 0, 2), candidate = part({r, rb}, 2, 1);
    std::vector<TensorId> outputs(static_cast<std::size_t>(steps_));
    for (int64_t i = 0; i < steps_; ++i) {
      const int64_t t = backwards ? steps_ - 1 - i : i;
      n_.build.set_cell(static_cast<int>(t), static_cast<int>(k));
      const TensorId zx = linear(selected(n_.tensor(0), batch_first_ ? 1 : 0, t), {w, wb});
      if (reset_first) {
        outputs[static_cast<std::size_t>(t)] = h = reset_then_product(zx, h, rates, candidate);
        continue;
      }
      const TensorId zh = linear(h, {r, rb});
      if (kind_.cell) {
        const std::vector<TensorId> next = n_.several_before("lstm_cell", {n_.before("add", {zx, zh}), c});
        h = next[0], c = next[1];
      } else if (kind_.gates == 1) {
        const char* activation = n_.text("activations", "Tanh").starts_with("Relu") ? "relu" : "tanh";
        h = n_.reshaped_before(n_.before(activation, {n_.before("add", {zx, zh})}), {batch_, hidden_});
      } else {
        h = n_.before("gru_cell", {zx, zh, h});
      }
      outputs[static_cast<std::size_t>(t)] = h;
    }
    n_.build.set_cell(-1, -1);
    outputs_.push_back(std::move(outputs));
    last_hidden_.push_back(h);
    last_cell_.push_back(c);
  }

  TensorId linear(TensorId x, const Gates& g) {
    return g.bias.valid() ? n_.before("gate_linear", {x, g.weight, g.bias}) : n_.before("gate_linear", {x, g.weight});
  }
  Gates part(const Gates& g, int64_t first, int64_t count) {
    auto rows = [&](TensorId id) {
      if (!id.valid()) return id;
      Shape starts(n_.build.shape(id).size(), 0), sizes = n_.build.shape(id);
      starts[0] = first, sizes[0] = count;
      tdl::Attributes attributes = list_attributes("starts", starts);
      attributes.merge(list_attributes("sizes", sizes));
      return n_.before("slice", {id}, attributes);
    };
    return {rows(g.weight), rows(g.bias)};
  }

  // GRU's step if the reset gate is applied to the hidden value, not to its product.
  TensorId reset_then_product(TensorId zx, TensorId h, const Gates& rates, const Gates& candidate) {
    const TensorId zh = linear(h, rates);
    auto rate = [&](int64_t gate) {
      return n_.before("sigmoid", {n_.before("add", {selected(zx, 1, gate), selected(zh, 1, gate)})});
    };
    const TensorId reset = rate(0), update = rate(1);
    const TensorId fresh = n_.before(
        "tanh",
        {n_.before("add", {selected(zx, 1, 2), selected(linear(n_.before("mul", {reset, h}), candidate), 1, 0)})});
    return n_.before("add", {fresh, n_.before("mul", {update, n_.before("sub", {h, fresh})})});
  }

  // [steps, directions, batch, hidden], or with layout 1 [batch, steps, directions, hidden], from the outputs
  // [direction][step].
  Value stacked(const std::vector<std::vector<TensorId>>& outputs) {
    std::vector<TensorId> steps;
    for (std::size_t t = 0; t < static_cast<std::size_t>(steps_); ++t) {
      std::vector<TensorId> directions;
      for (const auto& of_direction : outputs)
        directions.push_back(
            n_.before("unsqueeze", {of_direction[t]},
                      list_attributes("axes", batch_first_ ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{0, 1})));
      steps.push_back(concatenated(std::move(directions), batch_first_ ? 2 : 1));
    }
    const tdl::Attributes axis{{"axis", batch_first_ ? 1.0 : 0.0}};
    if (steps.size() == 1) return n_.made(steps[0]);
    // The node's ops may be named after another of its results.
    const auto& names = n_.node.outputs;
    const bool taken = std::find(names.begin(), names.end(), n_.op_name()) != names.end() && names[0] != n_.op_name();
    return taken ? n_.made(n_.before("concat", std::move(steps), axis)) : n_.op("concat", std::move(steps), axis);
  }

  // [directions, batch, hidden], or with layout 1 [batch, directions, hidden].
  Value joined(const std::vector<TensorId>& states) {
    std::vector<TensorId> parts;
    for (TensorId state : states)
      parts.push_back(n_.before("unsqueeze", {state}, {{"axes.0", batch_first_ ? 1.0 : 0.0}}));
    return n_.made(concatenated(std::move(parts), batch_first_ ? 1 : 0));
  }

  TensorId concatenated(std::vector<TensorId> parts, double axis) {
    return parts.size() == 1 ? parts[0] : n_.before("concat", std::move(parts), {{"axis", axis}});
  }

  NodeContext& n_;
  const Kind& kind_;
  bool batch_first_;
  int64_t steps_ = 0, batch_ = 0, directions_ = 0, hidden_ = 0;
  std::vector<std::vector<TensorId>> outputs_;
  std::vector<TensorId> last_hidden_, last_cell_;
};

Results lstm(NodeContext& n) {
  static const Kind kind{4, {0, 2, 3, 1}, {"Sigmoid", "Tanh", "Tanh"}, true};  // ONNX: input, output, forget, candidate
  return Recurrence(n, kind).run();
}

Results gru(NodeContext& n) {
  static const Kind kind{3, {1, 0, 2}, {"Sigmoid", "Tanh"}};  // ONNX: update, reset, new
  return Recurrence(n, kind).run();
}

Results rnn(NodeContext& n) {
  static const Kind kind{1, {0}, {"Tanh"}};
  return Recurrence(n, kind).run();
}

}  // namespace

void add_recurrent_converters(Converters& table) {
  table["LSTM"] = lstm;
  table["GRU"] = gru;
  table["RNN"] = rnn;
}

}  // namespace partita::onnx_model
