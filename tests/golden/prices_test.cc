// What kernels are charged for their arithmetic: every definition in every dtype, and training steps, beside the
// rooflines of an H100.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <string>

#include "partita/base/error.h"
#include "partita/cost/alone.h"
#include "partita/graph/builder.h"
#include "partita/ops/examples.h"
#include "partita/ops/ops.h"
#include "partita/physical/lower.h"
#include "partita/physical/segments.h"
#include "partita/plan/resolve.h"
#include "planned.h"

namespace partita {
namespace {

// What multiplies matrices, by hand: a unit for matrix products can serve it, in the dtype of its operands. Everything
// else computes in float32, or in float64.
const std::set<std::string> kMatrixProducts = {
    "matmul", "matmul_nt",        "matmul_tn",          "matmul_tn_sum", "linear",        "gate_linear",
    "conv2d", "conv2d_data_grad", "conv2d_weight_grad", "attention",     "attention_grad"};

bool multiplies_matrices(const std::string& definition) { return kMatrixProducts.contains(definition); }

// One H100, a million times as slow, so that a nanosecond is nothing; `arithmetic`: with memory that is never what a
// kernel waits for.
Cluster slow_h100(bool arithmetic) {
  Cluster cluster = load_cluster("dgx-h100", 1);
  Device& device = cluster.devices[0];
  for (auto& [dtype, flops] : device.peak_flops_per_s) flops /= 1e6;
  device.memory_bandwidth_bytes_per_s *= arithmetic ? 1e6 : 1e-6;
  device.launch_overhead_us = 0;
  return cluster;
}

DType expected_rate(const std::string& definition, DType operands) {
  return !is_low(operands) || multiplies_matrices(definition) ? operands : DType::kFloat32;
}

// The part of the roofline that a price comes to: 1 is the hardware's limit.
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

}  // namespace
}  // namespace partita
