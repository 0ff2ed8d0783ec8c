// Tests that imported ONNX files compute the same as PyTorch: answers, losses, weights and running statistics of
// tests/data's reference numbers, by the reference evaluator in float64.
#include <gtest/gtest.h>

#include <cmath>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/reference.h"
#include "partita/onnx/onnx.h"
#include "partita/ops/ops.h"
#include "partita/runtime/npz.h"

namespace partita {
namespace {

std::string data(const std::string& name) { return fmt::format("{}/tests/data/{}", PARTITA_SOURCE_DIR, name); }

Graph import(const std::string& name, const OnnxOptions& options) {
  static const auto registry = standard_ops();
  return import_onnx(
      name == "digits" ? std::string(PARTITA_SOURCE_DIR) + "/examples/digits.onnx" : data(name + ".onnx"), options,
      registry);
}

Arrays reference_of(const std::string& name) {
  return read_arrays(data(name.substr(0, name.find('-')) + "-reference.npz"));
}

double largest_difference(const tdl::Array& a, const Values& b) {
  EXPECT_EQ(a.shape, b.shape);
  double largest = 0;
  for (std::size_t i = 0; i < b.real.size() && i < a.reals.size(); ++i)
    largest = std::max(largest, std::abs(a.reals[i] - b.real[i]));
  return largest;
}

void evaluate(const std::string& name, const OnnxOptions& options, double tolerance) {
  SCOPED_TRACE(name);
  const Arrays reference = reference_of(name);
  const Graph forward = import(name, options);
  const Graph g = evaluation_graph(forward);
  std::map<TensorId, tdl::Array> values{{g.inputs[0], to_array(reference.at("x"))}};
  reference_run(g, values);
  EXPECT_LT(largest_difference(values.at(g.outputs[0]), reference.at("y")), tolerance);
}

// Five steps of SGD by the reference evaluator; losses, weights and running statistics against PyTorch's in float64.
void train(const std::string& name, const OnnxOptions& options, bool with_statistics = true) {
  SCOPED_TRACE(name);
  const Arrays reference = reference_of(name);
  const Graph g = add_backward(import(name, options), {}, {.lr = 0.01});
  std::map<TensorId, tdl::Array> kept;
  for (TensorId id : g.inputs) kept[id] = to_array(reference.at(g.tensor(id).name));
  for (double expected : reference.at("losses").real) {
    std::map<TensorId, tdl::Array> values = kept;
    reference_run(g, values);
    EXPECT_NEAR(values.at(g.loss).reals[0], expected, 1e-12);
    for (std::size_t i = 0; i < g.tensors.size(); ++i)
      if (g.tensors[i].replaces.valid()) kept[g.tensors[i].replaces] = values.at(TensorId(i));
  }
  int compared = 0;
  for (const auto& [key, value] : reference) {
    if (!key.starts_with("final.") || (!with_statistics && key.find(".running_") != std::string::npos)) continue;
    const TensorId id = g.find_tensor(key.substr(6));
    ASSERT_TRUE(id.valid()) << key;
    EXPECT_LT(largest_difference(kept.at(id), value), 1e-11) << key;
    ++compared;
  }
  EXPECT_GE(compared, 6);
}

TEST(OnnxValues, Mlp) {
  for (const char* name : {"mlp", "mlp-optimized", "mlp-torchscript"})
    evaluate(name, {.bindings = {{"batch", 7}}}, 1e-13);
  train("mlp", {.bindings = {{"batch", 7}}});
}
TEST(OnnxValues, LeNet) {
  evaluate("lenet", {.bindings = {{"batch", 5}}}, 1e-13);
  evaluate("lenet-torchscript", {.bindings = {{"batch", 5}}}, 1e-13);
  evaluate("lenet-optimized", {}, 1e-13);
  train("lenet", {.bindings = {{"batch", 5}}});
}
TEST(OnnxValues, Recurrent) {
  for (const char* name : {"recurrent", "recurrent-optimized", "recurrent-torchscript"}) evaluate(name, {}, 1e-13);
  train("recurrent", {});
}

TEST(OnnxValues, Mixed) {
  evaluate("mixed", {.bindings = {{"batch", 4}}}, 1e-13);
  evaluate("mixed-torchscript", {.bindings = {{"batch", 4}}}, 1e-13);
  evaluate("mixed-optimized", {}, 1e-13);
  train("mixed", {.bindings = {{"batch", 4}}});
}
TEST(ManyOnnxValues, Digits) {
  evaluate("digits", {}, 1e-13);
  evaluate("digits-optimized", {}, 1e-5);  // folded in float32
}
TEST(LongOnnxValues, Digits) { train("digits", {}); }
TEST(ManyOnnxValues, ResNet18) {
  evaluate("resnet18", {}, 1e-13);
  evaluate("resnet18-optimized", {}, 1e-4);
  train("resnet18", {});
  train("resnet18-torchscript", {},
        false);  // that exporter runs the model in training mode first, which moves its statistics
}

}  // namespace
}  // namespace partita
