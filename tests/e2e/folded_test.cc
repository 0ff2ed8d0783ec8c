// Tests files in which exporters computed constants from parameters by moving their elements. They train as PyTorch
// trains the model: losses and parameters of tests/data/make_folded.py, whichever way the file was written.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "partita/runtime/npz.h"
#include "partita/train/train.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

struct Case {
  std::string name;
  int tied = 0;        // values of the newer exporter's file that are another parameter of it
  int tied_older = 0;  // of the older one's
  int untrained = 0;
  std::vector<std::string> names = {};                 // parameters that the newer one's file has in PyTorch's shape
  std::map<std::string, std::string> tied_names = {};  // those whose PyTorch name is another of a tie's names
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {.name = "positions", .names = {"words.weight", "inner.weight", "head.weight"}},
      {.name = "token_types"},
      {.name = "tied_head",
       .tied = 1,
       .tied_older = 1,
       .names = {"head.weight", "inner.weight"},
       .tied_names = {{"head.weight", "words.weight"}}},
      {.name = "tied_by_hand", .tied = 1, .tied_older = 1, .names = {"words.weight", "inner.weight"}},
      {.name = "tied_rows", .tied = 1, .tied_older = 1, .names = {"words.weight", "inner.weight"}},
      {.name = "called", .names = {"a.weight"}},
      {.name = "copies", .names = {"layers.0.weight", "layers.1.weight", "layers.2.weight"}},
      {.name = "expanded", .names = {"token", "places", "head.weight"}},
      {.name = "expanded_zeros", .names = {"token", "places", "head.weight"}},
      {.name = "sliced"},
      {.name = "sliced_twice", .tied = 1},
      {.name = "biased"},
      {.name = "turned", .tied = 1, .tied_older = 1, .names = {"weight", "head.weight"}},
      {.name = "joined"},
      {.name = "viewed"},
      {.name = "fused"},
      {.name = "computed", .untrained = 2, .names = {"head.weight"}},
  };
  return all;
}

std::string file(const std::string& name) { return fmt::format("{}/tests/data/folded/{}", PARTITA_SOURCE_DIR, name); }

Planned planned(const std::string& model, int devices) {
  Request request;
  request.model = model;
  request.dtype = DType::kFloat64;
  request.loss = "mse";
  request.optimizer = {.lr = 0.1};
  request.cluster = fmt::format("local:{}", devices);
  request.search = devices == 1 ? "single" : "soybean";
  Runner runner;
  return plan_model(request, runner);
}

void expect_pytorchs(const Case& c, const std::string& way, int devices) {
  SCOPED_TRACE(fmt::format("{}-{} on {} devices", c.name, way, devices));
  const Arrays reference = read_arrays(file(c.name + ".npz"));
  const Planned p = planned(file(fmt::format("{}-{}.onnx", c.name, way)), devices);
  const bool newer = way == "optimized";
  EXPECT_EQ(p.findings.tied.size(), static_cast<std::size_t>(newer ? c.tied : c.tied_older))
      << fmt::format("{}", fmt::join(p.findings.tied, "; "));
  EXPECT_EQ(p.findings.untrained.size(), static_cast<std::size_t>(newer ? c.untrained : 0));
  TrainOptions options;
  options.data = file(c.name + ".npz");
  options.shuffle = false;
  options.steps = 5;
  const TrainReport report = train(p, options, kernels());
  const Values& losses = reference.at("losses");
  ASSERT_EQ(report.losses.size(), losses.real.size());
  const double near = c.untrained > 0 ? 1e-7 : 1e-12;  // the file has the computed constant in float32
  for (std::size_t i = 0; i < report.losses.size(); ++i)
    EXPECT_LE(std::abs(report.losses[i] / losses.real[i] - 1), near) << "step " << i;
  if (!newer) return;
  for (const std::string& name : c.names) {
    ASSERT_TRUE(report.weights.contains(name)) << name;
    const auto tied = c.tied_names.find(name);
    const std::string& theirs = tied == c.tied_names.end() ? name : tied->second;
    EXPECT_LE(relative_error(report.weights.at(name), reference.at("final." + theirs)), near) << name;
  }
}

TEST(Folded, TrainsAsPyTorch) {
  for (const Case& c : cases())
    for (int devices : {1, 3}) expect_pytorchs(c, "optimized", devices);
}

// The older exporter does not say what it computed: only `computed` has a parameter left that PyTorch's reference
// leaves alone.
TEST(Folded, TrainsAsPyTorchFromTheOlderExporter) {
  for (const Case& c : cases())
    if (c.name != "computed") expect_pytorchs(c, "torchscript", 1);
}

}  // namespace
}  // namespace partita
