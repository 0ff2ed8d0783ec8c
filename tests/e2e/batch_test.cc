// Tests files exported at a batch of 1 or 2, run and trained with another: results equal PyTorch's for all samples
// (tests/data/cases).
#include <gtest/gtest.h>

#include <cstdio>

#include "partita/base/error.h"
#include "partita/base/testing/error_of.h"
#include "partita/ops/ops.h"
#include "partita/runtime/npz.h"
#include "partita/train/batch_check.h"
#include "partita/train/forward.h"
#include "partita/train/train.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

std::string file(const std::string& name, const char* what) {
  return fmt::format("{}/tests/data/cases/{}/{}", PARTITA_SOURCE_DIR, name, what);
}

Planned plan(const std::string& name, int64_t batch, int devices, const std::string& search) {
  Request request;
  request.model = file(name, "model.onnx");
  if (name == "pairs_batch5") request.loss = "elementwise";
  request.bindings["batch"] = std::to_string(batch);
  request.cluster = fmt::format("local:{}", devices);
  request.search = search;
  Runner runner;
  return plan_model(request, runner);
}

const std::vector<std::string>& cases() {
  static const std::vector<std::string> all{
      "flatten2_script_batch4", "detr_batch4",    "tb_dynamo_batch4", "mha_batch4",         "layerscale_batch4",
      "vit_dynamo_batch4",      "latents_batch5", "pairs_batch5",     "three_inputs_batch5"};
  return all;
}

int64_t batch_of_name(const std::string& name) { return std::stoll(name.substr(name.rfind("_batch") + 6)); }

TEST(AnotherBatch, ForwardIsPyTorchs) {
  for (const std::string& name : cases())
    for (const auto& [devices, search] :
         {std::pair{1, "single"}, std::pair{3, "soybean"}, std::pair{3, "data-parallel"}}) {
      SCOPED_TRACE(fmt::format("{} with {}", name, search));
      const Arrays inputs = read_arrays(file(name, "in.npz")), reference = read_arrays(file(name, "ref.npz"));
      const Planned p = plan(name, batch_of_name(name), devices, search);
      ASSERT_TRUE(p.other_batch.has_value());
      check_other_batch(*p.other_batch, kernels());
      const Graph graph = evaluation_of(p.forward);
      const Arrays outputs = run_forward(graph, evaluation_plan(graph, p), p.cluster, inputs, {}, 1, kernels());
      for (const auto& [output, expected] : reference)
        EXPECT_LE(relative_error(outputs.at(output), expected), 1e-5) << output;
    }
}

TEST(AnotherBatch, TrainsAsOnOneDevice) {
  for (const std::string& name : cases())
    for (const auto& [devices, search] :
         {std::pair{1, "single"}, std::pair{3, "soybean"}, std::pair{3, "data-parallel"}}) {
      SCOPED_TRACE(fmt::format("{} with {}", name, search));
      TrainOptions options;
      options.steps = 3;
      options.verify_serial = true;
      const TrainReport report = train(plan(name, batch_of_name(name), devices, search), options, kernels());
      EXPECT_LE(*report.max_error_vs_serial, 1e-5);
      EXPECT_LE(*report.max_loss_error_vs_serial, 1e-5);
    }
}

// The check by running finds a graph that computes something else.
TEST(AnotherBatch, TheCheckSeesADifference) {
  OtherBatch batch = *plan("mha_batch4", 4, 1, "single").other_batch;
  for (Tensor& t : batch.other.tensors) {
    if (t.name != "m.in_proj_bias") continue;
    Values other = *t.values;
    other.real[0] += 1;
    t.values = std::make_shared<const Values>(other);
  }
  const std::string error = error_of([&] { check_other_batch(batch, kernels()); });
  EXPECT_EQ(error,
            "output 'y', sample 0: the model made for a batch of 4 differs from the file's own, which is for 1; export "
            "with a dynamic batch");
}

TEST(AnotherBatch, AnExtentOfMinusOneIsSymbolic) {
  const Planned p = plan("dim_minus1", 8, 1, "single");
  EXPECT_FALSE(p.other_batch.has_value());
  const Graph graph = evaluation_of(p.forward);
  const Arrays outputs = run_forward(graph, evaluation_plan(graph, p), p.cluster,
                                     read_arrays(file("dim_minus1", "in.npz")), {}, 1, kernels());
  EXPECT_EQ(outputs.at("y").shape, (Shape{8, 4}));
  const std::string path = file("dim_minus1", "model.onnx");
  EXPECT_EQ(error_of([&] { import_onnx(path, {}, standard_ops()); }),
            path + ": input 'x', dimension 0 ('x.0') has no extent; give one: --bind x.0=N or --batch N");
  EXPECT_EQ(import_onnx(path, {.bindings = {{"x.0", 5}}}, standard_ops()).tensor(TensorId(0)).shape, (Shape{5, 6}));
}

// A model that adds a sum over the batch to every sample's answer.
TEST(AnotherBatch, MixedSamplesAreRefusedInOneLine) {
  const std::string path = fmt::format("{}/tests/data/recurrent.onnx", PARTITA_SOURCE_DIR);
  EXPECT_EQ(error_of([&] { import_onnx(path, {.batch = 3}, standard_ops()); }),
            path +
                ": --batch 3: node 'node_sum_1' (ReduceSum) reduces over the samples; the file was exported for a "
                "batch of 6; export with a dynamic batch");
}

}  // namespace
}  // namespace partita
