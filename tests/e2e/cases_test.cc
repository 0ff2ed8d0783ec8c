// Tests files that people wrote. Each folder of tests/data/cases has a model, its inputs, and the results of PyTorch or
// the ONNX reference evaluator.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/ops/ops.h"
#include "partita/runtime/npz.h"
#include "partita/search/all/searches.h"
#include "partita/train/forward.h"
#include "partita/train/train.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

std::string case_file(const std::string& name, const std::string& file) {
  return fmt::format("{}/tests/data/cases/{}/{}", PARTITA_SOURCE_DIR, name, file);
}

// Returns the results of `partita run` for a folder's model on some inputs. A folder NAME_batchN is run with --batch N.
Arrays run_case(const std::string& name, const Arrays& inputs, int devices, const std::string& search) {
  Request request;
  request.model = case_file(name, "model.onnx");
  if (const std::size_t at = name.rfind("_batch"); at != std::string::npos)
    request.bindings["batch"] = name.substr(at + 6);
  request.cluster = fmt::format("local:{}", devices);
  request.search = search;
  request.inference_only = true;
  Runner runner;
  const Planned p = plan_model(request, runner);
  const Graph graph = evaluation_of(p.forward);
  return run_forward(graph, evaluation_plan(graph, p), p.cluster, inputs, {}, 1, kernels());
}

std::string error_of_case(const std::string& name, const Arrays& inputs, int devices, const std::string& search) {
  try {
    run_case(name, inputs, devices, search);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "";
}

class Cases : public ::testing::TestWithParam<const char*> {};

TEST_P(Cases, AreWhatTheReferenceSays) {
  const std::string name = GetParam();
  const Arrays inputs = read_arrays(case_file(name, "in.npz")), reference = read_arrays(case_file(name, "ref.npz"));
  const bool one_sample = std::ranges::any_of(
      inputs, [](const auto& input) { return input.second.shape.empty() || input.second.shape[0] < 2; });
  for (const auto& [devices, search] : {std::pair{1, "single"}, {3, "soybean"}, {2, "data-parallel"}}) {
    if (one_sample && search == std::string_view("data-parallel")) continue;
    SCOPED_TRACE(fmt::format("{} with {} on {} devices", name, search, devices));
    const Arrays outputs = run_case(name, inputs, devices, search);
    for (const auto& [output, values] : reference) {
      ASSERT_TRUE(outputs.contains(output)) << output;
      if (is_float(values.dtype)) EXPECT_LE(relative_error(outputs.at(output), values), 1e-5) << output;
      else EXPECT_EQ(outputs.at(output).integer, values.integer) << output;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Cases,
                         ::testing::Values("cls_noPad_dynamo", "gather_neg", "onehot_neg", "cast_1509",
                                           "ms_simplified_ln", "resize10", "op_Atan", "computed_places", "integers",
                                           "tied", "hummingbird_gemm", "round_only", "const_weights", "concat_twice",
                                           "least_integers", "left_out", "relu6_functional", "resize_scale_0_7",
                                           "resize_uint8", "output_is_input", "reduce_log_sum_noop",
                                           "reduce_log_sum_exp_scalar", "other_outputs", "batch_norm_twice",
                                           "resize_by_scales", "over_nothing", "norm_of_constant"),
                         [](const auto& info) { return std::string(info.param); });

// A number of a place that a tensor does not have is refused in the same words, on every device.
TEST(CaseErrors, AnIdOutside) {
  Arrays inputs = read_arrays(case_file("gather_neg", "in.npz"));
  inputs.at("i").integer = {0, 1, 4, -5};
  Arrays padded = read_arrays(case_file("cls_noPad_dynamo", "in.npz"));
  padded.at("ids").integer[7] = 20;
  Arrays computed = read_arrays(case_file("computed_places", "in.npz"));
  computed.at("i").integer = {0, 5, 2, 12, 1, -4};
  for (const auto& [devices, search] : {std::pair{1, "single"}, {3, "exact"}, {2, "data-parallel"}}) {
    EXPECT_EQ(error_of_case("computed_places", computed, devices, search),
              "op 'rows.places': 'sub #0' has 9 at [1, 0]; it takes -4 to 3");
    EXPECT_EQ(error_of_case("gather_neg", inputs, devices, search), "array 'i' has 4 at [2]; the model takes -4 to 3");
    EXPECT_EQ(error_of_case("cls_noPad_dynamo", padded, devices, search),
              "array 'ids' has 20 at [1, 1]; the model takes -20 to 19");
  }
}

TEST(CaseErrors, ALoopIsNamed) {
  EXPECT_NE(error_of_case("loop_const", read_arrays(case_file("loop_const", "in.npz")), 1, "single")
                .find("node 'Loop #0' (Loop, opset 16): loops are not supported"),
            std::string::npos);
}

TEST(CaseWeights, OfATiedHeadAndOfConstants) {
  const auto parameters = [](const std::string& name) {
    std::vector<std::string> names;
    const Graph graph = import_onnx(case_file(name, "model.onnx"), {}, standard_ops());
    for (const Tensor& t : graph.tensors)
      if (t.role == Role::kParameter) names.push_back(t.name);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(parameters("tied"), (Names{"e.weight", "l.bias", "onnx::MatMul_11"}));
  EXPECT_EQ(parameters("const_weights"), (Names{"w", "b"}));
}

// Three steps of SGD in float64, with the losses and the weights of PyTorch. The models' first steps are at a tie, at a
// bound, or where a piece of a function has no finite derivative.
struct Trained {
  const char* name;
  double lr;
};
class CaseTraining : public ::testing::TestWithParam<Trained> {};

TEST_P(CaseTraining, IsPyTorchs) {
  const auto& [name, lr] = GetParam();
  const Arrays reference = read_arrays(case_file(name, "ref.npz"));
  for (const auto& [devices, search] : {std::pair{1, "single"}, {2, "data-parallel"}, {3, "exact"}}) {
    SCOPED_TRACE(fmt::format("{} with {} on {} devices", name, search, devices));
    Request request;
    request.model = case_file(name, "model.onnx");
    request.cluster = fmt::format("local:{}", devices);
    request.search = search;
    request.loss = "mse";
    request.dtype = DType::kFloat64;
    request.optimizer.lr = lr;
    Runner runner;
    TrainOptions options;
    options.steps = 3;
    options.shuffle = false;
    options.data = case_file(name, "in.npz");
    const TrainReport report = train(plan_model(request, runner), options, kernels());
    for (const auto& [parameter, values] : reference) {
      if (parameter == "losses")
        for (std::size_t s = 0; s < 3; ++s)
          EXPECT_NEAR(report.losses.at(s), values.real[s], 1e-6 * std::abs(values.real[s]));
      else EXPECT_LE(relative_error(report.weights.at(parameter), values), 1e-6) << parameter;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, CaseTraining,
                         ::testing::Values(Trained{"elu_at_zero", 0.1}, Trained{"norm_of_zero_row", 0.1},
                                           Trained{"normalize_padding_rows", 0.001}, Trained{"functions_at_kinks", 5},
                                           Trained{"frozen_norm", 0.1}, Trained{"frozen_norm_older", 0.1},
                                           Trained{"frozen_norm_dropout", 0.1}),
                         [](const auto& info) { return std::string(info.param.name); });

// Two steps of a model that multiplies and reduces over nothing, by every search, are those of one device.
TEST(CaseSearches, TrainOverNothingAsOneDevice) {
  const auto trained = [](const std::string& search, int devices) {
    Request request;
    request.model = case_file("over_nothing", "model.onnx");
    request.cluster = fmt::format("local:{}", devices);
    request.search = search;
    request.loss = "elementwise";
    request.dtype = DType::kFloat64;
    request.budget.steps = 50;
    Runner runner;
    TrainOptions options;
    options.steps = 2;
    return train(plan_model(request, runner), options, kernels());
  };
  const TrainReport one = trained("single", 1);
  for (const SearchEntry& entry : searches())
    for (const int devices : {2, 3}) {
      if (entry.estimates || entry.name == "pesto") continue;  // which calls a program that may not be there
      SCOPED_TRACE(fmt::format("{} on {} devices", entry.name, devices));
      try {
        const TrainReport several = trained(entry.name, devices);
        EXPECT_NEAR(several.losses.at(1), one.losses.at(1), 1e-12 * std::abs(one.losses.at(1)));
        for (const auto& [parameter, values] : one.weights) {
          ASSERT_EQ(several.weights.at(parameter).shape, values.shape);
          if (!values.real.empty()) EXPECT_LE(relative_error(several.weights.at(parameter), values), 1e-12);
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kInfeasible) << error.what();  // a rule that does not apply
      }
    }
}

}  // namespace
}  // namespace partita
