// Tests single operators, imported and run by the reference evaluator, against ONNX's own standard
// (tests/data/make_nodes.py) and ONNX Runtime's own operators. Each runs with its operands as inputs, and once more
// with all operands constant, so that the whole model is folded.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/reference.h"
#include "partita/onnx/onnx.h"
#include "partita/ops/ops.h"
#include "tests/golden/node_cases.h"

namespace partita {
namespace {

// The largest difference, relative to 1 or to the larger of the values; NaN equals NaN.
double difference(const Values& found, const Values& expected) {
  if (found.shape != expected.shape) return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(volume(expected.shape)); ++i) {
    const double a = is_float(found.dtype) ? found.real[i] : static_cast<double>(found.integer[i]);
    const double b = is_float(expected.dtype) ? expected.real[i] : static_cast<double>(expected.integer[i]);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double d = std::abs(a - b) / std::max(1.0, std::abs(b));
    largest = std::isnan(d) ? INFINITY : std::max(largest, d);
  }
  return largest;
}

// Returns the fault, or nothing.
std::string run(const std::string& name, const Case& c, bool all_constant) {
  static const auto registry = standard_ops();
  const onnx::ModelProto model = model_of(c, all_constant);
  const std::string path =
      fmt::format("{}/{}.onnx", PARTITA_BINARY_DIR, testing::UnitTest::GetInstance()->current_test_info()->name());
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
  try {
    const Graph graph = evaluation_graph(import_onnx(path, {}, registry));
    std::map<TensorId, tdl::Array> values;
    for (TensorId id : graph.inputs) {
      values[id] = to_array(c.in.at(graph.tensor(id).name));
    }
    reference_run(graph, values);
    for (const TensorId& id : graph.outputs) {
      const Tensor& t = graph.tensor(id);
      const double error =
          difference(to_values(values.at(id), t.dtype),
                     c.out.at(model.graph().output(static_cast<int>(&id - graph.outputs.data())).name()));
      if (!(error < (name == "test_averagepool_2d_ceil_last_window_starts_on_pad" ? 1e-4 : 1e-5)))
        return fmt::format("{} differs by {:.2e}", t.name, error);
    }
  } catch (const Error& error) {
    std::string what = error.what();
    const std::size_t at = what.rfind("): ");
    return "ERROR " + what.substr(at == std::string::npos ? 0 : at + 3);
  }
  return "";
}

// Tells whether a case is known not to be imported, by the beginning of its name.
bool is_unsupported(const std::string& name) {
  for (const char* prefix : {
           "test_attention_4d_with_qk_matmul",
           "test_attention_23_fullymasked_qk",
           "test_attention_24_fullymasked_qk",  // the scores as a result
           "test_attention_4d_causal_nonpad",
           "test_attention_4d_diff_heads_mask4d_padded_kv",
           "test_attention_4d_gqa_causal_nonpad",  // lengths as data
           "test_averagepool_3d",
           "test_maxpool_3d",
           "test_convtranspose_3d",  // windows over three axes
           "test_resize_tf_crop",
           "test_lstm_with_peepholes",
           "test_batchnorm_epsilon_training_mode",
           "test_batchnorm_example_training_mode",  // the running statistics as results
           "test_maxpool_with_argmax",              // the winners' numbers
           "test_scatter_elements_with_reduction_m",
           "test_scatternd_m",  // other reductions
           "test_not_2d",
           "test_not_3d",
           "test_not_4d",  // opset 1
           "test_reduce_max_empty_set_bool",
           "test_training_dropout",  // draws its own random numbers
       })
    if (name.starts_with(prefix)) return true;
  if (name.starts_with("test_resize"))
    for (const char* part : {"cubic", "antialias", "not_larger", "not_smaller"})
      if (name.find(part) != std::string::npos) return true;
  return false;
}

// Normalization of a constant is computed as in training, with the constant's own statistics.
bool is_training_only(const std::string& name) { return name.starts_with("test_batchnorm"); }

TEST(OnnxNodes, AreWhatTheStandardSays) {
  const auto all = cases("onnx_nodes.npz");
  int right = 0;
  for (const auto& [name, c] : all)
    for (bool constant : {false, true}) {
      const std::string wrong = run(name, c, constant);
      if (wrong.empty()) ++right;
      else if (!is_unsupported(name) && !(constant && is_training_only(name)))
        ADD_FAILURE() << name << (constant ? ", all constant: " : ": ") << wrong;
    }
  EXPECT_GE(right, 1100);
}

// ONNX Runtime's own operators equal its results (tests/data/make_runtime.py), from inputs and from constants.
TEST(OnnxNodes, OfOnnxRuntimeAreWhatItComputes) {
  const auto all = cases("runtime_nodes.npz");
  EXPECT_GE(all.size(), 60u);
  for (const auto& [name, c] : all)
    for (bool constant : {false, true})
      EXPECT_EQ(run(name, c, constant), "") << name << (constant ? ", all constant" : "");
}

}  // namespace
}  // namespace partita
