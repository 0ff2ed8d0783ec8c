// Compares kernels' times for arithmetic with the rooflines of an H100: every definition in every dtype, and training
// steps.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <string>

#include "partita/base/error.h"
#include "partita/cost/isolated_costs.h"
#include "partita/cost/kernel_form.h"
#include "partita/graph/builder.h"
#include "partita/ops/examples.h"
#include "partita/ops/ops.h"
#include "partita/physical/segments.h"
#include "partita/plan/resolve.h"
#include "planned.h"

namespace partita {
namespace {

// The definitions that multiply matrices, by hand: a matrix unit can serve them, in the dtype of their operands. All
// others compute in float32, or in float64.
const std::set<std::string> kMatrixProducts = {
    "matmul", "matmul_nt",        "matmul_tn",          "matmul_tn_sum", "linear",          "gate_linear",
    "conv2d", "conv2d_data_grad", "conv2d_weight_grad", "attention",     "attention_sinks", "attention_grad"};

bool multiplies_matrices(const std::string& definition) { return kMatrixProducts.contains(definition); }

// One H100 without sizes of kernels, a million times as slow, so that a nanosecond is nothing. `arithmetic`: no kernel
// waits for memory.
Cluster slow_h100(bool arithmetic) {
  Cluster cluster = load_cluster("dgx-h100", 1);
  Device& device = cluster.devices[0];
  for (auto& [dtype, flops] : device.peak_flops_per_s) flops /= 1e6;
  device.memory_bandwidth_bytes_per_s *= arithmetic ? 1e6 : 1e-6;
  device.launch_overhead_us = 0;
  device.kernels = {};
  return cluster;
}

DType expected_rate(const std::string& definition, DType operands) {
  return !is_low(operands) || multiplies_matrices(definition) ? operands : DType::kFloat32;
}

// A price as a fraction of the roofline: 1 is the hardware's limit.
double part_of_roofline(const Device& device, DType rate, double flops, double bytes, int64_t ns) {
  const double s = std::max(flops / device.peak_flops_per_s.at(rate), bytes / device.memory_bandwidth_bytes_per_s);
  return s / (static_cast<double>(ns) / 1e9);
}

struct OneOp {
  Graph graph;
  double flops = 0, bytes = 0;
};

OneOp one_op(const std::shared_ptr<const OpRegistry>& registry, const OpDefinition& definition,
             const OpDefinition::Example& example, DType dtype) {
  GraphBuilder build("one", registry);
  std::vector<TensorId> operands;
  const std::vector<DType> dtypes = operand_dtypes(example);
  for (size_t k = 0; k < example.shapes.size(); ++k) {
    const bool replaced = std::find(definition.replaces.begin(), definition.replaces.end(), static_cast<int>(k)) !=
                          definition.replaces.end();
    const DType own = is_float(dtypes[k]) ? dtype : dtypes[k];
    const std::string name = fmt::format("a{}", k);
    operands.push_back(replaced ? build.parameter(name, example.shapes[k], 1, 0, own)
                                : build.input(name, example.shapes[k], own));
  }
  const std::vector<TensorId> results = build.ops(definition.name, operands, example.attributes);
  OneOp one{build.finish({results[0]})};
  const tdl::Bound& bound = *one.graph.ops.back().bound;
  one.flops = definition.flops ? definition.flops(bound, tdl::full_ranges(bound)) : tdl::flops(bound);
  return one;
}

TEST(Prices, EveryDefinitionInEveryDType) {
  int priced = 0;
  std::vector<std::string> off;
  const auto registry = standard_ops();
  for (const OpDefinition* definition : registry->all())
    for (const OpDefinition::Example& example : definition->examples)
      for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16})
        for (bool arithmetic : {false, true}) {
          OneOp one = one_op(registry, *definition, example, dtype);
          const Op& op = one.graph.ops.back();
          const Cluster cluster = slow_h100(arithmetic);
          const auto derived = tdl::derive(*op.bound, {1}, {tdl::AxisStrategy{}});
          ASSERT_TRUE(derived) << definition->name;
          for (size_t t = 0; t < op.operands.size(); ++t)
            one.bytes +=
                static_cast<double>(volume(derived->boxes[t][0]) * bytes_of(one.graph.tensor(op.operands[t]).dtype));
          for (TensorId result : op.results) one.bytes += static_cast<double>(one.graph.tensor(result).bytes());
          const Mesh mesh{{1}, {DeviceId(0)}};
          const int64_t ns = kernels_ns(CostModel(cluster), one.graph, op, *derived, mesh);
          if (one.flops == 0 && (arithmetic || one.bytes == 0)) continue;
          ++priced;
          const bool real =
              std::any_of(example.dtypes.begin(), example.dtypes.end(), is_float) || example.dtypes.empty();
          const DType rate = expected_rate(definition->name, real ? dtype : DType::kFloat32);
          const double part = part_of_roofline(cluster.devices[0], rate, one.flops, one.bytes, ns);
          if (part < 0.3 || part > 1)
            off.push_back(fmt::format("{} {}{}: {:.3f} of roofline", definition->name, name_of(dtype),
                                      arithmetic ? ", arithmetic alone" : "", part));
        }
  std::printf("%d prices\n", priced);
  EXPECT_TRUE(off.empty()) << fmt::format("{}", fmt::join(off, "\n"));
}

// Only attention, with sinks or without, and its gradient are fused attention. They have two and five products.
TEST(KernelForms, OfEveryDefinition) {
  const auto registry = standard_ops();
  for (const OpDefinition* definition : registry->all())
    for (const OpDefinition::Example& example : definition->examples) {
      const OneOp one = one_op(registry, *definition, example, DType::kFloat32);
      const tdl::Bound& bound = *one.graph.ops.back().bound;
      const KernelForm form = kernel_form_of(bound, 0, static_cast<int>(bound.stages.size()));
      const std::string& name = definition->name;
      const bool forward = name == "attention" || name == "attention_sinks";
      EXPECT_EQ(form.fused_attention, forward || name == "attention_grad") << name;
      EXPECT_EQ(form.products.size(), forward                     ? 2u
                                      : name == "attention_grad"  ? 5u
                                      : multiplies_matrices(name) ? 1u
                                                                  : 0u)
          << name;
    }
}

// 32 x 28 x 28 positions by 128 channels over 64 x 3 x 3: of the result, of the input and of the weight.
TEST(KernelForms, ConvolutionsAndTheirGradientsAreProducts) {
  const auto registry = standard_ops();
  const tdl::Attributes same = {{"sh", 2}, {"sw", 2}, {"pt", 1}, {"pl", 1}, {"pb", 1}, {"pr", 1}};
  auto product_of = [&](const char* definition, const std::vector<Shape>& shapes, tdl::Attributes more) {
    more.insert(same.begin(), same.end());
    const OneOp one = one_op(registry, *registry->find(definition), {shapes, more, {}}, DType::kFloat32);
    const tdl::Bound& bound = *one.graph.ops.back().bound;
    const KernelSize kernel = kernel_size_over(kernel_form_of(bound, 0, static_cast<int>(bound.stages.size())),
                                               tdl::full_ranges(bound), one.flops);
    const Product& p = kernel.products.at(0);
    return std::vector<double>{p.batch, p.m, p.n, p.k, kernel.computed};
  };
  const double positions = 32 * 28 * 28;
  EXPECT_EQ(product_of("conv2d", {{32, 64, 56, 56}, {128, 64, 3, 3}}, {}),
            (std::vector<double>{1, positions, 128, 64 * 9, 1}));
  EXPECT_EQ(product_of("conv2d_weight_grad", {{32, 128, 28, 28}, {32, 64, 56, 56}}, {{"kh", 3}, {"kw", 3}}),
            (std::vector<double>{1, 128, 64 * 9, positions, 1}));
  // Each position of the input has a quarter of the window.
  EXPECT_EQ(product_of("conv2d_data_grad", {{32, 128, 28, 28}, {128, 64, 3, 3}}, {{"height", 56}, {"width", 56}}),
            (std::vector<double>{1, 4 * positions, 64, 128 * 9, 0.25}));
  // Heads of q that share k and v are rows of one product; here 64 heads of k, and q has four for each.
  const std::vector<Shape> grouped = {{2, 256, 512, 64}, {2, 64, 1024, 64}, {2, 64, 1024, 64}};
  const OneOp one = one_op(registry, *registry->find("attention"), {grouped, {}, {}}, DType::kFloat32);
  const tdl::Bound& bound = *one.graph.ops.back().bound;
  const KernelSize kernel = kernel_size_over(kernel_form_of(bound, 0, static_cast<int>(bound.stages.size())),
                                             tdl::full_ranges(bound), one.flops);
  EXPECT_EQ(kernel.products.at(0), (Product{2 * 64, 4 * 512, 1024, 64}));
  EXPECT_EQ(kernel.products.at(1), (Product{2 * 64, 4 * 512, 64, 1024}));
}

// The isolated time of an op on one H100 in bfloat16.
int64_t on_h100_ns(const char* definition, const std::vector<Shape>& shapes, const tdl::Attributes& attributes = {}) {
  const auto registry = standard_ops();
  const OpDefinition::Example example{shapes, attributes, {}};
  const OneOp one = one_op(registry, *registry->find(definition), example, DType::kBFloat16);
  const Op& op = one.graph.ops.back();
  Cluster cluster = load_cluster("dgx-h100", 1);
  cluster.devices[0].kernels.sustained = 1;  // by itself, as it was measured
  return kernels_ns(CostModel(cluster), one.graph, op, *tdl::derive(*op.bound, {1}, {tdl::AxisStrategy{}}),
                    Mesh{{1}, {DeviceId(0)}});
}

// Published times of H100, in us; within 20%.
TEST(KernelForms, TimesOfOpsAreThoseOfTheirKernels) {
  auto expect_us = [](int64_t ns, double us) { EXPECT_NEAR(static_cast<double>(ns) / 1e3, us, 0.2 * us); };
  // aiconfigurator: m = 1, 128 and 256 of n = k = 8192.
  expect_us(on_h100_ns("linear", {{1, 8192}, {8192, 8192}}), 49.2);
  expect_us(on_h100_ns("linear", {{128, 8192}, {8192, 8192}}), 52.1);
  expect_us(on_h100_ns("linear", {{256, 8192}, {8192, 8192}}), 56.4);
}

}  // namespace
}  // namespace partita
