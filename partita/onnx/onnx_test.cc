// Tests files as PyTorch writes them (tests/data, examples): their graphs, and the errors of wrong ones.
#include "partita/onnx/onnx.h"

#include <gtest/gtest.h>

#include <fstream>

#include "partita/base/rng.h"
#include "partita/base/testing/error_of.h"
#include "partita/graph/autodiff.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

std::shared_ptr<const OpRegistry> registry() {
  static const auto ops = standard_ops();
  return ops;
}

std::string file(const std::string& name) {
  return fmt::format("{}/{}/{}.onnx", PARTITA_SOURCE_DIR, name == "digits" ? "examples" : "tests/data", name);
}

Graph import(const std::string& name, OnnxOptions options = {}) { return import_onnx(file(name), options, registry()); }

std::map<std::string, int> count_ops(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const Op& op : graph.ops) ++counts[op.definition];
  return counts;
}

int64_t parameters(const Graph& graph) {
  int64_t count = 0;
  for (const Tensor& t : graph.tensors)
    if (t.role == Role::kParameter) count += volume(t.shape);
  return count;
}

using Counts = std::map<std::string, int>;

TEST(Onnx, Digits) {
  for (const char* name : {"digits", "digits-train"}) {  // the exporter writes the same nodes for .eval() and .train()
    const Graph g = import(name);
    EXPECT_EQ(count_ops(g), (Counts{{"conv2d", 3},
                                    {"batch_norm", 3},
                                    {"running_average", 6},
                                    {"relu", 3},
                                    {"max_pool", 1},
                                    {"global_average_pool", 1},
                                    {"reshape", 1},
                                    {"linear", 1}}))
        << name;
    EXPECT_EQ(parameters(g), 24058);
    ASSERT_EQ(g.inputs.size(), 1u);
    EXPECT_EQ(g.tensor(g.inputs[0]).shape, (Shape{45, 1, 8, 8}));
    EXPECT_EQ(g.tensor(g.inputs[0]).name, "x");
    ASSERT_EQ(g.outputs.size(), 1u);
    EXPECT_EQ(g.tensor(g.outputs[0]).shape, (Shape{45, 10}));
    EXPECT_EQ(g.tensor(g.outputs[0]).sample_axis, 0);
  }
  const Graph g = import("digits");
  EXPECT_EQ(g.name, "digits");
  EXPECT_EQ(g.tensor(g.outputs[0]).name, "logits");
  const OpId conv = g.find_op("stem.conv"), norm = g.find_op("stem.norm");
  ASSERT_TRUE(conv.valid() && norm.valid());
  EXPECT_EQ(g.op(conv).source, (Source{"stem.conv", "export_digits.py:26"}));
  EXPECT_EQ(g.op(conv).operands.size(), 2u) << "the exporter's zero bias is gone";
  EXPECT_EQ(g.op(norm).attributes.at("eps"), 1e-5);
  const TensorId mean = g.find_tensor("stem.norm.running_mean");
  ASSERT_TRUE(mean.valid());
  EXPECT_EQ(g.tensor(mean).role, Role::kState);
  ASSERT_TRUE(g.replacement_of(mean).valid());
  const Op& average = g.op(g.tensor(g.replacement_of(mean)).producer);
  EXPECT_EQ(average.definition, "running_average");
  EXPECT_EQ(average.phase, Phase::kUpdate);
  EXPECT_NEAR(average.attributes.at("momentum"), 0.1, 1e-15);
  const Graph evaluation = evaluation_graph(g);
  EXPECT_EQ(count_ops(evaluation), (Counts{{"conv2d", 3},
                                           {"batch_norm_inference", 3},
                                           {"relu", 3},
                                           {"max_pool", 1},
                                           {"global_average_pool", 1},
                                           {"reshape", 1},
                                           {"linear", 1}}));
  EXPECT_EQ(evaluation.tensor(evaluation.outputs[0]).name, "logits");
  add_backward(g, {}, {.momentum = 0.9});  // verifies
}

TEST(Onnx, OptimizedDigitsHaveNoBatchNorm) {
  for (const char* name : {"digits-optimized", "digits-torchscript"}) {
    const Graph g = import(name);
    EXPECT_EQ(
        count_ops(g),
        (Counts{
            {"conv2d", 3}, {"relu", 3}, {"max_pool", 1}, {"global_average_pool", 1}, {"reshape", 1}, {"linear", 1}}))
        << name;
  }
  EXPECT_EQ(parameters(import("digits-torchscript")), 24058 - 112);  // a bias a channel instead of a scale and a bias
  EXPECT_EQ(parameters(import("digits-optimized")), 24058 - 224);    // its biases, all zero in a fresh model, are gone
}

TEST(Onnx, ResNet18) {
  const Counts forward{{"conv2d", 20}, {"relu", 17}, {"max_pool", 1}, {"add", 8}, {"global_average_pool", 1},
                       {"reshape", 1}, {"linear", 1}};
  for (const char* name : {"resnet18", "resnet18-torchscript"}) {
    const Graph g = import(name);
    Counts expected = forward;
    expected["batch_norm"] = 20;
    expected["running_average"] = 40;
    EXPECT_EQ(count_ops(g), expected) << name;
    EXPECT_EQ(parameters(g), 45102) << name;
    EXPECT_TRUE(g.find_op("layer2.0.downsample.0").valid()) << name;
    EXPECT_TRUE(g.find_op("layer1.0.bn1").valid()) << name;
    EXPECT_EQ(g.op(g.find_op("layer4.1.conv2")).source.module, "layer4.1.conv2") << name;
  }
  EXPECT_EQ(count_ops(import("resnet18-optimized")), forward);
}

TEST(Onnx, LeNetAndMlp) {
  const Counts lenet{{"conv2d", 2}, {"tanh", 3}, {"average_pool", 2}, {"reshape", 1}, {"linear", 2}},
      mlp{{"linear", 3}, {"tanh", 1}, {"sigmoid", 1}};
  EXPECT_EQ(count_ops(import("lenet", {.bindings = {{"batch", 5}}})), lenet);
  EXPECT_EQ(count_ops(import("lenet-torchscript", {.bindings = {{"batch", 5}}})), lenet);
  EXPECT_EQ(count_ops(import("lenet-optimized")), lenet);
  for (const char* name : {"mlp", "mlp-optimized", "mlp-torchscript"}) {
    const Graph g = import(name, {.bindings = {{"batch", 26}}});
    EXPECT_EQ(count_ops(g), mlp) << name;
    EXPECT_EQ(parameters(g), 12 * 20 + 20 + 20 * 16 + 16 + 16 * 5 + 5) << name;
    EXPECT_EQ(g.tensor(g.outputs[0]).shape, (Shape{26, 5}));
  }
}

// The optimizer transposes weights, merges those that are equal, and drops biases that are 0: the rest has PyTorch's
// names.
TEST(Onnx, WeightsAreTheModulesOwn) {
  const Graph whole = import("fresh_encoder"), optimized = import("fresh_encoder-optimized"),
              stirred = import("gelu_encoder-optimized");
  int missing = 0, all = 0;
  for (const Tensor& t : whole.tensors) {
    if (t.role != Role::kParameter) continue;
    ++all;
    const TensorId same = optimized.find_tensor(t.name);
    if (!same.valid()) {
      EXPECT_TRUE(t.name.ends_with(".self_attn.out_proj.bias")) << t.name;
      ++missing;
      continue;
    }
    EXPECT_EQ(optimized.tensor(same).role, Role::kParameter) << t.name;
    EXPECT_EQ(*optimized.tensor(same).values, *t.values) << t.name;
    EXPECT_TRUE(stirred.find_tensor(t.name).valid()) << t.name;
  }
  EXPECT_EQ(all, 26);
  EXPECT_EQ(missing, 2);
  EXPECT_EQ(import("gpt2").find_tensor("model.transformer.wte.weight").valid() +
                import("gpt2").find_tensor("model.lm_head.weight").valid(),
            1)
      << "tied";
  EXPECT_EQ(parameters(import("gpt2-optimized")), parameters(import("gpt2")) - 8 * 16)
      << "tied, and the rows of 8 of 16 positions";
}

TEST(Onnx, AnotherBatch) {
  for (const char* name :
       {"digits", "digits-optimized", "digits-torchscript", "resnet18", "lenet-optimized", "mixed-optimized"}) {
    const Graph own = import(name);
    const int64_t file_batch = own.tensor(own.inputs[0]).shape[0];
    for (int64_t batch : {int64_t{26}, 2 * file_batch, int64_t{1}}) {
      if (batch == 1 && std::string(name) == "resnet18") continue;  // one value a channel has no variance
      const Graph g = import(name, {.batch = batch});
      EXPECT_EQ(g.tensor(g.inputs[0]).shape[0], batch) << name;
      EXPECT_EQ(g.tensor(g.outputs[0]).shape[0], batch) << name;
      EXPECT_EQ(count_ops(g), count_ops(own)) << name;
    }
  }
  const Graph g = import("mlp", {.batch = 9});
  EXPECT_EQ(g.tensor(g.outputs[0]).shape, (Shape{9, 5}));
  // The running variance takes the unbiased one of 26 samples of 8x8.
  const Graph digits = import("digits", {.batch = 26});
  const double scale = digits.op(digits.find_op("stem.norm.running_var")).attributes.at("scale");
  EXPECT_DOUBLE_EQ(scale, 26 * 64 / (26 * 64 - 1.0));
  const std::string one = error_of([] { import("resnet18", {.batch = 1}); });
  EXPECT_NE(one.find("one value a channel has no variance"), std::string::npos) << one;
}

TEST(Onnx, Describe) {
  Counts fates;
  for (const OnnxNode& node : describe_onnx(file("digits"), {}, registry()))
    ++fates[fmt::format("{} {}", name_of(node.fate), node.operation)];
  EXPECT_EQ(fates.at("imported Conv"), 3);
  EXPECT_EQ(fates.at("folded CastLike"), 3);
  EXPECT_EQ(fates.at("folded Expand"), 6);
  EXPECT_EQ(fates.at("imported Reshape"), 1);
  EXPECT_EQ(fates.at("folded Reshape"), 1);
}

// ---------------------------------------------------------------- bad input

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string scratch(const std::string& name, const std::string& bytes) {
  const std::string path = fmt::format("{}/onnx_test_{}", PARTITA_BINARY_DIR, name);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string import_error(const std::string& path, const OnnxOptions& options = {}) {
  return error_of([&] { import_onnx(path, options, registry()); });
}

TEST(OnnxErrors, Files) {
  EXPECT_EQ(import_error("no/such.onnx"), "no/such.onnx: cannot be read: No such file or directory");
  EXPECT_EQ(import_error(PARTITA_SOURCE_DIR), fmt::format("{}: is a folder, not an ONNX file", PARTITA_SOURCE_DIR));
  for (const std::string& bytes : {std::string(), std::string("hello, world"), std::string(300, '\xff'),
                                   contents(std::string(PARTITA_SOURCE_DIR) + "/examples/digits-test.npz")}) {
    const std::string path = scratch("garbage.onnx", bytes);
    EXPECT_EQ(import_error(path), fmt::format("{}: not an ONNX file, or damaged ({} bytes)", path, bytes.size()));
  }
}

TEST(OnnxErrors, Shapes) {
  const std::string mlp = file("mlp");
  EXPECT_EQ(import_error(mlp), mlp + ": input 'x', dimension 0 ('batch') has no extent; give one: --bind batch=N");
  EXPECT_EQ(import_error(mlp, {.bindings = {{"batch", 0}}}), mlp + ": --bind batch=0: an extent is at least 1");
  EXPECT_EQ(import_error(mlp, {.bindings = {{"batch", 4}, {"time", 2}}}),
            mlp + ": --bind time=2: the model has no symbolic dimension of that name: it has batch");
  EXPECT_EQ(import_error(mlp, {.bindings = {{"batch", 4}}, .batch = 5}),
            mlp + ": input 'x', dimension 0 is bound to 4, but the batch is 5");
  EXPECT_EQ(import_error(file("digits"), {.bindings = {{"batch", 4}}}),
            file("digits") +
                ": --bind batch=4: the model has no symbolic dimension of that name: it has none; use --batch to "
                "replace a fixed batch");
}

TEST(OnnxErrors, UnsupportedNodesAreReportedTogether) {
  // Two operators get names of the same length that stand for nothing; nodes behind them are not reported.
  const std::string path =
      scratch("unsupported.onnx",
              replaced(replaced(contents(file("lenet-optimized")), "Tanh", "Tanx"), "AveragePool", "AveragePooh"));
  const std::string error = import_error(path);
  EXPECT_EQ(error.substr(0, error.find('\n')), path + ": 5 nodes cannot be imported:");
  EXPECT_NE(error.find("\n  node 'node_tanh' (Tanx, opset 20) from make_models.py:"), std::string::npos) << error;
  EXPECT_NE(error.find("node 'node_avg_pool2d_1' (AveragePooh, opset 20)"), std::string::npos) << error;
  EXPECT_NE(error.find("no operation of ours stands for it"), std::string::npos) << error;
  int blocked = 0, unsupported = 0;
  for (const OnnxNode& node : describe_onnx(path, {}, registry())) {
    blocked += node.fate == OnnxNode::Fate::kBlocked;
    unsupported += node.fate == OnnxNode::Fate::kUnsupported;
  }
  EXPECT_EQ(unsupported, 5);
  EXPECT_EQ(blocked, 4);
}

TEST(OnnxErrors, Cycle) {
  // The first convolution reads the result of the last tanh: a name of the same length.
  std::string bytes = contents(file("mlp-torchscript"));
  const std::string error =
      import_error(scratch("cycle.onnx", replaced(bytes, "\x0a\x01x\x0a", std::string("\x0a\x01y\x0a"))), {});
  EXPECT_NE(error.find("the graph has a cycle; each of these nodes reads the next: '"), std::string::npos) << error;
  EXPECT_NE(error.find("' -> '"), std::string::npos) << error;
}

// Bytes changed at random give a graph or one error of bad input, and nothing worse.
TEST(OnnxErrors, DamagedFiles) {
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Rng rng(kSeed);
  int refused = 0;
  for (const char* name : {"mlp-torchscript", "lenet-torchscript", "mixed-torchscript"}) {
    const std::string whole = contents(file(name));
    for (int round = 0; round < 60; ++round) {
      std::string bytes = whole;
      if (round % 4 == 0) bytes.resize(rng.below(bytes.size()));
      for (uint64_t n = 1 + rng.below(4); n > 0 && !bytes.empty(); --n)
        bytes[rng.below(bytes.size())] ^= static_cast<char>(1 << rng.below(8));
      const std::string path = scratch("damaged.onnx", bytes);
      try {
        import_onnx(path, {.bindings = {{"batch", 2}}}, registry());
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::kBadInput) << e.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 45);
}

}  // namespace
}  // namespace partita
