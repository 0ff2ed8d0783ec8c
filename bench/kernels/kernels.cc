// Compares the generic stage kernel with the registered kernels: time and scratch of each definition at sizes of a
// small network, in float32, one thread. Prints a table; a `-` means that the definition runs on the generic stage
// kernel anyway. A second table has stages whole and in slices.
#include "partita/kernels/kernels.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/float16.h"
#include "partita/base/rng.h"
#include "partita/graph/builder.h"
#include "partita/kernel_plan/first_fit.h"
#include "partita/ops/ops.h"
#include "partita/physical/workspace.h"

namespace partita {
namespace {

struct Case {
  std::string definition;
  std::vector<Shape> shapes;
  tdl::Attributes attributes;
  std::vector<DType> dtypes;
};

struct Measured {
  double microseconds = 0;
  int64_t scratch_bytes = 0;
};

Measured measure(const Case& c, const KernelOptions& options) {
  const auto kernels = make_aten_kernels(options);
  GraphBuilder build("one", standard_ops());
  std::vector<TensorId> ids;
  for (size_t k = 0; k < c.shapes.size(); ++k)
    ids.push_back(
        build.parameter(fmt::format("a{}", k), c.shapes[k], 1, 0, k < c.dtypes.size() ? c.dtypes[k] : DType::kFloat32));
  build.ops(c.definition, ids, c.attributes);
  const Graph& graph = build.graph();
  const Op& op = graph.ops.back();
  const tdl::Bound& bound = *op.bound;

  Task task;
  task.name = c.definition;
  KernelWork work{
      c.definition, op.attributes, op.bound, 0, static_cast<int>(bound.stages.size()), {tdl::full_ranges(bound)}, 0};
  KernelCall call;
  call.task = &task;
  call.work = &work;
  std::vector<std::unique_ptr<std::byte[], void (*)(std::byte*)>> memory;
  auto allocate = [&](int64_t bytes) {
    auto* p = static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(scratch_size(bytes) + 64)));
    memory.emplace_back(p, [](std::byte* q) { std::free(q); });
    return p;
  };
  std::vector<PlacedShard> reads, writes;
  Rng rng(1);
  auto place = [&](int tensor, const Tensor& t, bool read) {
    const Shape axes = bound.tensors[tensor].factored;
    const TensorShard shard{t.dtype, full_box(axes), dense_strides(axes)};
    std::byte* data = allocate(t.bytes());
    for (int64_t i = 0; i < volume(t.shape); ++i) {
      if (t.dtype == DType::kFloat32) reinterpret_cast<float*>(data)[i] = static_cast<float>(rng.uniform() + 0.1);
      else if (t.dtype == DType::kBFloat16)
        reinterpret_cast<BFloat16*>(data)[i] = BFloat16(static_cast<float>(rng.uniform() + 0.1));
      else if (t.dtype == DType::kInt64) reinterpret_cast<int64_t*>(data)[i] = static_cast<int64_t>(rng.below(4));
    }
    Access access;
    access.tensor = tensor;
    (read ? reads : writes).push_back({tensor, shard, axes});
    (read ? task.reads : task.writes).push_back(access);
    (read ? call.reads : call.writes).push_back({data, t.dtype, shard.box, shard.strides, axes});
  };
  for (size_t k = 0; k < op.operands.size(); ++k) place(static_cast<int>(k), graph.tensor(op.operands[k]), true);
  for (size_t r = 0; r < op.results.size(); ++r) place(bound.results[r], graph.tensor(op.results[r]), false);
  Measured m;
  m.scratch_bytes = plan_kernel(request_of(work, work.ranges[0], reads, writes), options).workspace_bytes();
  call.scratch = allocate(m.scratch_bytes);
  call.scratch_bytes = static_cast<size_t>(m.scratch_bytes);
  call.prepared = kernels->prepare_call(call);

  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  const auto begin = Clock::now();
  while (times.size() < 3 || (times.size() < 200 && Clock::now() - begin < std::chrono::milliseconds(150))) {
    const auto start = Clock::now();
    kernels->run(call);
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  m.microseconds = *std::min_element(times.begin(), times.end());
  return m;
}

std::string text_of(const std::vector<Shape>& shapes) {
  std::vector<std::string> texts;
  for (const Shape& s : shapes) texts.push_back(fmt::format("{}", fmt::join(s, "x")));
  return fmt::format("{}", fmt::join(texts, " "));
}

// Stages whose internal tensors are large: whole, and in slices.
void slices_table() {
  const DType b = DType::kBFloat16, f = DType::kFloat32;
  const Shape q{1, 8, 1024, 64}, kv{1, 2, 1024, 64}, lse{1, 8, 1024}, x{8192, 2048}, rows{8192}, w{2048};
  const tdl::Attributes causal{{"causal", 1}};
  const std::vector<Case> cases{
      {"attention", {q, kv, kv}, causal, {}},
      {"attention", {q, kv, kv}, causal, {b, b, b}},
      {"attention", {q, q, q}, {}, {}},
      {"attention_grad", {q, kv, kv, q, lse, q}, causal, {}},
      {"attention_grad", {q, kv, kv, q, lse, q}, causal, {b, b, b, b, f, b}},
      {"attention_grad", {q, q, q, q, lse, q}, {}, {}},
      {"layer_norm_grad", {x, w, rows, rows, x}, {{"bias", 1}}, {}},
      {"rms_norm_grad", {x, w, rows, x}, {}, {}},
  };
  std::printf("\n%-20s %-34s %12s %12s %9s %12s %12s\n", "definition", "operands", "whole_us", "slices_us", "ratio",
              "whole_KiB", "slices_KiB");
  for (const Case& c : cases) {
    const Measured whole = measure(c, {.slice_bytes = INT64_MAX}), slices = measure(c, {});
    std::printf("%-20s %-34s %12.1f %12.1f %9.2f %12.1f %12.1f\n", c.definition.c_str(), text_of(c.shapes).c_str(),
                whole.microseconds, slices.microseconds, whole.microseconds / slices.microseconds,
                whole.scratch_bytes / 1024.0, slices.scratch_bytes / 1024.0);
  }
}

void main_table() {
  const tdl::Attributes same{{"pt", 1}, {"pl", 1}, {"pb", 1}, {"pr", 1}};
  auto with = [](tdl::Attributes a, const tdl::Attributes& more) {
    for (const auto& [name, value] : more) a[name] = value;
    return a;
  };
  const tdl::Attributes half = with(same, {{"sh", 2}, {"sw", 2}}), pool{{"kh", 2}, {"kw", 2}, {"sh", 2}, {"sw", 2}};
  const DType f = DType::kFloat32, i = DType::kInt64;
  const std::vector<Case> cases{
      {"matmul", {{256, 512}, {512, 512}}, {}, {}},
      {"matmul_nt", {{256, 512}, {512, 512}}, {}, {}},
      {"matmul_tn", {{256, 512}, {256, 512}}, {}, {}},
      {"linear", {{256, 512}, {512, 512}, {512}}, {{"transposed", 1}}, {}},
      {"conv2d", {{16, 32, 32, 32}, {64, 32, 3, 3}, {64}}, same, {}},
      {"conv2d", {{16, 32, 32, 32}, {64, 32, 3, 3}}, half, {}},
      {"conv2d_data_grad", {{16, 64, 32, 32}, {64, 32, 3, 3}}, with(same, {{"height", 32}, {"width", 32}}), {}},
      {"conv2d_data_grad", {{16, 64, 16, 16}, {64, 32, 3, 3}}, with(half, {{"height", 32}, {"width", 32}}), {}},
      {"conv2d_weight_grad", {{16, 64, 32, 32}, {16, 32, 32, 32}}, with(same, {{"kh", 3}, {"kw", 3}}), {}},
      {"conv2d_weight_grad", {{16, 64, 16, 16}, {16, 32, 32, 32}}, with(half, {{"kh", 3}, {"kw", 3}}), {}},
      {"max_pool", {{16, 64, 32, 32}}, pool, {}},
      {"max_pool_grad", {{16, 64, 16, 16}, {16, 64, 16, 16}}, with(pool, {{"height", 32}, {"width", 32}}), {i, f}},
      {"average_pool", {{16, 64, 32, 32}}, pool, {}},
      {"batch_norm", {{16, 64, 32, 32}, {64}, {64}}, {}, {}},
      {"softmax", {{256, 1000}}, {}, {}},
      {"softmax_grad", {{256, 1000}, {256, 1000}}, {}, {}},
      {"log_softmax", {{256, 1000}}, {}, {}},
      {"cross_entropy", {{256, 1000}, {256}}, {}, {f, i}},
      {"cross_entropy_grad", {{256, 1000}, {256}, {256}, {}}, {}, {f, i, f, f}},
      {"relu", {{256, 4096}}, {}, {}},
      {"add", {{256, 4096}, {256, 4096}}, {}, {}},
      {"tanh", {{256, 4096}}, {}, {}},
      {"gelu", {{256, 4096}}, {}, {}},
      {"bias_grad", {{256, 4096}}, {}, {}},
      {"channel_sum", {{16, 64, 32, 32}}, {}, {}},
      {"transpose", {{1024, 1024}}, {}, {}},
      {"reshape", {{1024, 1024}}, {{"shape.0", 64}, {"shape.1", 16384}}, {}},
      {"gather", {{1000, 256}, {512}}, {}, {f, i}},
      {"sgd_momentum", {{1024, 1024}, {1024, 1024}, {1024, 1024}, {}}, {{"momentum", 0.9}}, {}},
      {"relu", {{16, 16}}, {}, {}},
      {"matmul", {{16, 16}, {16, 16}}, {}, {}},
  };
  std::printf("%-20s %-34s %12s %12s %9s %12s %12s\n", "definition", "operands", "generic_us", "registered_us", "ratio",
              "generic_KiB", "registered_KiB");
  for (const Case& c : cases) {
    const Measured g = measure(c, {.registered = false});
    std::printf("%-20s %-34s %12.1f ", c.definition.c_str(), text_of(c.shapes).c_str(), g.microseconds);
    if (is_registered(c.definition)) {
      const Measured r = measure(c, {});
      std::printf("%12.1f %9.2f %12.1f %12.1f\n", r.microseconds, g.microseconds / r.microseconds,
                  g.scratch_bytes / 1024.0, r.scratch_bytes / 1024.0);
    } else {
      std::printf("%12s %9s %12.1f %12s\n", "-", "-", g.scratch_bytes / 1024.0, "-");
    }
  }
}

}  // namespace
}  // namespace partita

int main() {
  partita::main_table();
  partita::slices_table();
}
