#include "tests/kernels/runner.h"

#include <algorithm>
#include <cstring>

#include "partita/base/error.h"
#include "partita/base/float16.h"
#include "partita/kernel_plan/types.h"
#include "partita/physical/workspace.h"

namespace partita::testing {

using tdl::Array;
using tdl::Piece;

namespace {

// 64-byte aligned memory with a guard behind it.
class Buffer {
 public:
  explicit Buffer(int64_t bytes) : bytes_(bytes), memory_(bytes + 2 * kAlign, std::byte{0xA5}) {}
  std::byte* data() {
    return memory_.data() + (kAlign - reinterpret_cast<std::uintptr_t>(memory_.data()) % kAlign) % kAlign;
  }
  bool intact() {
    return std::all_of(data() + bytes_, data() + bytes_ + kAlign - 1, [](std::byte b) { return b == std::byte{0xA5}; });
  }

 private:
  static constexpr int64_t kAlign = 64;
  int64_t bytes_;
  std::vector<std::byte> memory_;
};

void put(const Array& array, DType dtype, std::byte* to) {
  const int64_t n = volume(array.shape);
  for (int64_t i = 0; i < n; ++i) {
    const double real = array.at(i);
    const int64_t integer = is_float(array.dtype) ? static_cast<int64_t>(real) : array.ints[i];
    switch (dtype) {
      case DType::kFloat32:
        reinterpret_cast<float*>(to)[i] = static_cast<float>(real);
        break;
      case DType::kFloat64:
        reinterpret_cast<double*>(to)[i] = real;
        break;
      case DType::kInt64:
        reinterpret_cast<int64_t*>(to)[i] = integer;
        break;
      case DType::kBool:
        reinterpret_cast<uint8_t*>(to)[i] = integer != 0;
        break;
      case DType::kFloat16:
        reinterpret_cast<Float16*>(to)[i] = Float16(static_cast<float>(real));
        break;
      case DType::kBFloat16:
        reinterpret_cast<BFloat16*>(to)[i] = BFloat16(static_cast<float>(real));
        break;
    }
  }
}

Array get(const Shape& shape, DType dtype, const std::byte* from) {
  const int64_t n = volume(shape);
  Array array{is_float(dtype) ? DType::kFloat64 : dtype, shape, {}, {}, {}};
  for (int64_t i = 0; i < n; ++i) switch (dtype) {
      case DType::kFloat32:
        array.reals.push_back(reinterpret_cast<const float*>(from)[i]);
        break;
      case DType::kFloat64:
        array.reals.push_back(reinterpret_cast<const double*>(from)[i]);
        break;
      case DType::kInt64:
        array.ints.push_back(reinterpret_cast<const int64_t*>(from)[i]);
        break;
      case DType::kBool:
        array.ints.push_back(reinterpret_cast<const uint8_t*>(from)[i]);
        break;
      case DType::kFloat16:
        array.reals.push_back(reinterpret_cast<const Float16*>(from)[i]);
        break;
      case DType::kBFloat16:
        array.reals.push_back(reinterpret_cast<const BFloat16*>(from)[i]);
        break;
    }
  return array;
}

}  // namespace

tdl::testing::StagesRunner kernel_runner(Kernels& kernels, const KernelOp& op, ScratchUse* use) {
  return [&kernels, op, use](int first, int last, const std::vector<Interval>& ranges,
                             const std::vector<const Piece*>& pieces, const std::vector<int>& wanted) {
    const tdl::Bound& bound = *op.bound;
    Task task;
    task.name = op.definition;
    KernelWork work{op.definition,
                    op.attributes,
                    std::shared_ptr<const tdl::Bound>(std::shared_ptr<void>(), op.bound),
                    first,
                    last,
                    {ranges},
                    0};
    KernelCall call;
    std::vector<Buffer> buffers;
    std::vector<PlacedShard> reads, writes;
    std::vector<std::optional<TensorShard>> types(bound.tensors.size());
    auto place = [&](int tensor, DType dtype, const Box& box, bool read) {
      const Shape axes = bound.tensors[tensor].factored;
      const Shape strides = dense_strides(extents(box));
      buffers.emplace_back(volume(box) * bytes_of(dtype));
      Access access;
      access.tensor = tensor;
      types[tensor] = TensorShard{dtype, box, strides};
      (read ? reads : writes).push_back({tensor, {dtype, box, strides}, axes});
      (read ? task.reads : task.writes).push_back(access);
      (read ? call.reads : call.writes).push_back({buffers.back().data(), dtype, box, strides, axes});
    };
    // Finds the tensors that these stages read.
    std::vector<bool> is_read(bound.tensors.size());
    std::function<void(const tdl::Expr&)> mark = [&](const tdl::Expr& e) {
      if (e.kind == tdl::ExprKind::kRead) is_read[e.tensor] = true;
      for (const tdl::Expr& a : e.args) mark(a);
    };
    for (int s = first; s < last; ++s) mark(bound.stages[s].body);
    for (size_t t = 0; t < pieces.size(); ++t) {
      if (!pieces[t] || !is_read[t]) continue;
      const DType dtype = is_float(pieces[t]->data.dtype) ? op.real : pieces[t]->data.dtype;
      place(static_cast<int>(t), dtype, pieces[t]->box, true);
      put(pieces[t]->data, dtype, buffers.back().data());
    }
    for (int s = first; s < last; ++s) {
      const int t = bound.stages[s].tensor;
      DType dtype = stage_dtype(bound, s, types, compute_dtype(op.real));
      const auto result = std::find(bound.results.begin(), bound.results.end(), t);
      if (result != bound.results.end() && !op.results.empty()) {
        dtype = op.results[result - bound.results.begin()];
      }
      if (result != bound.results.end() && is_float(dtype)) dtype = op.real;
      if (std::find(wanted.begin(), wanted.end(), t) != wanted.end())
        place(t, dtype, stage_box(bound, s, ranges), false);
      else types[t] = TensorShard{dtype, {}, {}};
    }
    const KernelPlan plan =
        plan_kernel(request_of(work, ranges, reads, writes), {op.registered, op.budget_bytes, op.slice_bytes});
    const int64_t declared = plan.workspace_bytes();
    Buffer scratch(declared);
    call.task = &task;
    call.work = &work;
    call.scratch = scratch.data();
    call.scratch_bytes = static_cast<size_t>(declared);
    call.prepared = kernels.prepare_call(call);
    kernels.reset_peak();
    const int64_t outside = kernels.live_bytes();
    kernels.run(call);
    for (Buffer& b : buffers) ensure(b.intact(), "{}: a kernel wrote behind a buffer", op.definition);
    ensure(scratch.intact(), "{}: a kernel wrote behind its scratch", op.definition);
    if (use) {
      const int64_t used = scratch_peak_bytes(kernels);
      use->calls += 1;
      use->registered_calls += plan.registered.has_value();
      use->sliced_calls += !plan.generic.outer.empty() || !plan.generic.inner.empty();
      use->outside_bytes = std::max(use->outside_bytes, kernels.peak_bytes() - outside);
      if (used > declared || kernels.peak_bytes() > outside)
        use->above = fmt::format("{} stages [{},{}) use {} bytes of {}, {} elsewhere", op.definition, first, last, used,
                                 declared, kernels.peak_bytes() - outside);
      if (declared > use->declared_bytes) {
        use->declared_bytes = declared;
        use->used_bytes = used;
      }
    }
    std::vector<Piece> made;
    for (int t : wanted)
      for (size_t i = 0; i < writes.size(); ++i)
        if (writes[i].tensor == t)
          made.push_back(
              {call.writes[i].box, get(extents(call.writes[i].box), call.writes[i].dtype, call.writes[i].data)});
    return made;
  };
}

std::vector<Array> run_whole(Kernels& kernels, const KernelOp& op, const std::vector<Array>& operands,
                             ScratchUse* use) {
  const tdl::Bound& bound = *op.bound;
  std::vector<Piece> held(bound.tensors.size());
  std::vector<const Piece*> pieces(bound.tensors.size(), nullptr);
  for (int t = 0; t < bound.operand_count; ++t) {
    held[t] = {full_box(bound.tensors[t].factored), operands[t]};
    held[t].data.shape = bound.tensors[t].factored;
    pieces[t] = &held[t];
  }
  std::vector<int> wanted = bound.results;
  std::vector<Piece> made = kernel_runner(kernels, op, use)(0, static_cast<int>(bound.stages.size()),
                                                            tdl::full_ranges(bound), pieces, wanted);
  std::vector<Array> results;
  for (size_t r = 0; r < made.size(); ++r) {
    results.push_back(std::move(made[r].data));
    results.back().shape = bound.tensors[bound.results[r]].shape;
  }
  return results;
}

}  // namespace partita::testing
