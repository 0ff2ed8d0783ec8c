// Builds recurrent networks, unrolled: Tofu's (section 7.1), FlexFlow's RNNTC, RNNLM and NMT (section 8.1, table 3),
// which Pesto has too.
#include <charconv>
#include <cmath>

#include "partita/models/elementary.h"
#include "partita/models/family.h"
#include "partita/models/layers.h"

namespace partita {
namespace {

using Steps = std::vector<TensorId>;  // of a sequence, each [n, width]

class Network {
 public:
  Network(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry)
      : batch_(options.integer("batch")),
        steps_(options.integer("steps")),
        gru_(options.choice("cell", {"lstm", "gru"}) == "gru"),
        fine_(options.flag("fine")),
        b_(options.model(), std::move(registry)),
        layers_(b_, options.dtype()) {}

  // [n, steps, ..] as a sequence.
  Steps unstack(TensorId x, const std::string& name) {
    Steps result;
    for (int64_t t = 0; t < steps_; ++t) {
      b_.set_cell(static_cast<int>(t), -1);
      result.push_back(
          b_.op("select", {x}, {{"axis", 1}, {"index", static_cast<double>(t)}}, fmt::format("{}.{}", name, t)));
    }
    b_.set_cell(-1, -1);
    return result;
  }
  // A sequence as [n, steps, width].
  TensorId stack(const Steps& steps, const std::string& name) {
    std::vector<TensorId> parts;
    for (TensorId step : steps) parts.push_back(b_.op("unsqueeze", {step}, {{"axes.0", 1}}, name + ".step"));
    return layers_.concat(parts, name);
  }

  struct State {
    TensorId hidden, cell;
  };
  // Layer `layer` over the sequence, from `state` (zeros if there is none), which ends as the last step's.
  Steps layer(const Steps& inputs, const std::string& name, int layer, int64_t hidden, State& state) {
    const std::string suffix = fmt::format("_l{}", layer);
    const Weights weights = weights_of(name, suffix, hidden, b_.shape(inputs.at(0)).back());
    if (!state.hidden.valid()) state.hidden = zeros(hidden);
    if (!gru_ && !state.cell.valid()) state.cell = state.hidden;
    Steps outputs;
    for (size_t t = 0; t < inputs.size(); ++t) {
      b_.set_cell(static_cast<int>(t), cells_);
      const std::string at = fmt::format("{}{}.{}", name, suffix, t);
      state = gru_ ? gru(inputs[t], state, weights, at) : lstm(inputs[t], state, weights, at);
      outputs.push_back(state.hidden);
    }
    b_.set_cell(-1, -1);
    ++cells_;
    return outputs;
  }
  // `count` layers, one on another; `states` has one each.
  Steps stacked(Steps steps, const std::string& name, int64_t count, int64_t hidden, std::vector<State>& states) {
    states.resize(static_cast<size_t>(count));
    for (int64_t l = 0; l < count; ++l)
      steps = layer(steps, name, static_cast<int>(l), hidden, states[static_cast<size_t>(l)]);
    return steps;
  }
  Steps stacked(Steps steps, const std::string& name, int64_t count, int64_t hidden) {
    std::vector<State> states;
    return stacked(std::move(steps), name, count, hidden, states);
  }

  TensorId tokens(const std::string& name) { return b_.input(name, {batch_, steps_}, DType::kInt64); }
  TensorId numbers(const std::string& name, int64_t width) {
    return b_.input(name, {batch_, steps_, width}, layers_.dtype);
  }
  GraphBuilder& builder() { return b_; }
  Layers& layers() { return layers_; }

 private:
  struct Weights {
    TensorId input, hidden, bias, hidden_bias;  // the last one a GRU's
  };
  // PyTorch's, [gates hidden, ..]; if a cell is one operation, [gates, hidden, ..].
  Weights weights_of(const std::string& name, const std::string& suffix, int64_t hidden, int64_t width) {
    const int64_t gates = gru_ ? 3 : 4;
    const double bound = 1 / std::sqrt(static_cast<double>(hidden));
    b_.set_source({name, ""});
    auto weight = [&](const char* kind, Shape columns) {
      Shape shape = fine_ ? Shape{gates * hidden} : Shape{gates, hidden};
      shape.insert(shape.end(), columns.begin(), columns.end());
      return layers_.parameter(name + kind + suffix, shape, bound);
    };
    const TensorId w = weight(".weight_ih", {width}), u = weight(".weight_hh", {hidden}), bias = weight(".bias_ih", {});
    return {w, u, bias, gru_ ? weight(".bias_hh", {}) : TensorId()};
  }
  // x w for each gate, with the bias if there is one.
  TensorId gates(TensorId x, TensorId w, TensorId bias, const std::string& name) {
    if (fine_) {
      if (!bias.valid()) return b_.op("matmul_nt", {x, w}, {}, name);
      return b_.op("add", {b_.op("matmul_nt", {x, w}, {}, name + ".product"), bias}, {}, name);
    }
    return bias.valid() ? b_.op("gate_linear", {x, w, bias}, {}, name) : b_.op("gate_linear", {x, w}, {}, name);
  }
  State gru(TensorId x, const State& state, const Weights& w, const std::string& at) {
    const TensorId zx = gates(x, w.input, w.bias, at + ".input"),
                   zh = gates(state.hidden, w.hidden, w.hidden_bias, at + ".hidden");
    if (fine_) return {elementary_gru_cell(b_, zx, zh, state.hidden, at), {}};
    return {b_.op("gru_cell", {zx, zh, state.hidden}, {}, at), {}};
  }
  State lstm(TensorId x, const State& state, const Weights& w, const std::string& at) {
    const TensorId zx = gates(x, w.input, w.bias, at + ".input"),
                   zh = gates(state.hidden, w.hidden, {}, at + ".hidden");
    const TensorId z = b_.op("add", {zx, zh}, {}, at + ".gates");
    if (fine_) {
      const LstmState next = elementary_lstm_cell(b_, z, state.cell, at);
      return {next.hidden, next.cell};
    }
    const std::vector<TensorId> next = b_.ops("lstm_cell", {z, state.cell}, {}, at);
    return {next[0], next[1]};
  }
  TensorId zeros(int64_t hidden) {
    TensorId& known = zeros_[hidden];
    if (!known.valid())
      known = b_.op("expand", {b_.scalar("zero", 0, layers_.dtype)},
                    {{"shape.0", static_cast<double>(batch_)}, {"shape.1", static_cast<double>(hidden)}}, "zeros");
    return known;
  }

  int64_t batch_, steps_;
  bool gru_, fine_;
  int cells_ = 0;
  GraphBuilder b_;
  Layers layers_;
  std::map<int64_t, TensorId> zeros_;  // by width
};

// "4K" is 4096.
int64_t thousands(std::string_view text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return 1024 * value;
}

// rnn-LAYERS-HIDDEN. No output layer is counted in Tofu's table 2, and the input's width of 512 is inferred from it.
Model build_rnn(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  const std::string& name = options.model();
  const size_t second = name.find('-', 4);
  const int64_t layers = std::stoll(name.substr(4, second - 4)),
                hidden = thousands(std::string_view(name).substr(second + 1));
  Network network(options, std::move(registry));
  const Steps inputs = network.unstack(network.numbers("x", options.integer("input")), "x");
  const TensorId y = network.stack(network.stacked(inputs, "lstm", layers, hidden), "outputs");
  return {network.builder().finish({y}), Loss{.kind = "elementwise"}};
}

Model build_rnnlm(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  const int64_t layers = options.integer("layers"), hidden = options.integer("hidden"),
                words = options.integer("vocabulary");
  Network network(options, std::move(registry));
  const TensorId x = network.layers().embedding(network.tokens("tokens"), "embedding", words, hidden);
  const TensorId y = network.stack(network.stacked(network.unstack(x, "word"), "rnn", layers, hidden), "outputs");
  return {network.builder().finish({network.layers().linear(y, "decoder", words)}), Loss{.kind = "cross_entropy"}};
}

Model build_rnntc(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  const int64_t layers = options.integer("layers"), hidden = options.integer("hidden");
  Network network(options, std::move(registry));
  const TensorId x =
      network.layers().embedding(network.tokens("tokens"), "embedding", options.integer("vocabulary"), hidden);
  const TensorId last = network.stacked(network.unstack(x, "word"), "rnn", layers, hidden).back();
  return {network.builder().finish({network.layers().linear(last, "classifier", options.integer("classes"))}),
          Loss{.kind = "cross_entropy"}};
}

// Encoder and decoder of stacked cells, the decoder from the encoder's last states; attention of Luong et al. 2015
// (dot) on the decoder's outputs.
Model build_nmt(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  const int64_t layers = options.integer("layers"), hidden = options.integer("hidden"),
                words = options.integer("vocabulary");
  Network network(options, std::move(registry));
  GraphBuilder& b = network.builder();
  Layers& make = network.layers();
  const TensorId source = make.embedding(network.tokens("source"), "encoder.embedding", words, hidden);
  const TensorId target = make.embedding(network.tokens("target"), "decoder.embedding", words, hidden);
  std::vector<Network::State> states;
  const TensorId memory = network.stack(
      network.stacked(network.unstack(source, "source"), "encoder.rnn", layers, hidden, states), "encoder");
  const TensorId outputs = network.stack(
      network.stacked(network.unstack(target, "target"), "decoder.rnn", layers, hidden, states), "decoder");
  b.set_source({"attention", ""});
  const TensorId scores = b.op("matmul_nt", {outputs, memory}, {}, "attention.scores");
  const TensorId weights = options.flag("fine") ? elementary_softmax(b, scores, "attention")
                                                : b.op("softmax", {scores}, {{"axis", 2}}, "attention.weights");
  const TensorId context = b.op("matmul", {weights, memory}, {}, "attention.context");
  TensorId y = make.linear(make.concat({context, outputs}, "attention.concat", 2), "attention.output", hidden, false);
  y = make.linear(b.op("tanh", {y}, {}, "attention.tanh"), "decoder.projection", words, false);
  return {b.finish({y}), Loss{.kind = "cross_entropy"}};
}

std::vector<ModelOption> common_options(int64_t batch, int64_t steps) {
  return {{"batch", std::to_string(batch), "samples a step"},
          {"steps", std::to_string(steps), "time steps, unrolled"},
          {"cell", "lstm", "lstm|gru"},
          {"fine", "false", "true: cells and attention in elementary operations"}};
}

ModelFamily family(const char* name, const char* summary, int64_t batch, int64_t steps, std::vector<ModelOption> own,
                   decltype(ModelFamily::build) build) {
  std::vector<ModelOption> options = common_options(batch, steps);
  options.insert(options.end(), own.begin(), own.end());
  return {{name, summary, options}, build};
}

}  // namespace

std::vector<ModelFamily> recurrent_families() {
  std::vector<ModelFamily> all;
  for (int layers : {4, 6, 8, 10})
    for (int hidden : {4, 6, 8})
      all.push_back(
          {{fmt::format("rnn-{}-{}K", layers, hidden),
            fmt::format("{} layers of {} hidden units over numbers, no output layer (Tofu)", layers, 1024 * hidden),
            common_options(512, 20)},
           build_rnn});
  for (ModelFamily& f : all) f.info.options.push_back({"input", "512", "numbers a time step"});
  all.push_back(family("rnntc", "text classification by the last of stacked cells' states (FlexFlow)", 64, 40,
                       {{"layers", "4", "of cells"},
                        {"hidden", "1024", "units of a layer"},
                        {"vocabulary", "20000", "words"},
                        {"classes", "2", "columns of the output"}},
                       build_rnntc));
  all.push_back(family("rnnlm", "language model of stacked cells, a word a time step (FlexFlow, Pesto)", 64, 40,
                       {{"layers", "2", "of cells"},
                        {"hidden", "2048", "units of a layer"},
                        {"vocabulary", "10000", "words (Penn Treebank)"}},
                       build_rnnlm));
  all.push_back(family("nmt", "translation: encoder, decoder and attention (FlexFlow, Pesto)", 64, 40,
                       {{"layers", "2", "of cells, in the encoder and in the decoder"},
                        {"hidden", "1024", "units of a layer"},
                        {"vocabulary", "32000", "words, of each language"}},
                       build_nmt));
  return all;
}

}  // namespace partita
