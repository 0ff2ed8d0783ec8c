// Tests that the scratch that kernels declare for the operations of large language models stays the same when a batch,
// a sequence or a vocabulary grows.
#include "partita/physical/workspace.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "partita/base/error.h"
#include "partita/graph/builder.h"
#include "partita/kernel_plan/kernel_plan.h"
#include "partita/ops/ops.h"

namespace partita::testing {
namespace {

struct Call {
  std::string definition;
  std::vector<Shape> shapes;
  std::vector<int> integers = {};  // operands of int64; the others are real
  tdl::Attributes attributes = {};
};

// The scratch of the whole operation, with real operands of this dtype.
int64_t workspace_of(const Call& call, DType real) {
  GraphBuilder build("one", standard_ops());
  std::vector<TensorId> ids;
  for (size_t k = 0; k < call.shapes.size(); ++k) {
    const bool is_integer =
        std::find(call.integers.begin(), call.integers.end(), static_cast<int>(k)) != call.integers.end();
    ids.push_back(build.parameter(fmt::format("a{}", k), call.shapes[k], 1, 0, is_integer ? DType::kInt64 : real));
  }
  build.ops(call.definition, ids, call.attributes);
  const Graph& graph = build.graph();
  const Op& op = graph.ops.back();
  const tdl::Bound& bound = *op.bound;
  const KernelWork work{
      call.definition, op.attributes, op.bound, 0, static_cast<int>(bound.stages.size()), {tdl::full_ranges(bound)}, 0};
  const auto placed = [&](int tensor, TensorId id) {
    const Shape axes = bound.tensors[tensor].factored;
    return PlacedShard{tensor, {graph.tensor(id).dtype, full_box(axes), dense_strides(axes)}, axes};
  };
  std::vector<PlacedShard> reads, writes;
  for (size_t k = 0; k < op.operands.size(); ++k) reads.push_back(placed(static_cast<int>(k), op.operands[k]));
  for (size_t r = 0; r < op.results.size(); ++r) writes.push_back(placed(bound.results[r], op.results[r]));
  return plan_kernel(request_of(work, work.ranges[0], reads, writes)).workspace_bytes();
}

// n: of rows, or queries and keys; c: of columns, or classes.
std::vector<Call> calls(int64_t n, int64_t c) {
  const Shape rows{n}, all{n, c}, q{1, 4, n, 64}, kv{1, 2, n, 64}, lse{1, 4, n};
  return {
      {"cross_entropy", {all, rows}, {1}},
      {"cross_entropy_grad", {all, rows, rows, {}}, {1}},
      {"masked_cross_entropy", {all, rows, {}}, {1, 2}},
      {"masked_cross_entropy_grad", {all, rows, {}, rows, {}}, {1, 2}},
      {"softmax", {all}},
      {"softmax_grad", {all, all}},
      {"log_softmax", {all}},
      {"layer_norm", {all, {c}, {c}}},
      {"layer_norm_grad", {all, {c}, rows, rows, all}, {}, {{"bias", 1}}},
      {"rms_norm", {all, {c}}},
      {"rms_norm_grad", {all, {c}, rows, all}},
      {"silu", {all}},
      {"gather", {{c, 64}, rows}, {1}},
      {"attention", {q, kv, kv}, {}, {{"causal", 1}}},
      {"attention", {q, q, q}},
      {"attention_grad", {q, kv, kv, q, lse, q}, {}, {{"causal", 1}}},
      {"attention_grad", {q, q, q, q, lse, q}},
      {"adamw", {all, all, all, all, {}, {}}, {5}, {{"weight_decay", 0.1}}},
  };
}

constexpr int64_t kMostBytes = kGenericBudgetBytes + kGenericSliceBytes;

TEST(Workspace, DoesNotGrowWithRows) {
  for (DType real : {DType::kFloat64, DType::kFloat32, DType::kBFloat16, DType::kFloat16})
    for (const Call& call : calls(16384, 4096)) {
      EXPECT_LE(workspace_of(call, real), kMostBytes) << call.definition << ", " << name_of(real);
    }
  // Statistics of a row each are more than a slice may hold.
  for (const Call& call : calls(int64_t{1} << 24, 32))
    if (call.shapes[0].size() == 2) {
      EXPECT_LE(workspace_of(call, DType::kBFloat16), kMostBytes) << call.definition;
    }
}

TEST(Workspace, OfALossStaysThatOfABlock) {
  for (const Call& call : calls(8192, 128256)) {
    if (call.definition.find("cross_entropy") == std::string::npos) continue;
    for (DType real : {DType::kFloat64, DType::kFloat32, DType::kBFloat16, DType::kFloat16})
      EXPECT_LE(workspace_of(call, real), kGenericBudgetBytes + 4 * 8192 * 8)
          << call.definition << ", " << name_of(real);
  }
}

}  // namespace
}  // namespace partita::testing
