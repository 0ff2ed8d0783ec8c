// Computes every written element from all that a call reads, for tests of the runtime.
#include "partita/runtime/testing/mix_kernels.h"

#include <cmath>
#include <cstring>

#include "partita/base/float16.h"
#include "partita/base/rng.h"
#include "partita/physical/uses.h"

namespace partita::testing {

void for_each(const View& view, const std::function<void(const std::vector<int64_t>& point, std::byte* element)>& f) {
  if (is_empty(view.box)) return;
  std::vector<int64_t> at;
  for (const Interval& i : view.box) at.push_back(i.lo);
  for (;;) {
    int64_t offset = 0;
    for (size_t a = 0; a < at.size(); ++a) offset += (at[a] - view.box[a].lo) * view.strides[a];
    f(at, view.data + offset * bytes_of(view.dtype));
    size_t a = at.size();
    while (a > 0 && ++at[a - 1] == view.box[a - 1].hi) --a, at[a] = view.box[a].lo;
    if (a == 0) return;
  }
}

double number_at(const View& view, const std::byte* element) {
  switch (view.dtype) {
    case DType::kFloat32:
      return *reinterpret_cast<const float*>(element);
    case DType::kFloat64:
      return *reinterpret_cast<const double*>(element);
    case DType::kInt64:
      return static_cast<double>(*reinterpret_cast<const int64_t*>(element));
    case DType::kBool:
      return static_cast<double>(*reinterpret_cast<const uint8_t*>(element));
    case DType::kFloat16:
      return *reinterpret_cast<const Float16*>(element);
    case DType::kBFloat16:
      return *reinterpret_cast<const BFloat16*>(element);
  }
  return 0;
}

void put(const View& view, std::byte* element, double value) {
  switch (view.dtype) {
    case DType::kFloat32:
      *reinterpret_cast<float*>(element) = static_cast<float>(value);
      break;
    case DType::kFloat64:
      *reinterpret_cast<double*>(element) = value;
      break;
    case DType::kInt64:
      *reinterpret_cast<int64_t*>(element) = static_cast<int64_t>(value);
      break;
    case DType::kBool:
      *reinterpret_cast<uint8_t*>(element) = value != 0;
      break;
    case DType::kFloat16:
      *reinterpret_cast<Float16*>(element) = Float16(static_cast<float>(value));
      break;
    case DType::kBFloat16:
      *reinterpret_cast<BFloat16*>(element) = BFloat16(static_cast<float>(value));
      break;
  }
}

void MixKernels::run(const KernelCall& call) {
  if (call.scratch) std::memset(call.scratch, 0x5a, call.scratch_bytes);  // nobody else's
  int64_t sum =
      static_cast<int64_t>(hash_name(call.task->name) % 101) + 7 * call.firing + static_cast<int64_t>(call.step);
  for (const View& view : call.reads) {
    int64_t weight = 1;
    for_each(view, [&](const auto&, std::byte* element) {
      weight = weight * 3 % 31;
      sum += weight * std::llround(number_at(view, element));
    });
  }
  for (const View& view : call.writes) {
    int64_t next = sum;
    for_each(view, [&](const auto&, std::byte* element) {
      next = next * 5 + 3;
      next = (next % 97 + 97) % 97;
      put(view, element, static_cast<double>(next));
    });
  }
}

void run_in_order(const PhysicalGraph& graph, const Memory& memory, const Hooks& hooks, int64_t steps) {
  const Firings firings = prepare_firings(memory, hooks.kernels);
  const Executor executor(firings, hooks);
  const NodeTable table = number_nodes(graph);
  for (int64_t step = 0; step < steps; ++step)
    for (const Node& node : graph.order)
      for (TaskId member : table.members[table.number(node)]) executor.run(member, step, node.firing);
}

}  // namespace partita::testing
